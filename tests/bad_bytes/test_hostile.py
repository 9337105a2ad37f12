"""Metadata that is whole and hostile: names that lead elsewhere, lists that repeat themselves, counts that lie."""

import io
import json
import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import fastavro
import pytest

from tests.bad_bytes.judge import Case, judge_all
from tests.bad_bytes.worlds import World, avro, built_world, with_true_sizes
from tests.support.metadata_schemas import MANIFEST

SAMPLE = 5
"""Values that each file gets; `make bad-bytes` gives all to all."""
THOROUGH = os.environ.get("LAKESWEEP_BAD_BYTES") == "all"

WORLDS = ("appends", "keys", "changes")

NAMES = (
    "", ".", "..", "../snapshot/snapshot-5", "../../other/t/f", "/etc/passwd", "/", "s3://other/b/f", "a/b", "a\0b",
    "a\nb", "a\x7fb", "x" * 1025, "x" * 4096, "é" * 2000, "%2e%2e", "%2e%2e%2fsnapshot%2fsnapshot-5",
    "snapshot/snapshot-5", "snapshot-5", "snapshot-6", "schema-0", "tag-first", "LATEST", "branch-side",
    "branch/branch-side/tag/tag-second", "\\..\\x", "*", "~", "\u202e", "\ufeff", " ", "bucket-0",
)  # fmt: skip
EXTERNAL = (
    "s3://other/b/f", "s3://other/b/../t/f", "/etc/passwd", "file:///etc/passwd", "memory://outside/p",
    "memory://outside/p/../q/f", "memory://bucket/db.db/t/snapshot/snapshot-6", "memory://bucket/db.db/t/bucket-0/x",
    "", "x", "memory://outside/p/\0", "memory://outside/p/" + "x" * 5000, "memory://outside/p/%2e%2e/f",
)  # fmt: skip

LIES = (-1, 0, 1, 2, 127, 1 << 31, (1 << 63) - 1)

Change = Callable[[dict[str, Any]], None]


def _changed_records(body: bytes, change: Change, *, all_records: bool = False) -> bytes:
    reader = fastavro.reader(io.BytesIO(body))
    records = [dict(record) for record in reader]
    for record in records if all_records else records[:1]:
        change(record)
    return avro(reader.writer_schema, records, str(reader.codec))


def _cases(world: World, part: str, fields: tuple[str, ...], values: tuple[object, ...]) -> Iterator[Case]:
    for path in (path for path in world.metadata if part in path):
        for field in fields:
            chosen = values if THOROUGH else random.Random(path).sample(values, min(SAMPLE, len(values)))
            for value in chosen:

                def change(record: dict[str, Any], field: str = field, value: object = value) -> None:
                    where = record if field in record else record.get("_FILE", {})
                    if field in where:
                        where[field] = [value] if field == "_EXTRA_FILES" else value

                try:
                    body = _changed_records(world.body(path), change)
                except Exception:
                    continue  # the writer does not write this
                if body != world.body(path):
                    name = f"{path} with {field} {str(value)[:60]!r}"
                    yield Case(name, with_true_sizes(world, path, body), is_forged=True)


@pytest.fixture(params=WORLDS)
def world(request: pytest.FixtureRequest) -> World:
    return built_world(request.param)


@pytest.mark.parametrize("part", ["/manifest-list-", "/manifest-", "/index-manifest-"])
def test_hostile_names(world: World, part: str) -> None:
    paths = [path for path in world.metadata if part in path]
    if not paths:
        pytest.skip("no such files in this table")
    tally = judge_all(world, _cases(world, part, ("_FILE_NAME", "_EXTRA_FILES"), NAMES))
    tally.check()


def test_hostile_external_paths() -> None:
    tally = judge_all(built_world("keys"), _cases(built_world("keys"), "/manifest-", ("_EXTERNAL_PATH",), EXTERNAL))
    tally.check()


