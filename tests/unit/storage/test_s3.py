"""An S3 that throttles, drops, lies or refuses: what the store makes of it."""

import re
import time
from collections.abc import Callable
from urllib.parse import unquote

import pytest

from lakesweep.errors import (
    AccessDeniedError,
    ObjectNotFoundError,
    PreconditionFailedError,
    StorageError,
    UsageError,
)
from lakesweep.model.safety import DELETE_MARGIN_MS, LONGEST_REQUEST_S, MAX_ATTEMPTS
from lakesweep.storage.aws_client import make_client
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.s3 import deleting as s3
from lakesweep.storage.s3.store import S3Store
from lakesweep.storage.store import DeleteRequest, delete_all
from tests.support.s3_server import fresh_bucket, moto_client, moto_endpoint, moto_store
from tests.support.stub_s3 import DROP, Answer, Request, error, page, stub_s3

OBJECT = Answer(200, b"body", {"ETag": '"e"'})
CALLS: dict[str, Callable[[S3Store], object]] = {
    "list": lambda store: list(store.list("")),
    "read": lambda store: store.read("k"),
    "read a part": lambda store: store.read_range("k", 0, 4),
    "put": lambda store: store.put("k", b"x"),
    "put if absent": lambda store: store.put("k", b"x", if_absent=True),
    "put if match": lambda store: store.put("k", b"x", if_match="e"),
    "delete": lambda store: store.delete(delete_all(["k"])),
    "clock": lambda store: store.now_ms(),
}
UNCONDITIONAL = [name for name in CALLS if not name.startswith("put if")]


def deleted(*keys: str) -> str:
    return "".join(f"<Deleted><Key>p/{key}</Key></Deleted>" for key in keys)


def failed(key: str, code: str) -> str:
    return f"<Error><Key>p/{key}</Key><Code>{code}</Code><Message>stub</Message></Error>"


def delete_result(inner: str) -> Answer:
    return Answer(200, f"<DeleteResult>{inner}</DeleteResult>".encode())


def asked_keys(request: Request) -> list[str]:
    return [key.decode() for key in re.findall(rb"<Key>p/(.*?)</Key>", request.body)]


def test_throttling_is_waited_out(pauses: list[float]) -> None:
    """Twice "slow down", then the object: three requests, with pauses in between."""
    answers = [error(503, "SlowDown"), error(503, "SlowDown"), OBJECT]
    with stub_s3(lambda _: answers.pop(0)) as stub:
        assert stub.store.read("k").data == b"body"
        assert stub.counter.snapshot()["get"] == len(stub.requests) == 3
        assert stub.counter.throttled == 2
    assert len(pauses) == 2


@pytest.mark.parametrize("name", CALLS)
def test_throttling_without_end_is_an_error(name: str, pauses: list[float]) -> None:
    with stub_s3(lambda _: error(503, "SlowDown")) as stub:
        with pytest.raises(StorageError) as found:
            CALLS[name](stub.store)
        assert len(stub.requests) == sum(stub.counter.snapshot().values()) == MAX_ATTEMPTS
    assert found.value.code == "SlowDown"


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    "answer",
    [
        error(403, "AccessDenied"),
        error(403, "AllAccessDisabled"),
        error(403, "SignatureDoesNotMatch"),
        Answer(403),
        Answer(403, b"<html>forbidden</html>"),
    ],
    ids=["AccessDenied", "AllAccessDisabled", "SignatureDoesNotMatch", "no body", "proxy"],
)
def test_denied_is_neither_missing_nor_empty(name: str, answer: Answer, pauses: list[float]) -> None:
    with stub_s3(lambda _: answer) as stub, pytest.raises(AccessDeniedError):
        CALLS[name](stub.store)


