"""New data files with a primary key: their columns, and what their entries say of them."""

import io
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.schema import TableSchema
from lakesweep.format.values.binary_row import Timestamp, decode_row
from lakesweep.format.values.data_type import DataField, parse_data_type
from lakesweep.model.keyed import MergeRules
from lakesweep.model.reading.plan import ReadFile
from lakesweep.operations.reading.parquet import parquet_batches
from lakesweep.operations.reading.types import arrow_type
from lakesweep.operations.writing import options as writing_options
from lakesweep.operations.writing.keyed import KeyedBytes, keyed_files
from lakesweep.operations.writing.options import writing_of
from tests.support.binary_row import encode_row

Column = tuple[str, str, Sequence[Any]]
"""Name, type and values."""

OF_JAVA = """
required group field_id=-1 schema {
  required binary field_id=1073741826 _KEY_c (String);
  required int32 field_id=1073741823 _KEY_a;
  required int64 field_id=2147483646 _SEQUENCE_NUMBER;
  required int32 field_id=2147483645 _VALUE_KIND (Int(bitWidth=8, isSigned=true));
  required int32 field_id=0 a;
  optional int64 field_id=2 b;
  required binary field_id=3 c (String);
}
"""
"""Read from a file of Paimon 1.4, but for the name of the root."""


def fields_of(columns: Sequence[Column], ids: Sequence[int] = ()) -> list[DataField]:
    numbers = ids or range(len(columns))
    return [
        DataField(number, name, parse_data_type(type_, "a test"))
        for number, (name, type_, _) in zip(numbers, columns, strict=True)
    ]


def files_of(
    columns: Sequence[Column],
    keys: Sequence[str],
    *,
    sequences: Sequence[int] | None = None,
    kinds: Sequence[int] | None = None,
    ids: Sequence[int] = (),
    is_thin: bool = False,
    options: Mapping[str, str] | None = None,
    batch_rows: int = 2,
) -> list[KeyedBytes]:
    """Write rows in batches of two."""
    fields = fields_of(columns, ids)
    arrays = [pa.array(values, arrow_type(field.type)) for field, (_, _, values) in zip(fields, columns, strict=True)]
    count = len(arrays[0])
    arrays.append(pa.array(range(count) if sequences is None else sequences, pa.int64()))
    arrays.append(pa.array([0] * count if kinds is None else kinds, pa.int8()))
    batch = pa.RecordBatch.from_arrays(arrays, [*(field.name for field in fields), "_SEQUENCE_NUMBER", "_VALUE_KIND"])
    schema = TableSchema(0, 9, tuple(fields), (), tuple(keys), options or {}, 0, None)
    parts = [batch.slice(first, batch_rows) for first in range(0, count, batch_rows)]
    rules = MergeRules(tuple(keys), has_vectors=False, is_thin=is_thin)
    return list(keyed_files(parts, fields, rules, writing_of(schema, fields)))


def opened(file: KeyedBytes) -> Any:
    return parquet.ParquetFile(pa.BufferReader(file.body))


PLAIN: list[Column] = [
    ("a", "INT NOT NULL", [4, 1, 2, 9, 3]),
    ("b", "BIGINT", [None, 7, 8, None, 6]),
    ("c", "STRING NOT NULL", ["a", "b", "b", "c", "d"]),
]
WANTED = {
    "_SEQUENCE_NUMBER": [5, 90, 2, 3, 4],
    "_VALUE_KIND": [0, 3, 2, 1, 0],
    **{name: list(values) for name, _, values in PLAIN},
}


@pytest.mark.parametrize("is_thin", [False, True])
def test_columns_and_rows(is_thin: bool) -> None:
    """The key in its own order, then system columns, then the columns of the table; a thin file has no key."""
    (file,) = files_of(
        PLAIN, ["c", "a"], sequences=WANTED["_SEQUENCE_NUMBER"], kinds=WANTED["_VALUE_KIND"], ids=(0, 2, 3),
        is_thin=is_thin,
    )  # fmt: skip
    keys = {"_KEY_c": WANTED["c"], "_KEY_a": WANTED["a"]}
    assert opened(file).read().to_pydict() == ({} if is_thin else keys) | WANTED
    lines = [line for line in OF_JAVA.strip().split("\n") if not is_thin or "_KEY_" not in line]
    assert str(opened(file).schema).split("\n", 1)[1].strip() == "\n".join(lines)
    assert file.rows == 5
    assert (file.min_sequence, file.max_sequence, file.delete_rows) == (2, 90, 2)
    assert file.min_key == encode_row(("STRING", "INT"), ("a", 4))
    assert file.max_key == encode_row(("STRING", "INT"), ("d", 3))
    key_types, types = (
        tuple(parse_data_type(each, "a test") for each in row)
        for row in (("STRING", "INT"), ("INT", "BIGINT", "STRING"))
    )
    minimum, maximum, nulls = file.key_stats
    assert decode_row(minimum, key_types, "bounds") == ("a", 1)
    assert decode_row(maximum, key_types, "bounds") == ("d", 9)
    assert nulls == (0, 0)
    minimum, maximum, nulls = file.stats
    assert decode_row(minimum, types, "bounds") == (1, 6, "a")
    assert decode_row(maximum, types, "bounds") == (9, 8, "d")
    assert nulls == (0, 2, 0)


