"""`branches`: list the branches of a table, and what each alone keeps alive. This changes nothing.

A branch does not record its origin. Lakesweep can tell the origin as long as main still has it: Paimon copies the
snapshot, and the tag under its name.

Source: Paimon `BranchesTable`, `FileSystemBranchManager#createBranch`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lakesweep.errors import RefusedError
from lakesweep.model.roots import MAIN, BranchListing, Root, RootRef, branch_dir
from lakesweep.operations.branches.delete import content_of, read_each
from lakesweep.operations.branches.names import check_on_main
from lakesweep.operations.branches.newly_orphaned import find_newly_orphaned
from lakesweep.runs.session import Table
from lakesweep.runs.view import TableView, begin


@dataclass(frozen=True, slots=True)
class BranchRow:
    """One branch."""

    name: str
    origin: Root | None
    """The root of main from which the branch was made; `None`: it was made empty, or main no longer has that root."""
    own: BranchListing
    newest: Root | None
    alone: tuple[int, int] | None
    """Files and bytes that no root outside the branch needs; `None`: not asked for, or not known."""
    problems: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the row described in `docs/cli_json.md`."""
        own, newest = self.own, self.newest
        return {
            "name": self.name,
            "path": branch_dir(self.name).rstrip("/"),
            "from": None if self.origin is None else _origin_json(self.origin),
            "snapshots": {
                "count": len(own.snapshots),
                "earliest": own.snapshots[0].id if own.snapshots else None,
                "latest": own.snapshots[-1].id if own.snapshots else None,
            },
            "changelogs": len(own.changelogs),
            "tags": [ref.name for ref in own.tags],
            "consumers": len(own.consumers),
            "schema_id": int(own.schemas[-1].name) if own.schemas else None,
            "commit_time_ms": None if newest is None else newest.snapshot.time_ms,
            "record_count": None if newest is None else newest.snapshot.total_record_count,
            "files": None if self.alone is None else self.alone[0],
            "bytes": None if self.alone is None else self.alone[1],
        }


def list_branches(table: Table, *, sizes: bool = False) -> dict[str, object]:
    """Return the document described in `docs/cli_json.md`.

    Args:
        table: The table, on main.
        sizes: Also find out what each branch alone keeps alive; this reads the metadata of every root.

    Raises:
        UsageError: Another branch than main was chosen.
        RefusedError: This is not a table, or a root of main cannot be read.
        StorageError: A request failed.
    """
    check_on_main(table, "branches")
    view = begin(table, "branches")
    rows = [_row(view, own, sizes) for own in view.listing.branches.values() if own.name != MAIN]
    return {
        "table": table.ref.location,
        "branches": [row.to_json() for row in rows],
        "warnings": [f"table {table.ref}, branch {row.name!r}: {what}" for row in rows for what in row.problems],
    }


def _row(view: TableView, own: BranchListing, sizes: bool) -> BranchRow:
    wanted = tuple(own.roots()) if sizes else _of_interest(own)
    roots, unreadable = read_each(view, wanted)
    prefix = f"table {view.table.ref}: "  # the warning names the table itself
    problems = [problem.removeprefix(prefix) for problem in unreadable.values()]
    if not own.schemas:
        problems.append("it has no schema, so it is being created or deleted, or it is incomplete")
    newest = [root for root in roots if own.snapshots and root.ref == own.snapshots[-1]]
    alone = None
    if sizes and unreadable:
        problems.append("the files that it alone keeps alive are not known")
    elif sizes:
        try:
            newly_orphaned = find_newly_orphaned(view, roots)
        except RefusedError as error:
            problems.append(f"the files that it alone keeps alive are not known: {error}")
        else:
            alone = (newly_orphaned.files, newly_orphaned.bytes)
            problems += newly_orphaned.unknown
    return BranchRow(own.name, _origin(view, roots), own, newest[0] if newest else None, alone, tuple(problems))


def _of_interest(own: BranchListing) -> tuple[RootRef, ...]:
    return tuple({ref.path: ref for ref in (*own.snapshots[:1], *own.snapshots[-1:], *own.tags)}.values())


def _origin(view: TableView, roots: Sequence[Root]) -> Root | None:
    """Return the root of main that equals the branch's oldest root; if a tag and a snapshot match, the tag."""
    first = min((root.snapshot.id for root in roots), default=None)
    own = [root for root in roots if root.snapshot.id == first]
    contents = {content_of(root) for root in own}
    names = {root.ref.name for root in own if root.ref.kind == "tag"}
    main = view.listing.branches[MAIN]
    refs = [*(ref for ref in main.tags if ref.name in names), *(ref for ref in main.snapshots if ref.id == first)]
    return next((root for root in read_each(view, refs)[0] if content_of(root) in contents), None)


def _origin_json(origin: Root) -> dict[str, object]:
    return {
        "tag": origin.ref.name if origin.ref.kind == "tag" else None,
        "snapshot": origin.snapshot.id,
    }
