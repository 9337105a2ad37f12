"""What `check` finds of roots and of the files that their readers open."""

from collections.abc import Iterator, Sequence

from lakesweep.control.object_history import history_of
from lakesweep.errors import FormatError, MaintenanceError, RefusedError
from lakesweep.model.facts import base_name
from lakesweep.model.roots import Root, RootRef, TableListing
from lakesweep.operations.context import Table
from lakesweep.operations.health import SHOWN, Finding, command, expire_down_to, listed
from lakesweep.operations.judging import judge
from lakesweep.storage.listing import list_all
from lakesweep.table.completeness import lost_files
from lakesweep.table.documents import read_roots, read_schema
from lakesweep.table.missing import find_missing

_UNREADABLE = frozenset({"unreadable_root", "unreadable_schema", "damaged", "unsupported", "bad_option"})


def file_findings(table: Table, listing: TableListing, *, all_roots: bool) -> Iterator[Finding]:
    """Find roots that cannot be read, and files that readers need and that are not there.

    Raises:
        StorageError: A request failed.
    """
    if all_roots and any(listing.roots()):
        yield from _of_all(table)
    elif not all_roots:
        yield from _of_newest(table, listing)


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
            yield _unreadable(table, listing, newest, str(error))
            continue
        if lost:
            yield _lost(table, listing, newest, lost)


def _of_all(table: Table) -> Iterator[Finding]:
    try:
        judging = judge(table, None)
    except (RefusedError, FormatError) as error:
        if error.code not in _UNREADABLE:
            raise
        yield Finding("roots", str(error), command("explain", table.ref.location, executes=False))
        return
    found, refs = judging.found, {ref.path: ref for ref in judging.found.listing.roots()}
    for path, problem in sorted(found.live.damaged.items()):
        yield _unreadable(table, found.listing, refs[path], f"{path} is not whole: {problem}")
    for page in list_all(table.store, ""):
        for each in page:
            found.live.saw(base_name(each.key))
    missing = find_missing(table.store, found, lambda: judging.stores)
    told = " ".join(found.live.damaged.values())
    files = [file for file in missing.files if f"{file.path} does not exist" not in told]
    if files:
        paths = tuple(file.path for file in files)
        says = f"{_counted(len(files))} that {listed(files[0].needed_by)} needs; the first is {paths[0]}"
        yield Finding("files", says, _restore(table, paths[0]), paths[:SHOWN])
    if missing.unknown:
        says = f"{missing.unknown} files were in no listing, and whether they are there is not known"
        yield Finding("files", says, command("explain", table.ref.location, executes=False))


def _unreadable(table: Table, listing: TableListing, ref: RootRef, problem: str) -> Finding:
    return Finding("roots", problem, _give_up(table, listing, ref), (ref.path,))


def _lost(table: Table, listing: TableListing, ref: RootRef, lost: Sequence[str]) -> Finding:
    """Return the finding of a newest snapshot; of what is lost, some are sentences about metadata."""
    metadata = next((f"{each} does not exist" for each in lost if each.startswith("manifest/")), None)
    sentence = next((each for each in lost if " " in each), metadata)
    if sentence is not None:
        return _unreadable(table, listing, ref, f"{ref.path} is not whole: {sentence}")
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


def _give_up(table: Table, listing: TableListing, ref: RootRef) -> str:
    """Return the command that removes a root which cannot be read; its files come back by other means alone."""
    location, branch = table.ref.location, ref.branch
    if ref.kind == "tag":
        return command("delete-tag", location, ref.name, branch=branch)
    if ref.kind == "changelog":
        return command("expire-changelogs", location, branch=branch)
    ids = [each.id for each in listing.branches[branch].snapshots]
    newer = [each for each in ids if each > ref.id]
    older = [each for each in ids if each < ref.id]
    if newer:
        return expire_down_to(location, len(newer), branch)
    if older:
        return command("rollback", location, "--snapshot", str(older[-1]), branch=branch)
    return command("explain", location, ref.path, executes=False)
