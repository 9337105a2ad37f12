"""What `check` finds about the files that readers of roots open."""

from collections.abc import Iterator, Mapping, Sequence

from lakesweep.control.audit.object_history import history_of
from lakesweep.errors import FormatError, MaintenanceError, RefusedError
from lakesweep.format.manifest import IndexEntry, ManifestEntry
from lakesweep.model.paths.allowed import may_delete
from lakesweep.model.roots import BranchListing, Root, RootRef, TableListing, base_name
from lakesweep.operations.inspect.check.roots import root_findings, unreadable
from lakesweep.operations.inspect.health import SHOWN, Finding, StatedSize, command, listed, restore
from lakesweep.operations.inspect.judging import Judging, judge
from lakesweep.runs.session import Table
from lakesweep.storage.listing import list_all
from lakesweep.table.documents import read_roots, read_schema
from lakesweep.table.paths import PathsOfRoots
from lakesweep.table.reach.completeness import NamedSizes, WrongSize, lost_files, stated_size
from lakesweep.table.reach.missing import EXPIRING, find_missing

_INDEX = ".index"
"""The end of the name of a file index beside a data file."""
_UNREADABLE = frozenset({"unreadable_root", "unreadable_schema", "damaged", "unsupported", "bad_option"})


def file_findings(table: Table, listing: TableListing, *, all_roots: bool, skipped: list[str]) -> Iterator[Finding]:
    """Find unreadable roots, and missing files that readers need.

    Args:
        table: All branches of it.
        listing: Its roots.
        all_roots: Look for the data files of every root, not only of the newest snapshots.
        skipped: Receives a sentence if older roots could not be checked.

    Raises:
        StorageError: A request failed.
    """
    found: list[Finding] = []
    refused: MaintenanceError | None = None
    if all_roots and any(listing.roots()):
        try:
            found += _of_all(table)
        except (RefusedError, FormatError) as error:
            if error.code not in _UNREADABLE:
                raise
            refused = error
    if not all_roots or refused is not None:
        found += _of_newest(table, listing)
    found += root_findings(table, listing, frozenset(each.paths[0] for each in found if each.check == "roots"))
    if refused is not None:
        skipped.append(f"data files of older roots were not looked for: {refused}")
        if not any(each.check == "roots" for each in found):
            found.append(Finding("roots", str(refused), restore("the file that it names")))
    yield from found


def _of_newest(table: Table, listing: TableListing) -> Iterator[Finding]:
    for branch in listing.branches.values():
        if not branch.schemas or not branch.snapshots:
            continue
        newest = branch.snapshots[-1]
        try:
            roots: Sequence[Root] = read_roots(table.store, [newest]).roots
            wrong: list[WrongSize] = []
            lost = lost_files(table.store, read_schema(table.store, branch), roots, SHOWN, wrong=wrong)
        except (RefusedError, FormatError) as error:
            if error.code not in _UNREADABLE:
                raise
            if error.code != "unreadable_root":  # `root_findings` reports an unreadable document
                yield unreadable(table, listing, newest, str(error))
            continue
        if lost:
            yield _lost(table, listing, newest, lost)
        if wrong:
            yield _of_sizes(table, [StatedSize(each.path, each.expected, each.found, (str(newest),)) for each in wrong])


def _of_all(table: Table) -> Iterator[Finding]:
    sizes = NamedSizes()
    judging = judge(table, None, sizes.decode)
    found, holders = judging.found, judging.holders()
    for index in holders.indexes():
        sizes.note(index.entry)
    differing: dict[str, int] = {}
    for page in list_all(table.store, ""):
        for each in page:
            found.live.saw(base_name(each.key))
            if sizes.differs(each.key, each.size_bytes):
                differing[each.key] = each.size_bytes
    wrong = list(_needed(judging, differing)) if differing else []
    if wrong:
        yield _of_sizes(table, wrong)
    missing = find_missing(table.store, found, lambda: judging.stores)
    told = " ".join(found.live.damaged.values())
    files = [file for file in missing.files if f"{file.path} does not exist" not in told]
    if files:
        paths = tuple(file.path for file in files)
        says = f"{_counted(len(files))} that {listed(files[0].needed_by)} needs; the first is {paths[0]}"
        if missing.may_be_expiring:
            says += f"; {EXPIRING}"
        newest = {str(branch.snapshots[-1]): branch.snapshots[-1] for branch in _written(found.listing)}
        needing = (newest.get(name) for name in files[0].needed_by)
        yield Finding("files", says, _restore(table, paths[0], next(filter(None, needing), None)), paths[:SHOWN])
    if missing.unknown:
        says = f"{missing.unknown} files were in no listing, and whether they are there is not known"
        yield Finding("files", says, command("explain", table.ref.location, executes=False))


