"""The registry: one name and one meaning for every caller."""

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules

import pytest

from lakesweep.errors import UsageError
from lakesweep.model.roots import TableRef
from lakesweep.operations import registered
from lakesweep.operations.branches import create as create_branch
from lakesweep.operations.branches import delete as delete_branch
from lakesweep.operations.branches import fast_forward, rollback
from lakesweep.operations.compaction import compact
from lakesweep.operations.erasure import task as erase
from lakesweep.operations.maintenance import maintain
from lakesweep.operations.manifests import execution as compact_manifest
from lakesweep.operations.orphans import local as remove_orphan_files
from lakesweep.operations.partitions import drop_partition, expire_partitions, truncate
from lakesweep.operations.registered.partitions import folded_options
from lakesweep.operations.registry import OPERATIONS, run_operation
from lakesweep.operations.repair import dangling, remove_unexisting_files, remove_unexisting_manifests, repair_hints
from lakesweep.operations.retention import expire_changelogs, expire_consumers, expire_snapshots
from lakesweep.operations.rows import delete_rows
from lakesweep.operations.tags import create as create_tag
from lakesweep.operations.tags import delete as delete_tag
from lakesweep.operations.tags import expire as expire_tags
from lakesweep.operations.tags import rename as rename_tag
from lakesweep.operations.tags import steps as tag_steps
from lakesweep.operations.undo import undo
from lakesweep.runs.parameters.partitions import DROP_PARTITION, EXPIRE_PARTITIONS, PARTITION
from lakesweep.runs.parameters.signatures import (
    EXPIRE_SNAPSHOTS,
    GRACE,
    MAINTAIN,
    MAX_DELETES,
    OLDER_THAN,
    RETAIN_MAX,
    RETAIN_MIN,
    SIGNATURES,
    operation_named,
)
from lakesweep.runs.session import Table
from lakesweep.storage.store import Store
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder
from tests.support.world import World

EXPIRE = EXPIRE_SNAPSHOTS


def test_numbers_and_texts_mean_the_same() -> None:
    """A message has numbers, a command line has texts."""
    texts = {"retain_max": "5", "retain_min": " 2 ", "older_than": "1769860800000", "max_deletes": "3", "grace": "0"}
    numbers = {"retain_max": 5, "retain_min": 2, "older_than": 1769860800000, "max_deletes": 3, "grace": 0}
    parameters = (RETAIN_MAX, RETAIN_MIN, OLDER_THAN, MAX_DELETES, GRACE)
    assert EXPIRE.parse(texts) == EXPIRE.parse(numbers)
    assert [EXPIRE.parse(texts)[parameter] for parameter in parameters] == [5, 2, 1769860800000, 3, 0]
    assert [EXPIRE.parse(dict.fromkeys(texts))[parameter] for parameter in parameters] == [None] * 5
    assert EXPIRE.parse(dict.fromkeys(texts)) == EXPIRE.parse({})


def test_every_capability_runs_its_operations() -> None:
    """The registry imports the module of one capability by name, and finds the operation there."""
    run = {
        (info.name, name)
        for info in iter_modules(registered.__path__)
        for name in getattr(import_module(f"{registered.__name__}.{info.name}"), "RUNS", ())
    }
    assert run == {(operation.capability, name) for name, operation in OPERATIONS.items()}


def test_every_operation_is_declared_once() -> None:
    """Each declared operation runs, and a plan has the name under which its operation is declared."""
    assert list(OPERATIONS.values()) == [OPERATIONS[name] for name in SIGNATURES]
    for signature in SIGNATURES.values():
        assert len(signature.arguments) == len(signature.parameters)
        assert bool(signature.options) == ("options" in signature.arguments)
    assert set(SIGNATURES) == {
        *(expire_snapshots.OPERATION, expire_changelogs.OPERATION, expire_consumers.CLEAR, expire_consumers.RESET),
        *(remove_orphan_files.OPERATION, create_tag.CREATE, create_tag.REPLACE, rename_tag.OPERATION),
        *(delete_tag.OPERATION, expire_tags.OPERATION, tag_steps.OPERATION, rollback.OPERATION),
        *(drop_partition.OPERATION, truncate.OPERATION, expire_partitions.OPERATION),
        *(delete_rows.OPERATION, erase.OPERATION, compact.OPERATION, compact_manifest.OPERATION),
        *(remove_unexisting_files.OPERATION, remove_unexisting_manifests.OPERATION, repair_hints.OPERATION),
        dangling.OPERATION,
        *(create_branch.OPERATION, delete_branch.OPERATION, fast_forward.OPERATION, undo.OPERATION, maintain.OPERATION),
    }


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"retain_max": True}, "bad_argument"),
        ({"retain_max": 1.0}, "bad_argument"),
        ({"retain_max": [1]}, "bad_argument"),
        ({"retain_max": "1_000"}, "bad_argument"),
        ({"retain_max": "9" * 4000}, "bad_argument"),
        ({"older_than": True}, "bad_argument"),
        ({"older_than": -1}, "bad_argument"),
        ({"older_than": 1769860800}, "bad_argument"),
        ({"older_than": 3}, "bad_argument"),
        ({"time_retained": 3}, "bad_argument"),
        ({"grace": {}}, "bad_argument"),
        ({"grace": 600}, "bad_argument"),
        ({"options": "snapshot.time-retained=1 d"}, "bad_argument"),
        ({"options": {"snapshot.time-retained": 1}}, "bad_argument"),
        ({"options": {"snapshot.time-retaind": "1 d"}}, "unknown_option"),
        ({"retain": 1}, "unknown_argument"),
    ],
)
def test_bad_arguments(arguments: Mapping[str, object], code: str) -> None:
    """What means nothing is refused before anything is read."""
    with pytest.raises(UsageError) as raised:
        EXPIRE.parse(arguments)
    assert raised.value.code == code


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("dt=20240101,hr=08", ("dt=20240101,hr=08",)),
        (["dt=1", {"dt": None, "hr": 8}], ("dt=1", {"dt": None, "hr": 8})),
        ({"dt": "a,b=c"}, ({"dt": "a,b=c"},)),
        (' {"dt": "a,b=c"}', ({"dt": "a,b=c"},)),
    ],
)
def test_partitions_are_texts_or_objects(given: object, found: tuple[object, ...]) -> None:
    """JSON takes one or several; a command line writes an object as JSON."""
    assert DROP_PARTITION.parse({"partition": given})[PARTITION] == found


