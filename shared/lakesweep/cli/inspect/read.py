"""`lakesweep read`."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, Any

from lakesweep.cli.command import reads
from lakesweep.cli.inspect.version import VersionOptions
from lakesweep.cli.options import Place, option
from lakesweep.cli.text import counted
from lakesweep.errors import UsageError, some_of

_STREAM = "-"
_LOCAL, _SPARK = "local", "spark"
_MOST = (1 << 31) - 1
"""The largest limit that Spark takes."""


@reads(
    "lakesweep read /data/orders --limit 10",
    "lakesweep read /data/orders --tag 2026-01-31 --to orders.parquet",
    "lakesweep read s3://lake/sales.db/orders --version month-end --columns id,price --to orders.csv",
    "lakesweep read /data/orders --where \"price > 10 AND region IN ('eu', 'us')\"",
    "lakesweep read s3://lake/sales.db/orders --engine spark --control s3://ops/lakesweep --to s3://lake/copies/orders",
    place=("branch", "control"),
    more=VersionOptions,
)
def read(
    place: Place,
    version: VersionOptions,
    to: Annotated[
        str,
        option(
            "--to",
            "A new file that ends in .parquet, .csv or .jsonl, or a new folder for Parquet files; - for JSON lines on "
            "standard output.",
            "PATH",
        ),
    ] = _STREAM,
    columns: Annotated[str | None, option("--columns", "Only these columns, in this order.", "NAMES")] = None,
    where: Annotated[
        str | None,
        option(
            "--where",
            "Only rows of this condition, in Spark's SQL, such as \"price > 10 AND day = '2026-01-31'\".",
            "TEXT",
        ),
    ] = None,
    zone: Annotated[str, option("--time-zone", "Time zone of times in --where.", "ZONE")] = "UTC",
    limit: Annotated[int | None, option("--limit", "At most this many rows, any of them.", "N")] = None,
    allow_missing: Annotated[
        bool, option("--allow-missing", "Leave out data files that do not exist, and say which.")
    ] = False,
    engine: Annotated[
        str,
        option(
            "--engine",
            "local: this process. spark: a Spark session, which writes a new folder of Parquet files.",
            "ENGINE",
        ),
    ] = _LOCAL,
    protect: Annotated[
        bool | None,
        option(
            "--protect/--no-protect",
            "Protect the version by a tag, which is deleted at the end and lives a day at most. With --engine spark "
            "this is the default.",
        ),
    ] = None,
) -> int:
    """Read the rows of one version of a table: the latest snapshot, unless an option names another version."""
    from lakesweep.cli.answer import answer_document
    from lakesweep.cli.terminal.output import say, write_text
    from lakesweep.operations.reading.plan import plan_read
    from lakesweep.operations.reading.protection import protected
    from lakesweep.operations.reading.read import unprotected, write_rows
    from lakesweep.runs.session import Table

    def run(opened: Table) -> Mapping[str, object]:
        if place.as_json and to == _STREAM:
            raise UsageError("--json: expected --to PATH, since the rows go to standard output")
        if limit is not None and not 0 <= limit <= _MOST:
            raise UsageError(f"--limit: expected 0 to {_MOST}, or no --limit for all rows, found {limit}")
        names = None if columns is None else [name.strip() for name in columns.split(",")]
        if engine == _SPARK:
            if allow_missing:
                raise UsageError("--allow-missing: expected without --engine spark")
            from lakesweep.api.engines import read_on_spark

            chosen = {
                "version": version.parse(),
                "columns": names,
                "where": where,
                "zone": zone,
                "falls_back_to_tags": version.fall_back_to_tags,
            }
            return read_on_spark(place, opened, chosen, to=to, limit=limit, protects=protect is not False).to_json()
        if engine != _LOCAL:
            raise UsageError(f"--engine: expected {_LOCAL} or {_SPARK}, found {engine!r}", code="bad_argument")
        plan = plan_read(
            opened,
            version.parse(),
            columns=names,
            where=where,
            zone=zone,
            falls_back_to_tags=version.fall_back_to_tags,
        )
        if plan.where is not None and plan.where.note:
            say(plan.where.note)
        found = write_rows(
            opened,
            plan,
            to,
            limit=limit,
            allows_missing=allow_missing,
            emit=write_text,
            protect=partial(protected, opened, say=say) if protect else unprotected,
        )
        return found.to_json()

    def lines(document: Mapping[str, Any]) -> Iterator[str]:
        if to == _STREAM:
            for line in _lines(document):
                say(line)
            return
        yield from _lines(document)

    return answer_document(place, run, lines)


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    if document["snapshot_id"] is None:
        yield f"{document['table']}, branch {document['branch']}: no snapshot, so no rows"
        return
    held = "" if document["tag"] is None else f", held by tag {document['tag']}"
    to = "" if document["to"] == _STREAM else f" to {document['to']}"
    yield f"snapshot {document['snapshot_id']}{held}: {counted(document['rows'], 'row')}{to}"
    if document["level_0_files"]:
        rows, files = counted(document["level_0_rows"], "row"), counted(document["level_0_files"], "file")
        yield f"left out {rows} in {files} of level 0: no reader sees them before a compaction"
    if document["missing_files"]:
        yield f"left out data files that do not exist: {some_of(document['missing_files'])}"