def test_redirects_without_a_region_are_an_error() -> None:
    """A wrong endpoint or a captive portal. botocore asks for the region and is redirected, again and again."""
    moved = Answer(301, headers={"Location": "http://127.0.0.1:1/"})
    expected = "expected an S3 server, found redirects that name no region"
    with stub_s3(lambda _: moved) as stub, pytest.raises(StorageError, match=expected) as found:
        stub.store.read("k")
    assert found.value.code == "store_settings"


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    "answer",
    [
        error(404, "NoSuchBucket"),
        Answer(404),
        Answer(404, b"<html>no such page</html>"),
        Answer(404, b"not found"),
        error(500, "InternalError"),
        error(400, "ExpiredToken"),
        error(501, "NotImplemented"),
        Answer(502, b"<html>bad gateway</html>"),
        Answer(200, b"<Error><Code>InternalError</Code></Error>"),
        DROP,
    ],
    ids=["no bucket", "404", "404 page", "404 text", "500", "expired", "501", "502 page", "200 with error", "drop"],
)
def test_failures_are_neither_missing_nor_empty_nor_success(name: str, answer: Answer, pauses: list[float]) -> None:
    """Whatever it is, only S3's own word for a missing key may mean one."""
    if answer.status == 200 and name in ("read", "clock"):
        pytest.skip("a body is a body; and any answer has a date")
    with stub_s3(lambda _: answer) as stub:
        with pytest.raises(StorageError) as found:
            CALLS[name](stub.store)
        assert not isinstance(found.value, ObjectNotFoundError | PreconditionFailedError)
        assert sum(stub.counter.snapshot().values()) == len(stub.requests), "attempts are counted as sent"


def test_missing_bucket_of_moto() -> None:
    store = moto_store("p", bucket="no-such-bucket-anywhere")
    for name, call in CALLS.items():
        with pytest.raises(StorageError) as found:
            call(store)
        assert found.value.code == "no_such_bucket", name


def test_nothing_listens(pauses: list[float]) -> None:
    store = S3Store("b", "p", make_client("http://127.0.0.1:9", "us-east-1"))
    for call in CALLS.values():
        with pytest.raises(StorageError) as found:
            call(store)
        assert found.value.code == "EndpointConnectionError"


def test_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    store = S3Store("b", "p", make_client("http://127.0.0.1:9", "us-east-1"))
    for call in CALLS.values():
        with pytest.raises(StorageError) as found:
            call(store)
        assert found.value.code == "NoCredentialsError"


def test_unusable_settings_are_usage_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError):
        make_client("not a url", "us-east-1")
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    with pytest.raises(UsageError):
        make_client("http://127.0.0.1:9", "us-east-1")


def keeping_one_object(drop_first_put: bool, foreign: bytes | None = None) -> Callable[[Request], Answer]:
    """Answer as an S3 whose first PUT takes effect, or loses against a foreign one, while its answer is lost."""
    kept: dict[str, Answer] = {}
    puts: list[Request] = []

    def answer(request: Request) -> Answer:
        if request.method in ("GET", "HEAD"):
            return kept.get(request.path, error(404, "NoSuchKey"))
        puts.append(request)
        if request.path in kept:
            return error(412, "PreconditionFailed")
        body = request.body if foreign is None else foreign
        marks = {name: value for name, value in request.headers.items() if name.startswith("x-amz-meta-")}
        kept[request.path] = Answer(200, body, {"ETag": '"made"'} | (marks if foreign is None else {}))
        return DROP if drop_first_put and len(puts) == 1 else Answer(200, b"", {"ETag": '"made"'})

    return answer


def test_put_whose_answer_was_lost_has_won(pauses: list[float]) -> None:
    """The repetition meets its own object, and the put says so instead of losing against itself."""
    with stub_s3(keeping_one_object(drop_first_put=True)) as stub:
        assert stub.store.put("lease.json", b"by me", if_absent=True) == "made"
        assert [request.method for request in stub.requests][:2] == ["PUT", "PUT"]
        assert stub.counter.snapshot()["put"] == 2


def test_put_that_another_won_has_lost(pauses: list[float]) -> None:
    """Also when the first answer was lost."""
    with (
        stub_s3(keeping_one_object(drop_first_put=True, foreign=b"by another")) as stub,
        pytest.raises(PreconditionFailedError),
    ):
        stub.store.put("lease.json", b"by me", if_absent=True)


def test_put_that_found_an_equal_object_has_lost(pauses: list[float]) -> None:
    """An equal body from before is no victory: at most one wins."""
    with stub_s3(keeping_one_object(drop_first_put=False)) as stub:
        stub.store.put("k", b"same", if_absent=True)
        with pytest.raises(PreconditionFailedError):
            stub.store.put("k", b"same", if_absent=True)


def test_unclear_put_is_an_error(pauses: list[float]) -> None:
    """The answer was lost, and who won cannot be seen: neither "won" nor "lost" would be true."""
    answers = iter([DROP, error(412, "PreconditionFailed")])
    with (
        stub_s3(lambda request: next(answers) if request.method == "PUT" else error(500, "InternalError")) as stub,
        pytest.raises(StorageError) as found,
    ):
        stub.store.put("k", b"x", if_absent=True)
    assert not isinstance(found.value, PreconditionFailedError)


