"""Which roots still show rows that a commit takes out of the newest snapshot, and until when."""

from dataclasses import dataclass

from lakesweep.model.roots import RootKind


@dataclass(frozen=True, slots=True)
class ShownBy:
    """Snapshots or changelogs of one branch, or one tag."""

    roots: str
    """In words, such as `snapshots 1 to 3` or `tag jan of branch b`."""
    branch: str
    kind: RootKind
    count: int
    is_certain: bool
    """They show some of the rows; otherwise they may show some."""
    until: str | None
    """How long the last of them is kept: a clause that begins with `until` or `for`. `None`: not known."""
    until_ms: int | None
    """The time in the clause, epoch milliseconds: after it, age alone lets the root expire."""

    def to_json(self) -> dict[str, object]:
        """Return the roots as they appear under `commits`."""
        return {
            "roots": self.roots,
            "branch": self.branch,
            "kind": self.kind,
            "count": self.count,
            "is_certain": self.is_certain,
            "until": self.until,
            "until_ms": self.until_ms,
        }
