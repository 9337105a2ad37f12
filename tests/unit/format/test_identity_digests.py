"""Digests of deleted files: equal where Paimon takes two entries for the same file, and nowhere else."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakesweep.format.identity_digests import SIZE, Digests, identity_digest
from lakesweep.format.manifest import ManifestEntry, read_manifest
from lakesweep.format.raw_entries import read_raw_manifest
from tests.support.raw_manifests import day, entry
from tests.support.sampling import examples

from .samples import NEW_MANIFEST, avro_file

PARTS = st.fixed_dictionaries(
    {
        "_PARTITION": st.sampled_from([day("1"), day("2"), day(None), bytes(12)]),
        "_BUCKET": st.sampled_from([-2, 0, 1, 10]),
        "_LEVEL": st.sampled_from([0, 1, 10]),
        "_FILE_NAME": st.sampled_from(["data-1.parquet", "data-2.parquet", "0", "0 0"]),
        "_EXTRA_FILES": st.lists(st.sampled_from(["a", "b", "ab"]), max_size=2),
        "_EMBEDDED_FILE_INDEX": st.sampled_from([None, b"", b"a", b"None"]),
        "_EXTERNAL_PATH": st.sampled_from([None, "s3://b/a.parquet", "s3://b/a', None).parquet"]),
    }
)


def read(parts: list[dict[str, Any]]) -> tuple[list[ManifestEntry], list[bytes]]:
    body = avro_file(NEW_MANIFEST, [entry("", **each) for each in parts])
    rows = [row for adds, _ in read_raw_manifest(body, "m").copies(identified=True) for row in adds]
    return list(read_manifest(body, "m")), [identity_digest(row) for row in rows]


@given(st.lists(PARTS, min_size=2, max_size=20))
@settings(deadline=None, max_examples=examples(60))
def test_the_same_digest_means_the_same_file(parts: list[dict[str, Any]]) -> None:
    found, digests = read(parts)
    assert {len(digest) for digest in digests} == {SIZE}
    for one, digest in zip(found, digests, strict=True):
        for other, another in zip(found, digests, strict=True):
            assert (one.identity == other.identity) == (digest == another)


def test_what_an_identity_does_not_have_changes_nothing() -> None:
    _, (one, other) = read([{}, {"_ROW_COUNT": 7, "_FILE_SIZE": 7, "_SCHEMA_ID": 3, "_MIN_KEY": b"k"}])
    assert one == other


DIGESTS = st.binary(min_size=2, max_size=2).map(lambda start: (start * SIZE)[:SIZE])


@given(st.lists(st.tuples(st.sampled_from(["add", "match"]), DIGESTS), max_size=60))
@settings(deadline=None, max_examples=examples(60))
def test_it_remembers_like_a_dictionary(steps: list[tuple[str, bytes]]) -> None:
    deleted, known = Digests(), dict[bytes, bool]()
    for step, digest in steps:
        assert (digest in deleted) == (digest in known)
        if step == "add":
            assert deleted.add(digest) == (digest not in known)
            known.setdefault(digest, False)
        else:
            expected = None if digest not in known else not known[digest]
            assert deleted.match(digest) is expected
            if expected:
                known[digest] = True
    assert (deleted.count, deleted.unmatched) == (len(known), list(known.values()).count(False))
    assert all(deleted.is_matched(digest) == found for digest, found in known.items())
    assert deleted.overlaps(known) == bool(known)


@pytest.mark.parametrize("is_matched", [False, True])
def test_bytes_between_two_digests_are_none(is_matched: bool) -> None:
    """In the memory of two digests lie the bytes of others; one of them is looked for before the real one."""
    deleted = Digests()
    first, second = bytes(15) + b"\x01", bytes(14) + b"\x01" + bytes([is_matched])
    deleted.add(first)
    if is_matched:
        deleted.match(first)
    assert second not in deleted
    assert deleted.match(second) is None
    deleted.add(second)
    assert second in deleted and not deleted.is_matched(second)
    assert deleted.match(second) is True
