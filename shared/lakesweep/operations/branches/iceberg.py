"""Tables whose snapshots Iceberg readers can see, too: Paimon writes Iceberg metadata when it commits.

Source: Paimon `IcebergCommitCallback`.
"""

from collections.abc import Mapping

from lakesweep.errors import RefusedError
from lakesweep.format.values.json_document import shorten
from lakesweep.runs.session import Table

_STORAGE = "metadata.iceberg.storage"


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
