"""Pages of a listing: ours equals botocore's, and what is no whole page is never an empty one."""

import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from lakesweep.errors import StorageError
from lakesweep.storage.list_page import _EMPTY, PARSE_EVENT, ListPage, page_of, parse_page, parse_response
from tests.support.s3_server import fresh_bucket, moto_client, moto_store, seed_moto
from tests.support.stub_s3 import Answer, page, stub_s3

NASTY_KEYS = sorted(
    [
        "root/dt=2024-01-01%2F02/b c/d+e.parquet",
        "root/100%/%25/%2B+",
        "root/&amp;<Key>a</Key>]]>",
        "root/'\"\\^`{|}~;:@=$,?#!*()",
        "root/tab\t, newline\n, return\r and \x01",
        "root/日本語/🙂/e\u0301\u00e9",
        "root/ leading and trailing ",
        "root/marker/",
    ]
)
CONTENTS = (
    "<Contents><Key>p/a</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified>"
    "<ETag>&quot;e&quot;</ETag><Size>1</Size></Contents>"
)


@pytest.fixture
def bucket() -> Iterator[str]:
    name = fresh_bucket()
    seed_moto(name, NASTY_KEYS)
    yield name


@pytest.mark.parametrize("extra", [{}, {"MaxKeys": 3}, {"Delimiter": "/", "Prefix": "root/"}, {"FetchOwner": True}])
def test_equals_botocores_own_parse(bucket: str, extra: dict[str, Any]) -> None:
    """Keys with everything that URLs and XML give a meaning to."""
    plain, hooked = moto_client(), moto_client()
    hooked.meta.events.register(PARSE_EVENT, parse_response)
    theirs = plain.list_objects_v2(Bucket=bucket, **extra)
    ours = hooked.list_objects_v2(Bucket=bucket, **extra)
    assert "Contents" not in ours, "botocore had nothing left to parse"
    found = page_of(ours, "here")
    assert [(key, size, f'"{etag}"', time) for key, size, etag, time in found.entries] == [
        (entry["Key"], entry["Size"], entry["ETag"], int(entry["LastModified"].timestamp() * 1000))
        for entry in theirs.get("Contents", [])
    ]
    assert found.next_token == theirs.get("NextContinuationToken")
    assert page_of(theirs, "here") == found, "and without the hook"


def test_store_lists_nasty_keys_with_and_without_the_hook(bucket: str) -> None:
    store = moto_store("root", bucket=bucket)
    expected = [key.removeprefix("root/") for key in NASTY_KEYS if not key.endswith("/")]
    assert [entry.key for entry in store.list("")] == expected
    client = store._s3.client()
    client.meta.events.unregister(PARSE_EVENT, parse_response)
    try:
        assert [entry.key for entry in store.list("")] == expected
    finally:
        client.meta.events.register(PARSE_EVENT, parse_response)


NO_PAGES = {
    "nothing": b"",
    "no XML": b"<html>Sign in to the hotel's network<br></html>",
    "other XML": b"<html><body>Sign in</body></html>",
    "cut": b"<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>p/a</Key>",
    "no IsTruncated": b"<ListBucketResult><Name>b</Name></ListBucketResult>",
    "odd IsTruncated": b"<ListBucketResult><IsTruncated>maybe</IsTruncated></ListBucketResult>",
    "no token": b"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
    "empty token": b"<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken/></ListBucketResult>",
    "no key": page(CONTENTS.replace("<Key>p/a</Key>", "")).body,
    "no size": page(CONTENTS.replace("<Size>1</Size>", "")).body,
    "odd size": page(CONTENTS.replace(">1<", ">one<")).body,
    "huge size": page(CONTENTS.replace(">1<", f">{'9' * 400}<")).body,
    "size below nothing": page(CONTENTS.replace(">1<", ">-1<")).body,
    "no ETag": page(CONTENTS.replace("<ETag>&quot;e&quot;</ETag>", "")).body,
    "no time": page(CONTENTS.replace("<LastModified>2024-01-01T00:00:00.000Z</LastModified>", "")).body,
    "odd time": page(CONTENTS.replace("2024-01-01T", "yesterday")).body,
    "time without zone": page(CONTENTS.replace("000Z", "000")).body,
    "binary": b"\0\xff" * 10,
}


