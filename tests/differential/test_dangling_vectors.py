"""Deletion vectors of files that are gone, as real writers leave them: the engine goes on once they are cleaned away.

In tables without buckets, pypaimon leaves them when it overwrites a partition. In buckets, a full compaction of the
engine itself does.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakesweep.control.area import ControlArea
from lakesweep.model.roots import TableRef
from lakesweep.operations.registry import run_operation
from lakesweep.runs.session import Table
from lakesweep.storage.local.store import LocalStore
from tests.differential.commit_readers import readers
from tests.differential.commit_tables import Kind
from tests.differential.engine import RETAIN_EVERYTHING, Engine, EngineError
from tests.differential.metadata_edit import delete_files
from tests.differential.written_tables import kind_of
from tests.support.acting import Acting
from tests.support.faulty_store import FaultyStore, Switch

pytestmark = pytest.mark.differential

VECTORS = {"deletion-vectors.enabled": "true", **RETAIN_EVERYTHING}
COLUMNS = pa.schema([pa.field("p", pa.string()), pa.field("id", pa.int32()), pa.field("v", pa.string())])
REFUSES = "which is not previously added"
Positions = Mapping[str, list[int]]


def unaware(**options: str) -> Kind:
    return kind_of("append with vectors", **{"bucket": "-1", **VECTORS, **options})


def keyed(**options: str) -> Kind:
    return kind_of("primary key with vectors", **{"bucket": "1", **VECTORS, **options})


class Scene:
    """A table that the engine writes."""

    def __init__(self, engine: Engine, name: str, kind: Kind) -> None:
        self.engine, self.table, self.kind = engine, f"dangling.{name}", kind
        self.location = engine.location(self.table)
        engine("create", table=self.table, **kind.create)

    def put(self, partition: str, ids: range, **how: Any) -> None:
        rows = [[partition, str(number), f"v{number}"] for number in ids]
        self.engine("put", table=self.table, rows=rows, **how)

    def do(self, command: str, **words: Any) -> Any:
        return self.engine(command, table=self.table, **words)

    def refuses(self, command: str, **words: Any) -> None:
        with pytest.raises(EngineError, match=REFUSES):
            self.do(command, **words)

    def rows(self) -> list[list[str]]:
        """Return the rows, about which all readers and filters agree."""
        judged = self.do("judge")
        assert not judged["wrong"], judged["wrong"]
        found = sorted(judged["rows"])
        if self.kind.options.get("deletion-vectors.bitmap64") != "true":  # pypaimon cannot read these
            for name, read in readers().items():
                of_all = read(self.location, self.kind)
                assert sorted([*key, *row] for key, rows in of_all.items() for row in rows) == found, name
        return found

    def live(self) -> set[str]:
        return {file[3] for file in self.do("live")["files"]}

    def positions(self) -> Positions:
        """Return data file -> positions, about which the sequential and the seeking reader of the engine agree."""
        found: dict[str, list[int]] = {}
        for _, _, read in self.do("dv_dump"):
            assert read["sequential"] == read["seeking"]
            assert not found.keys() & read["seeking"].keys()
            found |= read["seeking"]
        return found

    def dangling(self) -> set[str]:
        return set(self.positions()) - self.live()

    def overwrite_by_python(self, partition: str, ids: range) -> None:
        from pypaimon import CatalogFactory

        table = CatalogFactory.create({"warehouse": str(self.engine.warehouse)}).get_table(self.table)
        builder = table.new_batch_write_builder().overwrite({"p": partition})
        write, commit_ = builder.new_write(), builder.new_commit()
        rows = [{"p": partition, "id": number, "v": "python"} for number in ids]
        write.write_arrow(pa.Table.from_pylist(rows, COLUMNS))
        commit_.commit(write.prepare_commit())
        write.close()
        commit_.close()

    def take(self, *names: str) -> None:
        """Commit the DELETEs of some files, and leave their vectors."""
        delete_files(self.location, names)
        assert not self.live().intersection(names)

    def clean(self, tmp_path: Path, switch: Switch | None = None, status: str = "done") -> dict[str, Any]:
        """Clean, and see that rows and live vectors are as before."""
        store: Any = LocalStore(str(self.location))
        if switch is not None:
            store = FaultyStore(store, switch, "table")
        control = ControlArea(LocalStore(str(tmp_path / "control")), store.location)
        table = Table(TableRef(store.location, "main"), store, control, LocalStore)
        arguments = {"catalog_type": "filesystem", "catalog_lock": True}
        report = run_operation(table, "clean-deletion-vectors", arguments, execute=True)
        assert report.status == status, report.refusal
        return report.to_json()

    def cleaned(self, tmp_path: Path) -> None:
        """Clean; every row and every live vector is as before, and nothing dangles."""
        rows, positions, gone = self.rows(), self.positions(), self.dangling()
        assert gone
        commits = self.clean(tmp_path)["commits"]
        assert commits["dangling_vectors"] == len(gone)
        assert self.positions() == {name: each for name, each in positions.items() if name not in gone}
        assert self.rows() == rows
        assert self.clean(tmp_path, status="nothing_to_do")["commits"]["index_files"] == []


def go_on(scene: Scene) -> None:
    """Let the engine do everything in the partition, and read what it should."""
    unaware_ = not scene.kind.primary_key
    scene.put("a", range(20, 23))
    before = len(scene.rows())
    if unaware_:
        scene.do("dv_delete", n=1)
    else:
        scene.put("a", range(20, 21), delete=True)
    assert len(scene.rows()) < before
    scene.do("compact")
    scene.rows()
    assert not scene.dangling() or scene.kind.primary_key, "the engine's own full compaction may leave one"
    scene.put("a", range(30, 32), overwrite=True)
    assert [row for row in scene.rows() if row[0] == "a"] == [["a", "30", "v30"], ["a", "31", "v31"]]
    scene.do("drop_partitions", specs=[{"p": "a"}])
    assert not [row for row in scene.rows() if row[0] == "a"]


@pytest.mark.parametrize("beside", ["false", "true"])
def test_an_overwrite_by_pypaimon(engine: Engine, tmp_path: Path, beside: str) -> None:
    """The engine cannot drop or overwrite the partition, until the vectors are cleaned away."""
    scene = Scene(engine, f"overwritten_{beside}", unaware(**{"index-file-in-data-file-dir": beside}))
    for partition in "ab":
        scene.put(partition, range(6))
    scene.do("dv_delete", n=2)
    scene.overwrite_by_python("a", range(10, 13))
    assert len(scene.dangling()) == 1
    scene.refuses("drop_partitions", specs=[{"p": "a"}])
    scene.refuses("put", rows=[["a", "1", "x"]], overwrite=True)
    scene.cleaned(tmp_path)
    go_on(scene)


@pytest.mark.parametrize("bitmap64", ["false", "true"])
def test_an_index_file_that_also_has_live_vectors(engine: Engine, tmp_path: Path, bitmap64: str) -> None:
    """The engine cannot delete, compact, drop or overwrite in the partition, until it is rewritten."""
    scene = Scene(engine, f"mixed_{bitmap64}", unaware(**{"deletion-vectors.bitmap64": bitmap64}))
    for number in range(6):
        scene.put("a", range(number * 10, number * 10 + 5))
    scene.do("dv_delete", n=2)
    scene.take(*sorted(scene.live())[:2])
    assert len(scene.dangling()) == 2
    for command, words in (
        ("dv_delete", {"n": 3}),
        ("compact", {}),
        ("drop_partitions", {"specs": [{"p": "a"}]}),
        ("put", {"rows": [["a", "1", "x"]], "overwrite": True}),
    ):
        scene.refuses(command, **words)
    scene.cleaned(tmp_path)
    go_on(scene)


@pytest.mark.parametrize("bitmap64", ["false", "true"])
def test_a_full_compaction_of_the_engine(engine: Engine, tmp_path: Path, bitmap64: str) -> None:
    """It rewrites a lone file of the highest level, and keeps its vector, also beside new ones."""
    scene = Scene(engine, f"bucket_{bitmap64}", keyed(**{"deletion-vectors.bitmap64": bitmap64}))
    scene.put("a", range(10))
    scene.put("b", range(10))
    scene.do("compact")
    for partition in "ab":
        scene.put(partition, range(3), delete=True)
    scene.do("compact")
    assert len(scene.dangling()) == 2
    scene.put("a", range(5, 7), delete=True)  # its index file has a live vector now, too
    assert len(scene.positions()) == 3
    scene.cleaned(tmp_path)
    assert len(scene.positions()) == 1
    go_on(scene)


def mixed(engine: Engine, name: str, kind: str) -> tuple[Scene, str]:
    """Return a table whose index file has a dangling and a live vector, and a live file whose vector lies elsewhere."""
    if kind == "keyed":
        scene = Scene(engine, name, keyed())
        scene.put("a", range(10))
        scene.do("compact")
        scene.put("a", range(3), delete=True)
        scene.do("compact")
        scene.put("a", range(5, 6), delete=True)
        return scene, ""
    scene = Scene(engine, name, unaware())
    files: list[str] = []
    for number in range(3):
        scene.put("a", range(number * 10, number * 10 + 5))
        files += scene.live() - set(files)
    scene.do("dv_delete", n=1, only=files[:2])
    scene.do("dv_delete", n=1, only=files[2:])
    scene.take(files[0])
    return scene, files[2]


@pytest.mark.parametrize("kind", ["unaware", "keyed"])
def test_a_delete_between_plan_and_commit(engine: Engine, tmp_path: Path, kind: str) -> None:
    """The engine changes vectors right before our snapshot is put. We plan again, and no deleted row returns."""
    scene, elsewhere = mixed(engine, f"raced_{kind}", kind)
    before, newest = scene.rows(), scene.do("live")["snapshot"]

    def delete() -> None:
        if kind == "unaware":
            scene.do("dv_delete", n=2, only=[elsewhere])
        else:
            scene.put("a", range(8, 9), delete=True)

    racing = Acting(f"table put snapshot/snapshot-{newest + 1}".__eq__, delete)
    commits = scene.clean(tmp_path, racing)["commits"]
    assert commits["made"][0]["attempts"] == 2
    assert not scene.dangling()
    after = scene.rows()
    assert len(after) == len(before) - 1 and all(row in before for row in after)
    go_on(scene)


@pytest.mark.parametrize("which", ["elsewhere", "beside"])
def test_a_delete_that_began_before(engine: Engine, tmp_path: Path, which: str) -> None:
    """A delete by the engine commits on top, or has to run again where its index file was rewritten. No row returns."""
    scene, elsewhere = mixed(engine, f"held_{which}", "unaware")
    (beside,) = scene.live() - {elsewhere, *(name for name in scene.live() if name not in scene.positions())}
    scene.do("dv_delete", n=2, only=[elsewhere if which == "elsewhere" else beside], hold=True)
    scene.cleaned(tmp_path)
    rows = scene.rows()
    if which == "elsewhere":
        scene.do("commit_held")
        assert len(scene.rows()) == len(rows) - 1
    else:
        with pytest.raises(EngineError):
            scene.do("commit_held")
        assert scene.rows() == rows
        scene.do("dv_delete", n=2, only=[beside])
        assert len(scene.rows()) == len(rows) - 1
    go_on(scene)


def test_a_delete_in_a_bucket_that_began_before(engine: Engine, tmp_path: Path) -> None:
    """The engine replaces the bucket's index file by its own, with all live vectors: a later call cleans that, too."""
    scene, _ = mixed(engine, "held_bucket", "keyed")
    scene.put("a", range(8, 9), delete=True, hold=True)
    scene.cleaned(tmp_path)
    rows = scene.rows()
    scene.do("commit_held")
    assert scene.rows() == [row for row in rows if row[1] != "8"]
    assert scene.dangling()
    scene.cleaned(tmp_path)
    go_on(scene)


