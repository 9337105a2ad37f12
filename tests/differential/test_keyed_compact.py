"""`compact` of tables with primary keys beside the engine: types of keys, entries, and what others leave."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.differential.engine import Engine, EngineError
from tests.differential.keyed_history import KeyedTable
from tests.differential.metadata_edit import Record
from tests.support.keyed_checks import check
from tests.support.keyed_files import KeyedSnapshot

pytestmark = pytest.mark.differential

TYPES = (
    "TINYINT", "SMALLINT", "INT", "BIGINT", "BOOLEAN", "DATE", "TIME(3)", "CHAR(3)", "STRING", "DECIMAL(5, 2)",
    "DECIMAL(18, 0)", "DECIMAL(38, 10)", "TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9)",
    "TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(6)",
)  # fmt: skip


@pytest.mark.parametrize("type_", TYPES)
def test_keys_of_each_type(engine: Engine, tmp_path: Path, type_: str) -> None:
    """Their order is the engine's: it goes on, minor and full, and reads the same rows."""
    random = Random(1)
    options = {"bucket": "1", "compaction.size-ratio": "0", "deletion-vectors.enabled": "true"}
    scene = KeyedTable(engine, f"type_{TYPES.index(type_)}", tmp_path, (type_, "INT"), False, options)
    scene.draw_pool(random, 300)
    scene.load(random)
    scene.do("compact")
    scene.model = scene.model.compacted()
    for full in (False, False, True):
        scene.put(random)
        scene.put(random)
        scene.compact(random, full=full)
        scene.check()
    for minor in (True, False):
        scene.put(random)
        scene.do("compact", minor=minor)
        scene.model = scene.model.compacted()
        scene.learn_dangling()
        scene.check()


def entries(location: Path) -> list[str]:
    """Return the live entries, without what two runs never share."""
    found = []
    for file in KeyedSnapshot(location).files:
        record: Record = dict(file.record)
        for key in ("_FILE_NAME", "_FILE_SIZE", "_CREATION_TIME"):
            record.pop(key)
        found.append(json.dumps([file.bucket, file.total_buckets, record], default=repr, sort_keys=True))
    return sorted(found)