@pytest.mark.parametrize(
    "given", ["", " ", {}, [""], [{}], 20240101, [1], {1: 2}, "{", "{}", '{"dt": 1', ["dt=1", None]]
)
def test_bad_partitions(given: object) -> None:
    """An empty spec would mean every partition, which truncate alone does."""
    with pytest.raises(UsageError) as raised:
        DROP_PARTITION.parse({"partition": given})
    assert raised.value.code == "bad_argument" and str(raised.value).startswith("partition: expected")


def test_arguments_of_the_procedure_are_table_options() -> None:
    """Each argument of Paimon's procedure stands for one option, beside the options of the call."""
    call = EXPIRE_PARTITIONS.parse(
        {
            "expiration_time": "30 d",
            "expire_strategy": "update-time",
            "timestamp_formatter": "yyyyMMdd",
            "timestamp_pattern": "$dt",
            "max_expires": "7",
            "batch_size": 3,
            "options": {"commit.max-retries": "2"},
        }
    )
    assert folded_options(call) == {
        "partition.expiration-time": "30 d",
        "partition.expiration-strategy": "update-time",
        "partition.timestamp-formatter": "yyyyMMdd",
        "partition.timestamp-pattern": "$dt",
        "partition.expiration-max-num": "7",
        "partition.expiration-batch-size": "3",
        "commit.max-retries": "2",
    }


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("drop_partition", "drop-partition"),
        ("drop_partitions", "drop-partition"),
        ("truncate_table", "truncate"),
        ("expire_partitions", "expire-partitions"),
        ("trigger_tag_automatic_creation", "tag-schedule"),
    ],
)
def test_names_of_paimons_procedures(name: str, operation: str) -> None:
    """A call may use the name that Paimon has for an operation."""
    assert operation_named(name) == operation and operation in OPERATIONS


@pytest.mark.parametrize("name", ["drop-partition", "truncate", "expire-partitions"])
def test_a_commit_needs_a_control_location(name: str) -> None:
    """As every execution: maintainers meet at its lease."""
    table = replace(World(partition_keys=["dt"]).maintainer().table, area=None)
    arguments = {"partition": "dt=1"} if name == "drop-partition" else {}
    with pytest.raises(UsageError) as raised:
        run_operation(table, name, {**arguments, "catalog_type": "filesystem"}, execute=True)
    assert raised.value.code == "control_missing"


def test_operations_have_their_own_arguments() -> None:
    """`maintain` follows the table's options and takes no numbers."""
    with pytest.raises(UsageError, match="maintain has no argument 'retain_max'"):
        MAINTAIN.parse({"retain_max": 5})


def table_of(store: Store) -> Table:
    return Table(TableRef(store.location), store, None, lambda location: store)


def test_an_operation_by_name() -> None:
    """A dry run by name."""
    table = TableBuilder(MemoryStore())
    for number in range(4):
        table.commit(f"+F{number}")
    report = run_operation(
        table_of(table.store), "expire-snapshots", {"retain_min": 1, "retain_max": "2"}, execute=False
    )
    assert (report.operation, report.status) == ("expire-snapshots", "planned")
    assert report.to_json()["snapshots"] == {"earliest": 1, "latest": 4, "expired": [1, 2, 3]}


def test_no_such_operation() -> None:
    """The sentence says what there is."""
    with pytest.raises(
        UsageError, match=r"expected one of clean-deletion-vectors, clear-consumers, .*expire-snapshots, .*maintain"
    ) as raised:
        run_operation(table_of(MemoryStore()), "expire-snapshot", {}, execute=False)
    assert raised.value.code == "unknown_operation"


def test_the_names_of_paimons_procedures_are_understood() -> None:
    """An answer has one spelling, whichever the call used."""
    assert run_operation(table_of(MemoryStore()), "expire_snapshots", {}, execute=False).operation == "expire-snapshots"
    assert operation_named("trigger_tag_automatic_creation") == "tag-schedule"
    assert all(operation_named(name) == name for name in OPERATIONS)
