"""Files that Python workers read as Arrow: everything that Spark does not read itself."""

from typing import TYPE_CHECKING

from lakesweep.model.reading.plan import ReadPlan, Split
from lakesweep.spark.reading.routes import Routes
from lakesweep.spark.reading.tasks import SplitReader, pieces
from lakesweep.spark.reading.types import spark_schema
from lakesweep.spark.tasks import Access

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def frame(session: "SparkSession", access: Access, plan: ReadPlan, routes: Routes) -> "DataFrame | None":
    """Return the rows of the files that go through Arrow, one task for each split; `None` if there are none."""
    splits = [Split(tuple(file for file in split.files if file.path in routes.arrow)) for split in plan.splits]
    splits = [split for split in splits if split.files]
    if not splits:
        return None
    schema = spark_schema(column.field for column in plan.columns)
    return pieces(session, splits).mapInArrow(SplitReader(access, plan.shared), schema)
