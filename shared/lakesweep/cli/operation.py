"""Run an operation of the registry from a command line."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakesweep.cli.answer import answer_database, answer_operation
from lakesweep.cli.options import Place
from lakesweep.errors import MaintenanceError, UsageError
from lakesweep.model.report import RunReport
from lakesweep.operations.context import Table
from lakesweep.operations.registry import run_operation

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
"""Arguments that the command line calls otherwise; the others are spelled alike."""
_PLAIN_WORDS = frozenset({"tag", "branch", "snapshot", "timestamp", "version", "watermark"})
"""Arguments whose names are words of every other sentence, too. They mean the argument before a colon."""


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
        name: In the registry.
        arguments: By name.
        options: Table options as typed.
        execute: Otherwise nothing in the table changes.
        may_be_database: The place may also be a folder of tables.
        of_one_table: Those arguments of the call that say something of one table, and nothing of a database.
        always_typed: Those arguments that can come from nowhere else, so that a sentence means them also when they are
            missing.
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
    """Return a sentence that names arguments as their caller typed them: `--retain-min`, not `retain_min`.

    Args:
        message: As an operation says it.
        given: The arguments of the call; what nobody typed came from elsewhere, such as a table option. A word inside
            a path or another word is none of them.
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
