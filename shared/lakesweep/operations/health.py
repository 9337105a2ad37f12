"""The values that `check` finds: what is wrong with a table, and the command that mends it."""

import shlex
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal

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
"""In the order in which they are told."""
SHOWN = 10
"""So many files are named of one finding."""
OTHERWISE = "where that cannot be done"
"""Begins the second half of a mend: what to do where nothing can be restored."""


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
    """The command that mends it, or that says more; or what to restore, and the command for where nobody can."""
    paths: tuple[str, ...] = ()
    """Documents or files that it is about."""
    sizes: tuple[StatedSize, ...] = ()
    """Of `wrong_size`: each of these files."""


@dataclass(frozen=True, slots=True)
class TableHealth:
    """Everything that `check` says of a table."""

    table: str
    all_roots: bool
    findings: tuple[Finding, ...]
    skipped: tuple[str, ...] = ()
    """Checks that could not be made: a sentence each."""

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
            "findings": [_finding_json(found) for found in findings],
            "warnings": list(self.skipped),
        }


def _finding_json(found: Finding) -> dict[str, object]:
    sizes = [{**asdict(each), "needed_by": list(each.needed_by)} for each in found.sizes]
    return {**asdict(found), "paths": list(found.paths), "sizes": sizes}


def restore(what: str, otherwise: str | None = None) -> str:
    """Return that something has to be restored, and the command for where that cannot be done."""
    mend = f"restore {what} from the bucket's versions or a backup"
    return mend if otherwise is None else f"{mend}; {OTHERWISE}: {otherwise}"


def command(name: str, table: str, *words: str, branch: str = "main", executes: bool = True) -> str:
    """Return a command line of ours."""
    on_branch = () if branch == "main" else ("--branch", branch)
    return shlex.join(["lakesweep", name, table, *words, *on_branch, *(("--execute",) if executes else ())])


def expire_down_to(table: str, count: int, branch: str) -> str:
    """Return the command that keeps so many snapshots, whatever the table's options say."""
    return command("expire-snapshots", table, "--retain-max", str(count), "--retain-min", "1", branch=branch)


def listed(names: Iterable[object], limit: int = 3) -> str:
    """Return the first few names in words."""
    found = [str(name) for name in names]
    return ", ".join(found[:limit]) + (f" and {len(found) - limit} more" if len(found) > limit else "")
