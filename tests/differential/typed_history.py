"""Random histories of tables of any types, with schema changes of any kind; the engine reads what we read."""

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lakesweep.errors import MaintenanceError, UsageError
from lakesweep.format.schema import parse_schema
from lakesweep.format.values.data_type import DataField, DataType
from lakesweep.model.where.arrow import to_arrow
from lakesweep.runs.parameters.time_travel import Version
from lakesweep.storage.local.store import LocalStore
from tests.differential.engine import RETAIN_EVERYTHING, Engine, EngineError
from tests.differential.typed_values import PARTITIONS, PLAIN, nested, rows
from tests.support.rows_read import arrow_rows, planned
from tests.support.typed_rows import shown_rows

LITERALS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "CHAR", "VARCHAR", "DECIMAL", "DATE", "TIMESTAMP")
"""Types of columns that conditions look at."""
REFUSALS = frozenset(("unsupported_cast", "needs_merge", "out_of_range"))
"""What a reader may refuse of these tables."""


@dataclass(slots=True)
class Seen:
    """What a history has shown."""

    compared: int = 0
    rows: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    not_of_the_engine: int = 0
    pruned: int = 0
    """Files that conditions left out."""


@dataclass(slots=True)
class TypedHistory:
    """One table of the engine."""

    engine: Engine
    table: str
    seed: int
    seen: Seen = field(default_factory=Seen)
    _random: random.Random = field(init=False)
    _formats: tuple[str, ...] = ()
    _partitions: tuple[str, ...] = ()
    _keys: tuple[str, ...] = ()
    _number: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    @property
    def location(self) -> Path:
        return self.engine.location(self.table)

    def fields(self) -> tuple[DataField, ...]:
        path = max((self.location / "schema").glob("schema-*"), key=lambda each: int(each.name[7:]))
        return parse_schema(path.read_bytes(), path.name).fields

    def create(self) -> None:
        random_ = self._random
        keyed = random_.random() < 0.3
        vectors = random_.random() < 0.5
        self._formats = random_.choice(
            (("parquet",), ("orc",), ("avro",), ("parquet", "orc"), ("parquet", "orc", "avro"))
        )
        options = {
            **RETAIN_EVERYTHING,
            "file.format": self._formats[0],
            "deletion-vectors.enabled": str(vectors).lower(),
            "deletion-vectors.bitmap64": str(random_.random() < 0.5).lower(),
            "bucket": "2" if keyed else random_.choice(("-1", "-1", "-1", "2")),
            "index-file-in-data-file-dir": str(random_.random() < 0.3).lower(),
            "partition.legacy-name": str(random_.random() < 0.7).lower(),
            "source.split.target-size": random_.choice(("1 mb", "16 mb", "128 mb")),
        }
        if random_.random() < 0.25:
            outside = f"file:{self.engine.warehouse.parent}/outside-{self.table}"
            options |= {"data-file.external-paths": outside, "data-file.external-paths.strategy": "round-robin"}
        columns: list[list[Any]] = [[f"c{number}", nested(random_)] for number in range(random_.randint(1, 5))]
        columns = [[name, self._writable(type_)] for name, type_ in columns]
        partitions = [[f"p{number}", random_.choice(PARTITIONS)] for number in range(random_.choice((0, 0, 1, 2)))]
        keys = [["k", "INT"]] if keyed or options["bucket"] == "2" else []
        if not keyed and options["bucket"] == "2":
            options["bucket-key"] = "k"
        every = columns + partitions + keys
        random_.shuffle(every)
        self._partitions = tuple(name for name, _ in partitions)
        self._keys = (*self._partitions, "k") if keyed else ()
        self.engine(
            "typed_create", table=self.table, columns=every, primary_keys=list(self._keys),
            partition_keys=list(self._partitions), options=options,
        )  # fmt: skip

    def _writable(self, type_: Any) -> Any:
        """Avro has no time stamps of nine digits."""
        if "avro" not in self._formats:
            return type_
        return json.loads(json.dumps(type_).replace("TIMESTAMP(9)", "TIMESTAMP(6)"))

    def step(self) -> None:
        random_ = self._random
        kind = random_.choice(("put", "put", "alter", "alter", "alter", "delete", "compact", "format"))
        if kind == "put":
            self.put()
        elif kind == "alter":
            self.alter()
        elif kind == "format":
            self._try("alter", set={"file.format": random_.choice(self._formats)})
        elif kind == "delete":
            self._try("dv_delete", n=random_.randint(1, 3))
        else:
            self._try("compact")

    def put(self) -> None:
        fields = self.fields()
        found = rows(self._random, [each.type for each in fields], self._random.randint(1, 12))
        for row in found:
            for number, each in enumerate(fields):
                if each.name == "k":
                    row[number] = self._random.randint(0, 15)
                elif each.name in self._partitions:
                    row[number] = rows(random.Random(self._random.randrange(3)), [each.type], 1)[0][0]
        compact = bool(self._keys) and self._random.random() < 0.7
        self._try("typed_put", rows=found, compact=compact)

    def alter(self) -> None:
        random_ = self._random
        names = [each.name for each in self.fields() if each.name not in (*self._partitions, "k")]
        name = random_.choice(names)
        path = [name]
        type_ = next(each.type for each in self.fields() if each.name == name)
        while random_.random() < 0.7 and type_.root in ("ROW", "ARRAY", "MAP"):
            if type_.root == "ROW":
                inner = random_.choice(type_.fields)
                path.append(inner.name)
                type_ = inner.type
            else:
                path.append("element" if type_.root == "ARRAY" else "value")
                type_ = type_.children[-1]
        self._number += 1
        new = f"c{100 + self._number}"
        change: list[Any] = random_.choice(
            (
                ["add", [*path[:-1], new], self._writable(nested(random_))],
                ["add", [new], self._writable(nested(random_))],
                ["drop", path, None],
                ["rename", path, new],
                ["type", path, self._writable(random_.choice(PLAIN))],
                ["type", path, self._writable(random_.choice(PLAIN))],
                ["type", path, self._writable(random_.choice(PLAIN))],
                ["first", [name], None],
            )
        )
        if change[0] == "drop" and len(names) == 1:
            return
        self._try("typed_alter", changes=[change])
        if change[0] == "drop" and len(path) == 1 and random_.random() < 0.5:  # the same name, another id
            self._try("typed_alter", changes=[["add", [name], self._writable(random_.choice(PLAIN))]])

    def _try(self, command: str, **arguments: Any) -> None:
        """Send a command that the engine may refuse, or whose compaction cannot read what a cast makes of old rows."""
        try:
            self.engine(command, table=self.table, **arguments)
        except EngineError:
            pass

    def check(self) -> None:
        """Compare every snapshot, and the latest by the latest schema."""
        ids = sorted(int(path.name[9:]) for path in (self.location / "snapshot").glob("snapshot-*"))
        self._check(Version(), {})
        for snapshot_id in ids[-4:]:
            self._check(Version(snapshot_id=snapshot_id), {"scan.snapshot-id": str(snapshot_id)})
        document = json.loads((self.location / "snapshot" / f"snapshot-{self._random.choice(ids)}").read_bytes())
        time_ms = document["timeMillis"]
        self._check(Version(timestamp_ms=time_ms), {"scan.timestamp-millis": str(time_ms)})
        self.engine("tag", table=self.table, op="create", name="t", snapshot=self._random.choice(ids))
        self._check(Version(tag="t"), {"scan.tag-name": "t"})
        self.engine("branch", table=self.table, op="create", name="b", tag="t")
        self._check(Version(), {}, branch="b")

    def _check(self, version: Version, options: dict[str, str], branch: str = "main") -> None:
        at = {} if branch == "main" else {"branch": branch}
        try:
            theirs = self.engine("typed_rows", table=self.table, options=options, **at)
        except EngineError:
            theirs = None
        store = LocalStore(str(self.location))
        where = f"seed {self.seed}, {self.table}, {version}, branch {branch}"
        try:
            plan = planned(store, version, branch=branch, open_store=LocalStore)
            found = arrow_rows(store, plan, LocalStore)
        except MaintenanceError as error:
            if error.code in REFUSALS or "utf-8" in str(error):  # Paimon casts bytes to text without a look at them.
                self.seen.refused[error.code] = self.seen.refused.get(error.code, 0) + 1
                return
            if theirs is None:
                self.seen.not_of_the_engine += 1
                return
            raise AssertionError(f"{where}: {error}") from error
        if theirs is None:
            self.seen.not_of_the_engine += 1
            return
        assert [column.name for column in plan.columns] == [name for name, _ in theirs["columns"]], where
        try:
            mine = shown_rows(found, [column.field for column in plan.columns])
        except UnicodeDecodeError:  # the same in Parquet
            return
        types = [column.field.type for column in plan.columns]
        ours, others = Counter(lines(mine, types)), Counter(lines(theirs["rows"], types))
        more, less = list((ours - others).elements())[:3], list((others - ours).elements())[:3]
        assert not more and not less, f"{where}: {theirs['columns']}\nours: {more}\ntheirs: {less}"
        self.seen.compared += 1
        self.seen.rows += len(mine)
        for _ in range(4):
            self._check_condition(store, version, branch, found, where)

    def _check_condition(self, store: LocalStore, version: Version, branch: str, found: Any, where: str) -> None:
        """What is left out by partitions and statistics has no row of the condition."""
        whole = planned(store, version, branch=branch, open_store=LocalStore)
        fields = [each for each in whole.fields if each.type.root in LITERALS]
        if not fields or not len(found):
            return
        chosen = [self._random.choice(fields) for _ in range(self._random.randint(1, 2))]
        parts = [self._part(each, found) for each in chosen]
        condition = self._random.choice((" AND ", " OR ")).join(parts)
        try:
            plan = planned(store, version, branch=branch, where=condition, open_store=LocalStore)
        except UsageError:  # the answer of Spark is not certain
            return
        assert plan.where is not None
        filtered = found.filter(to_arrow(plan.where))
        got = arrow_rows(store, plan, LocalStore)
        types = [each.type for each in plan.fields]
        assert lines(shown_rows(got, plan.fields), types) == lines(shown_rows(filtered, plan.fields), types), (
            f"{where}: {condition}"
        )
        self.seen.pruned += plan.counts.pruned_files

    def _part(self, field_: DataField, found: Any) -> str:
        value = found[field_.name][self._random.randrange(len(found))].as_py()
        if value is None or self._random.random() < 0.1:
            return f"`{field_.name}` IS {self._random.choice(('', 'NOT '))}NULL"
        order = self._random.choice(("=", "<", ">=", "<>", "<=", ">"))
        return f"`{field_.name}` {order} {_literal(value, field_.type)}"


def _literal(value: Any, type_: DataType) -> str:
    match type_.root:
        case "CHAR" | "VARCHAR":
            return f"'{value}'"
        case "DATE":
            return f"DATE '{value}'"
        case "TIMESTAMP":
            return f"TIMESTAMP '{value}'"
        case "DECIMAL":
            return f"{value:f}"
    return str(value)


def lines(rows_: list[list[Any]], types: Sequence[DataType]) -> list[str]:
    """Return each row as a text."""
    return [json.dumps([_sorted(value, type_) for value, type_ in zip(row, types, strict=True)]) for row in rows_]


def _sorted(value: Any, type_: DataType) -> Any:
    """Return a value with the entries of its maps in one order: the engine has another one, by chance."""
    if value is None:
        return None
    match type_.root:
        case "ROW":
            return [_sorted(each, field.type) for each, field in zip(value, type_.fields, strict=True)]
        case "ARRAY":
            return [_sorted(each, type_.children[0]) for each in value]
        case "MAP":
            return sorted(([key, _sorted(each, type_.children[1])] for key, each in value), key=json.dumps)
        case "MULTISET":
            return sorted(value, key=json.dumps)
    return value
