"""Run an operation of the registry for a program: with the arguments, engines and conditions that it states."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from lakesweep.api.arguments import plain, typed
from lakesweep.api.calling import Settings
from lakesweep.api.conditions import STDIN, stated_condition
from lakesweep.api.engines import compaction_engine
from lakesweep.api.outcome import unfinished
from lakesweep.errors import UsageError
from lakesweep.model.report import RunReport
from lakesweep.operations.registry import OPERATIONS, run_operation
from lakesweep.runs.parameters import compaction, erasure, rows
from lakesweep.runs.parameters import signatures as given
from lakesweep.runs.session import Table

_OF_MAIN = frozenset(
    each.name
    for each in (given.FAST_FORWARD, given.CREATE_BRANCH, given.DELETE_BRANCH, given.UNDO, given.REMOVE_ORPHAN_FILES)
)
"""Operations about the whole table."""


def named(operation: object) -> str:
    """Return the name of an operation.

    Raises:
        UsageError: There is no such operation.
    """
    name = given.operation_named(operation) if isinstance(operation, str) else ""
    if name not in OPERATIONS:
        raise UsageError(
            f"operation {operation!r} is not known; expected one of {', '.join(sorted(OPERATIONS))}",
            code="unknown_operation",
        )
    return name


def prepared(
    place: Settings, name: str, stated: Mapping[str, object], *, execute: bool
) -> tuple[Settings, Callable[[Table], RunReport]]:
    """Return the place of a call, and what runs the operation there.

    Raises:
        UsageError: An argument is of a kind that no operation takes.
    """
    arguments = {key: plain(value) for key, value in stated.items()}
    if name in _OF_MAIN:
        place = replace(place, branch="main")
    if name == given.REMOVE_ORPHAN_FILES.name:
        place = replace(
            place,
            engine=typed("engine", arguments.get("engine") or arguments.get("mode"), str),
            scan_id=typed("scan_id", arguments.pop("scan_id", None), str),
            scan_queue=typed("scan_queue", arguments.pop("scan_queue", None), str),
        )
    if arguments.get("where_file") == STDIN:
        raise UsageError("where_file: expected a path or s3://bucket/key, found '-'", code="bad_argument")

    def run(table: Table) -> RunReport:
        begun = () if execute else unfinished(table)
        opened, completed = _with_engines(place, table, name, arguments)
        report = run_operation(opened, name, completed, execute=execute)
        return replace(report, warnings=(*begun, *report.warnings))

    return place, run


def _with_engines(
    place: Settings, table: Table, name: str, arguments: Mapping[str, Any]
) -> tuple[Table, Mapping[str, Any]]:
    """Return the table with the engines that the arguments name, and the arguments with their condition.

    Raises:
        UsageError: An argument is not known, has a wrong value, or an engine is missing.
    """
    signature = OPERATIONS[name].signature
    signature.parse(arguments, table.store.now_ms)
    if name in (rows.DELETE_ROWS.name, erasure.ERASE.name):
        is_optional = arguments.get(erasure.FINISH.name) is not None
        table, arguments = stated_condition(place, table, signature, arguments, is_optional=is_optional)
    if name in (compaction.COMPACT.name, erasure.ERASE.name):
        table = replace(table, compaction_engine=compaction_engine(place, table, arguments.get("engine")))
    return table, arguments
