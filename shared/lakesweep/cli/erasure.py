"""The command that erases rows."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakesweep.cli.command import Typed, command
from lakesweep.cli.options import Place
from lakesweep.cli.rows import hidden_command, with_condition
from lakesweep.cli.run_id import RUN_ID, leaving
from lakesweep.errors import UsageError
from lakesweep.runs.parameters import erasure as given
from lakesweep.runs.parameters.parameter import text

if TYPE_CHECKING:
    from lakesweep.model.report import RunReport
    from lakesweep.runs.session import Table

PROOF = text(
    "proof",
    "Print the proof of this erasure, from its record alone: what was erased when, and what is gone.",
    "ERASURE",
)


@command(
    given.ERASE,
    "lakesweep erase s3://lake/sales.db/orders --where-file forget.sql",
    "lakesweep erase s3://lake/sales.db/orders --where-file s3://ops/lakesweep/conditions/forget.sql --catalog-type "
    "filesystem --control s3://ops/lakesweep --engine spark --execute",
    "lakesweep erase /data/orders --where-file forget.sql --catalog-type filesystem --execute",
    "lakesweep erase /data/orders --finish 20260131T120000Z-1f2e3d4c --execute",
    "lakesweep erase /data/orders --proof 20260131T120000Z-1f2e3d4c --json",
    last=(PROOF, RUN_ID),
)
def erase(typed: Typed) -> int:
    """Erase the rows of a person from every version of a table, say where they still are, and prove it.

    Does delete-rows, then rewrites the data files that had the rows, then compact-manifest, since manifests have values
    of rows; so it takes the tables that these take. Then it looks at every place where the rows can still be, and says
    until when. As long as one has them, the run ends as `partial` (exit code 4). --finish, later, deletes what may be
    deleted by the table's own rules, and looks again; it deletes no tag and no branch before its time. --proof prints
    the record, without a value of the rows or the condition. Prints the plan, and changes nothing without --execute.
    """
    if PROOF.name in typed.values:
        return _prove(typed)
    from lakesweep.cli.next_command import next_command

    def completed(table: "Table", values: Mapping[str, Any]) -> "tuple[Table, Mapping[str, Any]]":
        from lakesweep.api.engines import compaction_engine

        finish = values.get(given.FINISH.name)
        if finish is not None and RUN_ID.name in typed.values:
            raise UsageError("--finish deletes files, and a job with --run-id deletes none", code="bad_argument")
        table, values = with_condition(typed, table, values, is_optional=finish is not None)
        engine = compaction_engine(typed.place, table, values.get("engine"))
        return replace(table, compaction_engine=engine), values

    def following(place: Place, report: "RunReport") -> str:
        return hidden_command(typed, place) if next_command(place, report) else ""

    return typed.run(complete=completed, following=following, finished=leaving(typed))


def _prove(typed: Typed) -> int:
    from lakesweep.cli.answer import answer_document
    from lakesweep.cli.erased import proof_lines
    from lakesweep.cli.text import fields, human_time
    from lakesweep.operations.erasure.proof import ERASED, proof_of

    run_id = typed.values[PROOF.name]
    if others := sorted(typed.values.keys() - {PROOF.name}) or (["execute"] if typed.execute else []):
        raise UsageError(f"--proof reads a record; expected no {others[0]}", code="bad_argument")

    def lines(document: Mapping[str, Any]) -> Iterator[str]:
        yield from fields(proof_lines(document, human_time))

    return answer_document(
        typed.place,
        lambda table: proof_of(table, run_id),
        lines,
        damage=lambda document: document["state"] != ERASED,
    )