@pytest.mark.parametrize("body", NO_PAGES.values(), ids=NO_PAGES)
@pytest.mark.parametrize("hooked", [True, False], ids=["hooked", "not hooked"])
def test_anything_but_a_whole_page_is_an_error(body: bytes, hooked: bool, pauses: list[float]) -> None:
    """botocore alone reads most of these as an empty listing."""
    if not hooked and b"maybe" in body:
        pytest.skip("botocore takes any other word for false")
    if not hooked and (b"one" in body or b"yesterday" in body) and b"<Contents>" in body:
        pytest.skip("botocore's parser fails, before the store sees the answer")
    with stub_s3(lambda _: Answer(200, body)) as stub:
        if not hooked:
            stub.store._s3.client().meta.events.unregister(PARSE_EVENT, parse_response)
        with pytest.raises(StorageError):
            list(stub.store.list(""))


TANGLED_PAGES = {
    "two objects glued": page(CONTENTS[:-11] + CONTENTS.replace("p/a", "p/b")[10:]).body,
    "an object in an object": page(CONTENTS.replace("</Contents>", f"{CONTENTS}</Contents>")).body,
    "an object in another element": page(f"<Other>{CONTENTS}</Other>").body,
    "an element in a key": page(CONTENTS.replace("p/a", "p/<b>x</b>a")).body,
    "an object with a prefix": page(CONTENTS.replace("<Contents>", "<s:Contents>").replace("</C", "</s:C")).body,
    "two folders in one": page("<CommonPrefixes><Prefix>p/a/</Prefix><Prefix>p/b/</Prefix></CommonPrefixes>").body,
    "two ends": page("<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>").body,
    "two tokens": page(
        "<NextContinuationToken>t</NextContinuationToken><NextContinuationToken>u</NextContinuationToken>",
        "<IsTruncated>true</IsTruncated>",
    ).body,
}


@pytest.mark.parametrize("body", TANGLED_PAGES.values(), ids=TANGLED_PAGES)
def test_tangled_page_is_an_error(body: bytes) -> None:
    """It is well-formed, but a key, a folder or the next page would be lost."""
    with pytest.raises(StorageError, match=r"^expected a whole ListBucketResult, found"):
        parse_page(body)


def test_equal_words_may_come_twice() -> None:
    """A page that repeats itself loses nothing."""
    repeated = "<IsTruncated>false</IsTruncated><Name>c</Name><KeyCount>1</KeyCount><KeyCount>2</KeyCount>"
    assert [key for key, *_ in parse_page(page(repeated + CONTENTS).body).entries] == ["p/a"]


def test_botocore_gets_no_whole_page(bucket: str) -> None:
    """Its handlers come after ours, so none of them parses a page again."""
    seen: list[int] = []
    client = moto_client()
    client.meta.events.register(PARSE_EVENT, parse_response)
    client.meta.events.register_first(
        "before-parse.s3.*", lambda response_dict, **_: seen.append(len(response_dict["body"]))
    )
    assert len(page_of(client.list_objects_v2(Bucket=bucket), "here").entries) == len(NASTY_KEYS)
    assert seen == [len(_EMPTY)]


def test_answer_that_is_no_xml_is_asked_for_again(pauses: list[float]) -> None:
    """And one that says that S3 had an error, although its status says otherwise."""
    for first in (NO_PAGES["cut"], b"<Error><Code>InternalError</Code></Error>"):
        answers = [Answer(200, first), page(CONTENTS)]
        with stub_s3(lambda _, answers=answers: answers.pop(0)) as stub:
            assert [entry.key for entry in stub.store.list("")] == ["a"]
            assert stub.counter.snapshot()["list"] == 2


def test_whole_page_of_the_stub() -> None:
    """The same page without damage is read, so the damage is what the errors are about."""
    with stub_s3(lambda _: page(CONTENTS)) as stub:
        (entry,) = stub.store.list("")
    assert (entry.key, entry.size_bytes, entry.etag, entry.modified_ms) == ("a", 1, "e", 1_704_067_200_000)


