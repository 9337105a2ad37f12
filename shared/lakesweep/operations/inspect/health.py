"""The values that `check` finds: the problems of a table, and the command that repairs each."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from lakesweep.format.codec import to_json
from lakesweep.operations.lifetimes.ruling import ShownRuling

CHECKS = (
    "roots",
    "history",
    "files",
    "wrong_size",
    "hints",
    "ids",
    "plans",
    "lease",
    "consumers",
    "policy",
    "retention",
)
"""In the order of the output."""
SHOWN = 10
"""A finding names at most this many files."""
OTHERWISE = "where that cannot be done"
"""Begins the second half of a mend: the command for a problem that no backup can repair."""


@dataclass(frozen=True, slots=True)
class StatedSize:
    """A file that is longer or shorter than metadata states."""

    path: str
    expected: int
    found: int
    needed_by: tuple[str, ...]
    """The roots that need it, in words."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that somebody should act on."""

    check: str
    """One of `CHECKS`."""
    says: str
    """What is wrong: one sentence."""
    mend: str
    """The command that repairs it or says more; or what to restore, and the command for when no backup exists."""
    paths: tuple[str, ...] = ()
    """The documents or files concerned."""
    sizes: tuple[StatedSize, ...] = ()
    """For `wrong_size`: each of these files."""


@dataclass(frozen=True, slots=True)
class TableHealth:
    """Everything that `check` says about a table."""

    table: str
    all_roots: bool
    findings: tuple[Finding, ...]
    skipped: tuple[str, ...] = ()
    """Checks that could not be made: one sentence each."""
    policy: ShownRuling | None = None
    """What the fleet policy says about the table; `None`: none is stated, or it is invalid."""

    @property
    def status(self) -> Literal["healthy", "findings"]:
        """Return the status."""
        return "findings" if self.findings else "healthy"

    def to_json(self) -> dict[str, object]:
        """Return the document described in `docs/cli_json.md`."""
        order = {check: place for place, check in enumerate(CHECKS)}
        findings = sorted(self.findings, key=lambda found: order[found.check])
        return {
            "table": self.table,
            "status": self.status,
            "all_roots": self.all_roots,
            "checks": [
                {"check": check, "findings": sum(found.check == check for found in findings)} for check in CHECKS
            ],
            "findings": to_json(findings),
            "policy": to_json(self.policy),
            "warnings": list(self.skipped),
        }


def restore(what: str, otherwise: str | None = None) -> str:
    """Return the mend for something to restore, and the command for when that is impossible."""
    mend = f"restore {what} from the bucket's versions or a backup"
    return mend if otherwise is None else f"{mend}; {OTHERWISE}: {otherwise}"


def command(name: str, table: str, *words: str, branch: str = "main", executes: bool = True) -> str:
    """Return a command line of Lakesweep."""
    on_branch = () if branch == "main" else ("--branch", branch)
    return shlex.join(["lakesweep", name, table, *words, *on_branch, *(("--execute",) if executes else ())])


def expire_down_to(table: str, count: int, branch: str) -> str:
    """Return the command that keeps this many snapshots, regardless of the table's options."""
    return command("expire-snapshots", table, "--retain-max", str(count), "--retain-min", "1", branch=branch)


def listed(names: Iterable[object], limit: int = 3) -> str:
    """Return the first few names in words."""
    found = [str(name) for name in names]
    return ", ".join(found[:limit]) + (f" and {len(found) - limit} more" if len(found) > limit else "")
