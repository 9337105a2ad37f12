"""Run an operation of the registry from a command line."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lakesweep.api.outcome import unfinished
from lakesweep.cli.answer import answer_database, answer_operation
from lakesweep.cli.next_command import next_command
from lakesweep.cli.options import Place
from lakesweep.errors import MaintenanceError, UsageError
from lakesweep.model.report import RunReport
from lakesweep.operations.registry import run_operation
from lakesweep.runs.parameters.parameter import Parameter
from lakesweep.runs.parameters.signatures import SIGNATURES
from lakesweep.runs.session import Table

Complete = Callable[[Table, Mapping[str, object]], tuple[Table, Mapping[str, object]]]


def run_named(
    place: Place,
    name: str,
    arguments: Mapping[str, object],
    options: Sequence[str] | None,
    *,
    execute: bool,
    may_be_database: bool = False,
    of_one_table: Sequence[str] = (),
    complete: Complete = lambda table, arguments: (table, arguments),
    following: Callable[[Place, RunReport], str] = next_command,
    finished: Callable[[Table, RunReport | MaintenanceError], None] = lambda table, result: None,
) -> int:
    """Run the operation `name` and return the exit code.

    Args:
        place: A table.
        name: Name of the operation in the registry.
        arguments: Arguments by name.
        options: Table options as typed.
        execute: Whether to execute the plan. Otherwise nothing in the table changes.
        may_be_database: Whether the place may also be a folder of tables.
        of_one_table: Arguments of this call that make sense only for one table, not for a database.
        complete: Completes the opened table and the arguments; may raise `UsageError`.
        following: Returns the command line that executes what was planned; see `next_command`.
        finished: Called with the report, or with the error.
    """
    given = [each for each in SIGNATURES[name].parameters if each.is_own or arguments.get(each.name) is not None]

    def run(table: Table) -> RunReport:
        begun = () if execute else unfinished(table)
        try:
            table, completed = complete(table, arguments)
            report = run_operation(table, name, {**completed, "options": _pairs(options)}, execute=execute)
        except MaintenanceError as error:
            finished(table, error)
            error.args = (as_typed(str(error), given),)
            raise
        finished(table, report)
        report = replace(report, warnings=(*begun, *(as_typed(each, given) for each in report.warnings)))
        if report.refusal is None:
            return report
        return replace(report, refusal=replace(report.refusal, message=as_typed(report.refusal.message, given)))

    if not may_be_database:
        return answer_operation(place, name, run, following=following)
    return answer_database(place, name, run, of_one_table)


def as_typed(message: str, given: Iterable[Parameter[Any]]) -> str:
    """Return a message that names arguments as the caller typed them: `--retain-min`, not `retain_min`.

    Args:
        message: The message of an operation.
        given: The arguments of the call. Other arguments came from elsewhere, such as a table option, and keep their
            names. A name inside a path or another word is not replaced.
    """
    for parameter in given:
        if parameter.typed is not None:
            after = r"(?=: )" if parameter.is_plain else r"(?![\w./-])"
            typed = parameter.typed.removesuffix("...")
            message = re.sub(rf"(?<![\w./-]){parameter.name}{after}", typed, message)
    return message


def _pairs(options: Sequence[str] | None) -> dict[str, str] | None:
    if not options:
        return None
    pairs = {}
    for text in options:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"--option: expected KEY=VALUE, found {text!r}", code="bad_argument")
        pairs[key.strip()] = value
    return pairs
