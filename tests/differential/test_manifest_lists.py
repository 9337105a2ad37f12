"""Whose lists of manifests a pass finds too long: not those of the engine, whose commits merge them."""

import json

import pytest

from lakesweep.format.manifest import read_manifest_list
from lakesweep.operations.manifests.rules.due import Thresholds, length_in
from tests.differential.engine import Engine

pytestmark = pytest.mark.differential
COMMITS = 65
"""The engine merges 30 small manifests, so it does that twice."""


@pytest.mark.parametrize("kind", ["append", pytest.param("primary key", marks=pytest.mark.long)])
def test_no_list_of_the_engine_is_due(engine: Engine, kind: str) -> None:
    """A maintainer would only make snapshots that nobody needs."""
    keep = {"snapshot.num-retained.min": "1000", "snapshot.num-retained.max": "1000", "file.format": "avro"}
    shape = {"options": {**keep, "bucket": "-1"}}
    if kind == "primary key":
        shape = {"options": {**keep, "bucket": "1"}, "primary_keys": ["id"]}  # type: ignore[dict-item]
    table = f"d.lists_{kind.replace(' ', '_')}"
    engine("create", table=table, columns=[["id", "INT"], ["v", "STRING"]], **shape)
    engine("write", table=table, n=COMMITS, commits=COMMITS, seed=1)
    root, small = engine.location(table), []
    for path in root.glob("snapshot/snapshot-*"):
        name = json.loads(path.read_text())["baseManifestList"]
        found = length_in(read_manifest_list((root / "manifest" / name).read_bytes(), name), Thresholds())
        assert found.exceeds is None
        small.append(found.small)
    assert len(small) >= COMMITS and max(small) == 29
