"""Where the table of `fault_history` lies when runs of the real command line are broken: memory, local folders, S3."""

import itertools
import json
import os
import shutil
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from lakesweep.control.ndjson import unpack
from tests.support import fault_s3
from tests.support.fault_history import CONSUMER_AGES_MS
from tests.support.memory_store import MemoryStore

NOW_MS = 1_800_000_000_000
"""What every clock says in the run that is broken."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a table and a control location hold."""

    table: Mapping[str, bytes]
    control: Mapping[str, bytes]

    def digest(self) -> str:
        """Return a word for exactly these objects.

        What runs remember of a table counts without its order, which is that in which threads had their answers.
        """
        found = sha256()
        for objects in (self.table, self.control):
            for key in sorted(objects):
                data = _in_order(objects[key]) if key.endswith("/cache.bin") else objects[key]
                found.update(f"{key}\0{len(data)}\0".encode() + data)
            found.update(b"\0\0")
        return found.hexdigest()

    def gone(self) -> dict[str, str]:
        """Return path -> what the ledger says at last became of it; gone is gone, whoever deleted it."""
        rows = [
            row
            for key in sorted(key for key in self.control if "/ledger/" in key)
            for row in unpack(self.control[key], key)
            if "result" in row
        ]
        word = {"deleted": "gone", "already_gone": "gone"}
        return {str(row["key"]): word.get(str(row["result"]), str(row["result"])) for row in rows}


class MemoryPlace:
    """Two stores in memory, found by the command line through `MEMORY_STORES`."""

    def __init__(self, objects: Mapping[str, bytes]) -> None:
        self._first = objects
        self.now_ms = NOW_MS
        self.arguments = ["memory://bucket/t", "--control", "memory://control"]
        self.reset()

    def reset(self) -> None:
        """Put the table back to what it was at first, and forget all control documents."""
        self.now_ms = NOW_MS
        self.table = MemoryStore("memory://bucket/t", clock=lambda: self.now_ms)
        self.control = MemoryStore("memory://control", clock=lambda: self.now_ms)
        for key, data in self._first.items():
            self.table.put(key, data)
        for key in CONSUMER_AGES_MS.keys() & self._first.keys():
            self.table.set_modified(key, NOW_MS - CONSUMER_AGES_MS[key])

    def found(self) -> Found:
        """Return what is there."""
        return Found(_objects(self.table), _objects(self.control))


class LocalPlace:
    """Two folders."""

    level = "store"

    def __init__(self, folder: Path, objects: Mapping[str, bytes]) -> None:
        self._table, self._control, self._first = folder / "t", folder / "control", folder / "first"
        for key, data in objects.items():
            path = self._first / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        for key, age_ms in CONSUMER_AGES_MS.items():
            os.utime(self._first / key, ns=((NOW_MS - age_ms) * 10**6,) * 2)
        self.arguments = [str(self._table), "--control", str(self._control)]

    def reset(self) -> None:
        """Put the table back to what it was at first, and forget all control documents."""
        for folder in (self._table, self._control):
            shutil.rmtree(folder, ignore_errors=True)
        # Links: the same inodes and times each time, so that the same run writes the same bytes.
        shutil.copytree(self._first, self._table, copy_function=os.link)

    def name_of(self, call: str) -> str:
        """Return a call as the tally names it."""
        return call

    def found(self) -> Found:
        """Return what is there."""
        return Found(_files(self._table), _files(self._control))


class MotoPlace:
    """Two buckets in the S3 of this process, filled past HTTP."""

    level = "wire"

    def __init__(self, objects: Mapping[str, bytes]) -> None:
        self._objects = objects
        place = ["--endpoint-url", fault_s3.endpoint(), "--region", "us-east-1"]
        self._table, self._control = fault_s3.make_bucket(), fault_s3.make_bucket()
        self.arguments = [f"s3://{self._table}/t", "--control", f"s3://{self._control}/c", *place]

    def reset(self) -> None:
        """Put the table back to what it was at first, and forget all control documents."""
        backend = fault_s3.buckets()
        for name in (self._table, self._control):
            backend.buckets[name].keys.clear()
        for key, data in self._objects.items():
            made = backend.put_object(self._table, f"t/{key}", data)
            if key in CONSUMER_AGES_MS:
                made.last_modified = datetime.fromtimestamp((NOW_MS - CONSUMER_AGES_MS[key]) / 1000, UTC).replace(
                    tzinfo=None
                )

    def name_of(self, call: str) -> str:
        """Return a request as the tally names it: whose bucket, and what."""
        method, _, url = call.partition(" ")
        whose = "table" if f"/{self._table}?" in url or f"/{self._table}/" in url else "control"
        return f"{whose} {'LIST' if 'list-type=2' in url else method} {url}"

    def found(self) -> Found:
        """Return what is there."""
        return Found(_keys(self._table, "t/"), _keys(self._control, "c/"))


def _in_order(cache: bytes) -> bytes:
    """Return what `control/cache.py` wrote with its objects sorted by key."""
    line, _, bodies = zlib.decompress(cache).partition(b"\n")
    header = json.loads(line)
    ends = itertools.accumulate(size for *_, size in header["objects"])
    rows = sorted((row, bodies[end - row[-1] : end]) for row, end in zip(header["objects"], ends, strict=True))
    return repr((header | {"objects": None}, rows)).encode()


def _objects(store: MemoryStore) -> dict[str, bytes]:
    return {entry.key: store.read(entry.key).data for entry in store.list("")}


def _files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lakesweep.lock"
    }


def _keys(bucket: str, prefix: str) -> dict[str, bytes]:
    return {name.removeprefix(prefix): key.value for name, key in fault_s3.buckets().buckets[bucket].keys.items()}
