"""Checks before a branch rewrite changes anything: the target is complete, and no Iceberg reader is misled.

Paimon writes Iceberg metadata when it commits. Source: Paimon `IcebergCommitCallback`.
"""

from collections.abc import Mapping

from lakesweep.errors import RefusedError, some_of
from lakesweep.format.values.json_document import shorten
from lakesweep.model.roots import Root
from lakesweep.runs.session import Table
from lakesweep.runs.view import TableView
from lakesweep.table.reach.completeness import lost_files
from lakesweep.table.stores import OutsideFiles

LOST_FILES = "target_lost_files"
NAMED = 10
"""A message names this many lost files."""
COUNTED = 10_000
"""At most this many lost files are counted."""
_STORAGE = "metadata.iceberg.storage"


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


def refuse_iceberg(table: Table, options: Mapping[str, str]) -> None:
    """Refuse to rewrite a branch with Iceberg metadata: that metadata would still show the deleted snapshots.

    Raises:
        RefusedError: With code `needs_engine_callbacks`.
    """
    value = options.get(_STORAGE, "").strip()
    if value.lower() not in ("", "disabled"):
        raise RefusedError(
            f"table {table.ref}: {_STORAGE} is {shorten(value)!r}, so Iceberg metadata would still show the "
            "snapshots that this operation deletes; expected a table without Iceberg metadata",
            code="needs_engine_callbacks",
        )
