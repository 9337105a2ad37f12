"""Repairs on S3: keys that have to be encoded, delete markers, and servers that tell nobody what is missing."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

import pytest

from lakesweep.model.report import RunReport
from lakesweep.operations.repair.arguments import RepairArguments
from lakesweep.operations.repair.remove_unexisting_files import remove_unexisting_files
from lakesweep.operations.repair.remove_unexisting_manifests import remove_unexisting_manifests
from lakesweep.storage.store import Store
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.s3_server import moto_client, moto_server
from tests.support.stub_s3 import Answer, Request, error, page, stub_s3
from tests.support.table_builder import TableBuilder
from tests.unit.operations.repair.repair_world import FILES, refusal_of, repair_of

VALUES = ("a b", "a+b", "100%", "a%2Fb", "ü/日本語", "e\u0301", "..", "a&b<c>'\"", "#?;=", "\t", "-")
"""Partitions whose folders need escaping, by Paimon or in a URL."""
DATE = "Thu, 01 Jan 2026 10:00:00 GMT"
REPAIRS = (remove_unexisting_files, remove_unexisting_manifests)


def hostile(store: Store) -> dict[str, str]:
    """Write a table with a file in each of the partitions; return value -> the path of its file."""
    table = TableBuilder(store, partition_keys=["dt"])
    for number, value in enumerate(VALUES):
        table.commit(f"+F{number}", partition=(value,))
    return {value: table.path(f"F{number}") for number, value in enumerate(VALUES)}


def repair(
    store: Store, run: Callable[..., RunReport] = remove_unexisting_files, *, execute: bool = False
) -> RunReport:
    maintainer, accepted = Maintainer(store, control=MemoryStore()), None
    if execute:
        shown = run(maintainer.table, RepairArguments(FILES), execute=False)
        accepted = None if shown.commits is None else repair_of(shown).loss_id
    return run(maintainer.table, RepairArguments(FILES, accepted), execute=execute)


@pytest.mark.parametrize("reader", ["botocore", "obstore"])
def test_no_name_looks_lost(reader: str) -> None:
    """Then one is lost, and no other one goes with it."""
    server = moto_server()
    bucket = server.bucket(versioned=True)
    store = server.store("db.db/orders", bucket=bucket, reader=reader)
    paths = hostile(store)
    assert {repair(store, run).told_status for run in REPAIRS} == {"nothing_to_do"}
    lost = paths["a%2Fb"]
    moto_client().delete_object(Bucket=bucket, Key=f"db.db/orders/{lost}")
    report = repair(store)
    assert [(each.path, each.is_restorable) for each in repair_of(report).files] == [(lost, True)]
    assert any("versions still have 1 of them" in each for each in repair_of(report).doubts)
    moto_client().delete_object(Bucket=bucket, Key=f"db.db/orders/{lost}")
    report = repair(store)
    assert [(each.path, each.is_restorable) for each in repair_of(report).files] == [(lost, False)]
    assert any("may still have 1 of them" in each for each in repair_of(report).doubts), "it was deleted twice"
    assert repair(store, execute=True).status == "done"
    assert repair(store).told_status == "nothing_to_do"
    assert repair_of(repair(store)).live_files == len(VALUES) - 1


def s3_of(objects: dict[str, bytes], missing: Answer, hides: str = "") -> Callable[[Request], Answer]:
    """Return an S3 with these objects that answers reads of other keys in one way, and does not list a key."""

    def answer(request: Request) -> Answer:
        parts = urlsplit(request.path)
        key, asked = unquote(parts.path).removeprefix("/b").removeprefix("/").removeprefix("p/"), parse_qs(parts.query)
        if "list-type" in asked:
            return page("".join(_listed(objects, asked["prefix"][0].removeprefix("p/"), hides)))
        if request.method == "GET" and key in objects:
            return Answer(200, objects[key], {"ETag": f'"{key}"'})
        return missing if request.method == "GET" and "versions" not in parts.query else error(403, "AccessDenied")

    return lambda request: replace(found := answer(request), headers={**found.headers, "Date": DATE})


def _listed(objects: dict[str, bytes], prefix: str, hides: str) -> Iterator[str]:
    for key in sorted(objects):
        if key.startswith(prefix) and key != hides:
            yield (
                f"<Contents><Key>{escape(quote(f'p/{key}'))}</Key><Size>{len(objects[key])}</Size>"
                f"<ETag>&quot;x&quot;</ETag><LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            )
    yield "<EncodingType>url</EncodingType>"


@pytest.mark.parametrize(
    ("missing", "code"),
    [
        (error(404, "NoSuchKey"), None),
        (error(403, "AccessDenied"), "existence_unknown"),
        (error(403, "InvalidObjectState"), "existence_unknown"),
        (error(404, "NoSuchBucket"), "existence_unknown"),
        (error(404, "NoSuchVersion"), "existence_unknown"),
        (Answer(404, b"<html>not found</html>"), "existence_unknown"),
        (Answer(404), "existence_unknown"),
        (Answer(200, b"<html>sign in</html>", {"ETag": '"x"'}), None),
    ],
)
@pytest.mark.parametrize("run", REPAIRS)
def test_a_server_that_does_not_say_what_is_missing(
    run: Callable[..., RunReport], missing: Answer, code: str | None
) -> None:
    """Without the right to list, S3 answers 403 for a key that does not exist. A proxy may answer anything."""
    built = MemoryStore()
    lost = hostile(built)["-"]
    if run is remove_unexisting_manifests:
        (lost, *_) = (each.key for each in built.list("manifest/") if "list" not in each.key)
    objects = {each.key: built.read(each.key).data for each in built.list("") if each.key != lost}
    with stub_s3(s3_of(objects, missing)) as s3:
        report = repair(s3.store, run)
    found = [] if report.commits is None else [*repair_of(report).files, *repair_of(report).manifests]
    if code is not None:
        assert refusal_of(report) == code
    assert [each.path for each in found] == ([lost] if missing.status == 404 and code is None else [])


@pytest.mark.parametrize("run", REPAIRS)
def test_a_listing_that_lags_gives_up_nothing(run: Callable[..., RunReport]) -> None:
    built = MemoryStore()
    hidden = hostile(built)["-"]
    if run is remove_unexisting_manifests:
        (hidden, *_) = (each.key for each in built.list("manifest/") if "list" not in each.key)
    objects = {each.key: built.read(each.key).data for each in built.list("")}
    with stub_s3(s3_of(objects, error(404, "NoSuchKey"), hides=hidden)) as s3:
        assert repair(s3.store, run).told_status == "nothing_to_do"
