"""The results of a plan's actions. Outcomes can be added, so work can be split anywhere."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class FailedDelete:
    """An object that was not deleted, and why."""

    path: str
    code: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The sum of some batches."""

    deleted: int = 0
    already_gone: int = 0
    failed: tuple[FailedDelete, ...] = ()
    kept_by_recheck: int = 0
    """Objects that the recheck kept: the plan would delete them, but a new root needs them."""
    deleted_bytes: int = 0
    """Bytes of deleted objects whose size is known."""
    restored: int = 0
    """Objects that an undo restored."""

    def __add__(self, other: "Outcome") -> "Outcome":
        return Outcome(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(Outcome)))
