"""A DELETE entry must cancel the ADD entry of whatever writer, else a commit that says "gone" leaves the rows.

So partitions are dropped whose files were added by the engine, by its version 0.9, by pypaimon, and by hand with every
optional field and a field of the future. The engine must read no row of them, and commit into them afterwards: a
DELETE that cancels nothing would fail each of its later commits in that partition.
"""

from __future__ import annotations

import copy
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest

from tests.differential.commit_acts import Act, Maintainer, by_ours, engine_as_maintainer
from tests.differential.commit_readers import Reader, readers
from tests.differential.commit_tables import Kind
from tests.differential.engine import RETAIN_EVERYTHING, Engine, compiled
from tests.differential.metadata_edit import Record, change_entries, entries_of
from tests.differential.written_tables import APPEND, PRIMARY_KEY, kind_of, rows_of, write
from tests.support.metadata_schemas import MANIFEST

pytestmark = pytest.mark.differential

OLD = Path(__file__).with_name("engine") / "old"


@pytest.mark.parametrize(
    "kind",
    [
        APPEND,
        PRIMARY_KEY,
        kind_of("append in buckets", **{"bucket": "2", "bucket-key": "id"}),
        kind_of("append with row ids", **{"bucket": "-1", "row-tracking.enabled": "true"}),
        kind_of("append with vectors", **{"bucket": "-1", "deletion-vectors.enabled": "true"}),
        kind_of("primary key with vectors", **{"bucket": "1", "deletion-vectors.enabled": "true"}),
        kind_of(
            "append, an index in the manifest",
            **{"bucket": "-1", "file-index.bloom-filter.columns": "v", "file-index.in-manifest-threshold": "1 mb"},
        ),
        kind_of(
            "append, an index beside the file",
            **{"bucket": "-1", "file-index.bloom-filter.columns": "v", "file-index.in-manifest-threshold": "1 b"},
        ),
        kind_of("append, no statistics", **{"bucket": "-1", "metadata.stats-mode": "none"}),
        kind_of("append, other files", **{"bucket": "-1", "data-file.external-paths.strategy": "round-robin"}),
    ],
    ids=lambda kind: kind.shape,
)
def test_of_the_engine(engine: Engine, tmp_path: Path, kind: Kind) -> None:
    table = f"d.deleted_{kind.shape.replace(' ', '_').replace(',', '')}"
    if "other files" in kind.shape:
        outside = (tmp_path / "outside").as_uri()
        kind = kind_of(kind.shape, **kind.options, **{"data-file.external-paths": outside})
    write(engine, table, kind)
    _judge(engine, table, kind, tmp_path)


@pytest.mark.long
def test_of_version_0_9(engine: Engine, old_engine_classpath: str, tmp_path: Path) -> None:
    classes = compiled(old_engine_classpath, OLD)
    subprocess.run(
        ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        + ["-cp", f"{classes}{os.pathsep}{old_engine_classpath}", "OldWriter", str(engine.warehouse)],
        check=True,
        capture_output=True,
        timeout=120,
    )
    _judge(engine, "d.old_append", APPEND, tmp_path)
    _judge(engine, "d.old_primary_key", PRIMARY_KEY, tmp_path)


@pytest.mark.parametrize("kind", [APPEND, PRIMARY_KEY], ids=lambda kind: kind.shape)
def test_of_pypaimon(engine: Engine, tmp_path: Path, kind: Kind) -> None:
    from pypaimon import CatalogFactory, Schema

    catalog = CatalogFactory.create({"warehouse": str(engine.warehouse)})
    catalog.create_database("d", ignore_if_exists=True)
    name = f"d.python_{kind.shape.replace(' ', '_')}"
    columns = [pa.field("p", pa.string(), nullable=False), pa.field("id", pa.int32(), nullable=False)]
    columns += [pa.field("v", pa.string())]
    keys = ["p", "id"] if kind.primary_key else None
    options = {**RETAIN_EVERYTHING, **kind.options}
    schema = Schema.from_pyarrow_schema(pa.schema(columns), partition_keys=["p"], primary_keys=keys, options=options)
    catalog.create_table(name, schema, False)
    for commit in range(3):
        builder = catalog.get_table(name).new_batch_write_builder()
        write, commits = builder.new_write(), builder.new_commit()
        rows = [{"p": p, "id": int(id or 0), "v": v} for p, id, v in rows_of(commit)]
        write.write_arrow(pa.Table.from_pylist(rows, pa.schema(columns)))
        commits.commit(write.prepare_commit())
        write.close()
        commits.close()
    engine("put", table=name, rows=[["c", "9", "v"]], overwrite=True)
    _judge(engine, name, kind, tmp_path)


