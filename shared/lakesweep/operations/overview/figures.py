"""Figures of one table that need more than a count: pins, deleted rows, the age of level 0, how long they all hold."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.schema import TableSchema
from lakesweep.model.overview import Finding, Pin
from lakesweep.model.roots import Root
from lakesweep.model.safety import DELETE_MARGIN_MS, ORPHAN_AGE_MS
from lakesweep.operations.inspect.deleted_rows import deleted_rows
from lakesweep.operations.inspect.explain.counting import Counting
from lakesweep.operations.inspect.health import command
from lakesweep.operations.inspect.judging import Judging
from lakesweep.operations.inspect.pins import find_pins, shown_tags, weighed
from lakesweep.operations.lifetimes.until import Until
from lakesweep.operations.overview.data_files import DataFiles
from lakesweep.operations.overview.facts import Facts, main_of
from lakesweep.operations.overview.findings import Forever
from lakesweep.runs.fleet import limited
from lakesweep.runs.parameters.retention_options import (
    ExpireArguments,
    consumers_bind_changelogs_only,
    snapshot_retention,
)
from lakesweep.runs.session import Table
from lakesweep.table.metadata import Unreadable
from lakesweep.table.reach.holders import Holders

HOLDS_MS = 86_400_000
"""A measure holds no longer. Files that no root names come and go, and the fingerprint does not show it."""


def pins_of(
    table: Table,
    facts: Facts,
    schema: TableSchema,
    roots: Sequence[Root],
    files: DataFiles | None,
    consumers: Mapping[str, int],
) -> tuple[tuple[Pin, ...], Forever]:
    """Return what keeps old files of main, as `show --pinned` says; and what the tags without a time to live keep.

    Args:
        table: The table.
        facts: Its listing and policy.
        schema: Of main.
        roots: All roots.
        files: Their data files; `None`: not all are known, so nothing is measured.
        consumers: Of main: name -> the next snapshot that it reads.

    Raises:
        RefusedError: A document cannot be read.
        StorageError: A request failed.
    """
    own = main_of(facts.listing)
    pins = find_pins(table.store, facts.listing, own, consumers, tuple(shown_tags(table.store, own.tags)))
    forever = frozenset(pin.name for pin in pins if pin.kind == "tag")
    alone = 0
    if own.snapshots and files is not None:
        limits = limited(ExpireArguments(), facts.ruling)
        retention, consumer_next = None, None
        with suppress(RefusedError):  # it is a finding, and no snapshot would expire
            retention = snapshot_retention(schema.options, limits, facts.now_ms, table.clock_ms())
            if not consumers_bind_changelogs_only(schema.options):
                consumer_next = min(consumers.values(), default=None)
        beyond = files.beyond()
        pins = weighed(beyond, own, pins, roots, retention, consumer_next, facts.now_ms, limits)
        held = [ref.path for ref in own.tags if ref.name in forever]
        alone = beyond.needed_only_by(held, [root.ref.path for root in roots]).bytes
    return tuple(Pin(pin.kind, pin.name, pin.snapshot_id, pin.bytes) for pin in pins), Forever(len(forever), alone)


def deleted_share(table: Table, schema: TableSchema, newest: Root | None) -> tuple[float | None, tuple[Finding, ...]]:
    """Return the share of the rows of the newest snapshot that vectors delete, and why it is unknown if it should not.

    Raises:
        StorageError: A request failed.
    """
    if newest is None:
        return None, ()
    try:
        found = deleted_rows(table.store, schema, newest, by_partition=False)
    except (RefusedError, FormatError) as error:
        check = command("check", table.ref.location, executes=False)
        return None, (Finding("unreadable_document", "act", str(error), check),)
    return None if found is None else found.deleted.share, ()


def level_0_since(judging: Judging, holders: Holders, files: DataFiles) -> int | None:
    """Return when the oldest live file on level 0 was written; `None`: there is none, or some file does not say it.

    Decodes the manifests again that name such files, from memory.
    """
    metas = [each.meta for name, each in holders.manifests() if name in files.level_0]
    times: list[int | None] = []
    for name, found in judging.found.reader.scan_row_entries(metas, tuple, with_stats=False):
        if isinstance(found, Unreadable):
            return None
        wanted = files.level_0[name]
        times += [each.created_ms for each in found if each.is_add and each.entry.file_name in wanted]
    known = [ms for ms in times if ms is not None]
    return min(known) if known and len(known) == len(times) else None


def holds_until(facts: Facts, counting: Counting, untils: Mapping[str, Until], turns: Iterable[int]) -> int:
    """Return from when on time alone may change a figure.

    Args:
        facts: What the measure began with.
        counting: Knows the oldest file that is too young to be an orphan.
        untils: How long each root is kept.
        turns: Times after which another finding may come.
    """
    lease = facts.control.lease
    times = [until.at_ms + 1 for until in untils.values() if until.at_ms is not None]
    times += [each + 1 for each in turns]
    if counting.oldest_young_ms is not None:
        times.append(counting.oldest_young_ms + ORPHAN_AGE_MS + 1)
    if lease is not None and lease.etag is not None:
        times.append(lease.expires_ms + DELETE_MARGIN_MS)
    return min([facts.now_ms + HOLDS_MS, *(each for each in times if each > facts.now_ms)])
