"""Metadata that somebody wrote otherwise: manifest lists and manifests, decoded, changed and written back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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
