"""`lakesweep explain`."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from lakesweep.cli.command import option_of, reads
from lakesweep.cli.options import Place, option
from lakesweep.cli.text import columns, counted, fields, human_bytes, human_time
from lakesweep.runs.parameters.signatures import OLDER_THAN

_SAYS = {
    "missing": "readers need them, but they do not exist",
    "current": "the newest snapshot needs them",
    "expired": "the next expiry deletes them",
    "due": "due, but beyond the limit of one expiry: a later one deletes them",
    "snapshots": "only older snapshots need them, which are not due yet",
    "consumer": "only snapshots that a consumer holds back need them",
    "tags": "only tags need them",
    "branches": "only other branches need them",
    "changelogs": "only long-lived changelogs need them",
    "shared": "several kinds of older roots need them",
    "deleted_entries": "deleted, but manifests that are not merged yet still name them",
    "too_young": "no root names them, but a writer may still commit them",
    "orphan": "no root names them: remove-orphan-files deletes them",
    "damaged_root": "no root names them, but a root is incomplete",
    "live_owner": "extra files of files in use",
    "foreign": "names that Paimon does not use",
    "reported": "left by other programs",
    "nested_table": "of another table, in a folder of this table",
    "link": "symbolic links",
    "pack": "managed packs of large values, never deleted",
    "document": "snapshots, schemas, tags and other documents",
}
_FIRST = 3


@reads(
    "lakesweep explain s3://lake/sales.db/orders",
    "lakesweep explain /data/orders dt=2026-01-31/bucket-0/data-5b0c.parquet",
    "lakesweep explain s3://lake/sales.db/orders s3://lake/sales.db/orders/tag/tag-month-end --json",
    "lakesweep explain s3://lake/sales.db/orders manifest/manifest-8c1f-0 --control s3://ops/lakesweep",
    place=("policy", "control"),
)
def explain(
    place: Place,
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE]", help="An object, relative to the table or as a full URI; by default the whole table."
        ),
    ] = None,
    older_than: Annotated[
        str | None,
        option_of(
            OLDER_THAN.says(
                "Cutoff of a scan: an age such as '3 d', ISO-8601 with a zone, or epoch milliseconds; by default a day."
            )
        ),
    ] = None,
    quarantine: Annotated[
        str | None, option("--quarantine", "Quarantine of this table's orphan scans, such as '1 d'.", "DURATION")
    ] = None,
) -> int:
    """Explain why an object exists, or what happened to it. Without FILE, explain why the table's bytes are kept.

    For an object, it shows which snapshots, tags, branches and changelogs need it and until when. Or it shows which
    rule protects the object, that it is an orphan, or which run deleted it. Changes nothing. Exit code 3: nothing is
    known about the object.
    """
    from lakesweep.cli.answer import answer_document
    from lakesweep.operations.inspect.explain.file import ExplainArguments, explain_file
    from lakesweep.operations.inspect.explain.table import explain_table
    from lakesweep.runs.parameters.age import Age
    from lakesweep.runs.parameters.times import parse_past, parse_span_ms
    from lakesweep.runs.session import Table

    def read(opened: Table) -> Mapping[str, object]:
        older_than_ms = None if older_than is None else parse_past(older_than, "--older-than")
        if isinstance(older_than_ms, Age):
            older_than_ms = older_than_ms.before(opened.store.now_ms())
        quarantine_ms = None if quarantine is None else parse_span_ms(quarantine, "--quarantine", "d")
        if file is None:
            return explain_table(opened, older_than_ms).to_json()
        return explain_file(opened, file, ExplainArguments(older_than_ms, quarantine_ms)).to_json()

    return answer_document(place, read, _table_lines if file is None else _file_lines, _is_damaged)


def _is_damaged(document: Mapping[str, Any]) -> bool:
    if "reasons" in document:
        return bool(document["damage"]) or any(
            share["reason"] in ("missing", "damaged_root") for share in document["reasons"]
        )
    is_wrong = document["expected_bytes"] not in (None, document["size_bytes"])
    return bool(document["status"] == "missing" or document["rule"] == "damaged_root" or is_wrong)


def _table_lines(document: Mapping[str, Any]) -> Iterator[str]:
    noncurrent = document["noncurrent"]
    paid = document["bytes"] + (noncurrent["bytes"] if noncurrent else 0)
    times = "and no snapshot"
    if document["factor"] is not None:
        times = f"{document['factor']:g} times the {human_bytes(document['current_bytes'])} of its newest snapshot"
    yield f"{document['table']}: {human_bytes(paid)}, {times}"
    says = dict(_SAYS)
    if document["policy"] is not None:
        yield document["policy"]["says"]
        if document["policy"]["treatment"] != "delete":
            says["expired"] = says["due"] = "due, but no pass deletes them, as the policy says"
    rows = [
        (share["reason"].replace("_", " "), str(share["count"]), human_bytes(share["bytes"]), says[share["reason"]])
        for share in document["reasons"]
    ]
    if noncurrent:
        markers = counted(noncurrent["markers"], "delete marker")
        what = f"replaced or deleted, and {markers}: the bucket's lifecycle rules"
        rows.append(("versions", str(noncurrent["versions"]), human_bytes(noncurrent["bytes"]), what))
    yield from columns(("REASON", "OBJECTS", "BYTES", ""), rows)
    for share in document["reasons"]:
        for key in share["first"][:_FIRST]:
            yield f"{share['reason'].replace('_', ' ')}: {key}"


def _file_lines(document: Mapping[str, Any]) -> Iterator[str]:
    yield from fields(_pairs(document))


def _pairs(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    rule = f" ({document['rule'].replace('_', ' ')})" if document["rule"] else ""
    yield "object", document["path"]
    yield "status", f"{document['status']}{rule}: {document['why']}"
    yield "kind", document["what"]
    if document["size_bytes"] is not None:
        yield "size", f"{human_bytes(document['size_bytes'])}, written {human_time(document['modified_ms'])}"
    if document["index"] is not None:
        yield from _index(document["index"])
    if document["until"] is not None:
        yield "kept", document["until"]
    if document["policy"] is not None:
        yield "policy", document["policy"]["says"].removeprefix("policy ")
    for holder in document["held_by"]:
        yield "needed by" if holder["needs"] else "named by", f"{_holder(holder)}, which is kept {holder['until']}"
    for run in document["runs"]:
        yield "run", _run(run)
    if document["origin"] is not None:
        yield from _origin(document["origin"])


def _index(index: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    vectors = index["vectors"]
    counts = [vector["cardinality"] for vector in vectors]
    deleted = "" if None in counts or not vectors else f", {counted(sum(counts), 'deleted row')}"
    dangling = sum(vector["is_dangling"] for vector in vectors)
    gone = f", {dangling} of files that are gone" if dangling else ""
    where = "".join(f", {key} {'null' if value is None else value}" for key, value in index["partition"].items())
    what = counted(len(vectors), "deletion vector") if index["type"] == "DELETION_VECTORS" else index["type"]
    yield "index", f"{what}{deleted}{gone}, bucket {index['bucket']}{where}"
    for vector in vectors[:_FIRST]:
        rows = "an unknown number of rows" if vector["cardinality"] is None else counted(vector["cardinality"], "row")
        yield "vector", f"{vector['data_file']}: {rows}, byte {vector['offset']}"


def _holder(holder: Mapping[str, Any]) -> str:
    branch = "" if holder["branch"] == "main" else f" of branch {holder['branch']}"
    if holder["count"] == 1:
        return f"{holder['kind']} {holder['first']}{branch}"
    return f"{holder['count']} {holder['kind']}s, {holder['first']} to {holder['last']}{branch}; the last"


def _run(run: Mapping[str, Any]) -> str:
    result = run["result"].replace("_", " ") + (f" ({run['why']})" if run["why"] else "")
    restore = f"; to restore it: lakesweep undo TABLE {run['run_id']}"
    back = {True: restore, False: "; it cannot be restored", None: ""}[run["restorable"]]
    return f"{run['run_id']}, {human_time(run['time_ms'])}, {run['operation'] or '?'}: {result}; {run['reason']}{back}"


def _origin(origin: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if origin["first_seen_ms"] is not None:
        yield "first seen", f"as an orphan at {human_time(origin['first_seen_ms'])}"
    if origin["commit_user"] is not None:
        whose = f", according to {origin['commit_user_of']}" if origin["commit_user_of"] else ""
        yield "writer", f"commit user {origin['commit_user']}{whose}"
    elif origin["writer"] is not None:
        yield "writer", f"{origin['writer']}, and no root names a file of this writer"
