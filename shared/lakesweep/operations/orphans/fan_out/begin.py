"""How a scan begins: Lakesweep reads the roots once and turns the work into tasks.

This first reading only decides which manifests are decoded while the table is listed. Manifests that earlier scans
decoded are in segments. Lakesweep compares each of them with a listing of the manifests, to notice a manifest that was
deleted or replaced.

Keys are usually spread evenly over folders, which are partitions and buckets. If a table is thought to be large,
Lakesweep cuts it between folders. The cut makes enough tasks that each ends within its budget. The estimate may be
wrong: a task splits a range that turns out longer, and a shorter range only costs a task.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from math import ceil

from lakesweep.control.area import ControlArea
from lakesweep.errors import PreconditionFailedError, RefusedError, UsageError
from lakesweep.format.manifest import ManifestMeta
from lakesweep.model.identity import table_identity
from lakesweep.model.paths.layout import METADATA_FOLDERS, layout_of
from lakesweep.model.scans import Facts, OrphanArguments
from lakesweep.operations.orphans.backends import refined
from lakesweep.operations.orphans.fan_out.cache import Segment, choose, read_index
from lakesweep.operations.orphans.fan_out.captured import Remembered, new_capture
from lakesweep.operations.orphans.fan_out.documents import SCAN, DecodeWork, Scan, ScanDocuments
from lakesweep.operations.orphans.fan_out.limits import FILL, FIRST_PAGES, LIST_PAGES, MOST_FOLDERS, MOST_LOOKS
from lakesweep.operations.orphans.fan_out.names import names_of_table
from lakesweep.operations.orphans.fan_out.tasks import DecodeTask, ListTask
from lakesweep.operations.orphans.listing import ManifestRow, Shard, places_of_scan
from lakesweep.operations.orphans.rules.fan_out_estimate import fan_out_estimate
from lakesweep.operations.orphans.scan import cutoff_of, places_of, schemas_of
from lakesweep.runs.session import Table
from lakesweep.storage.keys import is_key
from lakesweep.storage.store import PAGE_KEYS, Store
from lakesweep.table.metadata import MetadataReader
from lakesweep.table.reach.live_set import LiveSet

METADATA = "metadata-0.bin"
_FOLDER = "manifest/"


def begin_scan(
    table: Table,
    documents: ScanDocuments,
    arguments: OrphanArguments,
    basis: Mapping[str, object] | None,
    facts: Facts | None,
) -> Scan:
    """Read a table's roots, store the parameters of a scan of it, and return them.

    If the scan has begun already, return the stored parameters. The cost of the scan is estimated here from the roots.

    Raises:
        UsageError: An argument that does not apply to this kind of scan.
        RefusedError: The cutoff is too young, this is not a table, it has no roots, or a root cannot be understood.
        StorageError: A request failed; the scan has not begun.
    """
    if arguments.inventory is not None:
        raise UsageError(
            f"table {table.ref}: functions list the table themselves and read no inventory; expected engine local or "
            "spark, or no inventory",
            code="bad_argument",
        )
    now_ms = table.store.now_ms()  # before the first root is read: the safety of the cutoff rests on this order
    cutoff_ms = cutoff_of(table, arguments, now_ms)
    remembered = Remembered.load(table, documents, None)
    table = remembered.table
    metas: dict[str, ManifestMeta] = {}

    def decode(reader: MetadataReader, wanted: Iterable[ManifestMeta], note: object) -> Iterator[tuple[str, None]]:
        for meta in wanted:
            metas[meta.file_name] = meta
            yield meta.file_name, None

    found = new_capture(table, LiveSet(), decode)
    found.collect()
    _, roots = places_of(table, found.listing, arguments)
    layout = layout_of(schema for _, schema in schemas_of(table, found.listing))
    places = places_of_scan(table.ref.location, roots)
    identity = table_identity(found.listing)
    index = _segments(names_of_table(documents.area), identity)
    doubted = _doubted(table.store, index, metas)
    chosen = choose(index, metas.keys() - doubted, now_ms)
    # These manifests were not among those compared with a listing. So a root that names one later cannot rely on it.
    unasked = {name for segment in chosen.kept for name in segment.manifests} - metas.keys()
    work = decode_work(metas, chosen.kept, chosen.rewritten, doubted)
    # Segments outlive the documents of a scan, and a later scan may have the same id.
    stem = f"decode-{uuid.uuid4().hex[:8]}"
    decoded = {f"{stem}-{number}": each for number, each in enumerate(work)}
    remembered.keep(documents, METADATA)
    new = [row.meta for each in work for row in each.manifests]
    facts = facts or Facts(objects=0, objects_from="probe", has_fan_out=True)
    facts = refined(facts, found, metas.values(), new, len(chosen.kept))
    listing = first_tasks(table.store, facts.objects, len(places))
    shards = len(listing) - len(places) + 1
    facts = replace(facts, places=len(places), shards=shards, quarantine=arguments.quarantine_ms is not None)
    scan = Scan(
        table=table.ref.location,
        branch=table.ref.branch,
        scan_id=documents.scan_id,
        identity=identity,
        now_ms=now_ms,
        cutoff_ms=cutoff_ms,
        arguments=arguments,
        layout=layout,
        places=places,
        tasks=(*listing, *(DecodeTask(name, SCAN) for name in decoded)),
        decode=decoded,
        segments=tuple(each.name for each in chosen.kept),
        doubted=doubted | unasked,
        basis={**(basis or {}), "estimate": fan_out_estimate(facts).to_json()},
        entries=sum(meta.added_count + meta.deleted_count for meta in metas.values()),
        requests=table.counter.snapshot(),
    )
    try:
        documents.put(SCAN, scan, if_absent=True)
    except PreconditionFailedError:  # another worker got the same message and was faster
        return documents.find_scan() or scan
    return scan


def check_same(table: Table, scan: Scan, arguments: OrphanArguments) -> None:
    """Refuse to continue a scan with arguments other than those it began with.

    Raises:
        RefusedError: The arguments differ.
    """
    expected = (table.ref.location, table.ref.branch, arguments.to_json())
    found = (scan.table, scan.branch, scan.arguments.to_json())
    for name, ours, theirs in zip(("table", "branch", "arguments"), expected, found, strict=True):
        if ours != theirs:
            raise RefusedError(
                f"table {table.ref}: scan {scan.scan_id} began with another {name}: expected {ours!r}, found "
                f"{theirs!r}; begin another scan",
                code="other_scan",
            )


def decode_work(
    metas: Mapping[str, ManifestMeta],
    kept: Iterable[Segment],
    rewritten: Iterable[Segment],
    doubted: frozenset[str],
) -> list[DecodeWork]:
    """Return what tasks have to decode or copy, so that the names in all manifests are known.

    Args:
        metas: All manifests that the scan needs, by name.
        kept: Segments that are used as they are.
        rewritten: Segments whose rows are copied.
        doubted: Manifests that are in segments but have to be decoded again.
    """
    known = {name for segment in kept for name in segment.manifests} - doubted
    work: list[DecodeWork] = []
    for segment in rewritten:
        wanted = [metas[name] for name in segment.manifests if name in metas and name not in known | doubted]
        known.update(meta.file_name for meta in wanted)
        each = _with_room(work, segment.rows)
        each.segments.append((segment.name, [ManifestRow.of(meta) for meta in wanted]))
        each.entries += segment.rows
    for name, meta in sorted(metas.items()):
        if name not in known:
            entries = meta.added_count + meta.deleted_count
            each = _with_room(work, entries)
            each.manifests.append(ManifestRow.of(meta))
            each.entries += entries
    return work


def _with_room(work: list[DecodeWork], entries: int) -> DecodeWork:
    if not work or not work[-1].has_room(entries):
        work.append(DecodeWork())
    return work[-1]


def _segments(area: ControlArea, identity: str) -> list[Segment]:
    """Return the segments of earlier scans that still exist."""
    segments, _ = read_index(area, identity)
    if not segments:
        return []
    there = set(area.names(""))
    return [segment for segment in segments if segment.name in there]


def _doubted(store: Store, segments: Iterable[Segment], metas: Mapping[str, ManifestMeta]) -> frozenset[str]:
    """Return the manifests in segments that are not stored with the size that their manifest lists say."""
    known = {name for segment in segments for name in segment.manifests if name in metas}
    if not known:
        return frozenset()
    sizes = {each.key.removeprefix(_FOLDER): each.size_bytes for each in store.list(_FOLDER)}
    return frozenset(name for name in known if sizes.get(name) != metas[name].file_size)


def first_tasks(store: Store, objects: int, places: int) -> list[ListTask]:
    """Return the tasks with which the listing begins.

    Args:
        store: The table's store.
        objects: About how many objects there are below the table; 0 if unknown.
        places: Number of places to list: the table and its external roots.

    Raises:
        StorageError: A request failed.
    """
    pages = ceil(objects / PAGE_KEYS)
    wanted = ceil(pages / (LIST_PAGES * FILL))
    cuts = _cuts(store, wanted) if wanted > 1 else []
    budget = LIST_PAGES if cuts or 0 < wanted <= 1 else FIRST_PAGES
    ends: list[str | None] = [*cuts, None]
    shards = [Shard(0, after, until) for after, until in zip(["", *cuts], ends, strict=True)]
    tasks = [ListTask(f"list-0-{number}" if cuts else "list-0", shard, budget) for number, shard in enumerate(shards)]
    return [*tasks, *(ListTask(f"list-{place}", Shard(place), FIRST_PAGES) for place in range(1, places))]


def _cuts(store: Store, wanted: int) -> list[str]:
    """Return the keys that cut the table into about equal parts: at most `wanted` of them."""
    folders = [folder for folder in _below(store, [""]) if folder.rstrip("/") not in METADATA_FOLDERS]
    looks = 1
    while folders and len(folders) < 2 * wanted and looks + len(folders) <= MOST_LOOKS:
        deeper = list(_below(store, folders))
        looks += len(folders)
        if len(deeper) <= len(folders):
            break
        folders = deeper
    parts = min(wanted, len(folders))
    return [folders[number * len(folders) // parts] for number in range(1, parts)]


def _below(store: Store, folders: list[str]) -> Iterator[str]:
    for folder in folders:
        for name in islice(store.folders(folder), MOST_FOLDERS):
            if is_key(f"{folder}{name}"):  # a local folder may have a name that is not a valid key
                yield f"{folder}{name}/"