@pytest.mark.parametrize("code", ["PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey"])
def test_words_for_a_lost_condition(code: str) -> None:
    """S3 has three: it is there, another write is under way, and nothing is there that could match."""
    status = {"PreconditionFailed": 412, "ConditionalRequestConflict": 409, "NoSuchKey": 404}[code]
    with stub_s3(lambda _: error(status, code)) as stub, pytest.raises(PreconditionFailedError):
        stub.store.put("k", b"x", if_match="e")


def test_conditions_are_sent() -> None:
    with stub_s3(lambda _: Answer(200, b"", {"ETag": '"e"'})) as stub:
        stub.store.put("k", b"x", if_absent=True)
        stub.store.put("k", b"x", if_match="e")
        stub.store.put("k", b"x")
        stub.store.delete([DeleteRequest("k", "e")])
    sent = [(r.headers.get("if-none-match"), r.headers.get("if-match")) for r in stub.requests]
    assert sent == [("*", None), (None, '"e"'), (None, None), (None, '"e"')]


def test_body_that_breaks_off_is_asked_for_again() -> None:
    answers = [Answer(200, b"body", {"ETag": '"e"'}, cut=2), OBJECT]
    with stub_s3(lambda _: answers.pop(0)) as stub:
        assert stub.store.read("k").data == b"body"
        assert stub.counter.snapshot()["get"] == 2


def test_body_that_stays_too_short_is_an_error() -> None:
    with stub_s3(lambda _: Answer(200, b"body", {"ETag": '"e"'}, cut=1)) as stub, pytest.raises(StorageError) as found:
        stub.store.read("k")
    assert not isinstance(found.value, ObjectNotFoundError)


def test_an_answer_without_an_etag_is_an_error() -> None:
    """Without it nothing could be deleted or written conditionally."""
    with stub_s3(lambda _: Answer(200, b"body")) as stub, pytest.raises(StorageError, match="ETag") as found:
        stub.store.read("k")
    assert found.value.code == "no_etag"


def part(body: bytes, said: str, **words: int) -> Answer:
    return Answer(206, body, {"ETag": '"e"', "Content-Range": said}, **words)


def test_a_part_is_asked_for_by_its_bytes() -> None:
    with stub_s3(lambda _: part(b"body", "bytes 10-13/20")) as stub:
        assert stub.store.read_range("k", 10, 4).data == b"body"
        assert [request.headers.get("range") for request in stub.requests] == ["bytes=10-13"]
        assert stub.counter.snapshot()["get"] == 1
        assert stub.counter.read_bytes == 4


def test_a_part_that_breaks_off_is_asked_for_again() -> None:
    answers = [part(b"body", "bytes 0-3/20", cut=2), part(b"body", "bytes 0-3/20")]
    with stub_s3(lambda _: answers.pop(0)) as stub:
        assert stub.store.read_range("k", 0, 4).data == b"body"
        assert stub.counter.snapshot()["get"] == 2


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (part(b"bod", "bytes 0-2/3"), "too_short"),
        (error(416, "InvalidRange"), "too_short"),
        (Answer(416), "too_short"),
        (OBJECT, "no_range"),
        (Answer(200, b"body and more", {"ETag": '"e"'}), "no_range"),
        (part(b"body", "bytes 1-4/20"), "no_range"),
        (part(b"body", "bytes 0-4/20"), "no_range"),
        (part(b"body and", "bytes 0-7/20"), "no_range"),
        (part(b"body", "nonsense"), "no_range"),
    ],
    ids=["short", "416", "bare 416", "whole", "longer whole", "another", "miscounted", "longer", "nonsense"],
)
def test_other_answers_to_a_part_are_errors(answer: Answer, code: str, pauses: list[float]) -> None:
    """Whoever ignores ranges, or answers another one, is found out."""
    with stub_s3(lambda _: answer) as stub:
        with pytest.raises(StorageError) as found:
            stub.store.read_range("k", 0, 4)
        assert found.value.code == code
        assert not isinstance(found.value, ObjectNotFoundError)
        assert stub.counter.read_bytes == 0


@pytest.mark.parametrize("name", ["read", "put", "put if absent"])
def test_answer_without_etag_is_an_error(name: str) -> None:
    with stub_s3(lambda _: Answer(200)) as stub, pytest.raises(StorageError):
        CALLS[name](stub.store)


