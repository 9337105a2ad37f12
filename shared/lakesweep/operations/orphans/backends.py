"""Choose the backend of a scan for orphan files, by facts that cost a dozen requests.

The number of objects comes from the last scan, if there was one. Else Lakesweep estimates it from the newest snapshot
and from how that snapshot differs from its neighbours. No metadata names orphans, so a first estimate cannot include
them.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

from lakesweep.control.scan_history import PastScan, read_history
from lakesweep.errors import MaintenanceError
from lakesweep.format.manifest import ManifestMeta, read_manifest_list
from lakesweep.format.snapshot import Snapshot, parse_snapshot
from lakesweep.model.roots import MAIN, Root
from lakesweep.model.safety import SEGMENT_RULE_MS
from lakesweep.model.scans import Available, Estimate, Facts, InventoryFacts, ObjectsFrom, OrphanArguments
from lakesweep.operations.orphans.rules.backend_choice import Choice, choose_backend, say_count, say_seconds, say_usd
from lakesweep.operations.orphans.scan import inventory_of
from lakesweep.runs.receipts import is_paid
from lakesweep.runs.session import Table
from lakesweep.storage.store import Page, StoredObject
from lakesweep.table.discover import sort_listing
from lakesweep.table.documents import MAX_DOCUMENT_BYTES, read_hint
from lakesweep.table.metadata import MAX_METADATA_BYTES, Unreadable
from lakesweep.table.reach.capture import Capture

_FOLDERS = ("branch/", "snapshot/", "changelog/", "tag/", "schema/")
_MANIFESTS = "manifest/manifest-"
_LISTS = "manifest/manifest-list-"
_INDEXES = "manifest/index-manifest-"
_MANIFEST_PAGES = 2
_HEX = "0123456789abcdef"


def facts_of(table: Table, arguments: OrphanArguments, available: Available) -> Facts:
    """Return the known facts about a table. This costs twelve requests, and two more for an inventory.

    Facts that cannot be read stay unknown. The scan itself will report why.

    Raises:
        UsageError: The given location holds no inventory.
        RefusedError: The inventory is of another bucket, or in a format that Lakesweep does not read.
        FormatError: The inventory is damaged.
        StorageError: A request failed.
    """
    past = read_history(table.area) if table.area is not None else ()
    facts = Facts(
        objects=0,
        objects_from="probe",
        quarantine=arguments.quarantine_ms is not None,
        local=available.local,
        has_fan_out=available.has_fan_out,
        workers=available.workers,
        inventory=_inventory_facts(table, arguments),
        places=1 + len(arguments.owned_external),
        is_paid=is_paid(table),
    )
    probe = _Probe(table)
    facts = probe.add_to(facts, past)
    objects, objects_from = _objects(facts, probe, past, available)
    spark = available.spark(objects) if available.spark is not None else None
    return replace(facts, objects=objects, objects_from=objects_from, spark=spark)


def choose(table: Table, arguments: OrphanArguments, available: Available) -> Choice:
    """Choose the backend for the scan of a table; see `facts_of`."""
    return choose_backend(facts_of(table, arguments, available))


def refined(
    facts: Facts, found: Capture, metas: Iterable[ManifestMeta], new: Iterable[ManifestMeta], segments: int
) -> Facts:
    """Return more exact facts, once the roots have been read.

    Args:
        facts: The facts known before.
        found: All roots.
        metas: The manifests that the roots name, without duplicates.
        new: The manifests among them that must be decoded.
        segments: The number of segments that hold the names of the other manifests.
    """
    metas, new = tuple(metas), tuple(new)
    roots = tuple(found.roots.values())
    branches = found.listing.branches.values()
    objects = facts.objects
    if facts.objects_from == "probe":
        objects = _named_objects(found, roots) + len(metas)
    return replace(
        facts,
        objects=objects,
        roots=len(roots),
        branches=len(branches) - 1,
        branches_with_snapshots=sum(bool(branch.snapshots) for branch in branches),
        schemas=sum(len(branch.schemas) for branch in branches),
        lists=len({name for root in roots for name in _lists_of(root.snapshot)}),
        index_manifests=len({root.snapshot.index_manifest for root in roots} - {None}),
        manifests=len(metas),
        new_manifests=len(new),
        entries=sum(map(_entries, metas)),
        new_entries=sum(map(_entries, new)),
        manifest_bytes=sum(meta.file_size for meta in metas),
        segments=segments,
    )


def describe_estimate(estimate: Estimate) -> str:
    """Say what a scan would cost."""
    return (
        f"estimated {say_seconds(estimate.seconds)}, {say_count(estimate.request_count)} requests, "
        f"{say_usd(estimate.usd)}"
    )


def _objects(
    facts: Facts, probe: "_Probe", past: tuple[PastScan, ...], available: Available
) -> tuple[int, ObjectsFrom]:
    if available.objects is not None:
        return available.objects, "argument"
    seen = next((scan for scan in reversed(past) if not scan.inventory), None)
    if seen is not None:
        commits = max(0, probe.latest_id - seen.latest_id) if seen.latest_id is not None else 0
        return max(0, seen.objects - (seen.deleted or 0) + commits * probe.grown), "last_run"
    counted = available.objects_in_bucket() if available.objects_in_bucket is not None else None
    if counted is not None and facts.objects <= counted <= 2 * facts.objects:  # the bucket holds little else
        return counted, "metrics"
    return facts.objects, "probe"


def _inventory_facts(table: Table, arguments: OrphanArguments) -> InventoryFacts | None:
    inventory = inventory_of(table, arguments)
    if inventory is None:
        return None
    return InventoryFacts(
        age_ms=max(0, table.store.now_ms() - inventory.created_ms),
        files=len(inventory.files),
        size_bytes=sum(file.size_bytes for file in inventory.files),
    )


class _Probe:
    """A first, cheap look at a table."""

    def __init__(self, table: Table) -> None:
        self._store = table.store
        self.latest_id = 0
        self.grown = 0
        """Files that the newest commit added, minus files that it deleted."""
        pages = [self._pages(folder, 1) for folder in _FOLDERS]
        self._listing = sort_listing(self._store.location, [entry for found, _ in pages for entry in found])
        self._is_cut = any(is_cut for _, is_cut in pages)
        self._metas: tuple[ManifestMeta, ...] = ()
        self._delta: tuple[ManifestMeta, ...] = ()
        snapshot = self._newest()
        if snapshot is not None:
            self._read_lists(snapshot)
        self._files, self._is_cut_files = self._pages("manifest/", _MANIFEST_PAGES)

    def add_to(self, facts: Facts, past: Iterable[PastScan]) -> Facts:
        """Return the facts, completed by what the probe found."""
        branches = self._listing.branches.values()
        roots = self._root_count()
        times = self._times()
        manifests = [file for file in self._files if file.key.startswith(_MANIFESTS) and not _is_list(file)]
        entries = sum(map(_entries, self._metas))
        entry_bytes = sum(meta.file_size for meta in self._metas) / max(1, entries)
        last = max((scan.began_ms for scan in past if scan.engine == "lambda"), default=None)
        if last is not None and self._store.now_ms() - last > SEGMENT_RULE_MS:
            last = None
        new = manifests if last is None else [file for file in manifests if file.modified_ms >= last]
        named = max(round(len(manifests) * times), len(self._metas))
        manifest_bytes = max(round(sum(file.size_bytes for file in manifests) * times), self._meta_bytes())
        lists = sum(map(_is_list, self._files)) if not self._is_cut_files else 2 * roots
        live = sum(meta.added_count - meta.deleted_count for meta in self._metas)
        dead = roots * sum(meta.deleted_count for meta in self._delta)
        schemas = sum(len(branch.schemas) for branch in branches)
        return replace(
            facts,
            objects=max(0, live) + dead + named + max(lists, 2 * roots) + roots + schemas,
            roots=roots,
            branches=len(branches) - 1,
            branches_with_snapshots=sum(bool(branch.snapshots) for branch in branches),
            root_pages=roots // 1000,
            schemas=schemas,
            lists=min(lists, 3 * roots) or 2 * roots,
            index_manifests=min(roots, sum(file.key.startswith(_INDEXES) for file in self._files)),
            manifests=named,
            new_manifests=None if last is None else round(len(new) * times),
            entries=max(entries, round(manifest_bytes / entry_bytes)) if entries else 0,
            new_entries=None
            if last is None or not entries
            else round(sum(file.size_bytes for file in new) * times / entry_bytes),
            manifest_bytes=manifest_bytes,
            segments=0 if last is None else sum(scan.engine == "lambda" for scan in past),
        )

    def _pages(self, folder: str, count: int) -> tuple[list[StoredObject], bool]:
        """Return the first objects of a folder, and whether there are more."""
        pages: list[Page] = list(islice(self._store.list_range(folder), count))
        return [each for page in pages for each in page], len(pages) == count and len(pages[-1]) >= 1000

    def _newest(self) -> Snapshot | None:
        main = self._listing.branches[MAIN]
        hint = read_hint(self._store, "snapshot/LATEST") if self._is_cut else None
        ids = [ref.id for ref in main.snapshots] + ([hint] if hint is not None else [])
        if not ids:
            return None
        self.latest_id = max(ids)
        path = f"snapshot/snapshot-{self.latest_id}"
        try:
            return parse_snapshot(self._store.read(path, MAX_DOCUMENT_BYTES).data, path)
        except MaintenanceError:
            return None

    def _read_lists(self, snapshot: Snapshot) -> None:
        found = []
        for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
            path = f"manifest/{name}"
            try:
                found.append(read_manifest_list(self._store.read(path, MAX_METADATA_BYTES).data, path))
            except MaintenanceError:
                return
        self._metas, self._delta = (*found[0], *found[1]), found[1]
        self.grown = sum(meta.added_count - meta.deleted_count for meta in self._delta)

    def _root_count(self) -> int:
        """Return the number of roots; if a folder has more than a page, estimate it from the ids of snapshots."""
        listed = sum(1 for _ in self._listing.roots())
        main = self._listing.branches[MAIN]
        if not self._is_cut or not main.snapshots:
            return listed
        return max(listed, self.latest_id - main.snapshots[0].id + 1)

    def _times(self) -> float:
        """Return the ratio of all manifests to the listed ones, since the random names are spread evenly."""
        last = self._files[-1].key if self._files else ""
        if not self._is_cut_files or not last.startswith(_MANIFESTS) or _is_list(self._files[-1]):
            return 1.0
        digits = last.removeprefix(_MANIFESTS)[:4]
        if not digits or any(digit not in _HEX for digit in digits):
            return 1.0
        return float(16 ** len(digits)) / (int(digits, 16) + 1)

    def _meta_bytes(self) -> int:
        return sum(meta.file_size for meta in self._metas)


def _is_list(file: StoredObject) -> bool:
    return file.key.startswith(_LISTS)


def _entries(meta: ManifestMeta) -> int:
    return meta.added_count + meta.deleted_count


def _lists_of(snapshot: Snapshot) -> list[str]:
    names = (snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list)
    return [name for name in names if name is not None]


def _named_objects(found: Capture, roots: Iterable[Root]) -> int:
    """Return how many files the roots name: the oldest snapshot's, the additions of later commits, and metadata files.

    The lists have been read already, so this costs no request.
    """
    main = (root.snapshot for root in roots if root.ref.kind == "snapshot" and root.ref.branch == MAIN)
    snapshots = sorted(main, key=lambda snapshot: snapshot.id)
    count = sum(1 + len(_lists_of(root.snapshot)) for root in roots)
    if not snapshots:
        return count
    names = [snapshots[0].base_manifest_list, *(snapshot.delta_manifest_list for snapshot in snapshots)]
    lists = found.reader.manifest_lists(dict.fromkeys(names))
    first = lists[names[0]]
    if not isinstance(first, Unreadable):
        count += sum(meta.added_count - meta.deleted_count for meta in first)
    for name in names[1:]:
        content = lists[name]
        count += 0 if isinstance(content, Unreadable) else sum(meta.added_count for meta in content)
    return count
