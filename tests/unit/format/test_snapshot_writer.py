"""Snapshot documents, byte by byte in Java's form."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.errors import FormatError
from lakesweep.format.snapshot import Snapshot, parse_snapshot
from lakesweep.format.snapshot_writer import properties_of, unknown_fields, watermark_of, write_snapshot

from .samples import SNAPSHOT

NO_WATERMARK = -(1 << 63)
FULL = Snapshot(
    id=5,
    version=3,
    schema_id=1,
    base_manifest_list="manifest-list-u-0",
    base_manifest_list_size=1100,
    delta_manifest_list="manifest-list-u-1",
    delta_manifest_list_size=1006,
    changelog_manifest_list="manifest-list-u-2",
    changelog_manifest_list_size=1007,
    index_manifest="index-manifest-u-0",
    commit_user='a "user"',
    commit_identifier=(1 << 63) - 1,
    commit_kind="OVERWRITE",
    time_ms=1760942466705,
    total_record_count=8,
    delta_record_count=-2,
    changelog_record_count=1,
    watermark=NO_WATERMARK,
    statistics="stat-u-0",
    uuid="u",
    next_row_id=0,
    operation=None,
)
PRINTED = b"""{
  "version" : 3,
  "uuid" : "u",
  "id" : 5,
  "schemaId" : 1,
  "baseManifestList" : "manifest-list-u-0",
  "baseManifestListSize" : 1100,
  "deltaManifestList" : "manifest-list-u-1",
  "deltaManifestListSize" : 1006,
  "changelogManifestList" : "manifest-list-u-2",
  "changelogManifestListSize" : 1007,
  "indexManifest" : "index-manifest-u-0",
  "commitUser" : "a \\"user\\"",
  "commitIdentifier" : 9223372036854775807,
  "commitKind" : "OVERWRITE",
  "timeMillis" : 1760942466705,
  "totalRecordCount" : 8,
  "deltaRecordCount" : -2,
  "changelogRecordCount" : 1,
  "watermark" : -9223372036854775808,
  "statistics" : "stat-u-0",
  "properties" : {
    "b" : "2",
    "a" : "1"
  },
  "nextRowId" : 0
}"""


def test_every_field() -> None:
    """In Java's order, properties in theirs."""
    assert write_snapshot(FULL, {"b": "2", "a": "1"}) == PRINTED


def test_fields_without_a_value_are_absent() -> None:
    least = replace(
        FULL, uuid=None, changelog_manifest_list=None, changelog_manifest_list_size=None, index_manifest=None,
        changelog_record_count=None, watermark=None, statistics=None, next_row_id=None,
    )  # fmt: skip
    assert list(json.loads(write_snapshot(least, {}))) == [
        "version", "id", "schemaId", "baseManifestList", "baseManifestListSize", "deltaManifestList",
        "deltaManifestListSize", "commitUser", "commitIdentifier", "commitKind", "timeMillis", "totalRecordCount",
        "deltaRecordCount",
    ]  # fmt: skip


def test_an_operation_is_never_written() -> None:
    assert write_snapshot(replace(FULL, operation="TRUNCATE")) == write_snapshot(FULL)
    assert b"operation" not in write_snapshot(replace(FULL, operation="TRUNCATE"))


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)
OPTIONAL = {
    "base_manifest_list_size": NUMBERS,
    "delta_manifest_list_size": NUMBERS,
    "changelog_manifest_list": st.just("manifest-list-c-0"),
    "index_manifest": st.just("index-manifest-i-0"),
    "total_record_count": NUMBERS,
    "delta_record_count": NUMBERS,
    "changelog_record_count": NUMBERS,
    "watermark": NUMBERS,
    "statistics": st.just("stat-s-0"),
    "uuid": TEXTS,
    "next_row_id": NUMBERS,
}


@given(
    st.fixed_dictionaries({"commit_user": TEXTS, "time_ms": NUMBERS}, optional=OPTIONAL),
    st.dictionaries(TEXTS, TEXTS, max_size=3),
)
def test_what_is_written_is_read_back(changes: dict[str, Any], properties: dict[str, str]) -> None:
    absent = dict.fromkeys(OPTIONAL)
    snapshot = replace(FULL, **absent | changes)
    body = write_snapshot(snapshot, properties)
    kept = None if snapshot.watermark == NO_WATERMARK else snapshot.watermark
    assert parse_snapshot(body, "p") == replace(snapshot, watermark=kept)
    assert watermark_of(body, "p") == snapshot.watermark
    assert properties_of(body, "p") == properties
    assert list(properties_of(body, "p")) == list(properties)
    assert unknown_fields(body, "p") == ()


def test_snapshots_of_real_engines(fixtures_dir: Path) -> None:
    """The same bytes, but for `null` and the `logOffsets` that later releases do not write."""
    paths = list((fixtures_dir / "tables").glob("*/snapshot/snapshot-*"))
    for path in paths:
        body = path.read_bytes()
        snapshot = replace(parse_snapshot(body, path.name), watermark=watermark_of(body, path.name))
        assert unknown_fields(body, path.name) == ()
        expected = re.sub(rb',\n  "\w+" : (?:null|\{ \})(?=[,\n])', b"", body)
        assert write_snapshot(snapshot, properties_of(body, path.name)) == expected
    assert len(paths) > 20


def test_half_a_character_is_refused() -> None:
    with pytest.raises(FormatError, match=r"^snapshot 5: expected text in Unicode, found "):
        write_snapshot(FULL, {"a": "\ud800"})


def test_properties_of_other_documents() -> None:
    assert properties_of(b"{}", "p") == {}
    assert properties_of(b'{"properties" : null}', "p") == {}
    for odd in (b'{"properties" : []}', b'{"properties" : {"a" : 1}}', b'{"properties" : {"a" : null}}'):
        with pytest.raises(FormatError, match=r"^p: expected .* in properties, found "):
            properties_of(odd, "p")


def test_the_watermark_as_it_is() -> None:
    body = json.dumps(SNAPSHOT).encode()
    assert parse_snapshot(body, "p").watermark is None
    assert watermark_of(body, "p") == NO_WATERMARK
    assert watermark_of(b"{}", "p") is None
    assert write_snapshot(replace(FULL, watermark=5)).count(b'"watermark" : 5,') == 1


def test_unknown_fields() -> None:
    """Those of later releases; not those of former ones, and nothing that is null."""
    document = SNAPSHOT | {"writerVersion": "java-2.1", "later": 1, "empty": None, "tagCreateTime": [2024, 1, 1, 0, 0]}
    assert unknown_fields(json.dumps(document).encode(), "p") == ("fromTheFuture", "later", "tagCreateTime")


def test_offsets_of_a_log_system_would_be_lost() -> None:
    """Readers of releases before 1.4 go on from there."""
    document = SNAPSHOT | {"logOffsets": {"0": 17}, "fromTheFuture": None}
    assert unknown_fields(json.dumps(document).encode(), "p") == ("logOffsets",)