@pytest.mark.parametrize(
    "field", ["baseManifestList", "deltaManifestList", "changelogManifestList", "indexManifest", "statistics"]
)
def test_hostile_names_in_documents(world: World, field: str) -> None:
    def cases() -> Iterator[Case]:
        for root in (root for root in sorted(world.needs) if root in world.objects):
            for name in NAMES if THOROUGH else random.Random(root).sample(NAMES, SAMPLE):
                document = json.loads(world.body(root)) | {field: name}
                yield Case(f"{root} with {field} {name[:60]!r}", {root: json.dumps(document).encode()}, is_forged=True)

    judge_all(world, cases()).check()


@pytest.mark.parametrize("field", ["_FILE_SIZE", "_NUM_ADDED_FILES", "_NUM_DELETED_FILES", "_VERSION", "_KIND"])
def test_lies_about_counts_and_sizes(world: World, field: str) -> None:
    """Sizes that lists state, and numbers of entries, are held against the manifest: no lie costs a file."""
    part = "/manifest-" if field == "_KIND" else "/manifest-list-"
    tally = judge_all(world, _cases(world, part, (field,), LIES))
    tally.check()
    assert not tally.excused


def test_manifests_of_more_or_fewer_entries(world: World) -> None:
    """One is gone or deleted as well, and the sizes that lists state are true: only the numbers of files say so."""

    def cases() -> Iterator[Case]:
        for path, reader, records in _manifests(world):
            for at, record in enumerate(records):
                for name, changed in (
                    ("gone", records[:at] + records[at + 1 :]),
                    ("deleted", [*records, {**record, "_KIND": 1}]),
                ):
                    body = avro(reader.writer_schema, changed, str(reader.codec))
                    yield Case(f"{path}, entry {at} {name}", with_true_sizes(world, path, body), is_forged=True)

    tally = judge_all(world, cases())
    tally.check()
    assert tally.counts.total() > 10 and not tally.excused


def test_manifests_that_name_others(world: World) -> None:
    """As many entries as before, with longer or shorter names: only the size that lists state says so."""

    def cases() -> Iterator[Case]:
        for path, reader, records in _manifests(world):
            for at, record in enumerate(records):
                for name in ("x", "of-another-table" * 4):
                    named = {**record, "_FILE": {**record["_FILE"], "_FILE_NAME": name}}
                    body = avro(MANIFEST, [*records[:at], named, *records[at + 1 :]], str(reader.codec))
                    if len(body) != len(world.body(path)):  # compressed, a few are as long as before
                        yield Case(f"{path} with entry {at} called {name}", {path: body})

    tally = judge_all(world, cases())
    tally.check()
    assert tally.counts.total() > 10 and not tally.excused


def _manifests(world: World) -> Iterator[tuple[str, Any, list[dict[str, Any]]]]:
    for path in (path for path in world.metadata if "/manifest-" in path and "-list-" not in path):
        reader = fastavro.reader(io.BytesIO(world.body(path)))
        records: list[Any] = list(reader)
        if records and "_FILE" in records[0]:
            yield path, reader, records


def test_lists_that_repeat_or_reorder(world: World) -> None:
    def cases() -> Iterator[Case]:
        for path in (path for path in world.metadata if "/manifest-list-" in path):
            reader = fastavro.reader(io.BytesIO(world.body(path)))
            records = [dict(record) for record in reader]
            for name, changed in (
                ("twice", records * 2),
                ("a thousand times", records * 1000),
                ("backwards", records[::-1]),
                ("the first twice", records[:1] * 2 + records[1:]),
            ):
                if changed != records:
                    body = avro(reader.writer_schema, changed, str(reader.codec))
                    yield Case(f"{path} with its manifests {name}", with_true_sizes(world, path, body), is_forged=True)

    judge_all(world, cases()).check()


def test_manifests_that_repeat_or_reorder(world: World) -> None:
    def cases() -> Iterator[Case]:
        for path in (path for path in world.metadata if "/manifest-" in path and "-list-" not in path):
            reader = fastavro.reader(io.BytesIO(world.body(path)))
            records = [dict(record) for record in reader]
            for name, changed in (("twice", records * 2), ("backwards", records[::-1])):
                if changed != records:
                    body = avro(reader.writer_schema, changed, str(reader.codec))
                    yield Case(f"{path} with its entries {name}", with_true_sizes(world, path, body), is_forged=True)

    tally = judge_all(world, cases())
    tally.check()
    assert not tally.excused
