"""Each sign that a table allows no commit has its own refusal, and what Paimon never tells others of is allowed."""

import json
from collections.abc import Mapping
from typing import get_args

import pytest

from lakesweep.commit.allowed import SEQUENCE_PROPERTY, Kind, refuse_commit
from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.schema import TableSchema, parse_schema
from lakesweep.format.snapshot import parse_snapshot

KINDS: tuple[Kind, ...] = get_args(Kind)
COMMANDS = {
    "drop": "CALL sys.drop_partition",
    "compact_manifest": "CALL sys.compact_manifest",
    "repair": "CALL sys.remove_unexisting_files",
    "rollback": "CALL sys.rollback_to_as_latest",
    "vectors": "Paimon has no command for it",
    "delete_rows": "DELETE FROM in Spark",
    "return_rows": "CALL sys.rollback_to_as_latest",
    "compact": "CALL sys.compact)",
}
SNAPSHOT: dict[str, object] = {
    "version": 3,
    "uuid": "3f0e",
    "id": 7,
    "schemaId": 0,
    "baseManifestList": "manifest-list-a-0",
    "baseManifestListSize": 1,
    "deltaManifestList": "manifest-list-a-1",
    "deltaManifestListSize": 1,
    "commitUser": "writer",
    "commitIdentifier": 1,
    "commitKind": "APPEND",
    "timeMillis": 1,
    "totalRecordCount": 1,
    "deltaRecordCount": 1,
    "watermark": 5,
    "nextRowId": 0,
    "writerVersion": "2.1",
}
STRICT = {"commit.strict-mode.last-safe-snapshot": "5"}


def schema(options: Mapping[str, str], keys: tuple[str, ...] = ("dt",)) -> TableSchema:
    document = {
        "version": 3,
        "id": 0,
        "fields": [{"id": 0, "name": "dt", "type": "STRING"}],
        "partitionKeys": list(keys),
        "primaryKeys": [],
        "options": dict(options),
    }
    return parse_schema(json.dumps(document).encode(), "schema-0")


def warnings(
    kind: Kind,
    options: Mapping[str, str] | None = None,
    *,
    keys: tuple[str, ...] = ("dt",),
    catalog: str | None = "filesystem",
    reappears: bool = False,
    **more: object,
) -> tuple[str, ...]:
    body = json.dumps({**SNAPSHOT, **more}).encode()
    return refuse_commit(
        schema(options or {}, keys), parse_snapshot(body, "snapshot-7"), body, catalog, kind, reappears
    )


def refusal(kind: Kind, options: Mapping[str, str] | None = None, **more: object) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        warnings(kind, options, **more)  # type: ignore[arg-type]
    return caught.value


ROWS_GO: tuple[Kind, ...] = ("drop", "repair", "rollback", "delete_rows", "return_rows", "compact")
"""Kinds that change rows."""
TOLD: tuple[Kind, ...] = (*ROWS_GO, "vectors")
"""Kinds of which Paimon may tell others."""
REFUSED: list[tuple[dict[str, str], str, tuple[Kind, ...]]] = [
    ({"metadata.iceberg.storage": "table-location"}, "needs_engine_callbacks", TOLD),
    ({"metadata.iceberg.storage": "Hadoop-Catalog"}, "needs_engine_callbacks", TOLD),
    ({"metadata.iceberg.storage": "later-word"}, "needs_engine_callbacks", TOLD),
    ({"metastore.partitioned-table": "TRUE"}, "metastore_partitions", TOLD),
    ({"metastore.partitioned-table": "maybe"}, "metastore_partitions", TOLD),
    ({"metastore.tag-to-partition": "dt"}, "needs_engine_callbacks", TOLD),
    ({"metastore.tag-to-partition.preview": "process-time"}, "needs_engine_callbacks", TOLD),
    ({"commit.callbacks": "com.example.Notify"}, "needs_engine_callbacks", TOLD),
    ({"chain-table.enabled": "true"}, "needs_engine_callbacks", TOLD),
    (STRICT, "strict_mode", KINDS),
    ({"scan.fallback-branch": "old"}, "fallback_branch", ROWS_GO),
    ({"scan.fallback-snapshot-branch": "old"}, "fallback_branch", ROWS_GO),
    ({"scan.fallback-delta-branch": "old"}, "fallback_branch", ROWS_GO),
    ({"manifest.format": "orc"}, "manifest_format", KINDS),
    ({"manifest.format": "Parquet"}, "manifest_format", KINDS),
    ({"manifest-sort.enabled": "true"}, "manifest_sort", ("compact_manifest",)),
    ({"write.sequence-number-init-mode": "snapshot"}, "sequence_property", ROWS_GO),
    (
        {"data-evolution.enabled": "true"},
        "data_evolution",
        ("repair", "vectors", "delete_rows", "return_rows", "compact"),
    ),
    ({"commit.later-rule": "1"}, "unknown_commit_option", KINDS),
    ({"commit.callback.params": "1"}, "unknown_commit_option", KINDS),
    ({"commit.": ""}, "unknown_commit_option", KINDS),
    ({"type": "format-table"}, "not_a_paimon_table", KINDS),
    ({"type": "iceberg-table"}, "not_a_paimon_table", KINDS),
    ({"type": "OBJECT-TABLE"}, "not_a_paimon_table", KINDS),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("options", "code", "kinds"), REFUSED)
