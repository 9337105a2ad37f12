"""One table with a primary key, between what the engine, pypaimon and our maintenance do to it.

After each step the bytes are checked, and all readers see the rows of the model.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from lakesweep.control.area import ControlArea
from lakesweep.errors import RefusedError
from lakesweep.format.schema import parse_schema
from lakesweep.model.report import RunReport
from lakesweep.model.roots import TableRef
from lakesweep.operations.compaction.arguments import CompactArguments
from lakesweep.operations.compaction.compact import compact
from lakesweep.runs.committing.catalog import Catalog
from lakesweep.runs.session import Table
from lakesweep.storage.local.store import LocalStore
from tests.differential.engine import RETAIN_EVERYTHING, Engine
from tests.differential.keyed_columns import KEYS, Column
from tests.differential.keyed_model import KeyedModel, Row
from tests.differential.ours import run
from tests.support.faulty_store import FaultyStore, Switch
from tests.support.keyed_checks import problems
from tests.support.keyed_files import KeyedSnapshot
from tests.support.rows_read import arrow_rows, planned
from tests.support.typed_rows import shown_rows

CATALOG = Catalog("filesystem", has_lock=True)
DAYS_AGO_S = 3 * 86_400
PARTITIONS = ("p1", "p2", "a b")


@dataclass(slots=True)
class KeyedTable:
    """A table of the engine, and what it must hold."""

    engine: Engine
    name: str
    work: Path
    key_types: Sequence[str]
    is_partitioned: bool
    options: Mapping[str, str]
    columns: list[Column] = field(default_factory=list)
    pool: list[Row] = field(default_factory=list)
    """Keys that are drawn from."""
    model: KeyedModel = field(init=False)
    at: dict[int, KeyedModel] = field(default_factory=dict)
    """Snapshot -> what it holds."""
    tags: dict[str, int] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    facts: Counter[str] = field(default_factory=Counter)
    dangling: set[str] = field(default_factory=set)
    """Files that are gone and still have vectors: a full compaction of the engine leaves them."""
    engine_may_lose: bool = False
    """The engine moves a file to a level on which a DELETE of it stands, after a rollback as latest, and loses it."""
    _copies: int = 0

    def __post_init__(self) -> None:
        names = [f"k{number}" for number in range(len(self.key_types))]
        keys = [Column(name, type_) for name, type_ in zip(names, self.key_types, strict=True)]
        partition = [Column("p", "STRING")] if self.is_partitioned else []
        self.columns = [*partition, *keys, Column("ts", "BIGINT"), Column("v", "STRING"), Column("n", "INT")]
        at, first = [each.name for each in self.columns], len(partition)
        self.model = KeyedModel(
            partition=range(first),
            keys=range(first, first + len(keys)),
            sequence=at.index("ts") if self.options.get("sequence.field") else None,
            is_descending=self.options.get("sequence.field.sort-order") == "descending",
            ignores_deletes=self.options.get("ignore-delete") == "true",
            has_vectors=self.options.get("deletion-vectors.enabled") == "true",
        )
        self.engine(
            "typed_create", table=self.table, columns=[[each.name, each.type] for each in self.columns],
            primary_keys=[each.name for each in (*partition, *keys)], partition_keys=["p"] if partition else [],
            options={**RETAIN_EVERYTHING, "write-only": "true", **self.options},
        )  # fmt: skip

    # --- the table ---------------------------------------------------------------------------------------------------

    @property
    def table(self) -> str:
        return f"keyed.{self.name}"

    @property
    def location(self) -> Path:
        return self.engine.location(self.table)

    @property
    def store(self) -> LocalStore:
        return LocalStore(str(self.location))

    @property
    def has_vectors(self) -> bool:
        return self.model.has_vectors

    def newest(self) -> int:
        return max((int(path.name[9:]) for path in self.location.glob("snapshot/snapshot-*")), default=0)

    def snapshot(self) -> Mapping[str, Any]:
        """Return the document of the newest snapshot."""
        found: Mapping[str, Any] = json.loads((self.location / "snapshot" / f"snapshot-{self.newest()}").read_bytes())
        return found

    def do(self, command: str, **words: Any) -> Any:
        self.done.append(f"the engine: {command} {words}")
        return self.engine(command, table=self.table, **words)

    # --- writers -----------------------------------------------------------------------------------------------------

    def draw_pool(self, random: Random, count: int) -> None:
        """Draw the keys that rows have, in no order of theirs."""
        keys = self.columns[len(self.model.partition) : len(self.model.partition) + len(self.model.keys)]
        found = {json.dumps(row): row for row in ([each.some(random) for each in keys] for _ in range(count))}
        self.pool = sorted(found.values(), key=json.dumps)

    def some_rows(self, random: Random, most: int = 14, deletes: float = 0.25) -> tuple[list[Row], list[int]]:
        """Draw rows of some keys, often neighbours, and their kinds."""
        size = random.choice((1, 3, 8, len(self.pool)))
        first = random.randrange(len(self.pool))
        window = self.pool[first : first + size]
        rows, kinds, model = list[Row](), list[int](), self.model
        for _ in range(random.randint(1, most)):
            partition = [random.choice(PARTITIONS)] if self.is_partitioned else []
            time_ = random.choice((None, *range(6)))
            row = [
                *partition,
                *random.choice(window),
                time_,
                random.choice((None, "x", f"v{self.newest()}", "long " * 9)),
            ]
            row += [column.some(random, 0.3) for column in self.columns[len(row) :]]
            if model.is_descending and model.key(row) in map(model.key, rows):
                continue  # within one write buffer the engine goes by the ascending order
            self._not_older_than_a_deletion(row, model)
            kind = random.choice((1, 3, 3)) if random.random() < deletes else random.choice((0, 0, 2))
            rows.append(row)
            kinds.append(kind)
            model = model.put([row], [kind])
        return rows, kinds

    def _not_older_than_a_deletion(self, row: Row, model: KeyedModel) -> None:
        """A compaction may have forgotten the deletion."""
        before = model.written.get(model.key(row))
        if before is not None and before.row is None and model.rank(row) < before.rank:
            row[len(self.model.partition) + len(self.key_types)] = before.rank[1] * (-1 if model.is_descending else 1)

    def put(self, random: Random) -> None:
        """Let the engine write rows of all kinds."""
        rows, kinds = self.some_rows(random)
        self.do("typed_put", rows=rows, kinds=kinds)
        self.model = self.model.put(rows, kinds)

    def load(self, random: Random) -> None:
        """Let the engine write most keys, so that a large run lies below small ones."""
        some = random.sample(self.pool, -(-len(self.pool) * 4 // 5))
        partition = [random.choice(PARTITIONS)] if self.is_partitioned else []
        nulls = [None] * (len(self.columns) - len(partition) - len(some[0]) - 2)
        rows = [[*partition, *key, 3, random.randbytes(50).hex(), *nulls] for key in some]
        for row in rows:
            self._not_older_than_a_deletion(row, self.model)
        self.do("typed_put", rows=rows)
        self.model = self.model.put(rows, [0] * len(rows))

    def put_by_python(self, random: Random) -> None:
        """Let pypaimon write rows; it would say null of a file without vectors, and then the engine fails."""
        if self.has_vectors and self.options["bucket"] == "-1":
            self.put(random)
            return
        rows, _ = self.some_rows(random, deletes=0.0)
        self.write_by_python(rows)
        self.model = self.model.put(rows, [0] * len(rows))

    def write_by_python(self, rows: Sequence[Row]) -> None:
        builder = self.of_python().new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        arrays = {each.name: each.arrow([row[at] for row in rows]) for at, each in enumerate(self.columns)}
        write.write_arrow(pa.table(arrays))
        commit.commit(write.prepare_commit())
        write.close()
        commit.close()
        self.done.append(f"pypaimon: {rows}")
        self.facts["commits of pypaimon"] += 1

    def of_python(self) -> Any:
        from pypaimon import CatalogFactory

        return CatalogFactory.create({"warehouse": str(self.engine.warehouse)}).get_table(self.table)

    def overwrite(self, random: Random) -> None:
        """Let the engine replace the partitions of new rows."""
        rows, kinds = self.some_rows(random, most=4, deletes=0.0)
        self.do("typed_put", rows=rows, kinds=kinds, overwrite=True)
        model = self.model.without({self.model.key(row)[0] for row in rows}).put(rows, kinds)
        new = {key: each.row for key, each in model.written.items() if each.row in rows}
        self.model = replace(model, seen=model.seen | new)  # the engine upgrades new files that overlap no others

    def drop_partition(self, random: Random) -> None:
        """Let the engine drop a partition, if there are some."""
        if self.is_partitioned:
            name = random.choice(PARTITIONS)
            self.do("drop_partitions", specs=[{"p": name}])
            self.model = self.model.without({json.dumps([name])})

    def add_column(self, random: Random) -> None:
        column = Column(f"x{len(self.columns)}", random.choice(("STRING", "BIGINT", "DECIMAL(20, 3)", "TIMESTAMP(6)")))
        self.do("typed_alter", changes=[["add", [column.name], column.type]])
        self.columns.append(column)
        self.model = self.model.widened()

    # --- maintenance of others ---------------------------------------------------------------------------------------

    def compact_by_engine(self, random: Random) -> None:
        """Let the engine compact, fully or not."""
        minor = random.random() < 0.6
        if self.engine_may_lose:
            return
        self.do("compact", minor=minor)
        self.model = self.model.compacted()
        if not minor:
            self.learn_dangling()

    def learn_dangling(self) -> None:
        snapshot = KeyedSnapshot(self.location)
        live = {file.name for file in snapshot.files}
        self.dangling |= {name for vectors in snapshot.vectors.values() for name in vectors if name not in live}

    def compact_manifests(self, _: Random) -> None:
        self.do("compact_manifests")

    def tag(self, _: Random) -> None:
        name = f"t{len(self.tags)}"
        self.do("tag", op="create", name=name, snapshot=self.newest())
        self.tags[name] = self.newest()

    def rollback(self, random: Random) -> None:
        """Let the engine go back to an older snapshot with the present columns."""
        rows = {number: [each.row for each in self.at[number].written.values() if each.row] for number in self.at}
        wide = [number for number, found in rows.items() if all(len(row) == len(self.columns) for row in found)]
        there = [number for number in wide if self._is_there(number)]
        if there:
            to = random.choice(there)
            self.model = self.at[to]
            if random.random() < 0.5 and self.options.get("changelog-producer") != "input":
                self.do("rollback_as_latest", to=to)
                self.engine_may_lose = True
                return
            self.do("rollback", snapshot=to)
            self.at = {number: model for number, model in self.at.items() if number <= to}
            self.tags = {name: number for name, number in self.tags.items() if number <= to}

    def expire(self, random: Random) -> None:
        self.run(
            "expire-snapshots", "--retain-max", str(random.randint(1, 3)), "--retain-min", "1", "--older-than", "0 s"
        )

    def scan_for_orphans(self, _: Random) -> None:
        """Scan, long after the last write."""
        past = time.time() - DAYS_AGO_S
        for path in (path for path in self.location.rglob("*") if path.is_file()):
            os.utime(path, (past, past))
        self.run("remove-orphan-files", "--no-writers", "a test")

    def run(self, *argv: str) -> None:
        """Run a command of ours."""
        self.done.append(f"ours: {' '.join(argv)}")
        control = str(self.work / "control" / self.name)
        answer = run([argv[0], str(self.location), *argv[1:], "--execute", "--json", "--control", control])
        assert answer.exit_code == 0, f"{answer}\n{self}"
        self.facts[argv[0]] += 1

    # --- our compaction ----------------------------------------------------------------------------------------------

    def opened(self, switch: Switch | None = None) -> Table:
        """Return the table as our runs open it; its requests go through a switch."""
        store: Any = self.store if switch is None else FaultyStore(self.store, switch, "table")
        area = ControlArea(LocalStore(str(self.work / "control" / self.name)), str(self.location))
        return Table(TableRef(str(self.location)), store, area, LocalStore)

    def call(self, *, full: bool, switch: Switch | None = None, **words: Any) -> RunReport:
        """Call our `compact`."""
        report = compact(self.opened(switch), CompactArguments(catalog=CATALOG, full=full, **words), execute=True)
        self.done.append(f"ours: compact, full {full}: {report.status} {report.refusal or ''}")
        return report

    def compact(self, random: Random, *, full: bool | None = None) -> None:
        """Compact, and see that a copy that the engine compacts shows the same rows."""
        is_full = random.random() < 0.4 if full is None else full
        is_full |= self.has_vectors and self.model.sequence is not None
        before = self.newest()
        copy = self.copied() if random.random() < 0.5 and not self.engine_may_lose else None
        report = self.call(full=is_full)
        assert report.status in ("done", "nothing_to_do"), f"{report.refusal or report.status}\n{self}"
        self.model = self.model.compacted()
        assert self.newest() == before + (report.status == "done"), str(self)
        if report.status == "done":
            self.facts["full compactions" if is_full else "compactions"] += 1
            self._committed(is_full=is_full)
        if copy is not None:
            self.engine("compact", table=copy, minor=random.random() < 0.5)
            self._compare("the engine, of a copy that it compacted", self.read_by_engine(copy))
            self.engine("drop", table=copy)

    def _committed(self, *, is_full: bool) -> None:
        """One COMPACT, of which streaming readers see nothing."""
        document = self.snapshot()
        assert document["commitKind"] == "COMPACT", str(self)
        assert document.get("changelogManifestList") is None, str(self)
        assert self.engine("stream", table=self.table, next=self.newest())["rows"] == 0, str(self)
        files = KeyedSnapshot(self.location).files
        levels = {file.level for file in files}
        if self.has_vectors:
            assert 0 not in levels, f"files on level 0 after a compaction\n{self}"
        if is_full:
            assert len(levels) <= 1, f"files on {levels} after a full compaction\n{self}"
            assert all(row.adds and not row.is_marked for file in files for row in file.rows), str(self)
        self.facts["files"] += len(files)
        self.facts["marked rows"] += sum(row.is_marked for file in files for row in file.rows)
        self.facts["levels"] += len(levels)

    def copied(self) -> str:
        """Return the name of a copy of the table."""
        self._copies += 1
        name = f"{self.table}_copy{self._copies}"
        shutil.copytree(self.location, self.engine.location(name))
        return name

    # --- judges ------------------------------------------------------------------------------------------------------

    def read_by_engine(self, table: str | None = None, **options: str) -> list[Row]:
        found: list[Row] = self.engine("typed_rows", table=table or self.table, options=options)["rows"]
        return found

    def read_by_python(self) -> list[Row]:
        builder = self.of_python().new_read_builder()
        splits = builder.new_scan().plan().splits()
        return shown_rows(builder.new_read().to_arrow(splits), self.fields()) if splits else []

    def read_by_ours(self) -> list[Row]:
        return shown_rows(arrow_rows(self.store, planned(self.store)), self.fields())

    def fields(self) -> Any:
        path = max((self.location / "schema").glob("schema-*"), key=lambda each: int(each.name[7:]))
        return parse_schema(path.read_bytes(), path.name).fields

    def check(self) -> None:
        """Everybody reads the rows of the model, and what lies there is as it must be."""
        if not self.newest():
            return
        snapshot = KeyedSnapshot(self.location)
        wrong = [each for each in problems(snapshot) if not any(name in each for name in self.dangling)]
        assert not wrong, "\n".join([f"snapshot {snapshot.number}", *wrong[:9], str(self)])
        self._compare("the bytes", snapshot.visible())
        self._compare("the engine", self.read_by_engine())
        if self.options.get("deletion-vectors.bitmap64") != "true" or not any(snapshot.vectors.values()):
            self._compare("pypaimon", self.read_by_python())
        try:
            self._compare("Lakesweep", self.read_by_ours())
        except RefusedError as error:
            assert error.code == "needs_merge" and not self.has_vectors, f"{error}\n{self}"
        else:
            self.facts["read by Lakesweep"] += 1
        self._check_vectors(snapshot)
        self.at.setdefault(self.newest(), self.model)

    def _check_vectors(self, snapshot: KeyedSnapshot) -> None:
        """Both readers of the engine find the positions."""
        expected = {name: positions for vectors in snapshot.vectors.values() for name, positions in vectors.items()}
        found: dict[str, list[int]] = {}
        for _, _, read in self.engine("dv_dump", table=self.table):
            assert read["sequential"] == read["seeking"] or not read["seeking"], str(self)
            found |= read["seeking"]
        assert found == expected, str(self)

    def check_older(self, random: Random) -> None:
        """Older versions still show what they did."""
        there = [number for number in self.at if self._is_there(number)]
        for number in random.sample(there, min(2, len(there))):
            self._compare_version(number, **{"scan.snapshot-id": str(number)})
        for name, number in self.tags.items():
            self._compare_version(number, **{"scan.tag-name": name})

    def _compare_version(self, number: int, **options: str) -> None:
        model = self.at[number]
        width = max(map(len, model.seen.values()), default=0)
        # The engine shows it in the columns that it had, and a column may have come before the model was noted.
        found = [[*row, *[None] * (width - len(row))] for row in self.read_by_engine(**options)]
        self._compare(f"the engine, of {options}", found, model)

    def _is_there(self, number: int) -> bool:
        return (self.location / "snapshot" / f"snapshot-{number}").exists()

    def _compare(self, who: str, found: Sequence[Row], model: KeyedModel | None = None) -> None:
        model = model or self.model
        read = {model.key(row): row for row in found}
        assert len(read) == len(found), f"{who} reads {len(found) - len(read)} rows twice\n{self}"
        keys = sorted(model.seen.keys() | read.keys())
        differ = [(model.seen.get(key), read.get(key)) for key in keys if model.seen.get(key) != read.get(key)]
        assert not differ, f"{who}: {len(differ)} rows (expected, found): {differ[:3]}\n{self}"

    def __str__(self) -> str:
        head = [f"{self.table} {dict(self.options)}", " ".join(f"{each.name} {each.type}" for each in self.columns)]
        return "\n".join([*head, *(f"{number:3} {step}" for number, step in enumerate(self.done))])


def drawn(engine: Engine, work: Path, name: str, random: Random) -> KeyedTable:
    """Draw a table and create it."""
    vectors, sequence = random.random() < 0.6, random.random() < 0.25
    options = {
        "bucket": random.choice(("1", "1", "2", "4", "-1")),
        "dynamic-bucket.target-row-num": random.choice(("5", "20")),
        "deletion-vectors.enabled": str(vectors).lower(),
        "deletion-vectors.bitmap64": random.choice(("false", "false", "true")),
        "index-file-in-data-file-dir": random.choice(("false", "true")),
        "data-file.thin-mode": random.choice(("false", "false", "true")),
        "changelog-producer": random.choice(("none", "none", "input")),
        "num-sorted-run.compaction-trigger": random.choice(("2", "3", "5")),
        "compaction.size-ratio": random.choice(("0", "0", "1")),
        "compaction.max-size-amplification-percent": random.choice(("200", "1000")),
        "target-file-size": random.choice(("128 mb", "128 mb", "3 kb", "1 b")),
        "file.block-size": random.choice(("128 mb", "2 kb")),
        "metadata.stats-mode": random.choice(("truncate(16)", "truncate(2)", "full", "counts", "none")),
        "metadata.stats-dense-store": random.choice(("true", "false")),
        "manifest.merge-min-count": random.choice(("3", "30")),
        "ignore-delete": random.choice(("false", "false", "false", "true")),
        **({"sequence.field": "ts"} if sequence else {}),
        **({"sequence.field.sort-order": "descending"} if sequence and random.random() < 0.3 else {}),
        **({"num-levels": random.choice(("2", "3", "7"))} if random.random() < 0.3 else {}),
    }
    found = KeyedTable(engine, name, work, random.choice(KEYS), random.random() < 0.4, options)
    found.draw_pool(random, random.choice((6, 30, 30, 200, 200, 200, 2500)))
    return found


def play(engine: Engine, work: Path, seed: int, steps: int = 12, *, ours: bool = True) -> Counter[str]:
    """Play a history; it ends with all that the engine does on top of the last compaction, which is ours or its own."""
    random = Random(seed)
    scene = drawn(engine, work, f"{'ours' if ours else 'theirs'}{seed}", random)
    compact = scene.compact if ours else scene.compact_by_engine
    rare = [scene.drop_partition, scene.overwrite, scene.add_column, scene.compact_manifests, scene.tag, scene.rollback]
    rare += [scene.expire, scene.scan_for_orphans]
    scene.load(random)
    scene.check()
    for _ in range(steps):
        chance = random.random()
        step: Any = compact if chance < 0.4 else scene.put if chance < 0.65 else scene.put_by_python
        if chance > 0.78:
            step = random.choice(rare) if chance > 0.88 else scene.load if chance > 0.85 else scene.compact_by_engine
        step(random)
        scene.check()
        scene.check_older(random)
    scene.put(random)
    compact(random)
    for step in (scene.put, scene.compact_by_engine, scene.put_by_python, scene.compact_by_engine, scene.overwrite):
        step(random)
        scene.check()
    scene.check_older(random)
    return scene.facts
