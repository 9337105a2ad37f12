"""One place, many spellings."""

from pathlib import Path

import pytest

from lakesweep.errors import UsageError
from lakesweep.storage.location import parse_location


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/a/b", "/a/b"),
        ("/a/b/", "/a/b"),
        ("/a//b///", "/a/b"),
        ("//a/b", "/a/b"),
        ("/a/./b", "/a/b"),
        ("/", "/"),
        ("/a b/%20/ü", "/a b/%20/ü"),
        ("file:/a/b", "/a/b"),
        ("file:///a/b/", "/a/b"),
        ("FILE:///a/b", "/a/b"),
        ("file:////a/b", "/a/b"),
        ("s3://b/a/c", "s3://b/a/c"),
        ("s3a://b/a/c/", "s3://b/a/c"),
        ("S3N://b//a///c", "s3://b/a/c"),
        ("s3://b", "s3://b"),
        ("s3://b/", "s3://b"),
        ("s3://b/a b/c=d%2F+e/...", "s3://b/a b/c=d%2F+e/..."),
        ("memory://x/y/", "memory://x/y"),
    ],
)
def test_spellings(text: str, expected: str) -> None:
    assert str(parse_location(text)) == expected
    assert parse_location(str(parse_location(text))) == parse_location(text)


def test_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for text in ("t", "./t", "t/", "x/../t"):
        assert str(parse_location(text)) == f"{tmp_path}/t"
    assert str(parse_location(".")) == str(tmp_path)
    assert str(parse_location("dt:1/t")) == f"{tmp_path}/dt:1/t", "a colon alone is no scheme"


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "file:", "file://", "file://host/a", "/a\0b", "s3://", "s3:///a", "s3:/b/a", "s3a:/b"),
        *("s3://b/../c", "s3://b/a/./c", "s3://b/a\0", "hdfs://n/a", "oss://b/a", "https://b.s3.amazonaws.com/a"),
        *("memory:/x", "s3://b ucket/a", "s3://user@b/a"),
    ],
)
def test_unusable(text: str) -> None:
    with pytest.raises(UsageError):
        parse_location(text)


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        ("/a/b", "/a/b", True),
        ("/a/b", "/a/b/", True),
        ("/a/b", "/a/b/c", True),
        ("/a/b", "/a/bc", False),
        ("/a/b", "/a", False),
        ("/a/b", "/a/b/../c", False),
        ("/a/b", "/a/x/../b/c", True),
        ("/", "/a", True),
        ("/a/b", "file:///a/b/c", True),
        ("/a/b", "s3://a/b", False),
        ("s3://b", "s3://b/a", True),
        ("s3://b", "s3://bc/a", False),
        ("s3://b/a", "s3://b/a", True),
        ("s3://b/a", "s3a://b/a//c", True),
        ("s3://b/a", "s3://b/ac", False),
        ("s3://b/a", "s3://c/a", False),
        ("s3://b/a", "s3://b", False),
        ("memory://b", "s3://b", False),
    ],
)
def test_contains(outer: str, inner: str, expected: bool) -> None:
    assert parse_location(outer).contains(parse_location(inner)) is expected


def test_contains_sees_through_links(tmp_path: Path) -> None:
    """A control location inside the table is found out, however it is written."""
    table, other, link = tmp_path / "table", tmp_path / "other", tmp_path / "link"
    (table / "sub").mkdir(parents=True)
    other.mkdir()
    link.symlink_to(table)
    (other / "into").symlink_to(table / "sub")
    (table / "out").symlink_to(other)
    chain = tmp_path / "chain"
    chain.symlink_to(link)
    outer = [str(table), str(link), str(chain), f"{other}/../table", f"file://{link}/"]
    inside = [table, table / "sub/new", link / "sub", chain / "new", other / "into", other / "into/new", table / "out"]
    outside = [other, tmp_path, other / "new", tmp_path / "table2", tmp_path / "link2"]
    for text in outer:
        root = parse_location(text)
        assert [str(path) for path in inside if not root.contains(parse_location(str(path)))] == [], text
        assert [str(path) for path in outside if root.contains(parse_location(str(path)))] == [], text


def test_two_dots_after_a_link_mean_what_the_system_means(tmp_path: Path) -> None:
    (tmp_path / "deep/target").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "deep/target")
    (tmp_path / "deep/here").mkdir()
    assert str(parse_location(f"{tmp_path}/link/../here")) == f"{tmp_path}/deep/here"


def test_loop_of_links_is_no_endless_loop(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert not parse_location(str(tmp_path / "x")).contains(parse_location(str(tmp_path / "a/c")))
