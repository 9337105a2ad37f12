"""What must hold of a table with a primary key after each commit, checked on its bytes.

I1: with deletion vectors, a key has at most one visible row on the levels from 1 on, and none of these deletes.
I2: the files of one level from 1 on have no key in common, nor does one lie within another.
I3: of the rows with a key, one on a smaller level is newer.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.support.binary_row import parse_type
from tests.support.keyed_files import KeyedFile, KeyedRow, KeyedSnapshot, comparable, decoded, type_text


def problems(snapshot: KeyedSnapshot) -> list[str]:
    """Return what is wrong with a snapshot."""
    found = [*_totals(snapshot), *_index(snapshot)]
    homes: dict[tuple[Any, ...], set[int]] = defaultdict(set)
    for (partition, bucket), files in snapshot.buckets().items():
        found += [f"bucket {bucket}: {problem}" for problem in _bucket(snapshot, files)]
        for file in files:
            found += [f"{file}: {problem}" for problem in (*_contents(snapshot, file), *_statistics(snapshot, file))]
            for row in file.rows:
                homes[partition, row.key].add(bucket)
    return [*found, *(f"key {key}: in buckets {sorted(each)}" for (_, key), each in homes.items() if len(each) > 1)]


def check(location: Path, number: int | None = None) -> KeyedSnapshot:
    """Fail unless a snapshot is as it must be, and return it."""
    snapshot = KeyedSnapshot(location, number)
    found = problems(snapshot)
    assert not found, "\n".join([f"snapshot {snapshot.number}:", *found[:12]])
    return snapshot


def _bucket(snapshot: KeyedSnapshot, files: Sequence[KeyedFile]) -> Iterator[str]:
    by_key: dict[tuple[Any, ...], list[tuple[int, KeyedRow]]] = defaultdict(list)
    for file in files:
        for row in file.rows:
            by_key[row.key].append((file.level, row))
    for key, rows in by_key.items():
        if snapshot.has_vectors:
            seen = [(level, row) for level, row in rows if level and not row.is_marked]
            if len(seen) > 1:
                yield f"I1: key {key} has {len(seen)} visible rows, on the levels {[level for level, _ in seen]}"
            if any(not row.adds for _, row in seen):
                yield f"I1: key {key} has a visible row that deletes"
        for (upper, newer), (lower, older) in pairwise(sorted(rows, key=lambda each: (each[0], -each[1].sequence))):
            is_again = newer.sequence == older.sequence and older.is_marked  # with `sequence.field` it moves up
            if upper < lower and newer.sequence <= older.sequence and not is_again:
                yield f"I3: key {key} has {older.sequence} on level {lower} below {newer.sequence} on level {upper}"
    for upper, lower in pairwise(sorted((file for file in files if file.level), key=lambda f: (f.level, f.keys[:1]))):
        if upper.level == lower.level and max(upper.keys) >= min(lower.keys):
            yield f"I2: {upper.name} and {lower.name} overlap on level {upper.level}"


def _contents(snapshot: KeyedSnapshot, file: KeyedFile) -> Iterator[str]:
    """A file holds rows, in the order of their keys; what its entry says of them is true."""
    if not file.rows:
        yield "no rows"
        return
    record, keys = file.record, file.keys
    if any(one >= other for one, other in pairwise(keys)):
        yield "keys out of order, or twice"
    sequences = [row.sequence for row in file.rows]
    facts = {
        "_FILE_SIZE": file.path.stat().st_size,
        "_ROW_COUNT": len(file.rows),
        "_MIN_SEQUENCE_NUMBER": min(sequences),
        "_MAX_SEQUENCE_NUMBER": max(sequences),
        "_DELETE_ROW_COUNT": sum(not row.adds for row in file.rows),
    }
    for name, fact in facts.items():
        if record[name] != fact:
            yield f"{name} is {record[name]}, expected {fact}"
    for name, fact in {"_MIN_KEY": min(keys), "_MAX_KEY": max(keys)}.items():
        if comparable(decoded(snapshot.key_types, record[name])) != fact:
            yield f"{name} is {decoded(snapshot.key_types, record[name])}, expected {fact}"


def _statistics(snapshot: KeyedSnapshot, file: KeyedFile) -> Iterator[str]:
    """Statistics contain what the rows hold; those of keys say it exactly."""
    if not file.rows:
        return
    keys = list(zip(*(row.key for row in file.rows), strict=True))
    yield from _ranges("_KEY_STATS", file.record["_KEY_STATS"], snapshot.keys, snapshot.key_types, keys)
    fields = snapshot.schema_of(file.record["_SCHEMA_ID"])["fields"]
    stated = file.record.get("_VALUE_STATS_COLS")
    fields = [each for each in fields if stated is None or each["name"] in stated]
    columns = [[row.values[each["id"]] for row in file.rows] for each in fields]
    names, types = [each["name"] for each in fields], [type_text(each) for each in fields]
    yield from _ranges("_VALUE_STATS", file.record["_VALUE_STATS"], names, types, columns)


def _ranges(
    what: str, stats: Any, names: Sequence[str], types: Sequence[str], columns: Sequence[Sequence[Any]]
) -> Iterator[str]:
    is_exact = what == "_KEY_STATS"
    if not is_exact and stats["_MIN_VALUES"][:4] == bytes(4):
        return  # none were written
    ends = zip(decoded(types, stats["_MIN_VALUES"]), decoded(types, stats["_MAX_VALUES"]), strict=True)
    for name, type_, (low, high), nulls, column in zip(names, types, ends, stats["_NULL_COUNTS"], columns, strict=True):
        known = [comparable([value])[0] for value in column if value is not None]
        if nulls not in (None, len(column) - len(known)):
            yield f"{what} {name}: {nulls} nulls, expected {len(column) - len(known)}"
        if not known:
            continue
        if is_exact and low is high is None and type_.startswith("TIMESTAMP") and parse_type(type_)[1] > 6:
            continue  # Parquet has no statistics of them
        if is_exact and comparable([low, high]) != (min(known), max(known)):
            yield f"{what} {name}: {low} to {high}, expected {min(known)!r} to {max(known)!r}"
        if low is not None and comparable([low])[0] > min(known):
            yield f"{what} {name}: starts at {low}, but {min(known)!r} is there"
        if high is not None and comparable([high])[0] < max(known):
            yield f"{what} {name}: ends at {high}, but {max(known)!r} is there"


def _index(snapshot: KeyedSnapshot) -> Iterator[str]:
    """Vectors name live files of their bucket, and rows of these; other files of indexes are there."""
    rows = {(file.bucket, file.name): len(file.rows) for file in snapshot.files}
    for record in snapshot.index:
        path = snapshot.index_path(record)
        if not path.exists() or path.stat().st_size != record["_FILE_SIZE"]:
            yield f"{path.name}: not there with {record['_FILE_SIZE']} bytes"
    for bucket, vectors in snapshot.vectors.items():
        for name, positions in vectors.items():
            if (bucket, name) not in rows:
                yield f"bucket {bucket[1]}: a vector of {name}, which is not live"
            elif positions and max(positions) >= rows[bucket, name]:
                yield f"bucket {bucket[1]}: a vector of {name} marks row {max(positions)} of {rows[bucket, name]}"


def _totals(snapshot: KeyedSnapshot) -> Iterator[str]:
    """The counts of the snapshot are those of its entries; deleted rows of live files count."""
    total = sum(file.record["_ROW_COUNT"] for file in snapshot.files)
    delta = sum(
        (1, -1)[entry["_KIND"]] * entry["_FILE"]["_ROW_COUNT"] for entry in snapshot.entries("deltaManifestList")
    )
    for name, expected in {"totalRecordCount": total, "deltaRecordCount": delta}.items():
        if snapshot.document[name] != expected:
            yield f"{name} is {snapshot.document[name]}, expected {expected}"
