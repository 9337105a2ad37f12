"""Tables of all types that Lakesweep compacts: random values, schema changes, and judges of each version."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from lakesweep.control.area import ControlArea
from lakesweep.format.schema import parse_schema
from lakesweep.format.values.data_type import DataField, DataType
from lakesweep.model.report import RunReport
from lakesweep.model.roots import TableRef
from lakesweep.operations.compaction.arguments import CompactArguments
from lakesweep.operations.compaction.compact import compact
from lakesweep.runs.committing.catalog import Catalog
from lakesweep.runs.session import Table
from lakesweep.storage.local.store import LocalStore
from tests.differential.engine import RETAIN_EVERYTHING, Engine, EngineError
from tests.differential.typed_history import lines
from tests.differential.typed_values import PARTITIONS, PLAIN, nested, value
from tests.support.faulty_store import FaultyStore, Switch
from tests.support.typed_rows import shown_rows

CATALOG = Catalog("filesystem", has_lock=True)
CODECS = ("zstd", "gzip", "lz4", "none")
"""Without snappy, whose library the engine of the tests has not."""
NANOS = ("TIMESTAMP(9)", "TIMESTAMP_LTZ(9)")
_MOMENTS = (-62_135_596_800_000, -14_830_974_000_001, -1, 0, 1, 1_704_164_645_678, 253_402_300_799_999)
"""Of the years 1, 1500 (before 1582), 1969, 1970, 2024 and 9999."""
_MOMENTS_OF_NANOS = (0, 1, 86_400_000, 1_704_164_645_678, 7_258_118_400_000)
"""Others Arrow cannot tell, or ORC; see test_typed_reads.py."""
_TEXTS = (
    "", "a" * 16, "a" * 15 + "\ud7ff" + "z", "a" * 15 + "\U0010ffff" + "z", "\U0010ffff" * 17, "\ue000" * 20,
    "z" * 40, "\uffff" * 16 + "b", "\U0001f600" * 18, "é" * 17,
)  # fmt: skip
_NARROW = {
    "TINYINT": "INT",
    "SMALLINT": "BIGINT",
    "INT": "BIGINT",
    "FLOAT": "DOUBLE",
    "DECIMAL(5, 2)": "DECIMAL(20, 6)",
}


def some_value(random: Random, type_: DataType, nulls: float = 0.2, *, far: bool = True) -> Any:
    """Draw a value, as the engine's driver takes and gives it."""
    if random.random() < nulls:
        return None
    match type_.root:
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            precision = type_.precision or 0
            moment = random.choice(_MOMENTS if precision <= 6 and far else _MOMENTS_OF_NANOS)
            if precision <= 3:
                return [moment // 10 ** (3 - precision) * 10 ** (3 - precision), 0]
            step = 10 ** (9 - precision)
            return [moment, random.choice((0, 1, 123_456, 999_999)) // step * step]
        case "FLOAT" | "DOUBLE" if random.random() < 0.15:
            return "2143289344" if type_.root == "FLOAT" else "9221120237041090560"  # NaN
        case "VARCHAR" if (type_.length or 0) > 100 and random.random() < 0.4:
            return random.choice(_TEXTS)
        case "MULTISET":
            return [[key, random.randint(1, 9)] for key in random.sample(("a", "b", "c"), random.randint(0, 3))]
        case "ROW":
            return [some_value(random, each.type, far=far) for each in type_.fields]
        case "ARRAY":
            return [some_value(random, type_.children[0], far=far) for _ in range(random.randint(0, 3))]
        case "MAP":
            keys = {str(key): key for key in (value(random, type_.children[0], 0) for _ in range(random.randint(0, 3)))}
            return [[key, some_value(random, type_.children[1], far=far)] for key in keys.values()]
    return value(random, type_, 0)


@dataclass(slots=True)
class Compacted:
    """One append table of the engine without buckets."""

    engine: Engine
    table: str
    work: Path
    random: Random
    options: Mapping[str, str] = field(default_factory=dict)
    facts: Counter[str] = field(default_factory=Counter)
    done: list[str] = field(default_factory=list)
    partitions: tuple[str, ...] = ()
    has_nanos: bool = False
    formats: Sequence[str] = ("parquet",)
    _number: int = 0

    # --- the table ---------------------------------------------------------------------------------------------------

    @property
    def location(self) -> Path:
        return self.engine.location(self.table)

    def create(self, columns: Sequence[Sequence[Any]], partitions: Sequence[Sequence[Any]] = ()) -> None:
        options = {
            **RETAIN_EVERYTHING, "bucket": "-1", "write-only": "true", "deletion-vectors.enabled": "true",
            "compaction.min.file-num": "2", "file.format": "parquet", **self.options,
        }  # fmt: skip
        self.partitions = tuple(name for name, _ in partitions)
        self.engine(
            "typed_create", table=self.table, columns=[*columns, *partitions], partition_keys=list(self.partitions),
            options=options,
        )  # fmt: skip

    def draw(self) -> None:
        """Draw columns, partitions and options, and create the table."""
        random = self.random
        self.has_nanos = random.random() < 0.25
        self.formats = random.choice((("parquet",), ("parquet",), ("parquet", "orc"), ("parquet", "avro")))
        self.options = {
            "target-file-size": random.choice(("256 mb", "256 mb", "4 kb", "1 b")),
            "file.block-size": random.choice(("128 mb", "2 kb", "100 b")),
            "deletion-vectors.bitmap64": random.choice(("false", "true")),
            "metadata.stats-mode": random.choice(
                ("truncate(16)", "truncate(16)", "truncate(2)", "full", "counts", "none")
            ),
            "metadata.stats-dense-store": random.choice(("true", "false")),
            "partition.legacy-name": random.choice(("true", "false")),
            "index-file-in-data-file-dir": random.choice(("false", "true")),
            **self.options,
        }
        columns = [[f"c{number}", self.some_type()] for number in range(random.randint(2, 7))]
        keys = [name for name in PARTITIONS if not (self.has_nanos and "TIMESTAMP" in name)]
        partitions = [[f"p{number}", random.choice(keys)] for number in range(random.choice((0, 0, 1, 2)))]
        self.create(columns, partitions)

    def some_type(self) -> Any:
        if self.random.random() < 0.1:
            return {"type": "MULTISET", "element": "STRING NOT NULL"}
        return self._writable(nested(self.random))

    def _writable(self, type_: Any) -> Any:
        """Return a type with time stamps of the table's kind alone: those with nanoseconds, or others."""
        text = json.dumps(type_)
        if self.has_nanos:
            for each in PLAIN:
                if each.startswith("TIMESTAMP"):
                    text = text.replace(each, f"{each.partition('(')[0]}(9)")
        elif "TIMESTAMP(9)" in text:
            text = text.replace("TIMESTAMP(9)", "TIMESTAMP(6)")
        return json.loads(text)

    def fields(self) -> tuple[DataField, ...]:
        path = max((self.location / "schema").glob("schema-*"), key=lambda each: int(each.name[7:]))
        return parse_schema(path.read_bytes(), path.name).fields

    def newest(self) -> int:
        return max((int(path.name[9:]) for path in (self.location / "snapshot").glob("snapshot-*")), default=0)

    def live(self) -> list[str]:
        """Return the names of the data files."""
        return [file[3] for file in self.engine("live", table=self.table)["files"]]

    # --- others ------------------------------------------------------------------------------------------------------

    def some_rows(self, count: int) -> list[list[Any]]:
        far = tuple(self.formats) == ("parquet",)
        few = [
            {
                each.name: some_value(self.random, each.type, 0.3, far=far)
                for each in self.fields()
                if each.name in self.partitions
            }
            for _ in range(2)
        ]
        found = []
        for _ in range(count):
            keys = self.random.choice(few)
            found.append(
                [
                    keys[each.name]
                    if each.name in keys
                    else some_value(self.random, each.type, 0.2 * each.type.nullable, far=far)
                    for each in self.fields()
                ]
            )
        return found

    def do(self, command: str, **words: Any) -> bool:
        """Send a command that the engine may refuse; tell whether it did not."""
        self.done.append(f"the engine: {command} {'' if command == 'typed_put' else words}")
        try:
            self.engine(command, table=self.table, **words)
        except EngineError as error:
            self.done.append(f"    refused: {error.error[:100]}")
            return False
        return True

    def step(self) -> None:
        """Let the engine do something."""
        random = self.random
        match random.choice(("put", "put", "put", "alter", "alter", "alter", "delete", "delete", "format")):
            case "put":
                self.put()
            case "alter":
                self.alter()
            case "delete":
                live = sorted(self.live())
                if live:
                    self.do("dv_delete", n=random.randint(1, 3), only=random.sample(live, random.randint(1, len(live))))
            case "format":
                self.do("alter", set={"file.format": random.choice(self.formats)})

    def put(self) -> None:
        self.do("typed_put", rows=self.some_rows(self.random.randint(1, 14)))

    def alter(self) -> None:
        """Change the schema so that no value changes its meaning: add, drop, rename, widen, reorder."""
        random = self.random
        free = [each for each in self.fields() if each.name not in self.partitions]
        column = random.choice(free)
        self._number += 1
        new = f"x{self._number}"
        kind = random.choice(("add", "drop", "rename", "type", "type", "first", "inner"))
        if kind == "add":
            self.do("typed_alter", changes=[["add", [new], self.some_type()]])
        elif kind == "drop" and len(free) > 2:
            self.do("typed_alter", changes=[["drop", [column.name], None]])
            if random.random() < 0.5:  # the same name, another id
                self.do("typed_alter", changes=[["add", [column.name], self.some_type()]])
        elif kind == "rename":
            self.do("typed_alter", changes=[["rename", [column.name], new]])
        elif kind == "type":
            narrow = [each for each in free if _sql(each.type) in _NARROW]
            if narrow:
                column = random.choice(narrow)
                self.do("typed_alter", changes=[["type", [column.name], _NARROW[_sql(column.type)]]])
        elif kind == "first":
            self.do("typed_alter", changes=[["first", [column.name], None]])
        else:
            rows = [each for each in free if each.type.root == "ROW"]
            if rows:
                row = random.choice(rows)
                inner = random.choice(row.type.fields)
                change: list[Any] = random.choice(
                    (
                        ["add", [row.name, new], self._writable(random.choice(PLAIN))],
                        ["rename", [row.name, inner.name], new],
                    )
                )
                self.do("typed_alter", changes=[change])

    # --- ours --------------------------------------------------------------------------------------------------------

    def opened(self, switch: Switch | None = None) -> Table:
        """Return the table as our runs open it; its requests go through a switch."""
        store: Any = LocalStore(str(self.location))
        if switch is not None:
            store = FaultyStore(store, switch, "table")
        control = self.work / "control" / self.table
        return Table(
            TableRef(str(self.location)), store, ControlArea(LocalStore(str(control)), str(self.location)), LocalStore
        )

    def compact(self, switch: Switch | None = None, *, full: bool = True, **words: Any) -> RunReport:
        """Compact."""
        report = compact(self.opened(switch), CompactArguments(catalog=CATALOG, full=full, **words), execute=True)
        self.done.append(f"ours: compact, {report.status} {report.refusal or ''}")
        return report

    # --- judges ------------------------------------------------------------------------------------------------------

    def versions(self) -> dict[str, list[str] | None]:
        """Return version -> its rows as texts, in one order, as the engine reads them; `None`: it cannot."""
        ids = sorted(int(path.name[9:]) for path in (self.location / "snapshot").glob("snapshot-*"))
        tags = sorted(path.name[4:] for path in (self.location / "tag").glob("tag-*"))
        found = {"latest": self.rows()}
        found |= {f"snapshot {each}": self.rows(**{"scan.snapshot-id": str(each)}) for each in ids}
        return found | {f"tag {each}": self.rows(**{"scan.tag-name": each}) for each in tags}

    def rows(self, **options: str) -> list[str] | None:
        try:
            found = self.engine("typed_rows", table=self.table, options=options)
        except EngineError:
            return None
        if options:
            return sorted(map(json.dumps, found["rows"]))
        return sorted(lines(found["rows"], [each.type for each in self.fields()]))

    def rows_in_order(self) -> list[str]:
        found = self.engine("typed_rows", table=self.table)
        return lines(found["rows"], [each.type for each in self.fields()])

    def rows_of_python(self) -> list[str] | None:
        """Return what pypaimon reads; `None`: it cannot, or would read a CHAR of ORC with other spaces."""
        from pypaimon import CatalogFactory

        if "orc" in self.formats:
            return None
        try:
            table = CatalogFactory.create({"warehouse": str(self.engine.warehouse)}).get_table(self.table)
            builder = table.new_read_builder()
            splits = builder.new_scan().plan().splits()
            rows = shown_rows(builder.new_read().to_arrow(splits), self.fields()) if splits else []
            return sorted(lines(rows, [each.type for each in self.fields()]))
        except Exception:
            return None

    def __str__(self) -> str:
        columns = [f"{each.name} {each.type}" for each in self.fields()]
        return "\n".join([f"{self.table} {dict(self.options)} partitions {self.partitions}", *self.done, *columns])


def _sql(type_: DataType) -> str:
    return f"DECIMAL({type_.precision}, {type_.scale})" if type_.root == "DECIMAL" else type_.root
