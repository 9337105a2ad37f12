"""What `doctor` says: one line for each thing that it looked at, with the command that mends it."""

from dataclasses import dataclass
from typing import Literal

from lakesweep.format.codec import to_json

Verdict = Literal["ok", "look", "act", "unknown"]
"""`act`: something is broken, or data is in danger. `look`: it costs money, or it is a choice that somebody should know
about. `unknown`: it could not be looked at."""
SUBJECTS = (
    "version",
    "control",
    "clock",
    "lease",
    "plans",
    "passes",
    "policy",
    "bucket",
    "events",
    "functions",
    "mappings",
    "queues",
    "schedules",
)
"""In the order of the output."""


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that was looked at."""

    subject: str
    """One of `SUBJECTS`."""
    verdict: Verdict
    says: str
    """A sentence without a full stop."""
    mend: str | None = None
    """The command that mends it or shows more. Where no command can, a sentence that begins with a verb."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything that `doctor` says."""

    table: str
    stack: str | None
    lines: tuple[Line, ...]

    @property
    def status(self) -> Literal["healthy", "findings", "unknown"]:
        """Return the status: `unknown` if nothing is broken, and something could not be looked at."""
        verdicts = {line.verdict for line in self.lines}
        return "findings" if "act" in verdicts else "unknown" if "unknown" in verdicts else "healthy"

    def to_json(self) -> dict[str, object]:
        """Return the document described in `docs/cli_json.md`."""
        order = {subject: place for place, subject in enumerate(SUBJECTS)}
        lines = sorted(self.lines, key=lambda line: order[line.subject])
        return {"table": self.table, "stack": self.stack, "status": self.status, "lines": to_json(lines)}
