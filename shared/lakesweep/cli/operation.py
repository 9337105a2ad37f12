"""Run an operation of the registry from a command line."""

from collections.abc import Mapping, Sequence

from lakesweep.cli.answer import answer_operation
from lakesweep.cli.options import Place
from lakesweep.errors import UsageError
from lakesweep.operations.registry import run_operation


def run_named(
    place: Place,
    name: str,
    arguments: Mapping[str, object],
    options: Sequence[str] | None,
    *,
    execute: bool,
) -> int:
    """Run the operation `name` and return the exit code."""
    return answer_operation(
        place,
        name,
        lambda table: run_operation(table, name, {**arguments, "options": _pairs(options)}, execute=execute),
    )


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
