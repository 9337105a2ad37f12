"""What a table with a primary key must hold, by a dictionary."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from tests.differential.keyed_columns import text_of

Row = list[Any]
"""Values in the order of the columns."""
Key = tuple[str, str]
"""A partition, and the other values of the primary key."""
Rank = tuple[bool, int]


class Written(NamedTuple):
    """The newest row with a key; `None`: the key was deleted."""

    rank: Rank
    row: Row | None


@dataclass(frozen=True, slots=True)
class KeyedModel:
    """Rows by key; where deletion vectors are on, readers see those of the last compaction."""

    partition: Sequence[int]
    """Positions of the columns."""
    keys: Sequence[int]
    sequence: int | None
    """Of the column that `sequence.field` names."""
    is_descending: bool
    ignores_deletes: bool
    has_vectors: bool
    written: dict[Key, Written] = field(default_factory=dict)
    seen: dict[Key, Row] = field(default_factory=dict)

    def key(self, row: Row) -> Key:
        return text_of([row[at] for at in self.partition]), text_of([row[at] for at in self.keys])

    def rank(self, row: Row) -> Rank:
        """Return what counts before the order of writing: the greater wins, and null is the least."""
        value = None if self.sequence is None else row[self.sequence]
        return value is not None, (-value if self.is_descending else value) if value is not None else 0

    def put(self, rows: Sequence[Row], kinds: Sequence[int]) -> KeyedModel:
        """Write rows in their order."""
        written = dict(self.written)
        for row, kind in zip(rows, kinds, strict=True):
            deletes = kind in (1, 3)
            if deletes and self.ignores_deletes:
                continue
            key, rank = self.key(row), self.rank(row)
            if key not in written or rank >= written[key].rank:
                written[key] = Written(rank, None if deletes else row)
        return self._with(written)

    def compacted(self) -> KeyedModel:
        """All that was written is seen."""
        return replace(self, seen={key: each.row for key, each in self.written.items() if each.row is not None})

    def showing(self, seen: dict[Key, Row]) -> KeyedModel:
        """These rows are seen."""
        return replace(self, seen=seen)

    def without(self, partitions: Collection[str]) -> KeyedModel:
        """Let partitions hold nothing."""
        seen = {key: row for key, row in self.seen.items() if key[0] not in partitions}
        written = {key: each for key, each in self.written.items() if key[0] not in partitions}
        return replace(self, seen=seen)._with(written)

    def widened(self) -> KeyedModel:
        """Let each row have one column more."""
        written = {key: Written(each.rank, each.row and [*each.row, None]) for key, each in self.written.items()}
        return replace(self, written=written, seen={key: [*row, None] for key, row in self.seen.items()})

    def _with(self, written: dict[Key, Written]) -> KeyedModel:
        after = replace(self, written=written)
        return after if self.has_vectors else after.compacted()