@pytest.mark.parametrize(
    "answer",
    [
        page(CONTENTS.replace("p/a", "q/a")),
        page(CONTENTS.replace("p/a", "p2/a")),
        page(CONTENTS.replace("p/a", "p/b") + CONTENTS),
        page(CONTENTS + CONTENTS),
        page(CONTENTS, "<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"),
        page("", "<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"),
    ],
    ids=["foreign key", "namesake", "not ascending", "twice", "same page for ever", "same empty page for ever"],
)
def test_server_that_ignores_what_was_asked(answer: Answer) -> None:
    """A page of something else raises, and a listing that does not advance ends."""
    with stub_s3(lambda _: answer) as stub, pytest.raises(StorageError):
        list(stub.store.list(""))


def test_error_on_a_later_page_raises() -> None:
    """What came before is not the whole."""
    first = page(CONTENTS, "<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>")
    with stub_s3(lambda request: Answer(403) if "continuation-token" in request.path else first) as stub:
        listing = stub.store.list("")
        assert next(listing).key == "a"
        with pytest.raises(StorageError) as error:
            next(listing)
    assert error.value.code == "access_denied"


def test_empty_pages_in_between_are_passed() -> None:
    """S3 may answer with a page that is empty and not the last."""
    answers = [
        page("", "<IsTruncated>true</IsTruncated><NextContinuationToken>1</NextContinuationToken>"),
        page("", "<IsTruncated>true</IsTruncated><NextContinuationToken>2</NextContinuationToken>"),
        page(CONTENTS),
    ]
    with stub_s3(lambda _: answers.pop(0)) as stub:
        assert [entry.key for entry in stub.store.list("")] == ["a"]


def test_milliseconds_are_exact() -> None:
    """Some servers list them, and a float would lose one."""
    for millisecond in range(1000):
        found = parse_page(page(CONTENTS.replace("00.000Z", f"00.{millisecond:03}Z")).body)
        assert found.entries[0][3] == 1_704_067_200_000 + millisecond


@pytest.mark.parametrize(
    ("encoded", "key"),
    [
        ("dt%3D1/a", "dt=1/a"),
        ("a%2Fb/c%25", "a/b/c%"),
        ("a+b/c+d", "a b/c d"),
        ("%E6%97%A5/%E6%9C%AC", "日/本"),
        ("/a", "/a"),
        ("%3D", "="),
        ("a%3D/", "a=/"),
    ],
)
def test_keys_are_decoded_part_by_part(encoded: str, key: str) -> None:
    """And one that follows in the same folder as well."""
    contents = "".join(CONTENTS.replace("p/a", name) for name in (encoded, encoded + "z", "x/" + encoded))
    body = page(contents + "<EncodingType>url</EncodingType>").body
    assert [entry[0] for entry in parse_page(body).entries] == [key, key + "z", "x/" + key]


@pytest.mark.parametrize("encoded", ["%E6/%97%A5", "a/%FF", "%FF/a"])
def test_keys_that_are_no_utf8_are_an_error(encoded: str) -> None:
    with pytest.raises(StorageError):
        parse_page(page(CONTENTS.replace("p/a", encoded) + "<EncodingType>url</EncodingType>").body)


def test_encoding_may_be_told_last() -> None:
    """Elements have no promised order."""
    body = page(CONTENTS.replace("p/a", "p/a%2Bb+c") + "<EncodingType>url</EncodingType>").body
    assert parse_page(body).entries[0][0] == "p/a+b c"
    assert parse_page(body.replace(b"<EncodingType>url</EncodingType>", b"")).entries[0][0] == "p/a%2Bb+c"


def test_namespace_and_nested_elements_are_passed_over() -> None:
    body = page(CONTENTS.replace("<Size>", "<Owner><ID>x</ID><Key>no</Key></Owner><Size>")).body
    body = body.replace(b"<ListBucketResult>", b'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">')
    assert parse_page(body) == ListPage((("p/a", 1, "e", 1_704_067_200_000),), None)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_our_zone_does_not_matter(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert parse_page(page(CONTENTS).body).entries[0][3] == 1_704_067_200_000
    finally:
        monkeypatch.undo()
        os.environ.pop("TZ", None)
        time.tzset()
