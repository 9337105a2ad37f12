"""Metadata that somebody wrote otherwise: manifest lists and manifests, decoded, changed and written back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import fastavro

Record = dict[str, Any]
LISTS = ("baseManifestList", "deltaManifestList")


def newest_snapshot(location: Path) -> Path:
    """Return the path of the newest snapshot of a table."""
    ids = [path.name.removeprefix("snapshot-") for path in (location / "snapshot").glob("snapshot-*")]
    return location / "snapshot" / f"snapshot-{max(int(id) for id in ids)}"


def change_list(location: Path, key: str, change: Callable[[Record], object]) -> None:
    """Change the records of a manifest list of the newest snapshot.

    Args:
        location: The table.
        key: Of the snapshot, which names the list.
        change: Called with each record.
    """
    snapshot = newest_snapshot(location)
    text = snapshot.read_text()
    path = location / "manifest" / json.loads(text)[key]
    _rewrite(path, change)
    snapshot.write_text(re.sub(rf'("{key}Size"\s*:\s*)\d+', rf"\g<1>{path.stat().st_size}", text))


def records_of(location: Path, key: str) -> Iterator[Record]:
    """Yield the records of a manifest list of the newest snapshot."""
    name = json.loads(newest_snapshot(location).read_text())[key]
    with (location / "manifest" / name).open("rb") as file:
        yield from fastavro.reader(file)  # type: ignore[misc]


def entries_of(location: Path, key: str) -> Iterator[Record]:
    """Yield the entries of all manifests of a list of the newest snapshot."""
    for record in records_of(location, key):
        with (location / "manifest" / record["_FILE_NAME"]).open("rb") as file:
            yield from fastavro.reader(file)  # type: ignore[misc]


def change_entries(location: Path, change: Callable[[Record], object], schema: Any) -> int:
    """Write all manifests of the newest snapshot anew, by another schema; return how many entries there are.

    The lists state the new sizes.
    """
    counted = 0

    def count(entry: Record) -> None:
        nonlocal counted
        counted += 1
        change(entry)

    def rewrite(record: Record) -> None:
        path = location / "manifest" / record["_FILE_NAME"]
        _rewrite(path, count, schema)
        record["_FILE_SIZE"] = path.stat().st_size

    for key in LISTS:
        change_list(location, key, rewrite)
    return counted


def _rewrite(path: Path, change: Callable[[Record], object], schema: Any = None) -> None:
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        records: list[Record] = list(reader)  # type: ignore[arg-type]
    for record in records:
        change(record)
    with path.open("wb") as file:
        fastavro.writer(file, schema or reader.writer_schema, records, codec=reader.codec)  # type: ignore[arg-type]


def delete_files(location: Path, names: Collection[str]) -> None:
    """Commit the DELETEs of some files, and nothing about the index, as writers do that do not know it."""
    lists = [list(records_of(location, key)) for key in LISTS]
    name, document = str(uuid4()), json.loads(newest_snapshot(location).read_text())
    entries = [entry for key in LISTS for entry in entries_of(location, key)]
    deleted = {_place(entry) for entry in entries if entry["_KIND"] == 1}
    gone: dict[tuple[bytes, int], list[Record]] = {}
    for entry in entries:
        if entry["_KIND"] == 0 and entry["_FILE"]["_FILE_NAME"] in names and _place(entry) not in deleted:
            gone.setdefault((entry["_PARTITION"], entry["_BUCKET"]), []).append({**entry, "_KIND": 1})
    delta = []
    for number, ((partition, bucket), deletes) in enumerate(gone.items()):
        levels = [entry["_FILE"]["_LEVEL"] for entry in deletes]
        of_manifest = {
            "_FILE_NAME": f"manifest-{name}-{number}",
            "_NUM_ADDED_FILES": 0,
            "_NUM_DELETED_FILES": len(deletes),
            "_PARTITION_STATS": {
                "_MIN_VALUES": partition,
                "_MAX_VALUES": partition,
                "_NULL_COUNTS": [0] * int.from_bytes(partition[:4], "big"),
            },
            "_MIN_BUCKET": bucket,
            "_MAX_BUCKET": bucket,
            "_MIN_LEVEL": min(levels),
            "_MAX_LEVEL": max(levels),
        }
        like = next(record for records in lists for record in records)
        size = _written_like(location, like["_FILE_NAME"], of_manifest["_FILE_NAME"], deletes)
        delta.append({**like, **of_manifest, "_FILE_SIZE": size})
    rows = sum(entry["_FILE"]["_ROW_COUNT"] for deletes in gone.values() for entry in deletes)
    made = {"id": document["id"] + 1, "commitKind": "OVERWRITE", "commitUser": name, "deltaRecordCount": -rows}
    made["totalRecordCount"] = document["totalRecordCount"] - rows
    for number, (key, records) in enumerate(zip(LISTS, ([*lists[0], *lists[1]], delta), strict=True)):
        made[key] = f"manifest-list-{name}-{number}"
        made[f"{key}Size"] = _written_like(location, document[key], made[key], records)
    (location / "snapshot" / f"snapshot-{made['id']}").write_text(json.dumps({**document, **made}))
    (location / "snapshot" / "LATEST").write_text(str(made["id"]))


def _place(entry: Record) -> tuple[bytes, int, int, str]:
    return entry["_PARTITION"], entry["_BUCKET"], entry["_FILE"]["_LEVEL"], entry["_FILE"]["_FILE_NAME"]


def _written_like(location: Path, like: str, name: str, records: Sequence[Record]) -> int:
    """Write a file with the schema of another one, and return its size."""
    folder = location / "manifest"
    with (folder / like).open("rb") as file:
        reader = fastavro.reader(file)
    with (folder / name).open("wb") as file:
        fastavro.writer(file, reader.writer_schema, records, codec=reader.codec)  # type: ignore[arg-type]
    return (folder / name).stat().st_size
