"""Lakesweep as the differential tests call it: the command line, in this process, with its JSON document."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REFUSED = (2, 3)
"""Exit codes that say "not like this" before anything was touched."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one call said."""

    exit_code: int
    document: Mapping[str, Any]
    """The document that `--json` prints; empty when there was none."""
    messages: str
    """Standard error."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of `expire-snapshots`, `expire-changelogs` or `maintain`, in the units of the command line."""

    retain_max: int | None = None
    retain_min: int | None = None
    older_than_ms: int | None = None
    max_deletes: int | None = None
    operation: str = "expire-snapshots"
    delete_all: bool = False

    def arguments(self) -> dict[str, int]:
        """Return what was given, under the engine's names."""
        named = {
            "retain_max": self.retain_max,
            "retain_min": self.retain_min,
            "older_than_ms": self.older_than_ms,
            "max_deletes": self.max_deletes,
        }
        return {name: value for name, value in named.items() if value is not None}


def expire(table: Path, call: Call, *, control: Path) -> Answer:
    """Plan and execute an expiry of the main branch."""
    argv = [call.operation, str(table), "--json", "--execute", "--control", str(control)]
    if call.delete_all:
        argv.append("--delete-all")
    for name, value in call.arguments().items():
        argv += ["--" + name.removesuffix("_ms").replace("_", "-"), str(value)]
    return run([*argv, *(word for root in declared(table) for word in ("--external-root", root))])


def declared(table: Path) -> tuple[str, ...]:
    """Return the external roots that the schemas of a table declare, as the operator of these tests allows them."""
    roots: dict[str, None] = {}
    for path in (*table.glob("schema/schema-*"), *table.glob("branch/*/schema/schema-*")):
        found = json.loads(path.read_text())["options"].get("data-file.external-paths", "")
        roots.update(dict.fromkeys(each.strip() for each in found.split(",") if each.strip()))
    return tuple(roots)


def operate(table: Path, operation: str, arguments: Mapping[str, object], *, branch: str, control: Path) -> Answer:
    """Plan and execute an operation by its name and its arguments, `options` among them."""
    from lakesweep.cli.operation import run_named
    from lakesweep.cli.options import Place

    place = Place(table=str(table), branch=branch, as_json=True, control=str(control), external_root=declared(table))
    options = arguments.get("options")
    pairs = [f"{key}={value}" for key, value in options.items()] if isinstance(options, Mapping) else None
    given = {name: value for name, value in arguments.items() if name != "options"}
    return _caught(lambda: run_named(place, operation, given, pairs, execute=True))


def run(argv: Sequence[str]) -> Answer:
    """Run one command line."""
    from lakesweep.cli.main import main

    return _caught(lambda: main(list(argv)))


def _caught(call: Callable[[], int]) -> Answer:
    """Catch the words of an answer, and only those; an exception is the test's to report."""
    printed, messages = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(messages):
        try:
            code = call()
        except SystemExit as leave:
            code = leave.code if isinstance(leave.code, int) else int(leave.code is not None)
    text = printed.getvalue().strip()
    return Answer(code or 0, json.loads(text) if text else {}, messages.getvalue())
