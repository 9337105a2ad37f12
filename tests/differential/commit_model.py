"""What a table must hold: rows by partition, and what they were at each snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tests.differential.commit_tables import Kind, Partition

Row = tuple[str, str | None]
"""Its id and its text."""
Contents = Mapping[Partition, tuple[Row, ...]]


class Model:
    """The rows of one table. Nothing in it is changed in place, so that a snapshot's rows can be remembered."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self.contents: Contents = {}
        self.at: dict[int, Contents] = {}
        """Snapshot -> what it held."""
        self.tagged: dict[str, Contents] = {}
        """Tag -> what it holds."""

    def put(self, rows: Mapping[Partition, Sequence[Row]]) -> None:
        """Add rows; with a primary key they replace those of the same id."""
        for partition, added in rows.items():
            before = self.contents.get(partition, ())
            if self._kind.primary_key:
                self._set(partition, tuple({**dict(before), **dict(added)}.items()))
            else:
                self._set(partition, (*before, *added))

    def overwrite(self, rows: Mapping[Partition, Sequence[Row]]) -> None:
        """Let partitions hold these rows and no others."""
        self.drop(rows.keys().__contains__)
        self.put(rows)

    def delete(self, rows: Mapping[Partition, Iterable[str]]) -> None:
        """Take rows out by their ids."""
        for partition, ids in rows.items():
            gone = set(ids)
            self._set(partition, tuple(row for row in self.contents.get(partition, ()) if row[0] not in gone))

    def drop(self, is_dropped: Callable[[Partition], bool]) -> None:
        """Take partitions out."""
        self.contents = {partition: rows for partition, rows in self.contents.items() if not is_dropped(partition)}

    def learn(self, read: Contents) -> None:
        """Take what was read, where only the engine knows which rows are gone."""
        self.contents = read

    def committed(self, snapshot: int | None) -> None:
        """Remember the rows of the newest snapshot."""
        if snapshot is not None:
            self.at[snapshot] = self.contents

    def rolled_back(self, snapshot: int) -> None:
        """Hold what an older snapshot held."""
        self.contents = self.at[snapshot]

    def _set(self, partition: Partition, rows: tuple[Row, ...]) -> None:
        self.contents = {**self.contents, partition: rows}


def contents_of(kind: Kind, rows: Iterable[Sequence[str | None]]) -> Contents:
    """Group rows that a reader gave by their partitions; columns behind the model's do not count."""
    width = len(kind.keys)
    found: dict[Partition, list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[:width]), []).append((str(row[width]), row[width + 1]))
    return {partition: tuple(rows) for partition, rows in found.items()}


def differences(expected: Contents, found: Contents) -> list[str]:
    """Say how two contents differ, without regard to the order of rows."""
    problems = []
    for partition in sorted(expected.keys() | found.keys(), key=repr):
        one, other = sorted(expected.get(partition, ()), key=repr), sorted(found.get(partition, ()), key=repr)
        if one != other:
            problems.append(
                f"partition {partition}: expected {len(one)} rows {one[:4]}, found {len(other)} {other[:4]}"
            )
    return problems
