"""Which tables are compacted."""

from collections.abc import Mapping

from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.schema import TableSchema
from lakesweep.format.values.options import parse_bool

_OFF: Mapping[str, tuple[str, str]] = {
    "row-tracking.enabled": ("row_tracking", "rows have ids that a new file would have to keep"),
    "data-evolution.enabled": ("data_evolution", "the columns of a row may lie in several files"),
    "clustering.incremental": ("clustering", "its files are on levels that a compaction has to respect"),
}


def check_table(schema: TableSchema) -> None:
    """Make sure that a table can be compacted.

    Raises:
        RefusedError: It cannot; the code says why.
    """
    if schema.primary_keys:
        raise _refusal(
            f"the table has the primary key {', '.join(schema.primary_keys)}, so its files have to be merged",
            "primary_key_table",
        )
    bucket = schema.options.get("bucket", "-1").strip()
    if bucket != "-1":
        raise _refusal(
            f"option bucket is {bucket}, and writers keep their own lists of a bucket's files", "bucketed_table"
        )
    try:
        for option, (code, why) in _OFF.items():
            if parse_bool(schema.options.get(option, "false"), option):
                raise _refusal(f"option {option} is true: {why}", code)
    except FormatError as error:
        raise RefusedError(str(error), code="bad_option") from error


def _refusal(why: str, code: str) -> RefusedError:
    return RefusedError(f"{why}; compact in Paimon instead (CALL sys.compact)", code=code)