KINDS: dict[str, dict[str, str]] = {
    "vectors": {"deletion-vectors.enabled": "true"},
    "wide vectors": {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": "true"},
    "without vectors": {},
    "thin": {"deletion-vectors.enabled": "true", "data-file.thin-mode": "true"},
    "thin, of few columns": {"data-file.thin-mode": "true", "metadata.stats-keep-first-n-columns": "2"},
    "thin, without statistics": {"data-file.thin-mode": "true", "metadata.stats-mode": "none"},
    "all statistics": {"metadata.stats-mode": "full", "metadata.stats-dense-store": "false"},
    "counts": {"metadata.stats-mode": "counts"},
    "no statistics": {"metadata.stats-mode": "none"},
    "sequence": {"sequence.field": "ts"},
    "changelogs": {"changelog-producer": "input", "deletion-vectors.enabled": "true"},
}


@pytest.mark.parametrize("full", [True, False], ids=["full", "not full"])
@pytest.mark.parametrize("kind", KINDS)
def test_entries_are_those_of_the_engine(engine: Engine, tmp_path: Path, kind: str, full: bool) -> None:
    """Both compact equal tables: levels, keys, statistics, sequence numbers and vectors are the same."""
    options = {"bucket": "2", "compaction.size-ratio": "0", "num-sorted-run.compaction-trigger": "3", **KINDS[kind]}
    name = f"entries_{list(KINDS).index(kind)}_{full}"
    scene = KeyedTable(engine, name, tmp_path, ("INT", "STRING"), True, options)
    random = Random(3)
    scene.draw_pool(random, 400)
    scene.load(random)
    scene.do("compact")
    for _ in range(4):
        scene.put(random)
    scene.model = scene.model.compacted()
    theirs = scene.copied()
    engine("compact", table=theirs, minor=not full)
    report = scene.call(full=full)
    assert report.status == "done", report.refusal
    scene.check()
    assert entries(scene.location) == entries(engine.location(theirs))
    mine, other = (KeyedSnapshot(location) for location in (scene.location, engine.location(theirs)))
    same = ("version", "id", "schemaId", "commitKind", "totalRecordCount", "deltaRecordCount", "commitIdentifier")
    assert [mine.document.get(key) for key in same] == [other.document.get(key) for key in same]
    assert marked(mine) == marked(other)


def marked(snapshot: KeyedSnapshot) -> list[tuple[Any, ...]]:
    """Return the rows that vectors mark."""
    return sorted((f.bucket, f.level, row.key, row.sequence) for f in snapshot.files for row in f.rows if row.is_marked)


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_deletes_that_are_ignored_later(engine: Engine, tmp_path: Path, vectors: str) -> None:
    """An option says so after they were written; a full compaction keeps what that of the engine keeps."""
    scene = KeyedTable(
        engine, f"ignored_{vectors}", tmp_path, ("INT",), False, {"bucket": "1", "deletion-vectors.enabled": vectors}
    )
    kinds = [[0] * 9, [3, 0, 1, 0, 3], [0, 3, 3]]
    for commit in kinds:
        scene.do("typed_put", rows=[[key, 1, f"{len(commit)}", None] for key in range(len(commit))], kinds=commit)
    scene.do("alter", set={"ignore-delete": "true"})
    theirs = scene.copied()
    engine("compact", table=theirs)
    assert scene.call(full=True).status == "done"
    expected = sorted(scene.read_by_engine(theirs))
    assert len(expected) == 9
    assert sorted(scene.read_by_engine()) == sorted(check(scene.location).visible()) == expected


def test_a_file_without_vectors_that_pypaimon_carried_on(engine: Engine, tmp_path: Path) -> None:
    """It says null of the vectors of the file; the engine cannot even write there, and we go on."""
    options = {"bucket": "-1", "deletion-vectors.enabled": "true", "compaction.size-ratio": "0"}
    scene = KeyedTable(engine, "null_ranges", tmp_path, ("INT",), False, options)
    scene.draw_pool(Random(1), 50)
    scene.load(Random(1))
    scene.do("compact")
    scene.put(Random(3))
    scene.do("compact", minor=True)
    scene.do("compact")
    scene.model = scene.model.compacted()
    rows: list[list[Any]] = [[key, 1, "python", None] for key in (1_000, 1_001)]

    def put() -> None:
        scene.write_by_python(rows)
        scene.model = scene.model.put(rows, [0, 0])

    put()
    stated = {each["_INDEX_TYPE"]: each["_DELETIONS_VECTORS_RANGES"] for each in KeyedSnapshot(scene.location).index}
    assert stated == {"DELETION_VECTORS": None, "HASH": None}
    with pytest.raises(EngineError, match="NullPointerException"):
        engine("compact", table=scene.copied())
    for full in (False, True):
        assert scene.call(full=full).status == "done"
        scene.model = scene.model.compacted()
        scene.check()
        put()


def test_a_copy_is_compacted_alike(engine: Engine, tmp_path: Path) -> None:
    """The same call on a copy of a table marks the same rows and writes the same."""
    options = {"bucket": "1", "compaction.size-ratio": "0", "deletion-vectors.enabled": "true"}
    scene = KeyedTable(engine, "alike", tmp_path, ("STRING",), False, options)
    scene.draw_pool(Random(5), 300)
    scene.load(Random(5))
    scene.do("compact")
    scene.put(Random(6))
    saved = tmp_path / "saved"
    shutil.copytree(scene.location, saved)
    found = []
    for _ in range(2):
        assert scene.call(full=False).status == "done"
        found.append((entries(scene.location), marked(KeyedSnapshot(scene.location))))
        shutil.rmtree(scene.location)
        shutil.copytree(saved, scene.location)
    assert found[0] == found[1]
