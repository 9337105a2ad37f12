"""`read_table`: versions, vectors, partitions, keys, places that Spark could misread, what is refused."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakesweep.errors import FormatError, MaintenanceError, RefusedError, UsageError
from lakesweep.runs.parameters.time_travel import Version
from lakesweep.spark.reading.keys import file_key
from lakesweep.spark.reading.read import Reading, frame_of, open_reading, read_table
from lakesweep.spark.reading.routes import choose, spark_root
from lakesweep.storage.local.store import LocalStore
from tests.support import data_bytes
from tests.support.rows_read import planned
from tests.support.s3_server import moto_settings, moto_store
from tests.support.table_builder import TableBuilder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENABLED = {"deletion-vectors.enabled": "true"}
SAMPLE, PARQUET = data_bytes.sample, data_bytes.parquet
ODD = ("x y=%20+", "a:b#c?[d]{e}*", "ü'\"\\", None)
"""Partitions whose folders Spark could take for patterns, escapes or URIs."""


def table_in(folder: Path, **words: Any) -> TableBuilder:
    return TableBuilder(LocalStore(str(folder)), real_rows=True, **words)


def with_vectors(folder: Path, **words: Any) -> TableBuilder:
    """Two files of ten rows, one with a vector."""
    table = table_in(folder, types={"n": "INT"}, options=ENABLED, **words)
    table.commit("+A", "+B")
    table.commit(index={"I": {"A": [0, 7]}})
    return table


def numbers(spark: "SparkSession", folder: Path, **words: Any) -> list[int]:
    frame = read_table(spark, str(folder), protect_ms=None, **words)
    return sorted(row["n"] for row in frame.select("n").collect())


FIELDS = ({"id": 0, "name": "v", "type": "STRING"}, {"id": 1, "name": "n", "type": "INT"})
KEPT = [1, 2, 3, 4, 5, 6, 8, 9]


@pytest.mark.spark4
def test_versions(spark: "SparkSession", tmp_path: Path) -> None:
    """The latest snapshot, an earlier one, a tag; a condition on a column that is not in the result."""
    table = with_vectors(tmp_path / "t")
    table.tag("then", snapshot=1)
    every = sorted([*range(10), *range(10)])
    assert numbers(spark, tmp_path / "t") == sorted([*KEPT, *range(10)])
    for version in (1, "1", "then", Version(snapshot_id=1)):
        assert numbers(spark, tmp_path / "t", version=version) == every
    frame = read_table(spark, str(tmp_path / "t"), columns=["v"], where="n >= 8", protect_ms=None)
    assert frame.columns == ["v"]
    assert sorted(row["v"] for row in frame.collect()) == ["v00008", "v00008", "v00009", "v00009"]
    with pytest.raises(RefusedError) as refused:
        read_table(spark, str(tmp_path / "t"), version=7, protect_ms=None)
    assert refused.value.code == "no_such_version"


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("{} > 100", ["v00009"]),
        ("NOT {} <= 100", ["v00009"]),
        ("{} = double('NaN')", ["v00009"]),
        ("{} IN (700, double('NaN'))", ["v00009"]),
        ("{} = 0", ["v00000", "v00008"]),
    ],
)
def test_a_nan_that_statistics_do_not_count(
    spark: "SparkSession", tmp_path: Path, where: str, expected: list[str]
) -> None:
    """Arrow writes the largest number as the upper bound. By it, Spark would leave out the NaN, which is larger."""
    table = table_in(tmp_path / "t", types={"d": "DOUBLE", "f": "FLOAT"})
    special = {0: 0.0, 8: -0.0, 9: math.nan}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            data_bytes,
            "sample",
            lambda type_, row: special[row] if type_ in ("DOUBLE", "FLOAT") and row in special else SAMPLE(type_, row),
        )
        table.commit("+A")
    assert choose(planned(table.store), spark_sees_table=True).spark
    for column in ("d", "f"):
        condition = where.format(column)
        frame = read_table(spark, str(tmp_path / "t"), where=condition, protect_ms=None)
        assert sorted(row["v"] for row in frame.collect()) == expected
        callers = read_table(spark, str(tmp_path / "t"), protect_ms=None).where(condition)
        assert sorted(row["v"] for row in callers.collect()) == expected, "the caller's own condition"


def test_a_condition_means_the_same_in_every_session(spark: "SparkSession", tmp_path: Path) -> None:
    """Also where double quotes are for names."""
    table_in(tmp_path / "t", types={"n": "INT"}).commit("+A")
    settings = ("spark.sql.ansi.enabled", "spark.sql.ansi.doubleQuotedIdentifiers")
    for setting in settings:
        spark.conf.set(setting, "true")
    try:
        assert numbers(spark, tmp_path / "t", where='v = "v00008"') == [8]
    finally:
        for setting in settings:
            spark.conf.unset(setting)


@pytest.mark.parametrize("has_vectors", [True, False])
def test_partitions_with_odd_folders(spark: "SparkSession", tmp_path: Path, has_vectors: bool) -> None:
    """The values are those of metadata, and the columns those of the table."""
    folder = tmp_path / "ta ble%41=1"
    table = table_in(folder, partition_keys=("dt",), types={"n": "INT"}, options=ENABLED)
    symbols = [f"{number}" for number in range(len(ODD))]
    table.commit(*(f"+{symbol}" for symbol in symbols), partition={s: (ODD[int(s)],) for s in symbols})
    if has_vectors:
        for symbol in symbols:
            table.commit(index={f"I{symbol}": {symbol: [int(symbol)]}}, partition=(ODD[int(symbol)],))
    deleted = {int(symbols[-1])} if has_vectors else set()
    for where, values in (("true", ODD), ("dt LIKE 'x%'", ODD[:1])):
        frame = read_table(spark, str(folder), where=None if where == "true" else where, protect_ms=None)
        assert frame.columns == ["v", "dt", "n"]
        found = {(row["dt"], row["n"]) for row in frame.collect()}
        expected = {(dt, n) for number, dt in enumerate(ODD) for n in range(10) if dt in values}
        expected -= {(ODD[number], number) for number in deleted}
        assert found == expected


def test_primary_keys(spark: "SparkSession", tmp_path: Path) -> None:
    """Level 0 is left out and counted, and a table without vectors needs a compaction."""
    table = table_in(tmp_path / "t", primary_keys=("id",), options=ENABLED)
    table.commit("+A@5", "+B")
    table.commit(index={"I": {"A": [3]}})
    reading = open_reading(spark, str(tmp_path / "t"), protect_ms=None)
    assert (reading.plan.counts.level_0_files, reading.plan.counts.level_0_rows) == (1, 10)
    assert sorted(row["id"] for row in reading.frame.collect()) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    table_in(tmp_path / "merge", primary_keys=("id",)).commit("+A")
    with pytest.raises(RefusedError) as refused:
        read_table(spark, str(tmp_path / "merge"), protect_ms=None)
    assert refused.value.code == "needs_merge"


def test_a_column_that_a_file_does_not_have(spark: "SparkSession", tmp_path: Path) -> None:
    """It is NULL there. Names may have any characters."""
    name = "a.`b c"
    table = table_in(tmp_path / "t", types={name: "INT"}, options=ENABLED)
    table.commit("+A")
    table.alter(types={"later": "DECIMAL(5, 2)"})
    table.commit("+B")
    rows = read_table(spark, str(tmp_path / "t"), protect_ms=None).collect()
    assert sorted(row[name] for row in rows) == sorted([*range(10)] * 2)
    assert sorted(str(row["later"]) for row in rows) == sorted(["None"] * 10 + [f"0.0{n}" for n in range(10)])


@pytest.mark.parametrize("name", ["_metadata", "V", "_tmp_metadata_row_index"])
def test_names_that_spark_could_take_for_its_own(spark: "SparkSession", tmp_path: Path, name: str) -> None:
    """Such files go through Arrow. Spark cannot tell `v` and `V` apart by name, so rows are asked for by position."""
    table = table_in(tmp_path / "t", types={name: "INT"}, options=ENABLED)
    table.commit("+A")
    table.commit(index={"I": {"A": [0, 7]}})
    plan = planned(table.store)
    assert not choose(plan, spark_sees_table=True).spark
    assert sorted(row[1] for row in frame_of(spark, plan).collect()) == KEPT


def test_settings_that_would_leave_rows_out(spark: "SparkSession", tmp_path: Path) -> None:
    """A session may ignore what is missing or damaged; a read of a version never does."""
    table = with_vectors(tmp_path / "t")
    frame = read_table(spark, str(tmp_path / "t"), protect_ms=None)
    settings = ("spark.sql.files.ignoreMissingFiles", "spark.sql.files.ignoreCorruptFiles")
    for setting in settings:
        spark.conf.set(setting, "true")
    try:
        frame = read_table(spark, str(tmp_path / "t"), protect_ms=None)
        table.store.put(table.path("B"), b"no Parquet file")
        with pytest.raises(Exception, match=r"Parquet|FAILED_READ_FILE"):
            frame.collect()
        table.remove("B")
        with pytest.raises(Exception, match=r"does not exist|FAILED_READ_FILE"):
            frame.collect()
        with pytest.raises(RefusedError, match=table.path("B")) as refused:
            read_table(spark, str(tmp_path / "t"), protect_ms=None)
        assert refused.value.code == "missing_data_file"
    finally:
        for setting in settings:
            spark.conf.unset(setting)


def test_a_version_that_expires_meanwhile(spark: "SparkSession", tmp_path: Path) -> None:
    """The block ends with a sentence that names the version, also if the vectors are gone."""
    for symbol in ("A", "I"):
        table = with_vectors(tmp_path / symbol)
        with (
            pytest.raises(RefusedError, match="all files of snapshot 2 while it was read") as refused,
            open_reading(spark, str(tmp_path / symbol), protect_ms=None) as reading,
        ):
            table.remove(symbol)
            reading.frame.collect()
        assert refused.value.code == "missing_data_file"


def test_a_data_file_with_more_rows_than_metadata_state(spark: "SparkSession", tmp_path: Path) -> None:
    """Its vector says nothing about them, so the job ends."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data_bytes, "parquet", lambda fields, keys, fixed, _: PARQUET(fields, keys, fixed, 100))
        with_vectors(tmp_path / "t")
    with pytest.raises(Exception, match="expected a mark of each data file"):
        read_table(spark, str(tmp_path / "t"), protect_ms=None).collect()


