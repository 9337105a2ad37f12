"""Small files that claim to be large ones: memory and time stay bounded, seen from outside the process."""

import io
import json
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pytest

from tests.bad_bytes.worlds import built_world
from tests.unit.format.samples import container, long, record

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")

MAX_RSS_MB = 300
MAX_SECONDS = 60
"""Of a process: what starts it takes most of it on a busy machine."""

_RUN = """
import json, re, sys
from pathlib import Path
from lakesweep.errors import MaintenanceError
from lakesweep.storage.local.store import LocalStore
from tests.support.memory_store import MemoryStore
from tests.support.maintenance import Maintainer
try:
    report = Maintainer(LocalStore(sys.argv[1]), control=MemoryStore("memory://c")).expire(2, 2)
    said = report.status + " " + (report.refusal.message if report.refusal else "")
except MaintenanceError as error:
    said = str(error)
# Not ru_maxrss: it survives exec, so a child would show what the tests themselves take.
peak = re.search(r"VmHWM:\\s+([0-9]+) kB", Path("/proc/self/status").read_text())
print(json.dumps({"said": said, "peak_mb": int(peak[1]) / 1024}))
"""


def _zstd(data: bytes) -> bytes:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd.compress(data)


def _deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def _snappy(data: bytes) -> bytes:
    cramjam = pytest.importorskip("cramjam")
    return bytes(cramjam.snappy.compress_raw(data)) + zlib.crc32(data).to_bytes(4, "big")


def _schema(body: bytes) -> Any:
    return fastavro.reader(io.BytesIO(body)).writer_schema


def _minimal(part: str) -> tuple[Any, bytes]:
    """Return a schema of nothing but what we read, and the shortest record of it."""
    if part == "/manifest-list-":
        fields = ("_VERSION", "_FILE_SIZE", "_NUM_ADDED_FILES", "_NUM_DELETED_FILES", "_SCHEMA_ID")
        return record("r", _FILE_NAME="string", **dict.fromkeys(fields, "long")), b"\x02a" + b"\x04" + bytes(4)
    file = record(
        "f", _FILE_NAME="string", _EXTRA_FILES={"type": "array", "items": "string"},
        **dict.fromkeys(("_LEVEL", "_FILE_SIZE", "_ROW_COUNT"), "long"),
    )  # fmt: skip
    schema = record("r", _VERSION="int", _KIND="int", _PARTITION="bytes", _BUCKET="int", _FILE=file)
    return schema, b"\x04\0\0\0" + b"\x02a\0" + bytes(3)


def _bomb(codec: str, pack: Callable[[bytes], bytes], unpacked_mb: int) -> Callable[[bytes, str], bytes]:
    def make(body: bytes, part: str) -> bytes:
        schema, shortest = _minimal(part)
        count = (unpacked_mb << 20) // len(shortest)
        return container(schema, [(count, pack(shortest * count))], codec.encode())

    return make


def _many_blocks(body: bytes, part: str) -> bytes:
    schema, shortest = _minimal(part)
    block = (100_000, _zstd(shortest * 100_000))
    return container(schema, [block] * 1000, b"zstandard")


def _long_arrays(body: bytes, part: str) -> bytes:
    schema, _ = _minimal("/manifest-")
    names = long(6_000_000) + bytes(6_000_000) + b"\0"
    return container(schema, [(1, _zstd(b"\x04\0\0\0\x02a" + names + bytes(3)))], b"zstandard")


def _count_claim(body: bytes, part: str) -> bytes:
    return container(_schema(body), [((1 << 63) - 1, b"abc")])


def _length_claim(body: bytes, part: str) -> bytes:
    return container(_schema(body), []) + long(1) + long(1 << 30) + b"abc" + b"s" * 16


def _deep_schema(body: bytes, part: str) -> bytes:
    text = b'{"type":"array","items":' * 50_000 + b'"int"' + b"}" * 50_000
    header = long(1) + long(11) + b"avro.schema" + long(len(text)) + text + long(0)
    return b"Obj\x01" + header + b"s" * 16


def _wide_schema(body: bytes, part: str) -> bytes:
    fields = [{"name": f"f{number}", "type": "int"} for number in range(100_000)]
    return container({"type": "record", "name": "r", "fields": fields}, [])


def _garbage(body: bytes, part: str) -> bytes:
    return b"Obj\x01" + b"\xff" * (100 << 20)


