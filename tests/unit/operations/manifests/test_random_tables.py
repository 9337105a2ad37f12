"""Random tables: the live set before and after, identity and every field, byte by byte."""

import random
from collections import Counter
from typing import Any

import pytest

from lakesweep.format.manifest import ManifestEntry, live_entries, read_manifest
from lakesweep.format.manifest_list_writer import read_raw_list
from lakesweep.format.partition_stats import PartitionStats
from lakesweep.format.values.data_type import parse_data_type
from tests.support.live_records import document_of, entries, listed, live_records
from tests.support.metadata_schemas import MANIFEST
from tests.support.raw_manifests import Made, RawManifests, Record, deleted, entry
from tests.unit.format.samples import FUTURE_MANIFEST, NEW_MANIFEST
from tests.unit.operations.manifests.manifest_world import ManifestWorld

SCHEMAS = (MANIFEST, NEW_MANIFEST, FUTURE_MANIFEST)


def random_entry(draw: random.Random, number: int, has_row_ids: bool) -> Record:
    """Return an ADD; names repeat, so that other parts of the identity make the difference."""
    fields: dict[str, Any] = {
        "_FILE_NAME": f"data-{number if draw.random() < 0.8 else 0}.parquet",
        "_BUCKET": draw.choice((-2, 0, 0, 1, 7)),
        "_LEVEL": draw.choice((0, 0, 1, 5)),
        "_SCHEMA_ID": draw.randrange(3),
        "_ROW_COUNT": draw.randrange(1, 1 << draw.randrange(1, 40)),
        "_MIN_KEY": draw.randbytes(draw.choice((0, 12, 70))),
        "_EXTRA_FILES": [f"data-{number}.index"] * draw.choice((0, 0, 1, 2)),
        "_EMBEDDED_FILE_INDEX": draw.choice((None, None, b"", b"index")),
        "_EXTERNAL_PATH": draw.choice((None, None, f"s3://elsewhere/data-{number}.parquet")),
    }
    if has_row_ids and draw.random() < 0.9:
        fields["_FIRST_ROW_ID"] = draw.randrange(1 << 40)
    return entry("", draw.choice(("1", "2", "3", None)), **fields)


def random_table(seed: int) -> ManifestWorld:
    """Write a snapshot whose manifests of several writers add files, and delete most of the older ones."""
    draw = random.Random(seed)
    options = {"manifest.target-file-size": draw.choice(("1 b", "4 kb", "12 kb", "8 mb"))}
    options["manifest.compression"] = draw.choice(("zstd", "none", "deflate"))
    world = ManifestWorld(options=options)
    groups: list[Made] = []
    live: list[tuple[Any, Record]] = []
    has_row_ids = draw.random() < 0.4
    schemas = draw.sample(SCHEMAS, draw.choice((1, 1, 2, 3)))
    seen: set[str] = set()
    for number in range(draw.randrange(1, 30)):
        schema = draw.choice(schemas)
        records: list[Record] = []
        for place in range(draw.choice((0, 1, 3, 3, 40, 400)) if draw.random() < 0.9 else 1):
            found = random_entry(draw, number * 1000 + place, has_row_ids)
            key = repr(identity(found))
            if key not in seen:
                seen.add(key)
                records.append(found)
                live.append((schema, found))
        if draw.random() < 0.5 and live:
            for _ in range(min(len(live), draw.choice((1, 2, 50)))):
                _, gone = live.pop(draw.randrange(len(live)))
                records.append(deleted(gone))
        draw.shuffle(records)
        groups.append(Made(records, schema))
    cut = draw.randrange(len(groups) + 1)
    RawManifests(world.store).snapshot(*groups[:cut], delta=groups[cut:])
    return world


def identity(record: Record) -> tuple[Any, ...]:
    file = record["_FILE"]
    names = ("_LEVEL", "_FILE_NAME", "_EXTRA_FILES", "_EMBEDDED_FILE_INDEX", "_EXTERNAL_PATH")
    return record["_PARTITION"], record["_BUCKET"], *(file[name] for name in names)


@pytest.mark.parametrize("seed", range(60))
def test_the_live_set_is_the_same(seed: int) -> None:
    world = random_table(seed)
    before = live_records(world.store, 1)
    known = read_by_ours(world, 1)
    planned = world.compact(execute=False)
    report = world.compact()
    assert report.refusal is None, report.refusal
    assert (planned.status == "planned") == (report.status == "done")
    newest = world.newest
    assert live_records(world.store, newest) == before
    assert read_by_ours(world, newest) == known
    lines = listed(world.store, newest)
    assert sum(line["_NUM_DELETED_FILES"] for line in lines) == 0
    figures, plan = world.figures(report), world.figures(planned)
    assert figures.after == plan.after
    assert figures.after is not None and figures.after.manifests == len(lines)
    assert figures.after.bytes == sum(line["_FILE_SIZE"] for line in lines)
    assert figures.after.entries == sum(before.values())
    if newest > 1:
        check_lines(world)
    assert world.compact().status == "nothing_to_do"


def read_by_ours(world: ManifestWorld, snapshot_id: int) -> Counter[ManifestEntry]:
    """Return what Lakesweep's own reader finds live."""
    bodies = [world.store.read(f"manifest/{line['_FILE_NAME']}").data for line in listed(world.store, snapshot_id)]
    return Counter(live_entries(read_manifest(body, "a manifest") for body in bodies))


def check_lines(world: ManifestWorld) -> None:
    """Compare what the list says of each new manifest with what is in it."""
    types = [parse_data_type("STRING", "p")]
    document = document_of(world.store, world.newest)
    name = document["baseManifestList"]
    raw = read_raw_list(world.store.read(f"manifest/{name}").data, name)
    for line, meta in zip(listed(world.store, world.newest), raw.metas, strict=True):
        if document.get("uuid", "no") not in line["_FILE_NAME"]:
            continue
        found = [record for _, record in entries(world.store, line["_FILE_NAME"])]
        files = [record["_FILE"] for record in found]
        stats = PartitionStats(types, name)
        stats.add_all(record["_PARTITION"] for record in found)
        ranges = stats.result()
        ids = [file.get("_FIRST_ROW_ID") for file in files]
        last = [first + file["_ROW_COUNT"] - 1 for first, file in zip(ids, files, strict=True) if first is not None]
        has_ids = None not in ids
        expected = {
            "_NUM_ADDED_FILES": len(found),
            "_FILE_SIZE": len(world.store.read(f"manifest/{line['_FILE_NAME']}").data),
            "_SCHEMA_ID": max(file["_SCHEMA_ID"] for file in files),
            "_MIN_BUCKET": min(record["_BUCKET"] for record in found),
            "_MAX_BUCKET": max(record["_BUCKET"] for record in found),
            "_MIN_LEVEL": min(file["_LEVEL"] for file in files),
            "_MAX_LEVEL": max(file["_LEVEL"] for file in files),
            "_MIN_ROW_ID": min(ids) if has_ids else None,
            "_MAX_ROW_ID": max(last) if has_ids else None,
        }
        assert {key: line[key] for key in expected} == expected
        assert (meta.partition_min, meta.partition_max) == (ranges.smallest, ranges.largest)
        assert line["_PARTITION_STATS"]["_NULL_COUNTS"] == list(ranges.null_counts)
