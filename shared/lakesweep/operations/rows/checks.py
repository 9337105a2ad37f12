"""Which tables rows are deleted from, and which conditions are taken."""

from collections.abc import Mapping

from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.schema import TableSchema
from lakesweep.format.values.options import parse_bool
from lakesweep.format.vectors.vector import Width
from lakesweep.model.reading.plan import ReadPlan
from lakesweep.model.where.where import Where
from lakesweep.table.vectors import has_vectors

_BITMAP64 = "deletion-vectors.bitmap64"
_IN_PAIMON = "in Paimon instead (DELETE FROM in Spark)"
_OFF: Mapping[str, tuple[str, str]] = {
    "row-tracking.enabled": ("row_tracking", "rows have ids that readers follow"),
    "data-evolution.enabled": ("data_evolution", "the columns of a row may lie in several files"),
    "clustering.incremental": ("clustering", "its files are on levels that a deletion would have to respect"),
}


def check_table(schema: TableSchema) -> None:
    """Make sure that rows can be deleted from a table by deletion vectors.

    Raises:
        RefusedError: They cannot; the code says why.
    """
    if schema.primary_keys:
        raise _refusal(
            f"the table has the primary key {', '.join(schema.primary_keys)}, so a deletion writes rows that delete "
            "others, and a writer of the table has to do that",
            "primary_key_table",
        )
    bucket = schema.options.get("bucket", "-1").strip()
    if bucket != "-1":
        raise _refusal(
            f"option bucket is {bucket}, so its files lie in buckets, whose vectors Paimon does not protect from a "
            "simultaneous deletion",
            "bucketed_table",
        )
    try:
        for option, (code, why) in _OFF.items():
            if parse_bool(schema.options.get(option, "false"), option):
                raise _refusal(f"option {option} is true: {why}", code)
        if not has_vectors(schema):
            raise _refusal(
                "option deletion-vectors.enabled is not true, so data files would have to be rewritten",
                "no_deletion_vectors",
            )
    except FormatError as error:
        raise RefusedError(str(error), code="bad_option") from error


def check_files(plan: ReadPlan) -> None:
    """Make sure that all data files are where an append table has them.

    Raises:
        RefusedError: One is in a bucket or on a level.
    """
    for split in plan.splits:
        for file in split.files:
            if file.level or file.bucket:
                raise _refusal(
                    f"expected data files in bucket 0 on level 0, found {file.path} in bucket {file.bucket} on level "
                    f"{file.level}",
                    "clustering",
                )


def stated_width(schema: TableSchema) -> Width:
    """Return the width of a table's first vector.

    Raises:
        RefusedError: The option does not parse.
    """
    try:
        return 64 if parse_bool(schema.options.get(_BITMAP64, "false"), _BITMAP64) else 32
    except FormatError as error:
        raise RefusedError(str(error), code="bad_option") from error


def check_condition(where: Where, *, zone: str | None, confirm: bool) -> None:
    """Make sure that a condition means what its author wants.

    Args:
        where: The condition.
        zone: The zone that somebody declared.
        confirm: The author knows that it is true for every row.

    Raises:
        RefusedError: It depends on a zone that nobody declared (`no_time_zone`), or is true for every row
            (`always_true`).
    """
    if zone is None and where.depends_on_zone:
        raise RefusedError(
            f"{where} has times without a zone, and no time zone is declared; expected --time-zone, time_zone in the "
            "fleet policy, or times with a zone",
            code="no_time_zone",
        )
    if where.always and not confirm:
        raise RefusedError(
            f"{where} is true for every row; expected `lakesweep truncate TABLE`, which deletes them all without a "
            "look at them, or --confirm",
            code="always_true",
        )


def _refusal(why: str, code: str) -> RefusedError:
    return RefusedError(f"{why}; delete rows {_IN_PAIMON}", code=code)
