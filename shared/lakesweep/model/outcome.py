"""What became of a plan's actions. Outcomes add up, so work can be split anywhere."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FailedDelete:
    """An object that is still there, and why."""

    path: str
    code: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The sum of some batches."""

    deleted: int = 0
    already_gone: int = 0
    failed: tuple[FailedDelete, ...] = ()
    kept_by_look: int = 0
    """Objects that the plan would delete and that a root which appeared since needs."""
    deleted_bytes: int = 0
    """Of deleted objects whose size is known."""
    restored: int = 0
    """Objects that an undo brought back."""

    def __add__(self, other: "Outcome") -> "Outcome":
        return Outcome(
            deleted=self.deleted + other.deleted,
            already_gone=self.already_gone + other.already_gone,
            failed=self.failed + other.failed,
            kept_by_look=self.kept_by_look + other.kept_by_look,
            deleted_bytes=self.deleted_bytes + other.deleted_bytes,
            restored=self.restored + other.restored,
        )
