"""Locations outside the table, in one spelling."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.errors import FormatError
from lakesweep.format.values.uri import check_external_path, normalise_uri


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("/tmp/x", "/tmp/x"),
        ("FILE:/tmp/x", "/tmp/x"),
        ("file:///tmp/x", "/tmp/x"),
        ("FILE:///tmp//x/", "/tmp/x"),
        ("//tmp/x", "/tmp/x"),
        ("/", "/"),
        ("file:/", "/"),
        ("s3://bucket/a/b", "s3://bucket/a/b"),
        ("S3A://bucket//a///b/", "s3://bucket/a/b"),
        ("s3n://bucket", "s3://bucket"),
        ("oss://Bucket/A b%20c", "oss://Bucket/A b%20c"),
        ("hdfs://host:8020/a", "hdfs://host:8020/a"),
        ("file://host/a", "file://host/a"),
        ("/a/..b/c..", "/a/..b/c.."),
    ],
)
def test_one_spelling(text: str, normal: str) -> None:
    assert normalise_uri(text) == normal
    assert normalise_uri(normal) == normal


@pytest.mark.parametrize(
    "text", ["", "a/b", "../a", "s3:", "s3://", "file:a/b", "/a/../b", "/a/.", "s3://b/..", "://x", "1s3://b/k"]
)
def test_not_absolute(text: str) -> None:
    with pytest.raises(FormatError, match=r"^expected an absolute path or URI"):
        normalise_uri(text)


@given(st.text(alphabet="/.:ab3sS"))
def test_normalising_again_changes_nothing(text: str) -> None:
    try:
        normal = normalise_uri(text)
    except FormatError:
        return
    assert normalise_uri(normal) == normal
    assert ".." not in normal.split("/")


def test_external_paths_stay_as_they_are() -> None:
    for text in ("FILE:/tmp//x", "s3a://bucket/key", "/a/b"):
        assert check_external_path(text, "p", "f") == text
    for text in ("s3://bucket/", "s3://bucket", "/", "x", "/a/b/", "/a/" + "x" * 5000, "/a/\x7f", "/a/\ud800"):
        with pytest.raises(FormatError, match=r"^p: expected the absolute path or URI of a file in f, found "):
            check_external_path(text, "p", "f")
