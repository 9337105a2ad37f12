"""What `check` finds of the files that readers of roots open."""

from collections.abc import Iterator, Sequence

from lakesweep.control.object_history import history_of
from lakesweep.errors import FormatError, MaintenanceError, RefusedError
from lakesweep.model.facts import base_name
from lakesweep.model.roots import Root, RootRef, TableListing
from lakesweep.operations.check_roots import root_findings, unreadable
from lakesweep.operations.context import Table
from lakesweep.operations.health import SHOWN, Finding, command, listed, restore
from lakesweep.operations.judging import judge
from lakesweep.storage.listing import list_all
from lakesweep.table.completeness import lost_files
from lakesweep.table.documents import read_roots, read_schema
from lakesweep.table.missing import EXPIRING, find_missing

_UNREADABLE = frozenset({"unreadable_root", "unreadable_schema", "damaged", "unsupported", "bad_option"})


def file_findings(table: Table, listing: TableListing, *, all_roots: bool, skipped: list[str]) -> Iterator[Finding]:
    """Find roots that cannot be read, and files that readers need and that are not there.

    Args:
        table: All branches of it.
        listing: Its roots.
        all_roots: Look for the data files of every root, not only of the newest snapshots.
        skipped: Takes a sentence where that cannot be done.

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
            lost = lost_files(table.store, read_schema(table.store, branch), roots, SHOWN)
        except (RefusedError, FormatError) as error:
            if error.code not in _UNREADABLE:
                raise
            if error.code != "unreadable_root":  # of a root's document `root_findings` tells
                yield unreadable(table, listing, newest, str(error))
            continue
        if lost:
            yield _lost(table, listing, newest, lost)


def _of_all(table: Table) -> Iterator[Finding]:
    judging = judge(table, None)
    found = judging.found
    for page in list_all(table.store, ""):
        for each in page:
            found.live.saw(base_name(each.key))
    missing = find_missing(table.store, found, lambda: judging.stores)
    told = " ".join(found.live.damaged.values())
    files = [file for file in missing.files if f"{file.path} does not exist" not in told]
    if files:
        paths = tuple(file.path for file in files)
        says = f"{_counted(len(files))} that {listed(files[0].needed_by)} needs; the first is {paths[0]}"
        if missing.may_be_expiring:
            says += f"; {EXPIRING}"
        yield Finding("files", says, _restore(table, paths[0]), paths[:SHOWN])
    if missing.unknown:
        says = f"{missing.unknown} files were in no listing, and whether they are there is not known"
        yield Finding("files", says, command("explain", table.ref.location, executes=False))


def _lost(table: Table, listing: TableListing, ref: RootRef, lost: Sequence[str]) -> Finding:
    """Return the finding of a newest snapshot; of what is lost, some are sentences about metadata."""
    metadata = next((f"{each} does not exist" for each in lost if each.startswith("manifest/")), None)
    sentence = next((each for each in lost if " " in each), metadata)
    if sentence is not None:
        return unreadable(table, listing, ref, f"{ref.path} is not whole: {sentence}")
    many = "at least " if len(lost) == SHOWN else ""
    says = f"{many}{_counted(len(lost))} that {ref} needs; the first is {lost[0]}"
    return Finding("files", says, _restore(table, lost[0]), tuple(lost))


def _counted(count: int) -> str:
    return "1 file is missing" if count == 1 else f"{count} files are missing"


def _restore(table: Table, path: str) -> str:
    """Return how a file comes back: by the run that deleted it, or `explain` says who knows of it."""
    location = table.ref.location
    if table.area is not None:
        try:
            entries = history_of(table.area, path).entries
        except MaintenanceError:
            entries = ()
        ours = next((entry for entry in entries if entry.result == "deleted"), None)
        if ours is not None:
            return command("undo", location, ours.run_id)
    return command("explain", location, path, executes=False)
