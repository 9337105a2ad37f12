"""Manifests that are damaged or of another form, read with patterns: the answer is that of the careful decoder."""

import copy
import io
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest

from lakesweep.errors import MaintenanceError
from lakesweep.format.avro import patterns, projection
from lakesweep.format.avro.container import MAGIC, SYNC_SIZE, read_container
from lakesweep.format.avro.patterns import PatternDecoder
from lakesweep.format.manifest import read_index_manifest, read_manifest, read_manifest_list, read_names
from tests.attack.metadata import THOROUGH

Read = Callable[[bytes, str], Any]
READERS: dict[str, tuple[Read, ...]] = {
    "manifest-list": (read_manifest_list,),
    "index-manifest": (read_index_manifest,),
    "manifest": (read_names, read_manifest),
}
CODECS = ("null", "deflate", "zstandard", "snappy")


@pytest.fixture(autouse=True)
def _always_patterns(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No records are read before a pattern is made, and patterns are never given up."""
    monkeypatch.setattr(patterns, "WARM_UP", 0)
    monkeypatch.setattr(patterns, "_CREDIT", 1 << 40)
    monkeypatch.setattr(patterns, "_MAX_CREDIT", 1 << 40)
    projection._compile.cache_clear()
    yield
    projection._compile.cache_clear()


@pytest.fixture(scope="module")
def manifests(fixtures_dir: Path) -> list[tuple[tuple[Read, ...], bytes]]:
    """The smallest real file of each kind and schema, with the functions that read it."""
    found: dict[object, tuple[tuple[Read, ...], bytes]] = {}
    for path in sorted(fixtures_dir.rglob("manifest/*"), key=lambda path: (path.stat().st_size, path.name)):
        body = path.read_bytes()
        kind = next((kind for kind in READERS if path.name.startswith(kind)), "")
        if kind and body.startswith(MAGIC):
            found.setdefault((kind, read_container(body, "p").schema_text), (READERS[kind], body))
    assert len(found) > 6
    return list(found.values())


def outcome(read: Read, body: bytes) -> list[Any] | tuple[str, str]:
    """Return all that a file holds, or the error."""
    try:
        return list(read(body, "p"))
    except MaintenanceError as error:
        return error.code, str(error)


def check(read: Read, body: bytes) -> list[Any] | tuple[str, str]:
    """Make sure that patterns change nothing."""
    found = outcome(read, body)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PatternDecoder, "__call__", lambda self, block, count: self.careful(block, count))
        assert found == outcome(read, body)
    return found


def damaged(body: bytes, choice: random.Random) -> Iterator[tuple[int, bytes]]:
    """Yield where a file was cut, or 0, and the file."""
    for place in range(len(body)) if THOROUGH else choice.sample(range(len(body)), 40):
        yield place, body[:place]
        yield 0, body[:place] + bytes((body[place] ^ 1 << choice.randrange(8),)) + body[place + 1 :]
        yield 0, body[:place] + body[place + 1 :]
        yield 0, body[:place] + bytes((choice.randrange(256),)) + body[place:]


@pytest.mark.parametrize("codec", CODECS)
def test_damage_loses_no_record_silently(manifests: list[tuple[tuple[Read, ...], bytes]], codec: str) -> None:
    """Only a cut between two blocks leaves a whole, shorter file; what names the file states its size."""
    choice = random.Random(codec)
    for readers, plain in manifests:
        container = fastavro.reader(io.BytesIO(plain))
        body = written(container.writer_schema, [*container] * 3, codec, choice.choice((1, 500, 100_000)))
        ends = {end + SYNC_SIZE for _, _, end in read_container(body, "p")._spans}
        for read in readers:
            whole = check(read, body)
            assert isinstance(whole, list)
            for cut, changed in damaged(body, choice):
                found = check(read, changed)
                if isinstance(found, list) and len(found) != len(whole):
                    assert cut in ends or (cut and not found), f"{len(found)} of {len(whole)} records"


def written(schema: Any, records: list[Any], codec: str = "null", block_size: int = 500) -> bytes:
    body = io.BytesIO()
    fastavro.writer(body, schema, records, codec=codec, sync_interval=block_size)
    return body.getvalue()


def _added(fields: list[Any], records: list[Any]) -> None:
    """The new field's bytes look like an entry's."""
    fields.insert(1, {"name": "_NEW", "type": ["null", {"type": "map", "values": "bytes"}]})
    for record in records[1:]:
        record["_NEW"] = {"": b"\x04\x00", "data-1.parquet": b"\x00" * 70}


def _reversed_unions(fields: list[Any], _: list[Any]) -> None:
    for field in fields:
        field["type"] = field["type"][::-1] if isinstance(field["type"], list) else [field["type"], "null"]
        field.pop("default", None)


def _many_names(_: list[Any], records: list[Any]) -> None:
    for number, record in enumerate(records):
        record["_FILE_NAME"] = "data-" + "\u00e9" * number
        record["_EXTRA_FILES"] = [f"extra-{extra}" for extra in range(number * 7 % 80)]


FORMS: dict[str, Callable[[list[Any], list[Any]], object]] = {
    "another order": lambda fields, _: fields.reverse(),
    "a new field": _added,
    "other unions": _reversed_unions,
    "names of all lengths": _many_names,
}


def _record(schema: Any) -> Any:
    """Return a record of which a schema may be a union with null."""
    return next(branch for branch in schema if branch != "null") if isinstance(schema, list) else schema


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("codec", CODECS)
def test_entries_of_another_form(manifests: list[tuple[tuple[Read, ...], bytes]], form: str, codec: str) -> None:
    """Whatever a later version writes: no name is lost or taken for another."""
    for readers, body in manifests:
        if read_names not in readers:
            continue
        container = fastavro.reader(io.BytesIO(body))
        schema: Any = copy.deepcopy(container.writer_schema)
        originals: list[Any] = [*container]
        records = [copy.deepcopy(record) for _ in range(30) for record in originals]
        file = _record(next(field for field in _record(schema)["fields"] if field["name"] == "_FILE")["type"])
        FORMS[form](file["fields"], [record["_FILE"] for record in records])
        expected = [
            (record["_KIND"] == 0, entry["_FILE_NAME"], tuple(entry["_EXTRA_FILES"]), entry.get("_EXTERNAL_PATH"))
            for record in records
            for entry in [record["_FILE"]]
        ]
        changed = written(schema, records, codec)
        assert [tuple(names) for names in check(read_names, changed)] == expected
        for names, entry in zip(expected, check(read_manifest, changed), strict=True):
            assert names == (entry.is_add, entry.file_name, entry.extra_files, entry.external_path)