def _written(listing: TableListing) -> Iterator[BranchListing]:
    """Yield the branches that have a snapshot."""
    return (branch for branch in listing.branches.values() if branch.snapshots)


def _needed(judging: Judging, differing: Mapping[str, int]) -> Iterator[StatedSize]:
    """Yield each file of another size than stated that some root needs at this path.

    Reads the manifests again.
    """
    names = {base_name(path) for path in differing}
    holders, rules = judging.holders(), PathsOfRoots(judging.table.store, judging.found.listing)
    uses: list[tuple[ManifestEntry | IndexEntry, int]] = [
        (each.entry, each.needed_by) for each in holders.indexes() if base_name(each.entry.file_name) in names
    ]
    uses += [(each.entry, each.needed_by) for each in holders.mentions(lambda entry: entry.file_name in names)]
    needed: dict[tuple[str, int], int] = {}
    for entry, roots in uses:
        size = stated_size(entry)
        for path in {paths.files(entry)[0] for paths in rules.of(holders.roots_in(roots))}:
            if path in differing and size is not None and size != differing[path]:
                needed[path, size] = needed.get((path, size), 0) | roots
    for (path, size), roots in sorted(needed.items()):
        refs = tuple(str(root.ref) for root in holders.roots_in(roots)[:SHOWN])
        yield StatedSize(path, size, differing[path], refs)


def _of_sizes(table: Table, wrong: Sequence[StatedSize]) -> Finding:
    first = wrong[0]
    says = (
        f"{first.path} has {first.found} bytes; expected {first.expected}, as the metadata of "
        f"{listed(first.needed_by)} states"
    )
    if len(wrong) > 1:
        says += f"; {len(wrong) - 1} more files have another size than stated"
    mend = restore(first.path, command("explain", table.ref.location, first.path, executes=False))
    return Finding("wrong_size", says, mend, tuple(each.path for each in wrong[:SHOWN]), tuple(wrong[:SHOWN]))


def _lost(table: Table, listing: TableListing, ref: RootRef, lost: Sequence[str]) -> Finding:
    """Return the finding of a newest snapshot. Some entries of `lost` are paths, others sentences about metadata."""
    metadata = next((f"{each} does not exist" for each in lost if each.startswith("manifest/")), None)
    sentence = next((each for each in lost if " " in each), metadata)
    if sentence is not None:
        return unreadable(table, listing, ref, f"{ref.path} is incomplete: {sentence}")
    many = "at least " if len(lost) == SHOWN else ""
    says = f"{many}{_counted(len(lost))} that {ref} needs; the first is {lost[0]}"
    return Finding("files", says, _restore(table, lost[0], ref), tuple(lost))


def _counted(count: int) -> str:
    return "1 file is missing" if count == 1 else f"{count} files are missing"


def _restore(table: Table, path: str, newest: RootRef | None = None) -> str:
    """Return the command that brings a file back: undo of the run that deleted it, else `explain`, which tells more.

    Args:
        table: The table.
        path: The file.
        newest: The newest snapshot that needs it. A repair can leave out a data file or statistics.
    """
    location = table.ref.location
    if table.area is not None:
        try:
            entries = history_of(table.area, path).entries
        except MaintenanceError:
            entries = ()
        ours = next((entry for entry in entries if entry.result == "deleted"), None)
        if ours is not None:
            return command("undo", location, ours.run_id)
    is_left_out = may_delete("statistics", path) or (may_delete("data", path) and not path.endswith(_INDEX))
    if newest is not None and is_left_out:
        repair = command("remove-unexisting-files", location, branch=newest.branch, executes=False)
        return restore(path, repair)
    return command("explain", location, path, executes=False)
