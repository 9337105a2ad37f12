"""`compact` of tables with a primary key that are refused: nothing is written, neither to the table nor elsewhere."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from lakesweep.control.area import area_of
from lakesweep.model.report import RunReport
from lakesweep.model.roots import TableRef
from lakesweep.operations.compaction.arguments import CompactArguments
from lakesweep.operations.compaction.compact import compact
from lakesweep.runs.committing.catalog import Catalog
from lakesweep.runs.session import Table
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Store
from tests.support.keyed_refusals import REFUSALS
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder

BASE = {"bucket": "1", "write-only": "true"}


class Made:
    """A table with two files, in a store that counts requests."""

    def __init__(self, options: Mapping[str, str] | None = None, *entries: str, **commit: Any) -> None:
        self.counter, self.controls = RequestCounter(), RequestCounter()
        self.store = MemoryStore(counter=self.counter)
        types = {"v": "STRING", "n": "BIGINT"}
        shape: dict[str, Any] = {"primary_keys": ("id", "dt"), "partition_keys": ("dt",), "real_rows": True}
        self.builder = TableBuilder(self.store, types=types, options={**BASE, **(options or {})}, **shape)
        first, second = entries or ("+A", "+B")
        self.builder.commit(first, partition=("a",))
        self.builder.commit(second, partition=("a",), **commit)

    def put_schema(self, number: int, **changes: Any) -> None:
        """Write a schema like the first one, with changed fields of the document and of its options."""
        document = json.loads(self.store.read("schema/schema-0").data)
        options = {**document["options"], **changes.pop("options", {})}
        self.store.put(
            f"schema/schema-{number}", json.dumps({**document, "id": number, **changes, "options": options}).encode()
        )

    def compacted(self, **arguments: Any) -> tuple[RunReport, dict[str, int]]:
        """Run `compact`, and return the requests that change the table or the control location."""
        before = {**self.counter.snapshot()}, {**self.controls.snapshot()}
        control = MemoryStore("memory://control", counter=self.controls)
        table = Table(
            TableRef(self.store.location, "main"), self.store, area_of(control, self.store), _none, sleep=_at_once
        )
        given = CompactArguments(**{"catalog": Catalog("filesystem"), "full": True, **arguments})
        report = compact(table, given, execute=True)
        after = self.counter.snapshot(), self.controls.snapshot()
        kinds = ("put", "delete")
        return report, {
            f"{where} {kind}": now[kind] - then[kind]
            for where, now, then in zip(("table", "control"), after, before, strict=True)
            for kind in kinds
        }


def _none(location: str) -> Store:
    raise AssertionError(f"{location} is not needed")


def _at_once(seconds: float) -> None:
    """Wait no time."""


NOTHING = {"table put": 0, "table delete": 0, "control put": 0, "control delete": 0}


def refused(made: Made, code: str, **arguments: Any) -> str:
    report, writes = made.compacted(**arguments)
    assert report.refusal is not None, report
    assert (report.status, report.refusal.code) == ("refused", code)
    assert writes == NOTHING
    return report.refusal.message


@pytest.mark.parametrize(("option", "value", "code", "is_older_refused"), REFUSALS)
def test_nothing_is_written(option: str, value: str, code: str, is_older_refused: bool) -> None:
    made = Made()
    made.put_schema(1, options={option: value})
    assert f"option {option} is '{value}' (" in refused(made, code)
    if is_older_refused:
        made.put_schema(2)
        assert f"option {option} is '{value}' in schema 1 (" in refused(made, code)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"sequence.field": "v", "deletion-vectors.enabled": "true"}, "sequence_field"),
        ({"sequence.field": "x"}, "sequence_field"),
        ({"write-only": "false"}, "not_alone"),
        ({"ignore-delete": "yes"}, "bad_option"),
        ({"num-levels": "many"}, "bad_option"),
        ({"target-file-size": "much"}, "bad_option"),
        ({"parquet.enable.dictionary": "false"}, "unsupported_file_options"),
    ],
)
def test_options_that_are_followed_elsewhere(options: Mapping[str, str], code: str) -> None:
    refused(Made(options), code, full=False)


def test_keys_that_changed_or_have_an_order_of_their_own() -> None:
    made = Made()
    made.put_schema(1, primaryKeys=["dt", "n"])
    refused(made, "key_changed")
    made = Made()
    fields = json.loads(made.store.read("schema/schema-0").data)["fields"]
    for number in (0, 1):
        made.put_schema(number, fields=[each | ({"type": "DOUBLE"} if each["name"] == "id" else {}) for each in fields])
    refused(made, "key_type")


def test_vectors_that_readers_ignore() -> None:
    """Only the index manifest shows them, so the run has begun."""
    made = Made(None, index={"I": {"A": [1, 2]}})
    report, writes = made.compacted()
    assert report.refusal is not None
    assert report.refusal.code == "vectors_off"
    assert (writes["table put"], writes["table delete"]) == (0, 0)


def test_files_that_are_older_than_the_vectors() -> None:
    """A full compaction merges them with all files that they overlap."""
    made = Made(None, "+A@5", "+B@4", file_source={"B": 1})
    made.put_schema(1, options={"deletion-vectors.enabled": "true"})
    report, writes = made.compacted(full=False)
    assert report.refusal is not None
    assert report.refusal.code == "vectors_switched"
    assert (writes["table put"], writes["table delete"]) == (0, 0)
    assert made.compacted()[0].status == "done"
    assert made.compacted(full=False)[0].status == "nothing_to_do"


def test_a_schema_whose_id_is_not_that_of_its_name() -> None:
    """Another schema would hide behind it."""
    made = Made()
    made.put_schema(1, id=0, options={"merge-engine": "aggregation"})
    made.put_schema(2)
    refused(made, "unreadable_schema")


def test_a_declaration_allows_a_table_that_writers_compact_too() -> None:
    """The same table is compacted then, so what is refused above is refused for its options alone."""
    made = Made({"write-only": "false"})
    refused(made, "not_alone")
    report, writes = made.compacted(sole_compactor=True)
    assert report.status == "done", report
    assert writes["table put"] > 0