def some_steps(scene: Scene, draw: random.Random) -> None:
    """Write, delete and take files away at random, as far as the engine lets itself."""
    ids = 0
    for _ in range(draw.randint(4, 10)):
        for partition in draw.sample("abc", draw.randint(1, 3)):
            scene.put(partition, range(ids, ids + draw.randint(2, 8)))
            ids += draw.randint(0, 12)
        if scene.kind.primary_key:
            steps: list[Callable[[], object]] = [
                lambda: scene.do("compact"),
                partial(scene.put, draw.choice("abc"), range(draw.randint(0, ids), ids + 3), delete=True),
            ]
        else:
            live = sorted(scene.live())
            few = draw.sample(live, draw.randint(1, len(live)))
            steps = [partial(scene.do, "dv_delete", n=draw.randint(1, 4), only=few), lambda: scene.do("compact")]
            if draw.random() < 0.4:
                scene.take(*draw.sample(live, draw.randint(1, min(3, len(live)))))
        for step in draw.sample(steps, draw.randint(1, 2)):
            try:
                step()
            except EngineError as error:
                assert not scene.kind.primary_key and REFUSES in str(error), error


@pytest.mark.parametrize("seed", range(24))
def test_random_tables(engine: Engine, tmp_path: Path, seed: int) -> None:
    """Rows and live vectors are as before, whatever the engine and others did; then the engine goes on."""
    draw = random.Random(seed)
    options = {
        "deletion-vectors.bitmap64": draw.choice(("false", "true")),
        "index-file-in-data-file-dir": draw.choice(("false", "true")),
        "deletion-vector.index-file.target-size": draw.choice(("2 mb", "50 b", "1 b")),
    }
    of_kind = draw.choice((unaware, keyed))
    scene = Scene(engine, f"random_{seed}", of_kind(**options, **({"bucket": "2"} if of_kind is keyed else {})))
    for _ in range(20):
        some_steps(scene, draw)
        if scene.dangling():
            break
    scene.cleaned(tmp_path)
    go_on(scene)
