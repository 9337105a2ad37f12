"""Deletion vectors of two widths in one bucket, as after `deletion-vectors.bitmap64` was switched."""

import io
from typing import Any

import fastavro

from lakesweep.format.vectors.vector import collect, encode
from tests.support.keyed_world import KeyedWorld
from tests.support.metadata_schemas import INDEX_MANIFEST
from tests.support.vector_bytes import decode_file


def records(world: KeyedWorld) -> list[Any]:
    body = world.store.read(f"manifest/{world.index_manifest()}").data
    return list(fastavro.reader(io.BytesIO(body)))


def test_they_stay_in_one_index_file() -> None:
    """Paimon keeps one index file of a bucket, so rows of the other one would come back."""
    world = KeyedWorld()
    world.put({("a", number): "old" for number in range(0, 24, 2)})
    assert world.merge(full=True).status == "done"
    for rows in ({("a", 0): "new", ("a", 100): "new"}, {("a", 2): "new", ("a", 100): "newer"}):
        world.put(rows)
        assert world.merge().status == "done"
    widen_last(world)
    assert world.seen() == world.model
    world.put({("a", 4): "newest"})
    assert world.merge().status == "done"
    assert world.seen() == world.model
    (record,) = records(world)
    lengths = [each["f2"] for each in record["_DELETIONS_VECTORS_RANGES"]]
    assert len(lengths) == 2 and max(lengths) - min(lengths) > 8, "each keeps its width"


def widen_last(world: KeyedWorld) -> None:
    """Let somebody write the vectors of the one bucket, the last one with 64 bits."""
    (record,) = records(world)
    ranges = record["_DELETIONS_VECTORS_RANGES"]
    body = world.store.read(f"index/{record['_FILE_NAME']}").data
    found = decode_file(body, [(each["f0"], each["f1"], each["f2"], each["_CARDINALITY"]) for each in ranges])
    last = ranges[-1]
    blob = encode(collect(found[last["f0"]], 64), 64)
    body = body[: last["f1"]] + blob
    ranges = [*ranges[:-1], {**last, "f2": len(blob)}]
    record |= {"_FILE_NAME": "index-mixed", "_FILE_SIZE": len(body), "_DELETIONS_VECTORS_RANGES": ranges}
    target = io.BytesIO()
    fastavro.writer(target, fastavro.parse_schema(INDEX_MANIFEST), [record])
    world.store.put("index/index-mixed", body)
    world.store.put("manifest/index-manifest-mixed", target.getvalue())
    world.document(indexManifest="index-manifest-mixed")
