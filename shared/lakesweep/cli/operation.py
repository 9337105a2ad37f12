"""Run an operation of the registry from a command line."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakesweep.cli.answer import answer_database, answer_operation
from lakesweep.cli.options import Place
from lakesweep.errors import MaintenanceError, UsageError
from lakesweep.model.report import RunReport
from lakesweep.operations.registry import run_operation
from lakesweep.runs.session import Table

_TYPED = {
    "including_consumers": "--including",
    "excluding_consumers": "--excluding",
    "next_snapshot_id": "--next-snapshot",
    "consumer_id": "ID",
    "run_id": "RUN_ID",
    "tag": "NAME",
    "target_tag": "NEW",
    "branch": "NAME",
}
"""Arguments with another name on the command line. All others have the same name, with dashes."""
_PLAIN_WORDS = frozenset({"tag", "branch", "snapshot", "timestamp", "version", "watermark"})
"""Arguments whose names are common words. In a message they mean the argument only before a colon."""


def run_named(
    place: Place,
    name: str,
    arguments: Mapping[str, object],
    options: Sequence[str] | None,
    *,
    execute: bool,
    may_be_database: bool = False,
    of_one_table: Sequence[str] = (),
    always_typed: Sequence[str] = (),
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
        always_typed: Arguments that only the command line can give. A message that names one of them means the option,
            even if it is missing.
    """
    given = [argument for argument, value in arguments.items() if value is not None or argument in always_typed]

    def run(table: Table) -> RunReport:
        try:
            report = run_operation(table, name, {**arguments, "options": _pairs(options)}, execute=execute)
        except MaintenanceError as error:
            error.args = (as_typed(str(error), given),)
            raise
        if report.refusal is None:
            return report
        return replace(report, refusal=replace(report.refusal, message=as_typed(report.refusal.message, given)))

    if not may_be_database:
        return answer_operation(place, name, run)
    return answer_database(place, name, run, of_one_table)


def as_typed(message: str, given: Sequence[str]) -> str:
    """Return a message that names arguments as the caller typed them: `--retain-min`, not `retain_min`.

    Args:
        message: The message of an operation.
        given: The arguments of the call. Other arguments came from elsewhere, such as a table option, and keep their
            names. A name inside a path or another word is not replaced.
    """
    for argument in given:
        typed = _TYPED.get(argument, f"--{argument.replace('_', '-')}")
        after = r"(?=: )" if argument in _PLAIN_WORDS else r"(?![\w./-])"
        message = re.sub(rf"(?<![\w./-]){argument}{after}", typed, message)
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
