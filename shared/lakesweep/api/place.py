"""Where a table is and how to reach it, as a caller states it: a command line or a program."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar, cast

from lakesweep.errors import UsageError, masked


class Place(Protocol):
    """A table, its control location, and how to reach its store. As stated, not yet checked."""

    @property
    def table(self) -> str:
        """Its location."""

    @property
    def branch(self) -> str:
        """Its branch."""

    @property
    def policy(self) -> str | None:
        """Location of the fleet policy."""

    @property
    def control(self) -> str | None:
        """Location of plans, lease and ledger."""

    @property
    def local_control(self) -> bool:
        """Whether the control location may be on this machine for a table in S3."""

    @property
    def external_root(self) -> Sequence[str] | None:
        """Locations outside the table where files may be deleted."""

    @property
    def endpoint_url(self) -> str | None:
        """Endpoint of an S3-compatible store."""

    @property
    def region(self) -> str | None:
        """Region of the bucket."""

    @property
    def scan_id(self) -> str | None:
        """Id of a scan on Spark or by functions."""

    @property
    def engine(self) -> str | None:
        """The backend that the call asks for."""

    @property
    def scan_queue(self) -> str | None:
        """URL of the queue at which a deployment takes scans."""


P = TypeVar("P", bound=Place)


def moved(place: P, **changes: object) -> P:
    """Return a place with other values. Each place is a frozen dataclass."""
    return cast("P", dataclasses.replace(cast("Any", place), **changes))


def words_of(place: Place, *names: str) -> list[str]:
    """Return options of a place as somebody types them into the next command line, without passwords."""
    words: list[str] = []
    for name in names:
        value, typed = getattr(place, name), f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            words += [typed] if value else []
        else:
            for text in [value] if isinstance(value, str) else value or ():
                words += [typed, masked(text)]
    return words


def given(text: str, name: str) -> str:
    """Return a location that was stated.

    Raises:
        UsageError: It is empty.
    """
    if not text.strip():
        raise UsageError(f"{name}: expected a local path or s3://bucket/prefix, found nothing")
    return text
