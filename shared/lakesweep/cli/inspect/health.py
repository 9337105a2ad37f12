"""Answer `check`: check a table or each table of a database, print the findings, and return the exit code."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from lakesweep.api.mending import with_options
from lakesweep.api.opening import open_table
from lakesweep.cli.answer import answer_document, explain
from lakesweep.cli.options import Place
from lakesweep.cli.terminal.output import say
from lakesweep.errors import MaintenanceError
from lakesweep.operations.inspect.check.table import check_table
from lakesweep.runs.database import is_table, tables_of
from lakesweep.runs.session import Table

FINDINGS = 6
"""Exit code for a table that is not healthy."""


def answer_check(place: Place, *, all_roots: bool) -> int:
    """Check a table, or each table of a database."""
    codes = [0]

    def read(table: Table) -> Mapping[str, object]:
        names = [] if is_table(table.store) else list(tables_of(table.store))
        if not names:
            document = with_options(check_table(table, all_roots=all_roots).to_json(), place)
            codes.append(_code(document))
            return document
        tables = [_one(place, f"{table.ref.location}/{name}", all_roots, codes) for name in names]
        return {"database": table.ref.location, "tables": tables, "warnings": []}

    exit_code = answer_document(
        place, read, lambda document: (database_lines if "tables" in document else table_lines)(document)
    )
    # A table that could not be checked counts more than findings.
    return exit_code or next((code for code in codes if code not in (0, FINDINGS)), max(codes))


def _one(place: Place, location: str, all_roots: bool, codes: list[int]) -> Mapping[str, Any]:
    try:
        table = open_table(dataclasses.replace(place, table=location))
        document = with_options(check_table(table, all_roots=all_roots).to_json(), place)
    except MaintenanceError as error:
        code, message, exit_code = explain(error)
        say(message)
        codes.append(exit_code)
        return {"table": location, "error": {"code": code, "message": message}}
    codes.append(_code(document))
    return document


def _code(document: Mapping[str, object]) -> int:
    return FINDINGS if document["status"] == "findings" else 0


_LOOKED = "checked the data files of the newest snapshot of each branch; --all-roots checks all data files"


def table_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Render the findings about one table."""
    looked = "" if document["all_roots"] else f"; {_LOOKED}"
    yield f"{document['table']}: {document['status']}{looked}"
    if document["policy"] is not None:
        yield f"{'policy':<10} {document['policy']['says'].removeprefix('policy ')}"
    for found in document["findings"]:
        yield f"{found['check']:<10} {found['says']}"
        yield f"{'mend':<10} {found['mend']}"


def database_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Render a line for each table."""
    for table in document["tables"]:
        if "error" in table:
            yield f"{table['table']}: {table['error']['code']}: {table['error']['message']}"
        elif table["status"] == "healthy":
            yield f"{table['table']}: healthy"
        else:
            names = ", ".join(dict.fromkeys(found["check"] for found in table["findings"]))
            yield f"{table['table']}: {len(table['findings'])} findings ({names})"
    if not all(table.get("all_roots", True) for table in document["tables"]):
        yield _LOOKED
