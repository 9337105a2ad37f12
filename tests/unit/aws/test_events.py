"""Every sample in events/ becomes the hints it should, whatever the order and however often it comes."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.aws.events import CommitHint, coalesce, hint_of_key, hints_of_event, hints_of_message
from lakesweep.errors import FormatError

EVENTS = Path(__file__).resolve().parents[3] / "events"
DB = "s3://lake/warehouse/sales.db"
ORDERS = f"{DB}/orders"


def hint(location: str, snapshot_id: int, branch: str = "main") -> CommitHint:
    return CommitHint(location.removeprefix("s3://").partition("/")[0], location, branch, snapshot_id)


EXPECTED = {
    "s3_snapshot_put": [hint(ORDERS, 41)],
    "s3_encoded_keys": [
        hint("s3://lake/warehouse/red flowers.db/roses & more", 7),
        hint(f"{DB}/a+b=100%", 12),
        hint(f"{DB}/übersicht", 3, "nightly run"),
    ],
    "s3_test_event": [],
    "s3_snapshot_removed": [],
    "s3_no_snapshots": [],
    "eventbridge_snapshot_created": [hint(ORDERS, 41)],
    "eventbridge_plain_key": [hint("s3://lake/warehouse/red flowers.db/a+b%20c", 5, "what if")],
    "eventbridge_snapshot_deleted": [],
    "sqs_s3_batch": [hint(ORDERS, 43), hint(ORDERS, 41), hint(ORDERS, 42), hint(ORDERS, 43)],
    "sqs_eventbridge_batch": [
        hint(ORDERS, 44),
        hint(ORDERS, 9, "audit"),
        hint(f"{DB}/customers", 100),
        hint(ORDERS, 45),
        hint(ORDERS, 44),
        hint("s3://archive/warehouse/sales.db/orders", 2),
    ],
}


def sample(name: str) -> dict[str, Any]:
    return json.loads((EVENTS / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", EXPECTED)
def test_a_sample_gives_its_hints(name: str) -> None:
    """Each kind of event gives exactly the snapshots that it announces."""
    assert list(hints_of_event(sample(name))) == EXPECTED[name]


def test_a_hint_has_the_etag_of_the_snapshot() -> None:
    """Both forms of an event have it. Without a usable one, the hint is valid all the same."""
    assert [found.etag for found in hints_of_event(sample("s3_snapshot_put"))] == ["3f7e64a9442d0a79cf76ec8b7e2e28a8"]
    event = sample("eventbridge_snapshot_created")
    assert [found.etag for found in hints_of_event(event)] == ["3f7e64a9442d0a79cf76ec8b7e2e28a8"]
    for etag in (None, 7, "\ud800", "x" * 101):
        event["detail"]["object"]["etag"] = etag
        assert [(found.snapshot_id, found.etag) for found in hints_of_event(event)] == [(41, None)]


def test_a_hint_announces_the_snapshot_as_it_was_written() -> None:
    """Time and size belong to it. Without an ETag nothing could be compared."""
    for name in ("s3_snapshot_put", "eventbridge_snapshot_created"):
        (found,) = hints_of_event(sample(name))
        ((snapshot_id, etag, time_ms, size),) = found.announced
        assert (snapshot_id, etag, time_ms > 1_600_000_000_000, size > 0) == (41, found.etag, True, True), name
    event = sample("eventbridge_snapshot_created")
    for time in (None, "", "yesterday", "9" * 400, 7, "0001-01-01T00:00:00Z"):
        event["time"], event["detail"]["object"]["size"] = time, "many"
        (found,) = hints_of_event(event)
        assert found.announced == ((41, found.etag, 0, 0),)
    event["detail"]["object"]["etag"] = None
    assert [found.announced for found in hints_of_event(event)] == [()]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_sample_twice_and_backwards_coalesces_alike(name: str) -> None:
    """Doubled and out of order, the newest snapshot of each branch is the same."""
    event = sample(name)
    backwards = {**event, "Records": event["Records"][::-1]} if "Records" in event else event
    once = set(coalesce(hints_of_event(event)))
    assert set(coalesce([*hints_of_event(backwards), *hints_of_event(event), *hints_of_event(backwards)])) == once


@pytest.mark.parametrize("name", [name for name in EXPECTED if not name.startswith("sqs_")])
def test_a_sample_in_a_message_gives_the_same_hints(name: str) -> None:
    """What comes through a queue says what it would say directly."""
    text = (EVENTS / f"{name}.json").read_text(encoding="utf-8")
    assert list(hints_of_message(text, "message 1")) == EXPECTED[name]
    assert list(hints_of_message(text.encode(), "message 1")) == EXPECTED[name]
    batch = {"Records": [{"messageId": "1", "eventSource": "aws:sqs", "body": text}]}
    assert list(hints_of_event(batch)) == EXPECTED[name]


def test_all_samples_in_one_stream_coalesce_to_the_newest() -> None:
    """Tables, branches and buckets stay apart; within one the highest id wins."""
    hints = [found for name in EXPECTED for found in hints_of_event(sample(name))]
    newest = {(found.location, found.branch): found.snapshot_id for found in coalesce(reversed(hints))}
    assert newest[ORDERS, "main"] == 45
    assert newest[ORDERS, "audit"] == 9
    assert newest["s3://archive/warehouse/sales.db/orders", "main"] == 2
    assert len(newest) == 8


@given(st.permutations(EXPECTED["sqs_eventbridge_batch"] * 2))
def test_coalescing_ignores_order(hints: list[CommitHint]) -> None:
    """Any order of arrival ends in the same hints."""
    assert set(coalesce(hints)) == set(coalesce(EXPECTED["sqs_eventbridge_batch"]))


def test_coalescing_keeps_the_order_of_first_appearance() -> None:
    """A table that was heard of first is maintained first."""
    hints = [hint(ORDERS, 1), hint(f"{DB}/customers", 5), hint(ORDERS, 2)]
    assert coalesce(hints) == (hint(ORDERS, 2), hint(f"{DB}/customers", 5))


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/",
        "snapshot-1",
        "snapshot/snapshot-1",
        "/snapshot/snapshot-1",
        "//snapshot/snapshot-1",
        "/t/snapshot/snapshot-1",
        "t/./snapshot/snapshot-1",
        "t/../u/snapshot/snapshot-1",
        "t//snapshot/snapshot-1",
        "t/snapshot//snapshot-1",
        "t/snapshot/snapshot-1/",
        "t/snapshot/snapshot-01",
        "t/snapshot/snapshot--1",
        "t/snapshot/snapshot-+1",
        "t/snapshot/snapshot-1 ",
        "t/snapshot/snapshot-\u0661",
        "t/snapshot/snapshot-9223372036854775808",
        "t/snapshot/Snapshot-1",
        "t/snapshots/snapshot-1",
        "t/snapshot/snapshot-1.tmp",
        "t/snapshot/EARLIEST",
        "branch/branch-b/snapshot/snapshot-1",
        "t/branch/branch-main/snapshot/snapshot-1",
        "t/branch/branch-b/tag/tag-1",
    ],
)
def test_other_keys_give_no_hint(key: str) -> None:
    """Exact names only, and only locations that are written in one way."""
    assert hint_of_key("lake", key) is None


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("t/snapshot/snapshot-0", hint("s3://lake/t", 0)),
        ("t/snapshot/snapshot-9223372036854775807", hint("s3://lake/t", 9223372036854775807)),
        ("t/branch/branch-b/snapshot/snapshot-1", hint("s3://lake/t", 1, "b")),
        ("t/branch/branch-a=b c/snapshot/snapshot-1", hint("s3://lake/t", 1, "a=b c")),
        ("t/branch/branch-/snapshot/snapshot-1", hint("s3://lake/t/branch/branch-", 1)),
        ("t/branch/other/snapshot/snapshot-1", hint("s3://lake/t/branch/other", 1)),
        ("snapshot/snapshot/snapshot-1", hint("s3://lake/snapshot", 1)),
    ],
)
def test_snapshot_keys_give_their_table_and_branch(key: str, expected: CommitHint) -> None:
    """The folders before the snapshot are the table, and a branch's folder is no part of it."""
    assert hint_of_key("lake", key) == expected