def test_delete_answer_that_misses_a_key() -> None:
    """What S3 does not mention is not known to be gone."""
    with stub_s3(lambda _: delete_result(deleted("a", "c"))) as stub:
        results = stub.store.delete(delete_all(["a", "b", "c"]))
    assert [(result.key, result.ok) for result in results] == [("a", True), ("b", False), ("c", True)]
    assert stub.counter.deleted_keys == 2


@pytest.mark.parametrize("body", [b"", b"<DeleteResult/>", b"<html><body/></html>"])
def test_delete_answer_without_keys(body: bytes) -> None:
    with stub_s3(lambda _: Answer(200, body)) as stub:
        assert not stub.store.delete(delete_all(["a"]))[0].ok


@pytest.mark.parametrize("body", [b"<DeleteResult><Deleted>", b"gone", b"<html><br></html>"])
def test_garbled_delete_answer_is_an_error(body: bytes, pauses: list[float]) -> None:
    with stub_s3(lambda _: Answer(200, body)) as stub, pytest.raises(StorageError):
        stub.store.delete(delete_all(["a"]))


def test_delete_answer_about_other_keys() -> None:
    """Nor one that has the same name elsewhere, nor one without a name, is an answer about ours."""
    odd = "<Deleted><Key>q/a</Key></Deleted><Deleted/><Error><Code>InternalError</Code></Error>"
    with stub_s3(lambda _: delete_result(odd)) as stub:
        assert [result.code for result in stub.store.delete(delete_all(["a"]))] == ["not_in_answer"]
        assert [asked_keys(request) for request in stub.requests] == [["a"]]


def test_delete_with_errors_for_some_keys(pauses: list[float]) -> None:
    answer = delete_result(deleted("a") + failed("b", "AccessDenied") + failed("c", "NoSuchKey") + failed("d", "Odd"))
    with stub_s3(lambda _: answer) as stub:
        results = stub.store.delete(delete_all(["a", "b", "c", "d"]))
    assert [result.code for result in results] == ["deleted", "access_denied", "already_gone", "Odd"]
    assert stub.counter.snapshot()["delete"] == 1


def test_key_that_is_deleted_and_failed_has_failed() -> None:
    with stub_s3(lambda _: delete_result(failed("a", "AccessDenied") + deleted("a"))) as stub:
        assert stub.store.delete(delete_all(["a"]))[0].code == "access_denied"


def test_passing_failures_of_single_keys_are_repeated(pauses: list[float]) -> None:
    """Only those keys, and once."""
    answers = [delete_result(deleted("a") + failed("b", "InternalError")), delete_result(deleted("b"))]
    with stub_s3(lambda _: answers.pop(0)) as stub:
        assert [result.code for result in stub.store.delete(delete_all(["a", "b"]))] == ["deleted", "deleted"]
        assert [asked_keys(request) for request in stub.requests] == [["a", "b"], ["b"]]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (Answer(204), "deleted"),
        (error(404, "NoSuchKey"), "already_gone"),
        (error(412, "PreconditionFailed"), "precondition_failed"),
        (error(409, "ConditionalRequestConflict"), "precondition_failed"),
        (error(403, "AccessDenied"), "access_denied"),
        (error(501, "NotImplemented"), "unsupported_condition"),
    ],
)
def test_answers_to_a_conditional_delete(answer: Answer, code: str, pauses: list[float]) -> None:
    with stub_s3(lambda _: answer) as stub:
        assert stub.store.delete([DeleteRequest("k", "e")])[0].code == code


@pytest.mark.parametrize("answer", [Answer(404), Answer(404, b"<html>none</html>"), error(500, "InternalError")])
def test_unclear_conditional_delete_is_a_failure(answer: Answer, pauses: list[float]) -> None:
    with stub_s3(lambda _: answer) as stub:
        assert not stub.store.delete([DeleteRequest("k", "e")])[0].ok