@pytest.mark.spark4
@pytest.mark.parametrize("size", [0, 100])
def test_a_data_file_that_was_cut(spark: "SparkSession", tmp_path: Path, size: int) -> None:
    """Spark would leave out a file without bytes, and its rows."""
    table = with_vectors(tmp_path / "t")
    table.store.put(table.path("B"), table.store.read(table.path("B")).data[:size])
    with pytest.raises(FormatError, match=f"{table.path('B')}: expected .* bytes, .* found {size}"):
        read_table(spark, str(tmp_path / "t"), protect_ms=None)


@pytest.mark.parametrize("name", ["_key_id", "_sequence_number"])
def test_columns_that_differ_only_in_case_from_those_of_keys(spark: "SparkSession", tmp_path: Path, name: str) -> None:
    """Spark would take them for one column."""
    table_in(tmp_path / "t", primary_keys=("id",), types={name: "INT"}).commit("+A@5")
    frame = read_table(spark, str(tmp_path / "t"), columns=[name], protect_ms=None)
    assert sorted(row[0] for row in frame.collect()) == list(range(10))


def tags_of(table: TableBuilder) -> list[str]:
    return [entry.key for entry in table.store.list("tag/")]


def test_protection(spark: "SparkSession", tmp_path: Path) -> None:
    """A tag with a time to live, gone after the block; `read_table` leaves it."""
    table = with_vectors(tmp_path / "t")
    control = str(tmp_path / "control")
    with open_reading(spark, str(tmp_path / "t"), control=control) as reading:
        assert isinstance(reading, Reading)
        assert tags_of(table) == [f"tag/tag-{reading.tag}"]
        assert b"tagTimeRetained" in table.store.read(f"tag/tag-{reading.tag}").data
        assert reading.frame.count() == 18
    assert (tags_of(table), reading.warnings) == ([], [])
    read_table(spark, str(tmp_path / "t"), control=control)
    (path,) = tags_of(table)
    assert path.startswith("tag/tag-lakesweep-read-")
    with pytest.raises(UsageError) as wrong:
        read_table(spark, str(tmp_path / "t"))
    assert wrong.value.code == "control_missing"


