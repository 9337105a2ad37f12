"""Which tables rows are deleted from, and which conditions are taken."""

from collections.abc import Mapping

from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.schema import TableSchema
from lakesweep.format.values.options import parse_bool
from lakesweep.model.reading.plan import ReadPlan
from lakesweep.model.where.where import Where
from lakesweep.table.vectors import has_vectors

_IN_PAIMON = "delete rows in Paimon instead (DELETE FROM in Spark)"
_OFF: Mapping[str, tuple[str, str]] = {
    "row-tracking.enabled": ("row_tracking", "rows have ids that readers follow"),
    "data-evolution.enabled": ("data_evolution", "the columns of a row may lie in several files"),
    "clustering.incremental": ("clustering", "its files lie on levels that a commit has to respect"),
}


def check_table(schema: TableSchema) -> None:
    """Make sure that rows can be deleted from a table: by deletion vectors, or by rewriting data files.

    Raises:
        RefusedError: They cannot; the code says why.
    """
    check_append_table(schema, _IN_PAIMON)
    rewrites_files(schema)


def rewrites_files(schema: TableSchema) -> bool:
    """Tell whether rows are deleted from a table by rewriting data files, since its readers apply no vectors.

    Raises:
        RefusedError: The option does not parse (`bad_option`).
    """
    try:
        return not has_vectors(schema)
    except FormatError as error:
        raise RefusedError(str(error), code="bad_option") from error


def check_vectors(schema: TableSchema) -> None:
    """Make sure that readers of a table apply deletion vectors, and that it is one of `check_append_table`.

    Raises:
        RefusedError: The code says why it is not.
    """
    check_table(schema)
    if rewrites_files(schema):
        raise RefusedError(
            "option deletion-vectors.enabled is not true any more, so readers see the rows of vectors again",
            code="no_deletion_vectors",
        )


def check_append_table(schema: TableSchema, instead: str) -> None:
    """Make sure that a table has rows without keys, in files without buckets and levels.

    Args:
        schema: The latest schema of the branch.
        instead: What a person can do, if it has not.

    Raises:
        RefusedError: It has not; the code says why.
    """

    def refusal(why: str, code: str) -> RefusedError:
        return RefusedError(f"{why}; {instead}", code=code)

    if schema.primary_keys:
        keys = ", ".join(schema.primary_keys)
        raise refusal(f"the table has the primary key {keys}, so rows of several files are merged", "primary_key_table")
    bucket = schema.options.get("bucket", "-1").strip()
    if bucket != "-1":
        why = f"option bucket is {bucket}, and Paimon does not protect the files and vectors of a bucket from others"
        raise refusal(why, "bucketed_table")
    try:
        for option, (code, why) in _OFF.items():
            if parse_bool(schema.options.get(option, "false"), option):
                raise refusal(f"option {option} is true: {why}", code)
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
                raise RefusedError(
                    f"expected data files in bucket 0 on level 0, found {file.path} in bucket {file.bucket} on level "
                    f"{file.level}; only Paimon may change such a table",
                    code="clustering",
                )


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