def test_by_hand_with_every_field(engine: Engine, tmp_path: Path) -> None:
    """Manifests of a writer that fills every optional field and knows another one; then one of the engine's own."""
    table = "d.by_hand"
    write(engine, table, APPEND)
    location = engine.location(table)

    def fill(entry: Record) -> None:
        file = entry["_FILE"]
        path = location / f"p={entry['_PARTITION'][-8:-7].decode()}" / f"bucket-{entry['_BUCKET']}" / file["_FILE_NAME"]
        if entry["_KIND"] == 0:
            assert path.is_file(), path
        file |= {
            "_EXTRA_FILES": [f"{file['_FILE_NAME']}.index", "another.index"],
            "_EMBEDDED_FILE_INDEX": b"\x00\x01\xff index",
            "_EXTERNAL_PATH": f"file:{path}",
            "_FILE_SOURCE": 0,
            "_DELETE_ROW_COUNT": 0,
            "_FIRST_ROW_ID": 17,
            "_VALUE_STATS_COLS": ["p", "id", "v"],
            "_WRITE_COLS": ["p", "id", "v"],
            "_WRITE_COLS_SEQUENCES": [1, 2, 3],
            "_OF_THE_FUTURE": {"_NAME": "a name", "_NUMBERS": [1, -(2**40)]},
        }
        entry["_ALSO_OF_THE_FUTURE"] = "more"

    assert change_entries(location, fill, fastavro.parse_schema(_schema_of_the_future())) >= 9
    engine("put", table=table, rows=[["b", "11", "v"], ["c", "11", "v"]])

    def check() -> None:
        gone = [entry for entry in entries_of(location, "deltaManifestList") if "_ALSO_OF_THE_FUTURE" in entry]
        assert len(gone) >= 3
        assert all(entry["_KIND"] == 1 and entry["_FILE"]["_OF_THE_FUTURE"] for entry in gone)

    _judge(engine, table, APPEND, tmp_path, check)


def _schema_of_the_future() -> object:
    schema = copy.deepcopy(MANIFEST)
    numbers = {"name": "_NUMBERS", "type": {"type": "array", "items": "long"}}
    fields = [{"name": "_NAME", "type": "string"}, numbers]
    record = {"type": "record", "name": "record__FILE__OF_THE_FUTURE", "fields": fields}
    for fields, name, type_ in (
        (schema["fields"][-1]["type"]["fields"], "_OF_THE_FUTURE", record),
        (schema["fields"], "_ALSO_OF_THE_FUTURE", "string"),
    ):
        fields.append({"name": name, "type": ["null", type_], "default": None})
    return schema


def _judge(engine: Engine, table: str, kind: Kind, tmp_path: Path, check: Callable[[], object] = lambda: None) -> None:
    """Drop two of three partitions, call `check`, and let the engine go on in each of them."""
    location = engine.location(table)
    others = {name: read for name, read in readers().items() if _reads(read, location, kind)}

    def rows() -> dict[str, int]:
        judged = engine("judge", table=table)
        assert not judged["wrong"], judged["wrong"]
        found: dict[str, int] = {}
        for partition, *_ in judged["rows"]:
            found[partition] = found.get(partition, 0) + 1
        for name, read in others.items():
            assert {partition[0]: len(rows) for partition, rows in read(location, kind).items()} == found, name
        return found

    before = rows()
    assert before.keys() == {"a", "b", "c"}
    answer = MAINTAINER(engine)(location, kind, Act("drop-partition", ({"p": "a"}, {"p": "c"})), tmp_path / "control")
    assert answer.exit_code == 0, answer
    check()
    assert rows() == {"b": before["b"]}
    engine("put", table=table, rows=[["a", "1", "again"]])
    engine("put", table=table, rows=[["c", "1", "again"]], overwrite=True)
    assert rows() == {"a": 1, "b": before["b"], "c": 1}
    engine("drop_partitions", table=table, specs=[{"p": "a"}])
    engine("compact_manifests", table=table)
    assert rows() == {"b": before["b"], "c": 1}
    engine("put", table=table, rows=[["b", "1", "again"]], overwrite=True)
    assert rows() == {"b": 1, "c": 1}


def _reads(read: Reader, location: Path, kind: Kind) -> bool:
    """Tell whether a reader can read a table that we have not touched."""
    try:
        read(location, kind)
    except Exception:
        return False
    return True


MAINTAINER: Callable[[Engine], Maintainer] = (
    engine_as_maintainer if os.environ.get("LAKESWEEP_ENGINE_DROPS") else lambda engine: by_ours
)
