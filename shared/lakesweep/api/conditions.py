"""The condition on rows that a call states, as text or in a file of this machine, and what searches for the rows."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lakesweep.api.engines import check_hidden, rows_engine
from lakesweep.api.place import Place
from lakesweep.errors import UsageError
from lakesweep.operations.rows.condition import MAX_BYTES, text_of
from lakesweep.runs.parameters.parameter import Signature
from lakesweep.runs.parameters.rows import KEEP_CONDITION
from lakesweep.runs.session import Table

STDIN = "-"
"""Stands for standard input."""


def stated_condition(
    place: Place, table: Table, signature: Signature, values: Mapping[str, Any], *, is_optional: bool = False
) -> tuple[Table, Mapping[str, Any]]:
    """Return a table with the engine, and the arguments with the condition from a file of this machine.

    Args:
        place: Where the table is.
        table: The opened table.
        signature: The operation.
        values: The arguments.
        is_optional: The call may have no condition.

    Raises:
        UsageError: There is none, there are two, or it cannot be read or would be seen.
    """
    where, path = values.get("where"), values.get("where_file")
    if (where is None) == (path is None) and not (is_optional and where is None):
        found = "none" if where is None else "both"
        raise UsageError(f"expected --where or --where-file, found {found}", code="bad_argument")
    may_keep = KEEP_CONDITION.name in signature.arguments
    check_hidden(where, keep=bool(values.get("keep_condition")), may_keep=may_keep)
    table = replace(table, rows_engine=rows_engine(place, table, values.get("engine")))
    if path is None or "://" in path:
        return table, values
    try:
        if path == STDIN:
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with Path(path).open("rb") as body:
                data = body.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"where_file: {path} cannot be read: {error.strerror}", code="bad_argument") from error
    return table, {**values, "where_file": None, "where": text_of(data, path)}
