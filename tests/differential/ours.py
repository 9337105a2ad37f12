"""Lakesweep as the differential tests call it: the command line, in this process, with its JSON document."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Mapping, Sequence
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
    operation: str = "expire_snapshots"
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
    argv = [call.operation.replace("_", "-"), str(table), "--json", "--execute", "--control", str(control)]
    if call.delete_all:
        argv.append("--delete-all")
    for name, value in call.arguments().items():
        argv += ["--" + name.removesuffix("_ms").replace("_", "-"), str(value)]
    return run(argv)


def run(argv: Sequence[str]) -> Answer:
    """Run one command line. Only the words of an answer are caught; an exception is the test's to report."""
    from lakesweep.cli.main import main

    printed, messages = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(messages):
        try:
            code = main(list(argv))
        except SystemExit as leave:
            code = leave.code if isinstance(leave.code, int) else int(leave.code is not None)
    text = printed.getvalue().strip()
    return Answer(code or 0, json.loads(text) if text else {}, messages.getvalue())
