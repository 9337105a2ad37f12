"""The live files of a snapshot, record by record as they lie in the manifests. Only fastavro reads here."""

import io
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import fastavro

from lakesweep.storage.store import Store

Record = tuple[str, bytes]
"""The writer's schema, and the bytes of one entry."""


def document_of(store: Store, snapshot_id: int, branch: str = "main") -> dict[str, Any]:
    """Return a snapshot document."""
    folder = "" if branch == "main" else f"branch/branch-{branch}/"
    document: dict[str, Any] = json.loads(store.read(f"{folder}snapshot/snapshot-{snapshot_id}").data)
    return document


def listed(store: Store, snapshot_id: int, branch: str = "main") -> list[dict[str, Any]]:
    """Return the records of the base and the delta list."""
    document = document_of(store, snapshot_id, branch)
    return [
        record
        for key in ("baseManifestList", "deltaManifestList")
        for record in fastavro.reader(io.BytesIO(store.read(f"manifest/{document[key]}").data))
    ]


def entries(store: Store, name: str) -> Iterator[tuple[Record, dict[str, Any]]]:
    """Yield the entries of a manifest, as bytes and decoded."""
    blocks = fastavro.block_reader(io.BytesIO(store.read(f"manifest/{name}").data))
    schema = json.dumps(blocks.writer_schema, sort_keys=True)
    for block in blocks:
        data = block.bytes_
        start = data.tell()
        for _ in range(block.num_records):
            entry = fastavro.schemaless_reader(data, blocks.writer_schema)
            end = data.tell()
            data.seek(start)
            yield (schema, data.read(end - start)), entry
            start = end


def identity(entry: dict[str, Any]) -> tuple[Any, ...]:
    """Return what a DELETE must repeat."""
    file = entry["_FILE"]
    return (
        entry["_PARTITION"], entry["_BUCKET"], file["_LEVEL"], file["_FILE_NAME"], tuple(file["_EXTRA_FILES"]),
        file.get("_EMBEDDED_FILE_INDEX"), file.get("_EXTERNAL_PATH"),
    )  # fmt: skip


def live_records(store: Store, snapshot_id: int, branch: str = "main") -> Counter[Record]:
    """Return each live file of a snapshot as its record, with the number of times that it is there."""
    added: list[tuple[Record, tuple[Any, ...]]] = []
    deleted = set()
    for meta in listed(store, snapshot_id, branch):
        for record, entry in entries(store, meta["_FILE_NAME"]):
            if entry["_KIND"] == 0:
                added.append((record, identity(entry)))
            else:
                deleted.add(identity(entry))
    return Counter(record for record, named in added if named not in deleted)