def test_no_tag_stays_if_the_frame_cannot_be_made(spark: "SparkSession", tmp_path: Path) -> None:
    """The error is that of the frame."""
    table = with_vectors(tmp_path / "t")
    table.remove("B")
    with pytest.raises(RefusedError, match=table.path("B")):
        read_table(spark, str(tmp_path / "t"), control=str(tmp_path / "control"))
    assert tags_of(table) == []


def test_an_empty_table(spark: "SparkSession", tmp_path: Path) -> None:
    """No snapshot: no rows and no tag."""
    table_in(tmp_path / "t")
    with open_reading(spark, str(tmp_path / "t"), control=str(tmp_path / "control")) as reading:
        assert (reading.tag, reading.frame.columns, reading.frame.count()) == (None, ["v"], 0)


def test_what_is_not_asked_for(spark: "SparkSession", tmp_path: Path) -> None:
    """A column or condition that does not fit is refused before anything is written."""
    table = with_vectors(tmp_path / "t")
    for words in ({"columns": ["x"]}, {"where": "x = 1"}, {"where": "n ="}):
        with pytest.raises(MaintenanceError):
            read_table(spark, str(tmp_path / "t"), control=str(tmp_path / "control"), **words)
    assert tags_of(table) == []


def test_keys_of_files_are_those_of_spark(spark: "SparkSession") -> None:
    """Names of all lengths, also with characters of several bytes."""
    names = [("data-\u00fc" * 20)[:length] for length in range(90)]
    frame = spark.createDataFrame([(name,) for name in names], "name string")
    assert [file_key(name) for name in names] == [row[0] for row in frame.selectExpr("xxhash64(name)").collect()]


def test_a_table_in_s3(spark: "SparkSession") -> None:
    """This Spark does not know S3, so Python workers read every file."""
    table = TableBuilder(moto_store("t"), real_rows=True, types={"n": "INT"}, options=ENABLED)
    table.commit("+A", "+B")
    table.commit(index={"I": {"A": [0, 7]}})
    location, settings = table.store.location, moto_settings()
    assert spark_root(spark, location, has_endpoint=False) is None
    with open_reading(spark, location, control=moto_store("control").location, settings=settings) as reading:
        assert sorted(row["n"] for row in reading.frame.collect()) == sorted([*KEPT, *range(10)])
    assert tags_of(table) == []
