"""A table whose every byte is searched for the values of erased rows.

Row n has the text `v<n>` and the number n. Code of its own decodes what lies in the table and its control location:
data files by pyarrow, metadata by fastavro, statistics and indexes as they are.
"""

import gzip
import io
import json
import zlib
from collections.abc import Collection, Iterator
from typing import Any

import fastavro

from lakesweep.model.erasure.places import ErasedFiles, Place, erased_files_of
from lakesweep.model.where.where import parse_where
from lakesweep.operations.erasure.places.look import look
from lakesweep.operations.erasure.places.tainted import tainted_files
from lakesweep.operations.rows.engine import LocalEngine
from lakesweep.runs.view import begin
from tests.support.faulty_store import Switch
from tests.support.row_world import RowWorld


class ErasureWorld(RowWorld):
    """Who searches and looks, and a grep over all objects."""

    def __init__(self, **table: Any) -> None:
        super().__init__(stats=True, **table)

    def search(self, where: str, branch: str = "main") -> ErasedFiles:
        """Search every root for tainted files."""
        view = begin(self.maintainer(branch=branch).table, "erase")
        found = tainted_files(view, parse_where(where, view.schema.fields), LocalEngine(view.table))
        assert erased_files_of(json.loads(json.dumps(found.to_json())), "x") == found
        return found

    def look(
        self, erased: ErasedFiles, switch: Switch | None = None, *, since: int | None = None, keys: Collection[str] = ()
    ) -> list[Place]:
        """Look where values can be."""
        return list(look(begin(self.maintainer(switch).table, "erase"), erased, erased_ms=since, keys=keys))

    def left(self, *found: Any, **given: Any) -> dict[str, str]:
        """Return kind -> worst state, of the places that are not gone; without the logs of Spark."""
        states = dict[str, str]()
        for place in self.look(*found, **given):
            if place.state != "gone" and place.kind != "event_log" and states.get(place.kind) != "there":
                states[place.kind] = place.state
        return states

    def tag(self, name: str, snapshot_id: int | None = None) -> None:
        """Tag a snapshot, by default the newest."""
        self.store.put(f"tag/tag-{name}", self.store.read(f"snapshot/snapshot-{snapshot_id or self.ids()[-1]}").data)

    def branch_off(self, name: str) -> None:
        """Make a branch from the newest snapshot."""
        folder, newest = f"branch/branch-{name}", self.ids()[-1]
        for path in (f"snapshot/snapshot-{newest}", "schema/schema-0"):
            self.store.put(f"{folder}/{path}", self.store.read(path).data)
        self.store.put(f"{folder}/snapshot/LATEST", str(newest).encode())

    def grep(self, marker: int) -> set[str]:
        """Return the keys of all objects of the table in which a row's values are."""
        return {entry.key for entry in self.store.list("") if self.has(entry.key, marker)}

    def has(self, key: str, marker: int) -> bool:
        """Tell whether a row's values are in an object."""
        return is_in(self.store.read(key).data, *_forms(marker))

    def grep_control(self, marker: int) -> set[str]:
        """Return the keys of documents of the control location in which a row's values are."""
        return {
            entry.key for entry in self.control.list("") if is_in(self.control.read(entry.key).data, *_forms(marker))
        }


def _forms(marker: int) -> tuple[bytes, bytes]:
    return f"v{marker}".encode(), marker.to_bytes(8, "little")


def is_in(body: bytes, *wanted: bytes) -> bool:
    """Tell whether one of some values is in an object, once its bytes are decoded."""
    return any(each in part for part in _decoded(body) for each in wanted)


def _decoded(body: bytes) -> Iterator[bytes]:
    yield body
    if body.startswith(b"PAR1"):
        from pyarrow import parquet

        columns = parquet.read_table(io.BytesIO(body)).to_pydict()
        yield repr(list(columns.values())).encode()
    elif body.startswith(b"Obj\1"):
        for record in fastavro.reader(io.BytesIO(body)):
            yield from _leaves(record)
    elif body.startswith(b"\x1f\x8b"):
        yield gzip.decompress(body)
    elif body[:1] == b"\x78":
        head, _, bodies = zlib.decompress(body).partition(b"\n")
        start = 0
        for *_, size in json.loads(head)["objects"]:
            yield from _decoded(bodies[start : start + size])
            start += size


def _leaves(value: Any) -> Iterator[bytes]:
    match value:
        case dict():
            for each in value.values():
                yield from _leaves(each)
        case list():
            for each in value:
                yield from _leaves(each)
        case bytes():
            yield value
        case str():
            yield value.encode()