def test_our_reader_finds_the_rows() -> None:
    """The columns of the table and of the system, in batches that cross row groups."""
    (file,) = files_of(PLAIN, ["c", "a"], kinds=WANTED["_VALUE_KIND"], options={"file.block-size": "80 b"})
    assert opened(file).metadata.num_row_groups > 1
    assert [file.min_key, file.max_key] == [encode_row(("STRING", "INT"), each) for each in (("a", 4), ("d", 3))]
    read = ReadFile("data-1-0.parquet", len(file.body), file.rows, "parquet", 0, 0, 0, b"", None)
    kind = DataField(2147483645, "_VALUE_KIND", parse_data_type("TINYINT NOT NULL", "a test"))
    batches = [batch for _, batch in parquet_batches(io.BytesIO(file.body), read, [*fields_of(PLAIN), kind])]
    found = pa.Table.from_batches(batches).to_pydict()
    assert found == {name: each for name, each in WANTED.items() if name != "_SEQUENCE_NUMBER"}


def test_statistics_of_keys_do_not_follow_options() -> None:
    """Columns have none, and keys have them of 128 characters."""
    texts = ["a" * 200, "b" * 200]
    (file,) = files_of([("k", "STRING NOT NULL", texts)], ["k"], options={"metadata.stats-mode": "none"})
    types = (parse_data_type("STRING", "a test"),)
    assert file.stats == (encode_row((), ()), encode_row((), ()), ())
    assert decode_row(file.key_stats.minimum, types, "bounds") == ("a" * 128,)
    assert decode_row(file.key_stats.maximum, types, "bounds") == ("b" * 127 + "c",)
    assert file.key_stats.null_counts == (0,)
    assert file.max_key == encode_row(("STRING",), (texts[1],))


