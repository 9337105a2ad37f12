"""What a task has found: the head of the spill that it writes.

A worker also writes down an error that would occur again on every attempt.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from lakesweep.control.area import ControlArea
from lakesweep.errors import (
    AccessDeniedError,
    FormatError,
    HeldBackError,
    MaintenanceError,
    RefusedError,
    UnsupportedFormatError,
    UsageError,
)
from lakesweep.format.codec import Check, Count, from_json
from lakesweep.operations.orphans.fan_out.spill import Spill, head_of
from lakesweep.operations.orphans.findings import Findings
from lakesweep.operations.orphans.listing import Shard
from lakesweep.operations.orphans.parts import StoredPart
from lakesweep.operations.orphans.rules.orphans import Totals

LASTING = (RefusedError, FormatError, UsageError, AccessDeniedError)
"""Errors that occur again however often a task is repeated."""
Hex = Annotated[str, Check(lambda text: not set(text) - set("0123456789abcdef"), "hexadecimal digits")]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    """What a task writes into the head of its spill."""

    requests: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ListedHead(_Head):
    """A task has listed a range of keys."""

    place: Count
    totals: Totals
    nested: tuple[str, ...] = ()
    """Folders of other tables."""
    left: tuple[Shard, ...] = ()
    """The rest of the range, for other tasks."""
    unlisted: str | None = None
    """Why the place could not be listed."""

    kind = "list"


@dataclass(frozen=True, slots=True)
class DecodedHead(_Head):
    """A task has decoded manifests, or copied their rows. This is the head of a segment."""

    manifests: tuple[str, ...]
    entries: int
    """How many entries were decoded."""

    kind = "decode"


@dataclass(frozen=True, slots=True)
class MatchedHead(_Head):
    """A task has matched a range of slots."""

    findings: Findings
    plan: tuple[StoredPart, ...]
    missing: tuple[tuple[Hex, tuple[tuple[int, int], ...]], ...]
    """Names that some root needs and no listing showed; for each the sources and manifests that name it."""
    orphans: str | None
    """Name of the document with the orphans, if the scan has a quarantine."""

    kind = "match"


@dataclass(frozen=True, slots=True)
class FailedHead(_Head):
    """A task has met an error that would occur again."""

    type: str
    code: str
    message: str

    kind = "error"


Head = ListedHead | DecodedHead | MatchedHead | FailedHead


def read_head(area: ControlArea, name: str) -> tuple[Head, Spill]:
    """Return what a task has written, without the rows.

    Raises:
        ObjectNotFoundError: It has written nothing.
        FormatError: It is damaged.
        StorageError: A request failed.
    """
    spill = head_of(area.store, area.prefix + name)
    return from_json(Head, spill.info, area.path(name), "the head"), spill


def error_of(head: FailedHead) -> MaintenanceError:
    """Return the lasting error that a task met and wrote down."""
    kinds = {kind.__name__: kind for kind in (*LASTING, HeldBackError, UnsupportedFormatError)}
    return kinds.get(head.type, RefusedError)(head.message, code=head.code)