@given(st.text())
def test_no_key_is_an_error(key: str) -> None:
    """Whatever a key looks like, it is a hint or it is not."""
    hint_of_key("lake", key)


def record(**changes: Any) -> dict[str, Any]:
    s3 = {"bucket": {"name": "lake"}, "object": {"key": "t/snapshot/snapshot-1"}}
    return {"eventSource": "aws:s3", "eventName": "ObjectCreated:Put", "s3": s3} | changes


@pytest.mark.parametrize(
    ("bad", "found"),
    [
        (None, "event, Records[1]: expected an object, found nothing"),
        ({}, "event, Records[1]: expected aws:s3 or aws:sqs in eventSource"),
        ({"eventSource": "aws:sns", "Sns": {}}, "event, Records[1]: expected aws:s3 or aws:sqs"),
        (record(eventName=None), "event, Records[1]: expected a text in eventName"),
        (record(s3=[]), "event, Records[1]: expected an object in s3"),
        (record(s3={}), "event, Records[1], bucket: expected a text in name"),
        (
            record(s3={"bucket": {"name": ""}, "object": {"key": "k"}}),
            "event, Records[1]: expected the name of a bucket",
        ),
        (record(s3={"bucket": {"name": "lake"}, "object": {}}), "event, Records[1], object: expected a text in key"),
        (record(s3={"bucket": {"name": "lake"}, "object": {"key": "%FF"}}), "expected a key in form encoding"),
        ({"messageId": "m-7", "body": None}, "event, Records[1] (message 'm-7'): expected a text in body"),
        ({"messageId": "m-7", "body": "{"}, "event, Records[1] (message 'm-7'): expected JSON"),
        ({"messageId": "m-7", "body": "\ud800"}, "event, Records[1] (message 'm-7'): expected"),
        ({"messageId": "m-7", "body": "[]"}, "event, Records[1] (message 'm-7'): expected a JSON object"),
        ({"messageId": "m-7", "body": "{}"}, "event, Records[1] (message 'm-7'): expected an S3 notification"),
        ({"messageId": "m-7", "body": '{"Records":[{"body":"{}"}]}'}, "(message 'm-7'), Records[0]: expected aws:s3"),
        ({"messageId": "m-7", "body": '{"Records":7}'}, "(message 'm-7'): expected an array in Records"),
        (
            {"messageId": "m-7", "body": '{"detail-type":"Object Created","source":"aws.s3"}'},
            "(message 'm-7'), bucket:",
        ),
    ],
)
def test_a_malformed_record_is_named(bad: Any, found: str) -> None:
    """An event of neither form means wrong wiring; the message says which record it was."""
    with pytest.raises(FormatError) as caught:
        hints_of_event({"Records": [record(), bad]})
    assert found in str(caught.value)


def test_other_eventbridge_events_give_no_hint() -> None:
    """A rule that lets more pass than it should costs a look, and nothing else."""
    assert hints_of_event({"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}) == ()
    assert hints_of_event({"source": "example.app", "detail-type": "Object Created", "detail": {}}) == ()


def test_an_empty_batch_gives_no_hint() -> None:
    """Nothing in, nothing out."""
    assert hints_of_event({"Records": []}) == ()


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["Records", "s3", "body"]), inner),
    ).map(lambda value: value if isinstance(value, dict) else {"Records": value})
)
def test_any_document_gives_hints_or_a_format_error(event: dict[str, Any]) -> None:
    """No document makes this fail in another way."""
    try:
        hints_of_event(event)
    except FormatError:
        return
