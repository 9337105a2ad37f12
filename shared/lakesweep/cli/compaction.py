"""The command that compacts data files."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakesweep.cli.command import Typed, command
from lakesweep.cli.run_id import RUN_ID, leaving, of_run
from lakesweep.runs.parameters import compaction as given

if TYPE_CHECKING:
    from lakesweep.runs.session import Table


@command(
    given.COMPACT,
    "lakesweep compact s3://lake/sales.db/orders",
    "lakesweep compact s3://lake/sales.db/orders --catalog-type filesystem --control s3://ops/lakesweep "
    "--engine spark --execute",
    "lakesweep compact /data/orders --partition dt=20240101 --full --catalog-type filesystem --execute",
    last=(RUN_ID,),
)
def compact(typed: Typed) -> int:
    """Merge data files, and take deleted rows out, by one new snapshot. For tables in Parquet.

    Of an append table without buckets, small files are merged, and files of which more than a fifth of the rows are
    deleted, if that pays. With a primary key, files of level 0 are merged upwards, and older rows of the same keys are
    hidden: where readers apply deletion vectors, they see new rows only after that. --full merges each bucket whole.
    Nobody else may compact such a table. The table's own options decide, as in Paimon. If another writer changes files
    meanwhile, what was to be merged with them stays as it is. The snapshot deletes no file: older snapshots, tags and
    branches still name the former ones, which expiry deletes. Needs the extra `read`. Prints the plan, and changes
    nothing without --execute.
    """

    def completed(table: "Table", values: Mapping[str, Any]) -> "tuple[Table, Mapping[str, Any]]":
        from lakesweep.api.engines import compaction_engine

        engine = compaction_engine(typed.place, table, values.get("engine"))
        return replace(of_run(typed, table), compaction_engine=engine), values

    return typed.run(complete=completed, finished=leaving(typed))
