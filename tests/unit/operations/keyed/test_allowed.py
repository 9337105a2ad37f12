"""Which tables with a primary key are compacted: each refusal has its code, and names the option and its value."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from lakesweep.errors import RefusedError
from lakesweep.format.manifest import IndexEntry
from lakesweep.format.schema import TableSchema
from lakesweep.format.values.data_type import DataField, parse_data_type
from lakesweep.model.keyed import MergeRules
from lakesweep.operations.keyed.rules.allowed import check_index, check_keyed_table
from lakesweep.operations.keyed.rules.options import FOLLOWED, HARMLESS, REFUSED, REFUSED_NAMES, is_unknown
from lakesweep.operations.writing.options import writing_of
from tests.support.core_options import CORE_OPTIONS, OTHER_NAMES
from tests.support.keyed_refusals import REFUSALS

COLUMNS = {"dt": "STRING NOT NULL", "id": "INT NOT NULL", "v": "BIGINT", "w": "DOUBLE", "t": "TIMESTAMP(6)"}
BASE = {"bucket": "2", "write-only": "true"}
IN_PAIMON = "compact in Paimon instead (CALL sys.compact)"


def schema(
    options: Mapping[str, str] | None = None,
    *,
    keys: Iterable[str] = ("dt", "id"),
    partition: Iterable[str] = ("dt",),
    columns: Mapping[str, str] = COLUMNS,
    without: Iterable[str] = (),
) -> TableSchema:
    """Return a schema that is allowed, but for what is stated."""
    stated = {name: value for name, value in {**BASE, **(options or {})}.items() if name not in without}
    fields = tuple(
        DataField(number, name, parse_data_type(type_, name)) for number, (name, type_) in enumerate(columns.items())
    )
    return TableSchema(0, 3, fields, tuple(partition), tuple(keys), stated, 0, None)


def rules(*schemas: TableSchema, full: bool = True, is_alone: bool = False) -> MergeRules:
    numbered = [replace(each, id=number) for number, each in enumerate(schemas)]
    return check_keyed_table(numbered, full=full, is_alone=is_alone)


def refusal(*schemas: TableSchema, full: bool = True, is_alone: bool = False) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        rules(*schemas, full=full, is_alone=is_alone)
    assert caught.value.exit_code == 3
    return caught.value


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize(("option", "value", "code", "is_older_refused"), REFUSALS)
def test_an_option_refuses_the_table(option: str, value: str, code: str, is_older_refused: bool, full: bool) -> None:
    error = refusal(schema(), schema({option: value}), full=full)
    assert error.code == code
    assert str(error).startswith(f"option {option} is '{value}' (")
    assert str(error).endswith(f"); {IN_PAIMON}")
    if is_older_refused:
        older = refusal(schema(), schema({option: value}), schema(), full=full)
        assert older.code == code
        assert str(older).startswith(f"option {option} is '{value}' in schema 1 (")
        assert str(older).endswith(f"); {IN_PAIMON}")
    else:
        assert rules(schema(), schema({option: value}), schema(), full=full) == rules(schema())


def test_each_rule_is_in_the_table_of_this_test() -> None:
    stated = {option: is_older for option, _, _, is_older in REFUSALS}
    for rule in REFUSED:
        assert stated[rule.option] is (rule.older is not None), rule.option
    for named in REFUSED_NAMES:
        found = {is_older for option, is_older in stated.items() if named.pattern.fullmatch(option)}
        assert found == {named.older is not None}, named.pattern


@pytest.mark.parametrize(
    "options",
    [
        {"merge-engine": "deduplicate", "changelog-producer": "input"},
        {"changelog-producer": "NONE", "clustering.incremental": "False"},
        {"compaction.force-rewrite-all-files": "true", "compaction.optimization-interval": "1 h"},
        {"compaction.offpeak.start.hour": "1", "lookup-compact": "gentle", "force-lookup": "true"},
        {"rowkind.field": "v", "ignore-update-before": "true", "local-merge-buffer-size": "64 mb"},
        {"fields.v.stats-mode": "none", "file-index.read.enabled": "false"},
        {"file-index.in-manifest-threshold": "1 b", "deletion-vectors.modifiable": "true"},
        {"my.own.note": "x", "bucket": "-1"},
    ],
)
def test_options_that_change_nothing(options: Mapping[str, str]) -> None:
    assert rules(schema(options)) == MergeRules(keys=("id",), has_vectors=False)
    assert rules(schema(options), schema()) == rules(schema())


def test_how_rows_are_merged() -> None:
    """The first name of an option counts, and the latest schema alone."""
    vectors = {"deletion-vectors.enabled": "true"}
    assert rules(schema(vectors), full=False) == MergeRules(keys=("id",), has_vectors=True)
    assert rules(schema({"data-file.thin-mode": "True"})).is_thin
    for name in ("ignore-delete", *(f"{engine}.ignore-delete" for engine in ("first-row", "partial-update"))):
        assert rules(schema({name: "true"})).ignores_deletes, name
        assert not rules(schema({name: "true"}), schema()).ignores_deletes, name
    assert not rules(schema({"ignore-delete": "false", "deduplicate.ignore-delete": "true"})).ignores_deletes
    assert rules(schema({"first-row.ignore-delete": "true", "deduplicate.ignore-delete": "false"})).ignores_deletes
    found = rules(schema({"sequence.field": "t , v", "sequence.field.sort-order": "Descending"}))
    assert (found.sequence, found.is_descending) == (("t", "v"), True)
    assert rules(schema(keys=("v", "id", "dt"))).keys == ("v", "id"), "in the order of the primary key"
    assert rules(schema(keys=("id",), partition=())).keys == ("id",)


@pytest.mark.parametrize(
    ("options", "full", "code", "words"),
    [
        ({"sequence.field": "v", "deletion-vectors.enabled": "true"}, False, "sequence_field", "is 'v' ("),
        ({"sequence.field": "v,x"}, True, "sequence_field", "is 'v,x' ("),
        ({"sequence.field": "v,v"}, True, "sequence_field", "is 'v,v' ("),
        ({"sequence.field": ""}, True, "sequence_field", "is '' ("),
        ({"sequence.field": "w"}, True, "sequence_field", "is 'w', with the column w of type DOUBLE"),
        ({"sequence.field.sort-order": "down"}, True, "bad_option", "sequence.field.sort-order: expected ascending"),
        ({"ignore-delete": "yes"}, True, "bad_option", "option ignore-delete: expected true or false, found 'yes'"),
        ({"deletion-vectors.enabled": " true"}, True, "bad_option", "found ' true'"),
        ({"data-file.thin-mode": "1"}, True, "bad_option", "found '1'"),
        ({"write-only": "1"}, True, "bad_option", "option write-only"),
        ({"bucket": "0"}, True, "bad_option", "option bucket: expected -1 or a number from 1 on, found '0'"),
        ({"bucket": "two"}, True, "bad_option", "found 'two'"),
    ],
)
def test_options_that_these_rules_follow(options: Mapping[str, str], full: bool, code: str, words: str) -> None:
    error = refusal(schema(options), full=full)
    assert error.code == code
    assert words in str(error)


def test_a_sequence_field_beside_vectors() -> None:
    """A full compaction compares all rows of a key; otherwise no schema may have had one."""
    vectors = {"deletion-vectors.enabled": "true"}
    both = {**vectors, "sequence.field": "v"}
    assert rules(schema(both)).sequence == ("v",)
    assert rules(schema(both), schema(vectors)).sequence == ()
    assert rules(schema({"sequence.field": "v"}), full=False).sequence == ("v",), "readers merge all levels"
    older = refusal(schema(vectors), schema(both), schema(vectors), full=False)
    assert older.code == "sequence_field"
    assert str(older).startswith("option sequence.field is 'v' in schema 1 (")
    assert str(older).endswith(f"); expected a full compaction (--full); {IN_PAIMON}")


def test_vectors_that_were_switched() -> None:
    """Files and the index say whether that matters; see `check_files` and `check_index`."""
    on = schema({"deletion-vectors.enabled": "true"})
    assert rules(schema(), on, full=False).has_vectors
    assert not rules(on, schema(), full=False).has_vectors


@pytest.mark.parametrize("type_", ["FLOAT", "DOUBLE", "BINARY(3)", "VARBINARY(3)", "BYTES"])
def test_keys_whose_order_is_javas_own(type_: str) -> None:
    error = refusal(schema(columns={**COLUMNS, "id": f"{type_} NOT NULL"}))
    assert error.code == "key_type"
    assert f"the column id of type {type_.split('(', maxsplit=1)[0]}" in str(error)
    assert rules(schema(columns={**COLUMNS, "v": type_})), "other columns may have it"


@pytest.mark.parametrize(
    "type_", ["BOOLEAN", "TINYINT", "BIGINT", "DECIMAL(20, 2)", "CHAR(3)", "DATE", "TIME(3)", "TIMESTAMP(9)"]
)
def test_keys_in_an_order_of_their_values(type_: str) -> None:
    assert rules(schema(columns={**COLUMNS, "id": f"{type_} NOT NULL"})).keys == ("id",)


@pytest.mark.parametrize("type_", ["VARIANT", "BLOB", "VECTOR<FLOAT, 3>"])
def test_columns_that_lie_apart(type_: str) -> None:
    apart = schema(columns={**COLUMNS, "x": type_})
    error = refusal(schema(), apart)
    assert error.code == "column_type"
    assert f"column x has the type {type_.split('<', maxsplit=1)[0]}, which" in str(error)
    assert "in schema 0, which" in str(refusal(apart, schema()))


def test_nested_keys_and_columns() -> None:
    """Keys of such types are illegal in Paimon too."""
    for value in (
        {"type": "ARRAY NOT NULL", "element": "INT"},
        {"type": "MULTISET NOT NULL", "element": "INT"},
        {"type": "MAP NOT NULL", "key": "INT", "value": "INT"},
        {"type": "ROW NOT NULL", "fields": [{"id": 9, "name": "a", "type": "INT"}]},
    ):
        own = schema()
        fields = tuple(
            replace(each, type=parse_data_type(value, "id")) if each.name == "id" else each for each in own.fields
        )
        assert refusal(replace(own, fields=fields)).code == "key_type"
    own = schema()
    apart = DataField(9, "x", parse_data_type({"type": "ARRAY", "element": "BLOB"}, "x"))
    assert refusal(replace(own, fields=(*own.fields, apart))).code == "column_type"


@pytest.mark.parametrize("bucket", ["-1", "2"])
def test_a_key_without_the_partition(bucket: str) -> None:
    """Its rows move between partitions, which the index of dynamic buckets alone does not tell."""
    error = refusal(schema({"bucket": bucket}, keys=("id",)))
    assert error.code == "cross_partition"
    assert str(error).startswith("the primary key id is without the partition key dt, so")


@pytest.mark.parametrize("keys", [(), ("dt",)])
def test_a_table_without_a_key_beside_the_partition(keys: tuple[str, ...]) -> None:
    error = refusal(schema(keys=keys))
    assert error.code == "no_key"
    assert f"found {', '.join(keys) or 'none'};" in str(error)


@pytest.mark.parametrize(
    ("older", "code", "words"),
    [
        (schema(keys=("dt", "v")), "key_changed", "schema 0 has the primary key dt STRING, v BIGINT, and the latest"),
        (schema(keys=("id", "dt")), "key_changed", "schema 0 has the primary key id INT, dt STRING"),
        (schema(keys=()), "key_changed", "schema 0 has the primary key none"),
        (schema(columns={**COLUMNS, "id": "BIGINT NOT NULL"}), "key_changed", "dt STRING, id BIGINT, and the latest"),
        (schema(partition=()), "partition_changed", "has the partition keys none, and the latest one dt STRING,"),
    ],
)
def test_keys_that_changed(older: TableSchema, code: str, words: str) -> None:
    error = refusal(older, schema())
    assert error.code == code
    assert words in str(error)


def test_a_key_that_was_renamed_or_made_anew() -> None:
    latest = schema()
    renamed = {"dt": COLUMNS["dt"], "number": COLUMNS["id"], **{name: COLUMNS[name] for name in ("v", "w", "t")}}
    error = refusal(schema(keys=("dt", "number"), columns=renamed), latest)
    assert error.code == "key_changed"
    assert "dt STRING, number INT" in str(error)
    anew = replace(latest, fields=(*(each for each in latest.fields if each.name != "id"), _moved(latest, "id")))
    assert refusal(latest, anew).code == "key_changed"
    other = replace(latest, fields=(*(each for each in latest.fields if each.name != "v"), _moved(latest, "v")))
    assert rules(latest, other).keys == ("id",), "other columns may come and go"


def _moved(latest: TableSchema, name: str) -> DataField:
    return replace(next(each for each in latest.fields if each.name == name), id=77)


def test_others_who_compact() -> None:
    error = refusal(schema(without=["write-only"]))
    assert error.code == "not_alone"
    assert str(error).startswith("option write-only is 'false' (")
    for words in ("write-only = true", "--sole-compactor, or `sole_compactor` in the fleet policy", IN_PAIMON):
        assert words in str(error), words
    assert refusal(schema({"write-only": "False"})).code == "not_alone"
    assert refusal(schema(), schema(without=["write-only"])).code == "not_alone", "the latest schema alone counts"
    assert rules(schema(without=["write-only"]), schema()) == rules(schema())
    assert rules(schema(without=["write-only"]), is_alone=True) == rules(schema())
    assert rules(schema({"write.compaction-skip": "true"}, without=["write-only"])) == rules(schema())
    both = schema({"write.compaction-skip": "true", "write-only": "false"})
    assert str(refusal(both)).startswith("option write-only is 'false' (")


def test_what_a_person_has_to_declare_is_refused_last() -> None:
    assert refusal(schema({"merge-engine": "aggregation"}, without=["write-only"])).code == "merge_engine"
    assert refusal(schema({"merge-engine": "aggregation"}, without=["write-only"]), is_alone=True).code
    assert refusal(schema(keys=("id",), without=["write-only"])).code == "cross_partition"


def test_index_files() -> None:
    vectors = IndexEntry(b"", 0, "DELETION_VECTORS", "index-1", 9, 1, None, (("data-1", 1, 8, 1),))
    empty = vectors._replace(vectors=())
    keys = IndexEntry(b"", 0, "HASH", "index-2", 4, 1, None, ())
    check_index([vectors, keys], has_vectors=True)
    check_index([empty, keys], has_vectors=False)
    with pytest.raises(RefusedError, match=r"index-1 has deletion vectors") as off:
        check_index([keys, vectors], has_vectors=False)
    assert off.value.code == "vectors_off"
    for has_vectors in (True, False):
        with pytest.raises(RefusedError, match=r"index-3 of type 'lucene'") as unknown:
            check_index([keys, keys._replace(index_type="lucene", file_name="index-3")], has_vectors=has_vectors)
        assert unknown.value.code == "unknown_index"


def test_the_size_of_new_files() -> None:
    """Source: Paimon `CoreOptions#targetFileSize`."""
    keyed, append = schema(), schema(keys=())
    assert writing_of(keyed, keyed.fields).target_bytes == 128 << 20
    assert writing_of(append, append.fields).target_bytes == 256 << 20
    stated = schema({"target-file-size": "64 mb", "file-index.in-manifest-threshold": "1 b"})
    assert writing_of(stated, stated.fields).target_bytes == 64 << 20
    for option in ("parquet.enable.dictionary", "file-index.bitmap.columns", "metadata.stats-mode.per.level"):
        with pytest.raises(RefusedError, match=option) as caught:
            writing_of(schema({option: "v"}), keyed.fields)
        assert caught.value.code == "unsupported_file_options"


ELSEWHERE = {
    "a commit": ("commit.", "metastore.", "chain-table.", "visibility-callback.", "type", "overwrite-upgrade"),
    "manifests": ("manifest.", "partition.default-name", "partition.legacy-name"),
    "where files lie": ("path", "branch", "index-file-in-data-file-dir", "global-index.external-path"),
    "data files: `writing_of` refuses it": ("parquet.",),
    "columns whose types are refused": ("blob", "variant.", "vector"),
    "buckets that are refused": ("postpone.", "cross-partition-upsert."),
    "buckets of new rows": ("dynamic-bucket.",),
    "writers": (
        "async-file-write", "auto-create", "delete.force-produce-changelog", "dynamic-partition-overwrite",
        "end-input.", "local-merge-buffer-size", "local-sort.", "page-size", "sink.", "sort-", "spill-compression",
        "upsert-key", "write-buffer-", "write-max-writers-to-spill", "write.batch-", "orc.write.batch-size",
        "full-compaction.delta-commits", "changelog-file.", "zorder.",
    ),
    "readers": (
        "batch-scan-mode", "cache-page-size", "consumer", "continuous.", "file-reader-async-threshold",
        "global-index.", "incremental-", "log.scan", "query-auth.", "read.batch-size", "scan.", "source.split.",
        "stream-scan-mode", "streaming", "table-read.",
    ),
    "schema changes": ("add-column-before-partition", "alter-column-", "disable-explicit-type-casting"),
    "lifetimes": ("changelog.", "snapshot.", "partition", "tag.", "file-operation.", "delete-file."),
    "tables of other kinds": ("format-table.", "materialized-table."),
}  # fmt: skip
"""What other options decide about -> beginnings of their names. None of it changes how rows are merged."""
LATER = frozenset(
    (
        "compaction.skip-expired-partitions", "compaction.small-file-ratio", "deletion-vectors.merge-on-read",
        "lookup.blob-as-descriptor", "lookup.cache-rows", "lookup.continuous.discovery-interval",
        "primary-key.nullable", "sequence.snapshot-ordering", "write.sequence-number-init-mode",
    )
)  # fmt: skip
"""Options of Paimon 2.0 that these rules know too."""


def _is_ruled(option: str) -> bool:
    own = {each.option for each in REFUSED} | FOLLOWED | HARMLESS
    return option in own or any(each.pattern.fullmatch(option) for each in REFUSED_NAMES)


def test_each_option_of_paimon_is_classified_once() -> None:
    beginnings = tuple(name for names in ELSEWHERE.values() for name in names)
    for option in sorted(CORE_OPTIONS | OTHER_NAMES):
        assert _is_ruled(option) or option.startswith(beginnings), option
        assert not is_unknown(option), option
    known = CORE_OPTIONS | OTHER_NAMES
    assert {each.option for each in REFUSED} | FOLLOWED | HARMLESS <= known | LATER
    assert not LATER & known
    groups = ({each.option for each in REFUSED}, FOLLOWED, HARMLESS)
    assert len(set().union(*groups)) == sum(map(len, groups)), "no option is in two groups"
    for beginning in beginnings:
        assert any(option.startswith(beginning) and not _is_ruled(option) for option in known), beginning
