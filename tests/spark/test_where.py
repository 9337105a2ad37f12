"""Conditions on rows in Spark itself: it holds the plain evaluator, which holds everything else.

A time with nanoseconds comes to Spark cut to microseconds, and a TIME as an INT, as the readers of tables show them.
"""

import random
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakesweep.model.where.spark_text import to_spark_sql
from lakesweep.model.where.where import Where, parse_where
from tests.support.conditions import NANOS, PLAIN_FIELDS, Row, Tried, arrow_table, some_condition, some_row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OTHER_SETTINGS = {
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.caseSensitive": "true",
}
"""Under which the texts of people mean something else."""


def _frame(spark: "SparkSession", rows: list[Row], folder: Path) -> "DataFrame":
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = arrow_table(rows)
    columns = {"tm": table["tm"].cast(pa.int32())}
    for name, zone in zip(NANOS, (None, "UTC"), strict=True):
        micros = [None if row[name] is None else row[name] // 1000 for row in rows]
        columns[name] = pa.array(micros, pa.timestamp("us", zone))
    for name, column in columns.items():
        table = table.set_column(table.column_names.index(name), name, column)
    table = table.append_column("row", pa.array(range(len(rows)), pa.int32()))
    pq.write_table(table, folder / "rows.parquet")
    frame = spark.read.option("datetimeRebaseMode", "CORRECTED").parquet(str(folder / "rows.parquet"))
    # The limit keeps conditions from Parquet's statistics, as `spark/reading/jvm.py` does; they do not count NaN.
    return frame.coalesce(1).limit(len(rows))


def _scene(seed: int) -> tuple[list[Row], list[tuple[Tried, Where]]]:
    rng = random.Random(seed)
    rows: list[Row] = [some_row(rng) for _ in range(150)]
    found = [some_condition(rng, rng.choice([0, 0, 1, 2, 3])) for _ in range(60)]
    return rows, [(tried, parse_where(tried.text, PLAIN_FIELDS)) for tried in found]


def _check_answers(frame: "DataFrame", texts: list[str], tried: list[tuple[Tried, Where]], rows: list[Row]) -> None:
    answers = frame.selectExpr("row", *(f"({text}) AS `{n}`" for n, text in enumerate(texts))).orderBy("row").collect()
    for number, (each, _) in enumerate(tried):
        assert [row[number + 1] for row in answers] == [each.means(row) for row in rows], texts[number]


def _check_chosen(frame: "DataFrame", texts: list[str], tried: list[tuple[Tried, Where]], rows: list[Row]) -> None:
    from pyspark.sql import DataFrame
    from pyspark.sql.functions import lit

    chosen = [frame.where(text).select(lit(number), "row") for number, text in enumerate(texts[:20])]
    for number, place in {tuple(row) for row in reduce(DataFrame.unionAll, chosen).collect()} ^ {
        (number, place)
        for number, (each, _) in enumerate(tried[:20])
        for place, row in enumerate(rows)
        if each.means(row) is True
    }:
        raise AssertionError(f"{texts[number]} differs in {rows[place]}")


@pytest.mark.parametrize("seed", range(20))
def test_spark_answers_like_the_plain_evaluator(spark: "SparkSession", tmp_path: Path, seed: int) -> None:
    """Row by row, also where the answer is null; and `where` takes the rows for which it is true."""
    rows, tried = _scene(seed)
    texts = [each.text for each, _ in tried]
    frame = _frame(spark, rows, tmp_path)
    _check_answers(frame, texts, tried, rows)
    _check_chosen(frame, texts, tried, rows)


@pytest.mark.parametrize("seed", range(20))
def test_our_text_means_the_same_in_every_session(spark: "SparkSession", tmp_path: Path, seed: int) -> None:
    rows, tried = _scene(seed)
    texts = [to_spark_sql(where) for _, where in tried]
    other = spark.newSession()
    for name, value in OTHER_SETTINGS.items():
        other.conf.set(name, value)
    frame = _frame(other, rows, tmp_path)
    _check_answers(frame, texts, tried, rows)
    _check_chosen(frame, texts, tried, rows)