def test_rolling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row group makes a file here; all of them have one name with numbers, and numbers of their own rows."""
    monkeypatch.setattr(writing_options, "LEAST_TARGET_BYTES", 1)
    columns: list[Column] = [("k", "BIGINT NOT NULL", range(7)), ("v", "STRING", list("abcdefg"))]
    files = files_of(
        columns, ["k"], sequences=[9, 8, 7, 6, 5, 4, 3], kinds=[0, 0, 3, 0, 0, 1, 1],
        options={"target-file-size": "1 b", "data-file.prefix": "x-", "file.suffix.include.compression": "true"},
    )  # fmt: skip
    rows = [opened(file).read().to_pydict()["k"] for file in files]
    assert [each for some in rows for each in some] == list(range(7))
    assert len(files) > 2
    for number, (file, keys) in enumerate(zip(files, rows, strict=True)):
        assert file.name == f"{files[0].name.rpartition('-')[0]}-{number}.zstd.parquet"
        assert file.name.startswith("x-")
        assert file.rows == len(keys)
        assert (file.min_sequence, file.max_sequence) == (9 - keys[-1], 9 - keys[0])
        assert [file.min_key, file.max_key] == [encode_row(("BIGINT",), (keys[each],)) for each in (0, -1)]
        assert (file.key_stats.minimum, file.key_stats.maximum) == (file.min_key, file.max_key)
        assert file.delete_rows == len({2, 5, 6} & set(keys))


def test_no_rows() -> None:
    assert files_of([("k", "INT NOT NULL", [])], ["k"]) == []


_MOMENT = datetime(1969, 12, 31, 23, 59, 59, 999_000)
KEYS: Mapping[str, tuple[Any, Any, Any, Any]] = {
    "BOOLEAN": (False, True, False, True),
    "TINYINT": (-128, 127, -128, 127),
    "SMALLINT": (-1, 0, -1, 0),
    "INT": (-(1 << 31), 5, -(1 << 31), 5),
    "BIGINT": (-(1 << 63), (1 << 63) - 1, -(1 << 63), (1 << 63) - 1),
    "DECIMAL(9, 2)": (Decimal("-1.50"), Decimal("0.25"), Decimal("-1.50"), Decimal("0.25")),
    "DECIMAL(18, 0)": (Decimal(-(10**17)), Decimal(10**17), Decimal(-(10**17)), Decimal(10**17)),
    "DECIMAL(38, 10)": (Decimal("-9e27"), Decimal("0.0000000001"), Decimal("-9e27"), Decimal("0.0000000001")),
    "DATE": (date(1969, 12, 31), date(2024, 1, 1), -1, 19723),
    "TIME(3)": (0, 86_399_999, 0, 86_399_999),
    "TIMESTAMP(0)": (datetime(1969, 12, 31), datetime(1970, 1, 1), Timestamp(-86_400_000, 0), Timestamp(0, 0)),
    "TIMESTAMP(3)": (_MOMENT, datetime(1970, 1, 1), Timestamp(-1, 0), Timestamp(0, 0)),
    "TIMESTAMP(6)": (-1, 1, Timestamp(-1, 999_000), Timestamp(0, 1_000)),
    "TIMESTAMP(9)": (-1, 1, Timestamp(-1, 999_999), Timestamp(0, 1)),
    "TIMESTAMP_LTZ(3)": (_MOMENT.replace(tzinfo=UTC), 0, Timestamp(-1, 0), Timestamp(0, 0)),
    "TIMESTAMP_LTZ(6)": (-1, 1, Timestamp(-1, 999_000), Timestamp(0, 1_000)),
    "CHAR(4)": ("ab  ", "b   ", "ab  ", "b   "),
    "VARCHAR(9)": ("\uffff", "\U00010000", "\uffff", "\U00010000"),
    "STRING": ("", "more than seven", "", "more than seven"),
}
"""Type -> two values as Arrow takes them, and as rows have them."""


@pytest.mark.parametrize("type_", KEYS)
def test_keys_of_each_type(type_: str) -> None:
    """Alone, with the rows in both orders, and as the second column of a key."""
    low, high, low_value, high_value = KEYS[type_]
    (file,) = files_of([("k", f"{type_} NOT NULL", [low, high])], ["k"])
    types = (parse_data_type(type_, "a test"),)
    assert [decode_row(each, types, "a key")[0] for each in (file.min_key, file.max_key)] == [low_value, high_value]
    assert (file.key_stats.minimum, file.key_stats.maximum) == (file.min_key, file.max_key)
    assert (file.stats.minimum, file.stats.maximum) == (file.min_key, file.max_key)
    for one, two in ((high, low), (low, low)):
        for rows in (1, 2):
            with pytest.raises(FormatError, match="a key that is not larger than the one before"):
                files_of([("k", f"{type_} NOT NULL", [one, two])], ["k"], batch_rows=rows)
    columns: list[Column] = [("a", "INT NOT NULL", [1, 1, 2]), ("k", f"{type_} NOT NULL", [low, high, low])]
    (file,) = files_of(columns, ["a", "k"])
    assert [
        decode_row(each, (parse_data_type("INT", ""), *types), "a key") for each in (file.min_key, file.max_key)
    ] == [
        (1, low_value),
        (2, low_value),
    ]


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_several_columns(seed: int) -> None:
    """Whatever two rows change places, nothing is written."""
    random = Random(seed)
    rows = sorted({(random.randint(0, 2), random.choice("aäz"), random.randint(0, 2)) for _ in range(12)})
    for _ in range(20):
        one, two = random.randrange(len(rows)), random.randrange(len(rows))
        tried = list(rows)
        tried[one], tried[two] = tried[two], tried[one]
        columns: list[Column] = [
            (name, f"{type_} NOT NULL", values)
            for name, type_, values in zip("abc", ("INT", "STRING", "BIGINT"), zip(*tried, strict=True), strict=True)
        ]
        if one == two:
            assert sum(file.rows for file in files_of(columns, list("abc"))) == len(rows)
        else:
            with pytest.raises(FormatError, match="a key that is not larger"):
                files_of(columns, list("abc"))


def _text_that_is_none() -> list[KeyedBytes]:
    data = pa.array([b"\xff"], pa.binary())
    field = DataField(0, "k", parse_data_type("STRING NOT NULL", "a test"))
    batch = pa.RecordBatch.from_arrays(
        [pa.Array.from_buffers(pa.string(), 1, data.buffers()), pa.array([0], pa.int64()), pa.array([0], pa.int8())],
        ["k", "_SEQUENCE_NUMBER", "_VALUE_KIND"],
    )
    schema = TableSchema(0, 9, (field,), (), ("k",), {}, 0, None)
    return list(keyed_files([batch], [field], MergeRules(("k",), has_vectors=True), writing_of(schema, [field])))


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: files_of([("k", "INT NOT NULL", [1, 2])], ["k"], kinds=[0, 4]), "expected kinds of rows from 0 to 3"),
        (lambda: files_of([("k", "INT NOT NULL", [1, 2])], ["k"], kinds=[0, -1]), "found -1"),
        (_text_that_is_none, "expected text in the primary key, found bytes that are not UTF-8"),
    ],
)
def test_rows_that_cannot_be(act: Callable[[], object], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        act()


@pytest.mark.parametrize("column", ["k", "_SEQUENCE_NUMBER", "_VALUE_KIND"])
def test_null_where_none_may_be(column: str) -> None:
    values: dict[str, list[Any]] = {"k": [1, 2], "_SEQUENCE_NUMBER": [1, 2], "_VALUE_KIND": [0, 0]}
    values[column][1] = None
    with pytest.raises(RefusedError, match=f"column (_KEY_)?{column} may not be null") as caught:
        files_of(
            [("k", "INT NOT NULL", values["k"])], ["k"], sequences=values["_SEQUENCE_NUMBER"],
            kinds=values["_VALUE_KIND"],
        )  # fmt: skip
    assert caught.value.code == "null_value"