def test_single_deletes_go_in_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of keys that do not travel together; in ascending order by window; when time is up, the rest is not tried."""
    monkeypatch.setattr(s3, "DELETES_BEGIN_WITHIN_S", 0.15)
    names = [f"k{number:02}\x01" for number in range(48)]
    asked: list[str] = []

    def answer(request: Request) -> Answer:
        asked.append(unquote(request.path.rpartition("/")[2]))
        time.sleep(0.1)
        return Answer(204)

    with stub_s3(answer) as stub:
        results = stub.store.delete(delete_all(names))
    tried = [result.key for result in results if result.code == "deleted"]
    assert tried == names[: len(tried)]
    assert {result.code for result in results[len(tried) :]} == {"not_tried"}
    assert 0 < len(tried) < 48
    for begin in range(0, len(tried), s3.WINDOW_DELETES):
        assert sorted(asked[begin : begin + s3.WINDOW_DELETES]) == tried[begin : begin + s3.WINDOW_DELETES]


def test_many_conditional_deletes_travel_together_with_their_etags() -> None:
    """One that S3 refuses is a failure of its own."""
    names = [f"k{number:02}" for number in range(17)]
    answer = delete_result("".join(map(deleted, names[1:])) + failed(names[0], "PreconditionFailed"))
    with stub_s3(lambda _: answer) as stub:
        results = stub.store.delete([DeleteRequest(name, f"etag-{name}") for name in names])
    assert [result.code for result in results] == ["precondition_failed"] + ["deleted"] * 16
    (request,) = stub.requests
    for name in names:
        assert f'<ETag>"etag-{name}"</ETag>'.encode() in request.body.replace(b"&quot;", b'"')


def test_lease_outlasts_a_delete() -> None:
    """No batch may still be deleting when a successor may begin."""
    assert (s3.DELETES_BEGIN_WITHIN_S + s3._PAUSE_S + LONGEST_REQUEST_S) * 1000 <= DELETE_MARGIN_MS


def test_keys_that_xml_cannot_hold_are_deleted_alone() -> None:
    """One such name would have the whole request refused."""
    store = moto_store()
    names = ["a\x01b", "c\rd", "e\tf", "g\x7f", "plain"]
    for name in names:
        store.put(name, b"x")
    assert sorted(entry.key for entry in store.list("")) == sorted(names)
    assert {result.code for result in store.delete(delete_all(names))} == {"deleted"}
    assert list(store.list("")) == []


def test_versions_that_bring_objects_back() -> None:
    """A delete in a versioned bucket names its marker; deleting the marker undoes it."""
    client, bucket = moto_client(), fresh_bucket()
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    store = moto_store("root", bucket=bucket)
    etag = store.put("alone", b"x")
    store.put("together", b"x")
    results = store.delete([DeleteRequest("alone", etag), DeleteRequest("together")])
    assert list(store.list("")) == []
    for result in results:
        assert result.version_id
        client.delete_object(Bucket=bucket, Key=f"root/{result.key}", VersionId=result.version_id)
    assert [entry.key for entry in store.list("")] == ["alone", "together"]


def test_no_version_without_versioning() -> None:
    store = moto_store()
    etag = store.put("a", b"x")
    store.put("b", b"x")
    results = store.delete([DeleteRequest("a", etag), DeleteRequest("b")])
    assert [result.version_id for result in results] == [None, None]


def test_directory_markers_are_not_listed() -> None:
    bucket = fresh_bucket()
    for key in ("root/", "root/snapshot/", "root/snapshot/snapshot-1", "root/empty/", "root2/"):
        moto_client().put_object(Bucket=bucket, Key=key, Body=b"")
    store = moto_store("root", bucket=bucket)
    assert [entry.key for entry in store.list("")] == ["snapshot/snapshot-1"]
    assert [entry.key for entry in store.list("snapshot/")] == ["snapshot/snapshot-1"]
    assert list(store.list("empty/")) == []


def test_odd_keys_of_others_are_listed_and_refused() -> None:
    """A listing tells what is there; what is no key of ours is never read or deleted."""
    bucket = fresh_bucket()
    for key in ("root/a//b", "root/./c", "root/d/../e", "root/f"):
        moto_client().put_object(Bucket=bucket, Key=key, Body=b"x")
    store = moto_store("root", bucket=bucket)
    names = [entry.key for entry in store.list("")]
    assert names == ["./c", "a//b", "d/../e", "f"]
    assert [result.code for result in store.delete(delete_all(names))] == ["bad_key"] * 3 + ["deleted"]


def test_the_clock_goes_on_while_the_machine_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lease ends meanwhile, and who wakes up must see it."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        pytest.skip("no clock here counts the time that the machine slept")
    date = {"Date": "Wed, 01 Jan 2020 00:00:00 GMT"}
    with stub_s3(lambda _: Answer(200, page("").body, date)) as stub:
        awake_ms = stub.store.now_ms()
        real = time.clock_gettime
        monkeypatch.setattr(s3.time, "clock_gettime", lambda clock: real(clock) + 3600 * (clock == time.CLOCK_BOOTTIME))
        assert stub.store.now_ms() - awake_ms >= 3_600_000


def test_clock_is_that_of_the_answers(pauses: list[float]) -> None:
    """From the Date header, without a request of its own once there was an answer; never ahead of it."""
    dates = ["Wed, 01 Jan 2020 00:00:00 GMT", "Wed, 01 Jan 2020 01:00:00 GMT"]
    with stub_s3(lambda _: Answer(200, page("").body, {"Date": dates.pop(0)})) as stub:
        first_ms, again_ms = stub.store.now_ms(), stub.store.now_ms()
        assert len(stub.requests) == 1
        list(stub.store.list(""))
        later_ms = stub.store.now_ms()
    assert 1_577_836_800_000 <= first_ms <= again_ms < 1_577_836_810_000
    assert 1_577_840_400_000 <= later_ms < 1_577_840_410_000


@pytest.mark.parametrize("headers", [{}, {"Date": "yesterday"}, {"Date": ""}])
def test_answers_without_a_date_give_no_clock(headers: dict[str, str]) -> None:
    """Our own clock would be no substitute: ages are compared with times of the store's."""
    with stub_s3(lambda _: Answer(200, page("").body, headers)) as stub, pytest.raises(StorageError):
        stub.store.now_ms()


