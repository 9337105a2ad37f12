"""`show`: what a table is, what it retains, and what is odd about it. This changes nothing."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from lakesweep.errors import RefusedError
from lakesweep.format.schema import TableSchema
from lakesweep.model.damage import LOST_HISTORIES, lost_histories
from lakesweep.model.policy import ChangelogRetention, SnapshotRetention
from lakesweep.model.roots import BranchListing, Root, RootRef, TableListing
from lakesweep.operations.inspect.deleted_rows import deleted_rows
from lakesweep.operations.inspect.files import newest_first, read_all
from lakesweep.operations.inspect.levels import levels_at
from lakesweep.operations.inspect.pins import find_pins, measure_pins, shown_tags
from lakesweep.operations.inspect.table_summary import (
    ShownHint,
    ShownLive,
    ShownManifests,
    ShownRange,
    ShownSnapshot,
    ShownTag,
    ShownVersion,
    TableSummary,
)
from lakesweep.operations.lifetimes.ruling import shown_ruling
from lakesweep.operations.manifests.rules.due import is_compacted, length_in, stated_for, thresholds_of
from lakesweep.operations.retention.expire_snapshots import capped_range, choose_range
from lakesweep.operations.retention.rules.snapshot_cap import forgotten_users, last_of_user, newest_by_user
from lakesweep.runs.damage import warnings_of
from lakesweep.runs.fleet import Ruling, limited, rule_of, ruling_of
from lakesweep.runs.parameters.retention_options import (
    STATED_RETENTION,
    ExpireArguments,
    changelog_retention,
    consumers_bind_changelogs_only,
    has_decoupled_changelog,
    is_stated,
    snapshot_retention,
)
from lakesweep.runs.parameters.time_travel import Version, resolve
from lakesweep.runs.session import Table
from lakesweep.runs.view import TableView, begin
from lakesweep.storage.store import Store
from lakesweep.table.documents import read_consumers, read_hint
from lakesweep.table.reach.live_files import LiveCounts, live_counts, live_files

_RETENTION_PREFIXES = ("snapshot.", "changelog.", "tag.", "consumer.", "partition.expiration", "write-only")


def summarise(
    table: Table,
    version: Version | None = None,
    *,
    pinned: bool = False,
    by_partition: bool = False,
    levels: bool = False,
    falls_back_to_tags: bool = False,
) -> TableSummary:
    """Read a branch's roots, schema and hints, and the manifest lists of its latest snapshot.

    Args:
        table: One branch of a table.
        version: Also show this version.
        pinned: Measure the latest snapshot and what each pin keeps. This reads the metadata of every root.
        by_partition: Count the rows that deletion vectors delete by partition. This reads the manifests of the version.
        levels: Say how far the buckets of a table with a primary key are compacted. This reads the same manifests.
        falls_back_to_tags: See `time_travel.resolve`.

    Raises:
        UsageError: More than one version was asked for.
        RefusedError: This is no table, the version does not exist, or something cannot be read.
        StorageError: A request failed.
    """
    store = table.store
    view = begin(table, "show")
    listing, own, schema = view.listing, view.own, view.schema
    asked = (
        None if version in (None, Version()) else resolve(table, own, version, falls_back_to_tags=falls_back_to_tags)
    )
    ruling = ruling_of(table)
    limits = limited(ExpireArguments(), ruling)
    retention, changelog_rules, problems = _retention(table, schema, limits)
    ends = {ref.path: root for ref, root in _ends(store, own)}
    tags = tuple(shown_tags(store, own.tags))
    hints = tuple(_hints(store, own))
    stated = is_stated(schema.options)
    consumers = dict(sorted(read_consumers(store, own.consumers).items()))
    consumer_next = min(consumers.values(), default=None) if retention and not _changelogs_only(schema) else None
    pins = find_pins(store, listing, own, consumers, tags)
    counts = live_counts(store, ends[own.snapshots[-1].path]) if own.snapshots else None
    live = None if counts is None else _live(counts, ends[own.snapshots[-1].path])
    manifests = None if counts is None else _manifests(counts, schema, ruling, problems)
    shown = asked or (ends[own.snapshots[-1].path] if own.snapshots else None)
    if pinned and live is not None:
        measured = measure_pins(store, listing, own, pins, retention, consumer_next, view.now_ms, limits)
        pins, amount = measured.pins, measured.live
        live = replace(live, files=amount.files, bytes=amount.bytes, rows=amount.rows)
    return TableSummary(
        table=table.ref.location,
        branch=own.name,
        type=schema.options.get("type", "table"),
        schema_id=schema.id,
        partition_keys=schema.partition_keys,
        primary_keys=schema.primary_keys,
        options={key: value for key, value in sorted(schema.options.items()) if key.startswith(_RETENTION_PREFIXES)},
        retention=retention,
        changelog_retention=changelog_rules,
        retention_stated=stated,
        retention_from="schema" if stated else "defaults" if limits.otherwise is None else "policy",
        policy=shown_ruling(ruling),
        branches=_branches(listing),
        snapshots=_range(own.snapshots, ends),
        changelogs=_range(own.changelogs, ends),
        tags=tags,
        consumers=consumers,
        hints=hints,
        live=live,
        manifests=manifests,
        pins=pins,
        warnings=(
            *problems,
            *_warnings(stated or limits.otherwise is not None, ruling, tags, hints),
            *_forgotten_users(view, retention, consumer_next, limits),
        ),
        damage=warnings_of({LOST_HISTORIES: lost_histories(listing)}),
        version=None if asked is None else _version(store, schema, asked, measured=pinned),
        deletion_vectors=None if shown is None else deleted_rows(store, schema, shown, by_partition=by_partition),
        levels=levels_at(store, schema, shown) if levels and shown is not None else None,
    )


def _retention(
    table: Table, schema: TableSchema, limits: ExpireArguments
) -> tuple[SnapshotRetention | None, ChangelogRetention | None, list[str]]:
    """Return the rules for snapshots and long-lived changelogs, `None` for rules that are invalid, and the problems."""
    rules = changelog_rules = None
    problems = []
    try:
        rules = snapshot_retention(schema.options, limits, table.store.now_ms(), table.clock_ms())
        changelog_rules = changelog_retention(schema.options) if has_decoupled_changelog(schema.options) else None
    except RefusedError as error:
        problems.append(str(error))
    return rules, changelog_rules, problems


def _branches(listing: TableListing) -> tuple[str, ...]:
    return tuple(name for name, branch in listing.branches.items() if branch.schemas or any(branch.roots()))


def _ends(store: Store, own: BranchListing) -> Iterator[tuple[RootRef, Root]]:
    """Read the first and last snapshot and changelog."""
    refs = {ref.path: ref for found in (own.snapshots, own.changelogs) for ref in (*found[:1], *found[-1:])}
    return zip(refs.values(), read_all(store, tuple(refs.values())), strict=True)


def _range(refs: Sequence[RootRef], ends: Mapping[str, Root]) -> ShownRange:
    if not refs:
        return ShownRange(0)
    first, last = (ShownSnapshot(ref.id, ends[ref.path].snapshot.time_ms) for ref in (refs[0], refs[-1]))
    return ShownRange(len(refs), first, last)


def _hints(store: Store, own: BranchListing) -> Iterator[ShownHint]:
    for path, document in sorted(own.hints.items()):
        folder, name = path.split("/")
        refs = own.snapshots if folder == "snapshot" else own.changelogs
        expected = (refs[0] if name == "EARLIEST" else refs[-1]).id if refs else None
        value = read_hint(store, document.path)
        yield ShownHint(document.path, value, expected, off=value != expected)


def _live(counts: LiveCounts, root: Root) -> ShownLive:
    return ShownLive(counts.files, bytes=None, rows=root.snapshot.total_record_count, manifests=counts.manifests)


def _manifests(
    counts: LiveCounts, schema: TableSchema, ruling: Ruling | None, problems: list[str]
) -> ShownManifests | None:
    """Return when manifests are compacted; add a problem if an option about that is invalid."""
    rule = rule_of(ruling)
    try:
        found = length_in(counts.base, thresholds_of(stated_for(schema.options, rule.manifests)))
    except RefusedError as error:
        problems.append(str(error))
        return None
    return ShownManifests(
        small=found.small,
        max_count=found.thresholds.max_count,
        rewritten_bytes=found.changing_bytes,
        max_bytes=found.thresholds.full_bytes,
        is_due=found.exceeds is not None,
        by_passes=is_compacted(rule.catalog_type, rule.manifests),
    )


def _version(store: Store, schema: TableSchema, root: Root, *, measured: bool) -> ShownVersion:
    snapshot, live = root.snapshot, _live(live_counts(store, root), root)
    if measured:
        files = live_files(store, schema, root)
        size_bytes, rows = sum(file.size_bytes for file in files), sum(file.rows for file in files)
        live = replace(live, files=len(files), bytes=size_bytes, rows=rows)
    return ShownVersion(
        kind="tag" if root.ref.kind == "tag" else "snapshot",
        name=root.ref.name,
        snapshot_id=snapshot.id,
        schema_id=snapshot.schema_id,
        time_ms=snapshot.time_ms,
        watermark=snapshot.watermark,
        commit_kind=snapshot.commit_kind,
        commit_user=snapshot.commit_user,
        delta_rows=snapshot.delta_record_count,
        live=live,
    )


def _changelogs_only(schema: TableSchema) -> bool:
    """Tell whether consumers keep no snapshots; the options may be invalid."""
    try:
        return consumers_bind_changelogs_only(schema.options)
    except RefusedError:
        return False


def _forgotten_users(
    view: TableView, retention: SnapshotRetention | None, consumer_next: int | None, limits: ExpireArguments
) -> Iterator[str]:
    """Warn of streaming writers whose last snapshot the next run expires.

    Reads the snapshots that the next run would choose. Then reads from the newest snapshot down until every writer is
    found.
    """
    snapshots = view.own.snapshots
    if retention is None or not snapshots:
        return
    chosen, read = choose_range(view, retention, consumer_next)
    if chosen.expired and (limits.floor is not None or limits.protect_commit_users):
        yield from capped_range(view, chosen, read, limits)[2]
        return
    going = frozenset(chosen.expired)
    expiring = read_all(view.table.store, [ref for ref in snapshots if ref.id in going])
    forgotten = forgotten_users(chosen, newest_by_user(root.snapshot for root in expiring))
    missing = {last.commit_user for last in forgotten}
    for refs in newest_first([ref for ref in snapshots if ref.id not in going]):
        if not missing:
            break
        missing -= {root.snapshot.commit_user for root in read_all(view.table.store, refs)}
    yield from (last_of_user(last) for last in forgotten if last.commit_user in missing)


def _warnings(
    stated: bool, ruling: Ruling | None, tags: Sequence[ShownTag], hints: Sequence[ShownHint]
) -> Iterator[str]:
    if not stated:
        who = "the schema states no" if ruling is None else f"neither the schema nor policy {ruling.policy} states a"
        unless = ", unless a fleet policy states it" if ruling is None else ""
        expected = ", ".join(STATED_RETENTION)
        yield f"{who} retention, so unattended maintenance deletes nothing{unless}; expected one of {expected}"
    for hint in hints:
        if hint.off:
            says = "no snapshot id" if hint.value is None else hint.value
            yield f"{hint.path} says {says}; expected {'nothing' if hint.expected is None else hint.expected}"
    forever = [tag.name for tag in tags if tag.time_retained_ms is None]
    if forever:
        names = ", ".join(forever[:3]) + (", ..." if len(forever) > 3 else "")
        tag = "tag has" if len(forever) == 1 else "tags have"
        yield f"{len(forever)} {tag} no time to live (of {len(tags)}), so their files are kept with them: {names}"
