"""Check, before a branch rewrite changes anything, that the target is complete."""

from lakesweep.errors import RefusedError
from lakesweep.model.roots import Root
from lakesweep.model.wording import some_of
from lakesweep.runs.session import Table
from lakesweep.runs.view import TableView
from lakesweep.table.outside_files import OutsideFiles
from lakesweep.table.reach.completeness import lost_files

LOST_FILES = "target_lost_files"
NAMED = 10
"""A message names this many lost files."""
COUNTED = 10_000
"""At most this many lost files are counted."""


def check_target(table: Table, view: TableView, target: Root) -> None:
    """Refuse a version that has lost files.

    Args:
        table: With a store without a cache, since cached files may be gone.
        view: The branch.
        target: The version.

    Raises:
        RefusedError: With code `target_lost_files`.
        StorageError: A request failed.
    """
    lost = [*_schema_lost(view, target)]
    lost += lost_files(table.store, view.schema, [target], COUNTED, OutsideFiles(table.store, table.open_store))
    if lost:
        raise RefusedError(
            f"table {table.ref}: {target.ref} has lost {describe_lost(lost)}; expected a complete version",
            code=LOST_FILES,
        )


def describe_lost(lost: list[str]) -> str:
    """Return the number of lost files, and the names of the first few."""
    many = f"{COUNTED} files or more" if len(lost) >= COUNTED else f"{len(lost)} file{'s'[: len(lost) != 1]}"
    return f"{many}: {some_of(lost, NAMED)}"


def _schema_lost(view: TableView, target: Root) -> list[str]:
    wanted = str(target.snapshot.schema_id)
    if any(schema.name == wanted for schema in view.own.schemas):
        return []
    folder = view.own.schemas[-1].path.rpartition("/")[0]
    return [f"{folder}/schema-{wanted}"]
