"""The operation that erases rows, and its parameters."""

from lakesweep.runs.parameters import compaction, rows
from lakesweep.runs.parameters.commits import CATALOG_LOCK, CATALOG_TYPE
from lakesweep.runs.parameters.parameter import OPTIONS, Signature, text
from lakesweep.runs.parameters.partitions import FALLBACK_REAPPEARS

FINISH = text(
    "finish",
    "Continue this erasure: what may expire by the table's own rules expires, and every place is looked at again. Give "
    "the condition, too, if its commits were not all made, or to search what came since.",
    "ERASURE",
    is_plain=True,
)
TIME_ZONE = rows.TIME_ZONE.says(
    "Time zone of times in the condition that have none, and of the writers' clocks; by default that of the fleet "
    "policy."
)
ENGINE = rows.ENGINE.says(
    "What searches and rewrites data files: local (the default), this process; or spark, a Spark session, of "
    "spark-submit or on this machine."
)
ERASE = Signature(
    "erase",
    (
        *(rows.WHERE.says("The rows to erase: a condition as of delete-rows."), rows.WHERE_FILE, TIME_ZONE),
        *(rows.CONFIRM, FINISH, ENGINE, CATALOG_TYPE, CATALOG_LOCK, FALLBACK_REAPPEARS, OPTIONS),
    ),
    rows.DELETE_ROWS.options | compaction.COMPACT.options,
    commits=True,
    needs_spark=True,
)
