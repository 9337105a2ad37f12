"""One table whose rows Lakesweep deletes by conditions, between what the engine, pypaimon and our maintenance do.

The model keeps each row under its number, and asks the plain evaluator of conditions which of them go. After each step
the engine, pypaimon (where it could before) and Lakesweep read what the model holds.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from lakesweep.control.area import ControlArea
from lakesweep.errors import UsageError
from lakesweep.model.report import RunReport
from lakesweep.model.roots import TableRef
from lakesweep.operations.rows.arguments import DeleteRowsArguments
from lakesweep.operations.rows.delete_rows import delete_rows
from lakesweep.operations.rows.engine import RowsEngine
from lakesweep.runs.committing.catalog import Catalog
from lakesweep.runs.session import Table
from lakesweep.storage.local.store import LocalStore
from tests.differential import ours
from tests.differential.deleted_columns import ROW_ID, Column, draw_column, draw_columns
from tests.differential.engine import RETAIN_EVERYTHING, Engine
from tests.support.conditions import NANOS, TYPES, Answer, Row, Tried, every, some, some_condition
from tests.support.faulty_store import FaultyStore, Switch
from tests.support.rows_read import arrow_rows, planned
from tests.support.typed_rows import shown_rows

Positions = Mapping[str, frozenset[int]]
"""Data file -> positions of deleted rows."""
CATALOG = Catalog("filesystem", has_lock=True)
DAYS_AGO_S = 3 * 86_400


@dataclass(frozen=True, slots=True)
class Deletion:
    """A run of ours that an undo may take back."""

    run_id: str
    snapshot: int
    rows: Mapping[int, Mapping[int, Any]]
    """What it deleted."""
    of_left: int
    """How many of these rows were in files that have left the table."""


@dataclass(slots=True)
class DeletedRows:
    """A table of the engine without buckets and with deletion vectors, and what it must hold."""

    engine: Engine
    name: str
    work: Path
    columns: list[Column]
    options: Mapping[str, str] = field(default_factory=dict)
    rows: dict[int, dict[int, Any]] = field(default_factory=dict)
    """Number of the row -> number of the column -> value."""
    at: dict[int, frozenset[int]] = field(default_factory=dict)
    """Snapshot -> the numbers of its rows."""
    done: list[str] = field(default_factory=list)
    """A line for each step."""
    facts: Counter[str] = field(default_factory=Counter)
    last: Deletion | None = None
    """Our last run that deleted rows, unless it was undone."""
    _next: int = 0
    _positions: Positions = field(default_factory=dict)
    _python_reads: bool = False

    # --- the table ---------------------------------------------------------------------------------------------------

    @property
    def table(self) -> str:
        return f"deleted.{self.name}"

    @property
    def location(self) -> Path:
        return self.engine.location(self.table)

    @property
    def store(self) -> LocalStore:
        return LocalStore(str(self.location))

    @property
    def control(self) -> Path:
        return self.work / "control" / self.name

    @property
    def keys(self) -> list[Column]:
        return [column for column in self.columns if column.is_key]

    def create(self) -> None:
        options = {"bucket": "-1", "deletion-vectors.enabled": "true", **RETAIN_EVERYTHING, **self.options}
        self.engine(
            "typed_create", table=self.table, columns=[[each.name, each.type] for each in self.columns],
            partition_keys=[each.name for each in self.keys], options=options,
        )  # fmt: skip

    def do(self, command: str, **words: Any) -> Any:
        self.done.append(f"the engine: {command} {words if command != 'typed_put' else ''}")
        return self.engine(command, table=self.table, **words)

    def newest(self) -> int:
        ids = (int(path.name.removeprefix("snapshot-")) for path in self.location.glob("snapshot/snapshot-*"))
        return max(ids, default=0)

    def snapshot(self) -> Mapping[str, Any]:
        """Return the document of the newest snapshot."""
        found: Mapping[str, Any] = json.loads((self.location / "snapshot" / f"snapshot-{self.newest()}").read_bytes())
        return found

    def live(self) -> Mapping[str, int]:
        """Return data file -> rows, deleted ones too."""
        return {file[3]: file[4] for file in self.engine("live", table=self.table)["files"]}

    def positions(self) -> Positions:
        """Return the deleted positions, about which both readers of the engine agree."""
        found: dict[str, frozenset[int]] = {}
        for _, _, read in self.engine("dv_dump", table=self.table):
            assert read["sequential"] == read["seeking"]
            assert not found.keys() & read["seeking"].keys(), "two vectors of one file"
            found |= {name: frozenset(positions) for name, positions in read["seeking"].items()}
        return found

    # --- writers -----------------------------------------------------------------------------------------------------

    def some_rows(self, random: Random, most: int = 12) -> dict[int, dict[int, Any]]:
        """Draw new rows, of few partitions."""
        few = [{key.number: key.value(random) for key in self.keys} for _ in range(random.randint(1, 3))]
        drawn = {}
        for _ in range(random.randint(1, most)):
            values = {each.number: self._value(each, random) for each in self.columns if each.name != ROW_ID}
            drawn[self._next] = values | random.choice(few) | {0: self._next}
            self._next += 1
        return drawn

    def _value(self, column: Column, random: Random) -> Any:
        """Draw a value that the engine reads as it was written, from a file of the table's format."""
        value, is_orc = column.value(random), self.options.get("file.format") == "orc"
        if column.meant == "c" and value is not None and (is_orc or random.random() < 0.5):
            return value.rstrip(" ")  # ORC fills a CHAR up, and takes the spaces away again
        if is_orc and column.meant in ("ts", "ltz") and value is not None:
            return abs(value)  # right before 1970 ORC takes a second for another
        if is_orc and column.meant in ("f", "d") and value == 0:
            return 0.0  # of equal values in a row ORC keeps one, and -0.0 equals 0.0
        return value

    def stated(self, rows: Iterable[Mapping[int, Any]]) -> list[list[Any]]:
        """Return rows as the engine's driver takes and gives them."""
        return [[each.stated(row.get(each.number)) for each in self.columns] for row in rows]

    def put(self, random: Random) -> None:
        """Let the engine append."""
        added = self.some_rows(random)
        self.do("typed_put", rows=self.stated(added.values()))
        self.rows |= added

    def put_by_python(self, random: Random) -> None:
        """Let pypaimon append; its Parquet files with nanoseconds the engine cannot read."""
        from pypaimon import CatalogFactory

        if any(each.meant in NANOS for each in self.columns):
            self.put(random)
            return
        added = self.some_rows(random)
        table = CatalogFactory.create({"warehouse": str(self.engine.warehouse)}).get_table(self.table)
        builder = table.new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        arrays = [each.arrow([row[each.number] for row in added.values()]) for each in self.columns]
        write.write_arrow(pa.table(dict(zip((each.name for each in self.columns), arrays, strict=True))))
        commit.commit(write.prepare_commit())
        write.close()
        commit.close()
        self.done.append(f"pypaimon: append {len(added)} rows")
        self.facts["rows of pypaimon"] += len(added)
        self.rows |= added

    def overwrite(self, random: Random) -> None:
        """Let the engine replace the partitions of new rows."""
        added = self.some_rows(random, most=4)
        self.do("typed_put", rows=self.stated(added.values()), overwrite=True)
        replaced = {self.partition(row) for row in added.values()}
        self.rows = {number: row for number, row in self.rows.items() if self.partition(row) not in replaced} | added

    def drop_partition(self, random: Random) -> None:
        """Let the engine drop a partition, or empty a table that has none."""
        there = self.engine("live", table=self.table)["partitions"]
        if not self.keys:
            self.do("truncate")
            self.rows = {}
        elif there:
            names = ["__DEFAULT_PARTITION__" if text is None else text for text in random.choice(there)[0]]
            before = self.rows
            self.do("drop_partitions", specs=[dict(zip((key.name for key in self.keys), names, strict=True))])
            self.learn()
            gone = {self.partition(row) for number, row in before.items() if number not in self.rows}
            assert len(gone) <= 1 and gone.isdisjoint(map(self.partition, self.rows.values())), self

    def partition(self, row: Mapping[int, Any]) -> str:
        return json.dumps([key.stated(row[key.number]) for key in self.keys])

    def delete_by_engine(self, random: Random) -> None:
        """Let the engine mark some rows of some files."""
        live = sorted(self.live())
        only = random.sample(live, random.randint(1, len(live))) if live else []
        if not only:
            return
        before = self.positions()
        self.do("dv_delete", n=random.randint(1, 3), only=only)
        marked = sum(len(found - before.get(name, frozenset())) for name, found in self.positions().items())
        rows = len(self.rows)
        self.learn()
        assert rows - len(self.rows) == marked, self
        self.facts["rows that the engine deleted"] += marked

    def learn(self) -> None:
        """Keep the rows that the engine still reads; it invents none."""
        left = {self._number(row) for row in self.read_by_engine()}
        assert left <= self.rows.keys(), self
        self.rows = {number: row for number, row in self.rows.items() if number in left}

    def alter(self, random: Random) -> None:
        """Let the engine change the schema."""
        free = [each for each in self.columns if not each.is_key and each.name != ROW_ID]
        absent = sorted({*TYPES} - {each.name for each in self.columns} - {"k", *self._unwritable})
        column = random.choice(free)
        at = self.columns.index(column)
        kind = random.choice(("add", "add", "drop", "rename", "rename", "widen", "widen", "widen", "first"))
        if kind == "add" and absent:
            added = draw_column(random, 1000 + len(self.done), random.choice(absent))
            self._alter(["add", [added.name], added.type])
            self.columns.append(added)
        elif kind == "drop" and len(free) > 2:
            self._alter(["drop", [column.name], None])
            self.columns.pop(at)
        elif kind == "rename":
            back = column.meant if column.meant in absent else f"x{len(self.done)}"
            self._alter(["rename", [column.name], back])
            self.columns[at] = Column(column.number, back, column.meant, column.type)
        elif kind == "widen" and any(each.is_narrow for each in free):
            column = random.choice([each for each in free if each.is_narrow])
            self._alter(["type", [column.name], TYPES[column.meant]])
            wide = Column(column.number, column.name, column.meant, TYPES[column.meant])
            self.columns[self.columns.index(column)] = wide
        elif kind == "first" and at:
            self._alter(["first", [column.name], None])
            self.columns.insert(0, self.columns.pop(at))

    def other_width(self, _: Random) -> None:
        """Let new vectors have another width; those that are there keep theirs."""
        wide = "false" if self.options["deletion-vectors.bitmap64"] == "true" else "true"
        self.do("alter", set={"deletion-vectors.bitmap64": wide})
        self.options = {**self.options, "deletion-vectors.bitmap64": wide}
        self.facts["other widths"] += 1

    @property
    def _unwritable(self) -> tuple[str, ...]:
        """Columns that the engine's Avro cannot write."""
        return NANOS if self.options.get("file.format") == "avro" else ()

    def _alter(self, change: list[Any]) -> None:
        self.do("typed_alter", changes=[change])
        self.facts[f"{change[0]} of a column"] += 1

    def compact(self, _: Random) -> None:
        """Let the engine rewrite files."""
        self.do("compact")

    # --- our maintenance ---------------------------------------------------------------------------------------------

    def run(self, *argv: str) -> None:
        """Run a command of ours."""
        self.done.append(f"ours: {' '.join(argv)}")
        answer = ours.run(
            [argv[0], str(self.location), *argv[1:], "--execute", "--json", "--control", str(self.control)]
        )
        assert answer.exit_code == 0, f"{answer}\n{self}"
        self.facts[argv[0]] += 1

    def expire(self, random: Random) -> None:
        self.run(
            "expire-snapshots", "--retain-max", str(random.randint(1, 4)), "--retain-min", "1", "--older-than", "0 s"
        )

    def scan_for_orphans(self, random: Random) -> None:
        """Scan; mostly after a while in which nobody wrote, so that no file is spared for its age."""
        if random.random() < 0.7:
            past = time.time() - DAYS_AGO_S
            for path in (path for path in self.location.rglob("*") if path.is_file()):
                os.utime(path, (past, past))
        self.run("remove-orphan-files", "--no-writers", "a test")

    def clean(self, _: Random) -> None:
        self.run("clean-deletion-vectors", "--catalog-type", "filesystem")

    def compact_manifests(self, _: Random) -> None:
        self.run("compact-manifest", "--catalog-type", "filesystem")

    # --- our deletes -------------------------------------------------------------------------------------------------

    def some_condition(self, random: Random) -> Tried:
        """Draw a condition on columns that the table has now; mostly it leaves rows over."""
        named = [each.name for each in self.columns if each.is_named]
        keys = [each.name for each in self.keys]
        if not named:
            return self._some_numbers(random)
        tried = some_condition(
            random, random.choice((0, 0, 1, 2, 3)), keys if keys and random.random() < 0.2 else named
        )
        matched = sum(tried.means(row) is True for row in self.seen().values())
        if matched * 2 > len(self.rows) and random.random() < 0.8:
            other = self._some_numbers(random)
            return Tried(f"({tried.text}) AND {other.text}", lambda row: every([tried.means(row), other.means(row)]))
        if not matched and random.random() < 0.7:
            other = self._some_numbers(random)
            return Tried(f"{other.text} OR ({tried.text})", lambda row: some([other.means(row), tried.means(row)]))
        return tried

    def _some_numbers(self, random: Random) -> Tried:
        """Return a condition on the numbers of rows, few of them."""
        first = random.randrange(self._next + 1)
        last = first + random.choice((0, 2, 5, 20))
        return Tried(f"{ROW_ID} BETWEEN {first} AND {last}", lambda row: first <= row[ROW_ID] <= last)

    def seen(self) -> Mapping[int, Row]:
        """Return the rows as conditions see them: values by name."""
        names = [(each.number, each.name) for each in self.columns]
        return {rid: {name: row.get(number) for number, name in names} for rid, row in self.rows.items()}

    def chosen(self, tried: Tried) -> frozenset[int]:
        """Return the numbers of the rows for which a condition is true."""
        return frozenset(rid for rid, row in self.seen().items() if _true(tried.means(row)))

    def opened(self, switch: Switch | None = None) -> Table:
        """Return the table as our runs open it; its requests go through a switch."""
        store: Any = self.store if switch is None else FaultyStore(self.store, switch, "table")
        area = ControlArea(LocalStore(str(self.control)), str(self.location))
        return Table(TableRef(str(self.location)), store, area, LocalStore)

    def call(
        self,
        where: str,
        *,
        zone: str | None = "UTC",
        execute: bool = True,
        engine: RowsEngine | None = None,
        switch: Switch | None = None,
    ) -> RunReport:
        """Call our `delete_rows`."""
        arguments = DeleteRowsArguments(where=where, zone=zone, catalog=CATALOG, confirm=True)
        return delete_rows(self.opened(switch), arguments, execute=execute, engine=engine)

    def delete(self, random: Random, tried: Tried | None = None, engine: RowsEngine | None = None) -> None:
        """Delete the rows of a condition, mostly after a look at the plan, and see that the commit says what it did."""
        tried = tried or self.some_condition(random)
        gone, before = self.chosen(tried), self.snapshot() if self.newest() else {}
        files, positions = self.live(), self.positions()
        self.done.append(f"ours: delete-rows {tried.text!r}, {len(gone)} of {len(self.rows)} rows")
        try:
            if random.random() < 0.4:
                found = self.files()
                self._reported(self.call(tried.text, execute=False), gone, "planned")
                assert self.files() == found, f"a plan changed files\n{self}"
            report = self.call(tried.text, engine=engine)
        except UsageError as error:
            self._not_understood(tried, error)
            return
        self._reported(report, gone, "done")
        if gone:
            self.last = self._deletion(report, gone, files, positions)
        self.rows = {number: row for number, row in self.rows.items() if number not in gone}
        self.facts["deletes"] += bool(gone)
        self.facts["rows deleted"] += len(gone)
        if gone:
            self._committed(before, files)
        else:
            assert self.newest() == before.get("id", 0), f"a commit without rows\n{self}"

    def _deletion(
        self, report: RunReport, gone: frozenset[int], files: Mapping[str, int], positions: Positions
    ) -> Deletion:
        left = files.keys() - self.live().keys()
        of_left = sum(files[name] - len(positions.get(name, ())) for name in left)
        assert report.run_id is not None
        return Deletion(report.run_id, self.newest(), {number: self.rows[number] for number in gone}, of_left)

    def undo(self, _: Random) -> None:
        """Take our last delete back: right after it, while the snapshot before it is there, all its rows come back.

        Only those of files that have left the table do not.
        """
        deletion, self.last = self.last, None
        if deletion is None:
            return
        self.done.append(f"ours: undo {deletion.run_id}")
        argv = ["undo", str(self.location), deletion.run_id, "--execute", "--json", "--control", str(self.control)]
        answer = ours.run(argv)
        assert answer.exit_code in (0, 3, 4), f"{answer}\n{self}"
        back = {self._number(row) for row in self.read_by_engine()} - self.rows.keys()
        assert back <= deletion.rows.keys(), f"{back} were not deleted by the run\n{self}"
        assert self.newest() >= deletion.snapshot
        is_there = (self.location / "snapshot" / f"snapshot-{deletion.snapshot - 1}").exists()
        if deletion.snapshot == self.newest() - bool(back) and is_there:
            assert len(back) == len(deletion.rows) - deletion.of_left, f"{answer}\n{self}"
        self.rows |= {number: dict(deletion.rows[number]) for number in back}
        self.facts["rows that came back"] += len(back)
        self._positions = {}

    def _not_understood(self, tried: Tried, error: UsageError) -> None:
        """A narrow column may stand beside values that its wide one takes."""
        assert error.code == "bad_where" and any(each.is_narrow for each in self.columns), f"{error}\n{self}"
        self.facts["not understood beside narrow columns"] += 1

    def _reported(self, report: RunReport, gone: frozenset[int], status: str) -> None:
        assert report.refusal is None, f"{report.refusal}\n{self}"
        commits: Any = report.to_json()["commits"]
        assert commits["rows"] == len(gone), f"{commits}\n{self}"
        wanted = status if gone else "nothing_to_do"
        assert report.status == wanted, f"{report.status}, expected {wanted}\n{self}"

    def _committed(self, before: Mapping[str, Any], files: Mapping[str, int]) -> None:
        """One OVERWRITE that adds no data file, and counts what the files that left had."""
        after, live = self.snapshot(), self.live()
        assert (after["id"], after["commitKind"]) == (before["id"] + 1, "OVERWRITE"), str(self)
        assert live.keys() <= files.keys(), f"a data file was added\n{self}"
        left = files.keys() - live.keys()
        assert after["deltaRecordCount"] == -sum(files[name] for name in left), str(self)
        assert after["totalRecordCount"] == before["totalRecordCount"] + after["deltaRecordCount"], str(self)
        self.facts["files that left"] += len(left)
        self.facts["files with vectors"] += len(live.keys() & self.positions().keys())

    def files(self) -> frozenset[str]:
        return frozenset(str(path) for path in self.location.rglob("*") if path.is_file())

    # --- judges ------------------------------------------------------------------------------------------------------

    def read_by_engine(self, **options: str) -> list[list[Any]]:
        found = self.engine("typed_rows", table=self.table, options=options)
        if not options:
            assert [name for name, _ in found["columns"]] == [each.name for each in self.columns], str(self)
        at = [name for name, _ in found["columns"]].index(ROW_ID)
        return [[row[at]] for row in found["rows"]] if options else list(found["rows"])

    def read_by_python(self) -> list[list[Any]]:
        from pypaimon import CatalogFactory

        table = CatalogFactory.create({"warehouse": str(self.engine.warehouse)}).get_table(self.table)
        builder = table.new_read_builder()
        splits = builder.new_scan().plan().splits()
        if not splits:
            return []
        return shown_rows(builder.new_read().to_arrow(splits), [each.field for each in self.columns])

    def read_by_ours(self) -> list[list[Any]]:
        plan = planned(self.store)
        return shown_rows(arrow_rows(self.store, plan), [each.field for each in self.columns])

    def check(self, *, after_ours: bool = False) -> None:
        """Everybody reads the model's rows, and no deleted position is live again."""
        newest = self.newest()
        if not newest:
            return
        self.compare("the engine", self.read_by_engine())
        self.compare("Lakesweep", self.read_by_ours())
        self._check_python(after_ours=after_ours)
        self._check_positions()
        if after_ours and self.facts["deletes"] % 3 == 0 and not self.facts["rows of pypaimon"]:
            # Of null partitions that pypaimon wrote, the engine's filters lose rows by what its manifests say.
            judged = self.engine("judge", table=self.table)
            assert not judged["wrong"], f"{judged['wrong']}\n{self}"
            self.facts["filters of the engine"] += judged["filters"]
        self.at[newest] = frozenset(self.rows)

    def _check_python(self, *, after_ours: bool) -> None:
        """Rows that pypaimon could read before our commit it reads after it; vectors of 64 bits it cannot read."""
        is_wide = self.options.get("deletion-vectors.bitmap64") == "true" or self.facts["other widths"]
        try:
            self.compare("pypaimon", self.read_by_python())
        except Exception:
            if after_ours and self._python_reads and not is_wide:
                raise
            self._python_reads = False
        else:
            self._python_reads = True
            self.facts["read by pypaimon"] += 1

    def _check_positions(self) -> None:
        positions, live = self.positions(), self.live()
        for name, former in self._positions.items():
            now = positions.get(name, frozenset())
            assert name not in live or former <= now, f"{name}: {sorted(former - now)} are live again\n{self}"
        assert positions.keys() <= live.keys(), f"vectors of files that are gone\n{self}"
        assert all(max(found) < live[name] for name, found in positions.items()), str(self)
        self._positions = positions

    def check_older(self, random: Random) -> None:
        """Older versions still show what they did."""
        there = [number for number in self.at if (self.location / "snapshot" / f"snapshot-{number}").exists()]
        for number in random.sample(there, min(2, len(there))):
            found = {int(row[0]) for row in self.read_by_engine(**{"scan.snapshot-id": str(number)})}
            assert found == self.at[number], f"snapshot {number}\n{self}"

    def compare(self, who: str, found: list[list[Any]]) -> None:
        expected = {row[self._at]: row for row in self.stated(self.rows.values())}
        read = {row[self._at]: row for row in found}
        assert len(read) == len(found), f"{who} reads a row twice\n{self}"
        wrong = [(expected.get(number), read.get(number)) for number in sorted(expected.keys() | read.keys())]
        differ = [pair for pair in wrong if pair[0] != pair[1]]
        assert not differ, f"{who}: {len(differ)} rows (expected, found): {differ[:3]}\n{self}"

    @property
    def _at(self) -> int:
        return [each.name for each in self.columns].index(ROW_ID)

    def _number(self, row: Sequence[Any]) -> int:
        return int(row[self._at])

    def __str__(self) -> str:
        lines = [f"{self.table} {self.options}", *(f"{number:3} {step}" for number, step in enumerate(self.done))]
        return "\n".join([*lines, *(f"{each.name} {each.type}" for each in self.columns)])


def _true(answer: Answer) -> bool:
    return answer is True


def draw_table(engine: Engine, work: Path, name: str, random: Random) -> DeletedRows:
    """Draw a table and create it."""
    format_ = random.choice(("parquet", "parquet", "parquet", "orc", "avro"))
    names = {each for each in TYPES if each not in NANOS or format_ == "parquet"}
    options = {
        "file.format": format_,
        "deletion-vectors.bitmap64": random.choice(("false", "false", "true")),
        "deletion-vector.index-file.target-size": random.choice(("2 mb", "60 b", "1 b")),
        "index-file-in-data-file-dir": random.choice(("false", "true")),
        "partition.legacy-name": random.choice(("true", "false")),
        "metadata.stats-mode": random.choice(("truncate(16)", "truncate(16)", "truncate(2)", "full", "counts", "none")),
        "metadata.stats-dense-store": random.choice(("true", "false")),
        "manifest.merge-min-count": random.choice(("3", "30")),
        "source.split.target-size": random.choice(("1 kb", "128 mb")),
        "compaction.min.file-num": "2",
        "write-only": "true",
    }
    found = DeletedRows(engine, name, work, draw_columns(random, names), options)
    found.create()
    return found
