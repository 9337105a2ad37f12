"""The command line as a test calls it: in this process, with what it prints."""

import contextlib
import io
import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lakesweep.cli.main import main
from lakesweep.storage.local.store import LocalStore
from tests.support.table_builder import TableBuilder

KEYS = (
    "operation", "table", "branch", "plan_id", "run_id", "executed", "status", "refusal", "snapshots", "delete",
    "created", "kept", "kept_bytes", "actions", "outcome", "requests", "receipt", "steps",
)  # fmt: skip
STEP_KEYS = tuple(key for key in KEYS if key != "receipt")
"""Of a step without a run of its own."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one call said."""

    exit_code: int
    printed: str
    messages: str

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.printed)
        return document

    @property
    def sentences(self) -> list[str]:
        return self.messages.splitlines()


def call(*argv: object) -> Answer:
    """Run one command line. Most tests begin with a new control location, so its notice is left out of the messages."""
    answer = call_as_it_is(*argv)
    return replace(answer, messages=without_notice(answer.messages))


def call_as_it_is(*argv: object) -> Answer:
    """Run one command line."""
    printed, messages = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(messages):
        exit_code = main([str(word) for word in argv])
    return Answer(exit_code, printed.getvalue(), messages.getvalue())


def without_notice(messages: str) -> str:
    """Return messages without the notice that a control location is new to a table."""
    return "".join(line for line in messages.splitlines(keepends=True) if "has not seen this table before" not in line)


def write_table(folder: Path, *, commits: int = 6, options: dict[str, str] | None = None) -> TableBuilder:
    """Write a table whose every commit replaces one file by another, ten minutes apart since 1970."""
    table = TableBuilder(LocalStore(str(folder)), options=options)
    table.commit("+F1")
    for number in range(2, commits + 1):
        table.commit(f"-F{number - 1}", f"+F{number}")
    table.hint("EARLIEST", 1)
    table.hint("LATEST", commits)
    return table


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def write_partitioned(folder: Path) -> None:
    """Write a table with the partitions that the examples name, all of them old."""
    table = TableBuilder(
        LocalStore(str(folder)),
        partition_keys=("dt", "hr"),
        options={"partition.expiration-time": "7 d", "partition.timestamp-formatter": "yyyyMMdd"},
        start_ms=int(datetime(2026, 1, 30, 10, tzinfo=UTC).timestamp() * 1000),
    )
    for dt in ("20240101", "20240102", None):
        for hr in ("08", "09"):
            table.commit(f"+F{dt}-{hr}", partition=(dt, hr))
    table.tag("month-end")
