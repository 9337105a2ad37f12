"""Data files of a table with a primary key that Lakesweep does not merge, whatever the latest schema says.

Source: Paimon `SchemaManager#checkAlterTableOption`.
"""

from collections.abc import Iterable, Sequence, Set

from lakesweep.errors import RefusedError, some_of
from lakesweep.format.manifest import POSTPONE_BUCKET
from lakesweep.format.schema import TableSchema
from lakesweep.format.values.json_document import describe
from lakesweep.format.values.options import parse_bool
from lakesweep.model.keyed import KeyedFile
from lakesweep.operations.keyed.rules.columns import INSTEAD
from lakesweep.operations.keyed.rules.options import VECTORS
from lakesweep.operations.keyed.rules.sections import sections_of


def check_files(files: Iterable[KeyedFile], schemas: Sequence[TableSchema], *, has_vectors: bool, full: bool) -> None:
    """Make sure that the data files of a bucket can be merged.

    Args:
        files: The live data files.
        schemas: All schemas of the branch, which `check_keyed_table` allows.
        has_vectors: Readers apply deletion vectors.
        full: All files are merged.

    Raises:
        RefusedError: A file is not in Parquet (`unsupported_file_format`), waits for a bucket (`postpone_bucket`), has
            a part of the columns (`data_evolution`) or those of an unknown schema (`unreadable_schema`), or the files
            have several numbers of buckets (`bucket_counts`). Or only some files are merged, and levels above 0 may
            have rows of one key that no vector hides, since a file is older than the vectors of the table
            (`vectors_switched`). A full compaction merges such files with all that they overlap.
    """
    files = tuple(files)
    known = {each.id for each in schemas}
    for each in files:
        _check_file(each, known)
        if each.total_buckets != files[0].total_buckets:
            raise RefusedError(
                f"expected files of a bucket with one number of buckets, found {files[0].file.path} with "
                f"{files[0].total_buckets} and {each.file.path} with {each.total_buckets}; write the partition anew "
                "(INSERT OVERWRITE)",
                code="bucket_counts",
            )
    if has_vectors and not full and (off := _last_without_vectors(schemas)) is not None:
        _check_unique(files, off)


def _check_file(each: KeyedFile, known: Set[int]) -> None:
    file = each.file
    if file.format != "parquet":
        raise RefusedError(
            f"expected data files in Parquet, found {file.path}, which Lakesweep does not merge; {INSTEAD}",
            code="unsupported_file_format",
        )
    if file.bucket == POSTPONE_BUCKET:
        raise RefusedError(
            f"expected data files in buckets, found {file.path}, whose rows wait for theirs; {INSTEAD}",
            code="postpone_bucket",
        )
    if file.schema_id not in known:
        raise RefusedError(
            f"{file.path}: expected one of the schemas {some_of(sorted(known))}, found schema {file.schema_id}",
            code="unreadable_schema",
        )
    if file.write_cols is not None:
        raise RefusedError(
            f"{file.path}: expected all columns of a row in one data file, found {some_of(file.write_cols)} alone",
            code="data_evolution",
        )


def _check_unique(files: Iterable[KeyedFile], off: TableSchema) -> None:
    """Refuse files of levels that may have several visible rows of one key.

    A file is written anew only together with all files above it that it overlaps. So where each of them is younger than
    the vectors, the deepest one was merged with the others when vectors were on.
    """
    for section in sections_of(each for each in files if each.level):
        old = [each.file for run in section for each in run if each.file.schema_id <= off.id]
        if old and len(section) > 1:
            stated = describe(off.options.get(VECTORS, "false"))
            raise RefusedError(
                f"option {VECTORS} is {stated} in schema {off.id} and true now, and {old[0].path} of level "
                f"{old[0].level}, written with schema {old[0].schema_id}, overlaps other levels (both may have a "
                f"visible row of one key); expected a full compaction (--full); {INSTEAD}",
                code="vectors_switched",
            )


def _last_without_vectors(schemas: Sequence[TableSchema]) -> TableSchema | None:
    off = [each for each in schemas if not parse_bool(each.options.get(VECTORS, "false"), VECTORS)]
    return off[-1] if off else None
