"""What happened in an erasure: facts in their order, as the control location keeps them.

A fact holds no value of a row and no value of the condition. Together the facts are the proof, so no other document is
read for it.
"""

from dataclasses import dataclass
from typing import ClassVar

from lakesweep.format.codec import Count, Id, Text
from lakesweep.model.erasure.places import ErasedFiles, Place


@dataclass(frozen=True, slots=True)
class Searched:
    """Data files of all roots were searched for the rows, before anything was changed."""

    kind: ClassVar[str] = "searched"
    condition: Text
    """What the condition looks at, without its values."""
    zone: Text | None
    """The zone of times in the condition; `None`: it has none that depend on one."""
    keys: tuple[Text, ...]
    """The partition keys that it names."""
    erased: ErasedFiles


@dataclass(frozen=True, slots=True)
class Changed:
    """An operation has changed the table, or has tried to."""

    kind: ClassVar[str] = "changed"
    operation: Text
    branch: Text
    status: Text
    run_id: Id | None
    """Of its report; `None`: it changed nothing."""
    snapshots: tuple[Count, ...]
    """The ids of the snapshots that it committed."""
    rows: Count
    """Rows that these take out of the newest version."""
    files: Count
    """Data files that these take out, or objects that an expiry deleted."""
    code: Text | None = None
    """Why it did not do all."""


@dataclass(frozen=True, slots=True)
class Looked:
    """Every place where the rows could still be was looked at."""

    kind: ClassVar[str] = "looked"
    places: tuple[Place, ...]


Fact = Searched | Changed | Looked


@dataclass(frozen=True, slots=True)
class Entry:
    """One fact of an erasure."""

    at_ms: Count
    """When it was written, by the clock of the control location."""
    actor: Text
    """Who did it."""
    version: Text
    """Of Lakesweep."""
    fact: Fact


@dataclass(frozen=True, slots=True)
class Erasure:
    """One erasure, as far as it has come."""

    run_id: str
    table: str
    branch: str
    entries: tuple[Entry, ...] = ()
    last: str = ""
    """The SHA-256 of the last stored entry, which the next one names."""

    @property
    def searches(self) -> tuple[Searched, ...]:
        """The searches, in order."""
        return tuple(each.fact for each in self.entries if isinstance(each.fact, Searched))

    @property
    def changes(self) -> tuple[Changed, ...]:
        """The changes, in order."""
        return tuple(each.fact for each in self.entries if isinstance(each.fact, Changed))

    @property
    def looks(self) -> tuple[Looked, ...]:
        """The looks, in order."""
        return tuple(each.fact for each in self.entries if isinstance(each.fact, Looked))
