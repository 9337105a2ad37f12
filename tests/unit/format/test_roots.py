"""Names of roots, snapshots, changelogs, consumers and hints."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.errors import FormatError, UnsupportedFormatError
from lakesweep.format import names
from lakesweep.format.documents import parse_changelog, parse_consumer, parse_hint
from lakesweep.format.snapshot import parse_snapshot
from tests.unit.format.samples import SNAPSHOT

ALWAYS = (
    "id",
    "schemaId",
    "baseManifestList",
    "deltaManifestList",
    "commitUser",
    "commitIdentifier",
    "commitKind",
    "timeMillis",
)


def body(**changes: object) -> bytes:
    return json.dumps(SNAPSHOT | changes).encode()


def test_a_snapshot() -> None:
    snapshot = parse_snapshot(body(), "snapshot/snapshot-4")
    assert (snapshot.id, snapshot.version, snapshot.schema_id) == (4, 3, 1)
    assert (snapshot.base_manifest_list, snapshot.base_manifest_list_size) == ("manifest-list-a-0", 884)
    assert (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size) == ("manifest-list-a-1", 984)
    assert (snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size) == (None, None)
    assert (snapshot.index_manifest, snapshot.statistics) == ("index-manifest-a-0", "stat-a-0")
    assert (snapshot.commit_user, snapshot.commit_identifier, snapshot.commit_kind) == ("user", 2**63 - 1, "COMPACT")
    assert (snapshot.total_record_count, snapshot.delta_record_count) == (10, -2)
    assert snapshot.watermark is None, "the smallest number says that there is none"
    assert (snapshot.uuid, snapshot.operation, snapshot.next_row_id) == ("u", "SOMETHING_NEW", 0)


def test_a_changelog_has_the_same_fields() -> None:
    assert parse_changelog(body(), "p") == parse_snapshot(body(), "p")


def test_null_and_absent_are_one() -> None:
    absent = {key: value for key, value in SNAPSHOT.items() if key in ALWAYS}
    null = {key: value if key in ALWAYS else None for key, value in SNAPSHOT.items()}
    assert parse_snapshot(json.dumps(absent).encode(), "p") == parse_snapshot(json.dumps(null).encode(), "p")
    assert parse_snapshot(json.dumps(absent).encode(), "p").version is None


@pytest.mark.parametrize("field", ALWAYS)
def test_what_every_snapshot_has(field: str) -> None:
    with pytest.raises(FormatError, match=rf"^p: expected .* in {field}, found nothing$"):
        parse_snapshot(body(**{field: None}), "p")


@pytest.mark.parametrize("version", [1, 2, 3])
def test_known_versions(version: int) -> None:
    assert parse_snapshot(body(version=version), "p").version == version


def test_version_0_is_none() -> None:
    """Java writes it when it copies a snapshot without a version to a tag."""
    assert parse_snapshot(body(version=0), "p").version is None


@pytest.mark.parametrize("version", [4, 2**40])
def test_a_later_version_is_refused(version: int) -> None:
    with pytest.raises(UnsupportedFormatError, match="p: expected a snapshot of version 3 or less") as raised:
        parse_snapshot(body(version=version), "p")
    assert raised.value.code == "unsupported_version"


@pytest.mark.parametrize(
    "changes",
    [
        {"version": -1},
        {"version": "3"},
        {"id": -1},
        {"id": 1.0},
        {"id": True},
        {"schemaId": -1},
        {"timeMillis": "yesterday"},
        {"baseManifestList": ""},
        {"baseManifestList": "../manifest-list"},
        {"deltaManifestList": "manifest/manifest-list"},
        {"changelogManifestList": ".."},
        {"indexManifest": "a\u0000b"},
        {"statistics": "/etc/passwd"},
        {"statistics": {}},
        {"commitKind": 1},
        {"watermark": []},
    ],
    ids=repr,
)
def test_damaged_snapshots(changes: dict[str, object]) -> None:
    with pytest.raises(FormatError, match=r"^p: expected "):
        parse_snapshot(body(**changes), "p")


@pytest.mark.parametrize("field", ["indexManifest", "statistics", "changelogManifestList", "baseManifestListSize"])
def test_a_flipped_bit_in_the_name_of_a_field_is_not_its_absence(field: str) -> None:
    text = json.dumps(SNAPSHOT | {"changelogManifestList": "manifest-list-a-2"})
    assert parse_snapshot(text.encode(), "snapshot/snapshot-4")
    for place in range(len(field)):
        for bit in range(7):
            flipped = chr(ord(field[place]) ^ 1 << bit)
            damaged = text.replace(f'"{field}"', f'"{field[:place]}{flipped}{field[place + 1 :]}"')
            with pytest.raises(FormatError, match="snapshot-4"):
                parse_snapshot(damaged.encode(), "snapshot/snapshot-4")


def test_every_cut_is_noticed() -> None:
    whole = body()
    for end in range(len(whole)):
        with pytest.raises(FormatError):
            parse_snapshot(whole[:end], "p")


@given(
    st.binary() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(lambda v: json.dumps(v).encode())
)
def test_nothing_else_is_raised(data: bytes) -> None:
    with pytest.raises(FormatError):
        parse_snapshot(data, "p")


@given(st.dictionaries(st.sampled_from(sorted(SNAPSHOT)), st.none() | st.integers() | st.text() | st.floats()))
def test_changed_fields_never_raise_anything_else(changes: dict[str, object]) -> None:
    with contextlib.suppress(FormatError, UnsupportedFormatError):
        parse_snapshot(body(**changes), "p")


@pytest.mark.parametrize(
    ("name", "snapshot_id"),
    [
        ("snapshot-1", 1),
        ("snapshot-0", 0),
        ("snapshot-9223372036854775807", 2**63 - 1),
        ("snapshot-9223372036854775808", None),
        ("snapshot-007", None),
        ("snapshot-", None),
        ("snapshot--1", None),
        ("snapshot-+1", None),
        ("snapshot- 1", None),
        ("snapshot-1\n", None),
        ("snapshot-1_0", None),
        ("snapshot-\u0661", None),
        ("snapshot-91e0b2a5c-0000-4000-8000-000000000000.tmp", None),
        (".snapshot-1.91e0b2a5.tmp", None),
        ("Snapshot-1", None),
        ("changelog-1", None),
        ("LATEST", None),
        ("", None),
    ],
)
def test_snapshot_names(name: str, snapshot_id: int | None) -> None:
    assert names.snapshot_id_of(name) == snapshot_id


def test_other_root_names() -> None:
    assert names.changelog_id_of("changelog-12") == 12
    assert names.changelog_id_of("changelog-12x") is None
    assert names.schema_id_of("schema-0") == 0
    assert names.schema_id_of("schema-00") is None
    assert names.tag_name_of("tag-2024-01-01") == "2024-01-01"
    assert names.tag_name_of("tag-") is None
    assert names.tag_name_of("tag-success-file/a_SUCCESS") is None
    assert names.tag_name_of(".tag-a.tmp") is None
    assert names.consumer_id_of("consumer-a-b") == "a-b"
    assert names.branch_name_of("branch-rt") == "rt"
    assert names.branch_name_of("rt") is None


@pytest.mark.parametrize(
    ("text", "snapshot_id"),
    [
        (b"1", 1),
        (b"007", 7),
        (b"9223372036854775807", 2**63 - 1),
        (b"9223372036854775808", None),
        (b"0", None),
        (b"-1", None),
        (b"", None),
        (b"1\n", 1),
        (b"12\r\n", 12),
        (b"\n", None),
        (b"1 \n", None),
        (b" 1", None),
        (b"1.0", None),
        (b"one", None),
        (b"\xff", None),
        (b"1" * 100_000, None),
    ],
)
def test_hints(text: bytes, snapshot_id: int | None) -> None:
    assert parse_hint(text) == snapshot_id


def test_consumers() -> None:
    assert parse_consumer(b'{"nextSnapshot": 7, "later": 1}', "consumer/consumer-a") == 7
    for damaged in (b"", b"{}", b'{"nextSnapshot": "7"}', b'{"nextSnapshot": -1}', b'{"nextSnapshot": null}', b"7"):
        with pytest.raises(FormatError, match=r"^p: "):
            parse_consumer(damaged, "p")