def test_options(options: dict[str, str], code: str, kinds: tuple[Kind, ...], kind: Kind) -> None:
    """The refusal names the option and its value; what it does not concern is allowed."""
    if kind not in kinds:
        assert warnings(kind, options) == ()
        return
    error = refusal(kind, options)
    ((option, value),) = options.items()
    assert error.code == code
    assert f"option {option} is " in str(error) and ascii(value) in str(error)
    if code not in ("not_a_paimon_table", "strict_mode"):
        assert COMMANDS[kind] in str(error)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"metadata.iceberg.storage": "Disabled"},
        {"metastore.partitioned-table": "false", "metastore.tag-to-partition.preview": "NONE"},
        {"commit.callbacks": "", "chain-table.enabled": "false", "scan.fallback-branch": " "},
        {"visibility-callback.enabled": "true", "partition.mark-done-action": "success-file"},
        {"row-tracking.enabled": "true", "data-evolution.enabled": "false"},
        {"manifest.format": "AVRO", "manifest-sort.enabled": "false", "type": "Table"},
        {"write.sequence-number-init-mode": "scan"},
        {
            "commit.force-compact": "true",
            "commit.timeout": "1 h",
            "commit.max-retries": "3",
            "commit.min-retry-wait": "1 ms",
            "commit.max-retry-wait": "1 s",
            "commit.callback.com.example.Notify.param": "x",
            "commit.force-create-snapshot": "true",
            "commit.user-prefix": "etl",
            "commit.discard-duplicate-files": "true",
        },
    ],
)
def test_allowed_options(options: dict[str, str], kind: Kind) -> None:
    """Options that tell nobody of a commit, and the ones that later code attends to."""
    assert warnings(kind, options) == ()


def test_a_metastore_has_no_partitions_of_a_table_without_keys() -> None:
    """So it can be truncated."""
    assert warnings("drop", {"metastore.partitioned-table": "true"}, keys=()) == ()


def test_a_fallback_that_is_known() -> None:
    """Then the report says what readers see."""
    options = {"scan.fallback-branch": "old", "scan.fallback-delta-branch": "delta"}
    found = warnings("drop", options, reappears=True)
    assert len(found) == 2 and "scan.fallback-branch is 'old'" in found[0]


def test_a_sequence_that_the_snapshot_carries() -> None:
    """Then the next snapshot can carry it on."""
    options = {"write.sequence-number-init-mode": "snapshot"}
    assert warnings("drop", options, properties={SEQUENCE_PROPERTY: "5"}) == ()
    assert refusal("drop", options, properties={"other": "5"}).code == "sequence_property"


@pytest.mark.parametrize("kind", KINDS)
def test_catalogs(kind: Kind) -> None:
    """A catalog that files cannot show has to be declared."""
    for catalog in ("filesystem", "hive", "jdbc", "glue"):
        assert warnings(kind, catalog=catalog) == ()
    assert refusal(kind, catalog=None).code == "catalog_not_declared"
    assert refusal(kind, catalog="nessie").code == "catalog_not_declared"
    error = refusal(kind, catalog="rest")
    assert error.code == "rest_catalog" and COMMANDS[kind] in str(error)


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_fields_of_the_snapshot(kind: Kind) -> None:
    """They could not be carried on. Null is no value."""
    error = refusal(kind, laterField=1)
    assert error.code == "unknown_snapshot_field" and "'laterField'" in str(error)
    assert warnings(kind, laterField=None) == ()


def test_a_damaged_snapshot_is_no_empty_one() -> None:
    """A failed read decides nothing."""
    snapshot = parse_snapshot(json.dumps(SNAPSHOT).encode(), "snapshot-7")
    with pytest.raises(FormatError):
        refuse_commit(schema({}), snapshot, b"{", "filesystem", "drop", False)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("options", "code", "kinds"), REFUSED)
def test_what_is_declared_comes_last(options: dict[str, str], code: str, kinds: tuple[Kind, ...], kind: Kind) -> None:
    """A caller that reads `catalog_not_declared` knows that nothing else stands in the way."""
    expected = code if kind in kinds else "catalog_not_declared"
    assert refusal(kind, options, catalog=None).code == expected


def test_a_refusal_is_short() -> None:
    """However long an option or a field is."""
    for error in (
        refusal("drop", {"commit." + "x" * 100_000: "y" * 100_000}),
        refusal("drop", {"commit.callbacks": "y" * 100_000}),
        refusal("drop", **{"x" * 100_000: 1}),
    ):
        assert len(str(error)) < 600