AVRO = {
    "a deflate bomb of records": _bomb("deflate", _deflate, 60),
    "a zstd bomb of records": _bomb("zstandard", _zstd, 60),
    "a snappy bomb of records": _bomb("snappy", _snappy, 60),
    "a zstd bomb of a gigabyte": _bomb("zstandard", lambda data: _zstd(data * 16), 64),
    "a thousand blocks of many records": _many_blocks,
    "arrays of millions of names": _long_arrays,
    "a block of 2^63 records": _count_claim,
    "a block of 1 GiB": _length_claim,
    "a schema of 50 000 arrays in each other": _deep_schema,
    "a schema of 100 000 fields": _wide_schema,
    "100 MB of garbage": _garbage,
}

JSON: dict[str, Callable[[dict[str, Any]], bytes]] = {
    "deep nesting": lambda document: b'{"a":' * 1_000_000,
    "deep arrays": lambda document: json.dumps(document).encode()[:-1] + b',"x":' + b"[" * 5_000_000,
    "a huge number": lambda document: json.dumps(document).encode()[:-1] + b',"x":' + b"9" * 5_000_000 + b"}",
    "a huge exponent": lambda document: json.dumps(document).encode()[:-1] + b',"x":1e999999999999}',
    "a time of a huge exponent": lambda document: json.dumps(document | {"tagTimeRetained": 1}).encode().replace(
        b'"tagTimeRetained": 1', b'"tagTimeRetained": 1e99999999'
    ),
    "keys twice": lambda document: json.dumps(document).encode()[:-1] + b',"id":"a"}',
    "a million keys": lambda document: json.dumps({f"k{number}": 0 for number in range(1_000_000)}).encode(),
    "a text of 100 MB": lambda document: json.dumps(document | {"commitUser": "x" * (100 << 20)}).encode(),
    "a text of 15 MB": lambda document: json.dumps(document | {"commitUser": "x" * (15 << 20)}).encode(),
    "quotes": lambda document: b'{"' + b'\\"' * 4_000_000,
    "NaN": lambda document: json.dumps(document | {"timeMillis": float("nan")}).encode(),
    "Infinity": lambda document: json.dumps(document | {"id": float("-inf")}).encode(),
    "UTF-16": lambda document: json.dumps(document).encode("utf-16"),
}  # fmt: skip


def _maintain(folder: Path, changes: dict[str, bytes]) -> str:
    """Maintain a table on disk in a process of its own, and return what it said."""
    world = built_world("appends")
    for path in world.objects:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(changes.get(path, world.body(path)))
    done = subprocess.run(
        [sys.executable, "-c", _RUN, str(folder)],
        capture_output=True, text=True, timeout=MAX_SECONDS, check=False, env={"PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["peak_mb"] <= MAX_RSS_MB, found
    for root in world.retained:
        lost = [path for path in world.needs[root] if path not in changes and not (folder / path).exists()]
        assert not lost, (found["said"], root, lost)
    return str(found["said"])


@pytest.mark.parametrize("part", ["/manifest-list-", "/manifest-"])
@pytest.mark.parametrize("attack", AVRO)
def test_avro_bombs(tmp_path: Path, attack: str, part: str) -> None:
    """A list or manifest of the table becomes the bomb, and whatever names it states the size of the bomb."""
    world = built_world("appends")
    names = [path for path in world.metadata if part in path and ("-list-" in path) == ("-list-" in part)]
    path = names[0]
    body = AVRO[attack](world.body(path), part)
    changes = _with_stated_size(path, body)
    said = _maintain(tmp_path / "t", changes)
    assert len(said) < 3000 and said.isprintable(), said[:500]


def _with_stated_size(path: str, body: bytes) -> dict[str, bytes]:
    from tests.bad_bytes.worlds import with_true_sizes

    changed = with_true_sizes(built_world("appends"), path, body)
    return {path: found for path, found in changed.items() if found is not None}


@pytest.mark.parametrize("path", ["tag/tag-first", "schema/schema-0"])
@pytest.mark.parametrize("attack", JSON)
def test_json_bombs(tmp_path: Path, attack: str, path: str) -> None:
    document = json.loads(built_world("appends").body(path))
    said = _maintain(tmp_path / "t", {path: JSON[attack](document)})
    assert len(said) < 3000 and said.isprintable(), said[:500]