def test_requests_are_counted_by_kind() -> None:
    counter = RequestCounter()
    store = moto_store(counter=counter)
    etag = store.put("a", b"12345")
    store.put("b", b"x")
    store.read("a")
    with pytest.raises(ObjectNotFoundError):
        store.read("c")
    list(store.list(""))
    store.delete([DeleteRequest("a", etag), DeleteRequest("b"), DeleteRequest("c")])
    store.now_ms()
    assert counter.snapshot() == {"get": 2, "head": 0, "list": 1, "put": 2, "delete": 2}
    assert (counter.deleted_keys, counter.read_bytes) == (3, 5)


def test_stores_that_share_a_client_count_apart() -> None:
    client, bucket = make_client(moto_endpoint(), "us-east-1"), fresh_bucket()
    one, two = RequestCounter(), RequestCounter()
    S3Store(bucket, "one", client, one).put("a", b"x")
    list(S3Store(bucket, "two", client, two).list(""))
    assert one.snapshot() == {"get": 0, "head": 0, "list": 0, "put": 1, "delete": 0}
    assert two.snapshot() == {"get": 0, "head": 0, "list": 1, "put": 0, "delete": 0}


# Ranges of a listing


def contents(*keys: str) -> str:
    return "".join(
        f"<Contents><Key>p/{key}</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified><ETag>e</ETag><Size>1</Size>"
        "</Contents>"
        for key in keys
    )


MORE = "<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"


def test_range_begins_by_start_after_and_goes_on_by_token() -> None:
    answers = [page(contents("b", "c"), MORE), page(contents("d"))]
    with stub_s3(lambda _: answers.pop(0)) as stub:
        assert [[entry.key for entry in found] for found in stub.store.list_range("", "a b")] == [["b", "c"], ["d"]]
    first, second = (request.path for request in stub.requests)
    assert "start-after=p%2Fa%20b" in first
    assert "continuation-token" not in first
    assert "continuation-token=t" in second
    assert "start-after" not in second


@pytest.mark.parametrize(("until", "found"), [("c", ["b", "c"]), ("bb", ["b"]), ("a", [])])
def test_range_asks_for_nothing_beyond_its_end(until: str, found: list[str]) -> None:
    with stub_s3(lambda _: page(contents("b", "c"), MORE)) as stub:
        assert [[entry.key for entry in found] for found in stub.store.list_range("", "", until)] == [found]
        assert len(stub.requests) == 1


def test_server_that_ignores_start_after_is_found_out() -> None:
    """Its answer would put objects into two ranges."""
    with stub_s3(lambda _: page(contents("a", "b", "c"))) as stub:
        with pytest.raises(StorageError) as error:
            list(stub.store.list_range("", "a"))
        assert error.value.code == "damaged_page"


def test_directory_bucket_is_refused() -> None:
    """It lists in no order, so nothing would show that a listing is whole."""
    store = S3Store("b--use1-az4--x-s3", "p", object())
    for call in (
        lambda: list(store.list("")),
        lambda: list(store.list_range("", "a")),
        lambda: list(store.folders("")),
    ):
        with pytest.raises(StorageError) as error:
            call()
        assert error.value.code == "no_order"
