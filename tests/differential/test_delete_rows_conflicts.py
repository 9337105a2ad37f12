"""Two who change the same files: a delete of ours and a commit of the engine, in both orders. Nobody's rows are lost.

The engine gives a data file the identity of its name and its index file. So a commit of it that was prepared before
ours fails where ours has changed an index file that it uses, and succeeds elsewhere. Ours plans again where the engine
came first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.differential.deleted_columns import Column
from tests.differential.deleted_rows import DeletedRows
from tests.differential.engine import Engine, EngineError
from tests.differential.metadata_edit import delete_files
from tests.support.acting import Acting
from tests.support.conditions import Tried

pytestmark = pytest.mark.differential

NUMBER = Column(0, "rid", "rid", "BIGINT")
VALUE = Column(1, "i", "i", "INT")
KEY = Column(100, "s", "s", "STRING", is_key=True)


class Files(DeletedRows):
    """A table whose files a test knows: `a` and `b` share an index file, `c` has one of its own, `d` has no vector."""

    names: Mapping[str, str]
    """Letter -> name of the data file."""
    before: frozenset[str] = frozenset()

    def put_rows(self, partition: str, numbers: Iterable[int], **how: Any) -> str:
        """Let the engine append a file, and return its name."""
        rows = {number: {0: number, 1: number % 10, 100: partition} for number in numbers}
        before = self.live().keys()
        self.do("typed_put", rows=self.stated(rows.values()), **how)
        if not how.get("hold"):
            self.rows |= rows
        return next(iter(self.live().keys() - before), "")

    def mark(self, count: int, *letters: str, **how: Any) -> None:
        """Let the engine delete the first rows of files."""
        self.do("dv_delete", n=count, only=[self.names[letter] for letter in letters], **how)
        if not how.get("hold"):
            self.learn()

    def delete_where(self, text: str, means: Callable[[Mapping[str, Any]], bool]) -> None:
        """Delete rows, as far as they are in the model."""
        from random import Random

        self.delete(Random(1), Tried(text, means))
        self.check(after_ours=True)

    def delete_number(self, number: int) -> None:
        self.delete_where(f"rid = {number}", lambda row: row["rid"] == number)


@pytest.fixture(params=["32", "64"])
def width(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def scene_of(engine: Engine, work: Path, name: str, width: str = "32", **options: str) -> Files:
    """Write a table with ten rows a file: `a` has 0 to 9, `b` 10 to 19, and so on; `e` lies in another partition."""
    stated = {"deletion-vectors.bitmap64": str(width == "64").lower(), "compaction.min.file-num": "2", **options}
    scene = Files(engine, f"conflict_{name}_{width}", work, [NUMBER, VALUE, KEY], {"write-only": "true", **stated})
    scene.create()
    parts = {"a": "x", "b": "x", "c": "x", "d": "x", "e": "y"}
    numbered = enumerate(parts.items())
    scene.names = {
        letter: scene.put_rows(partition, range(10 * at, 10 * at + 10)) for at, (letter, partition) in numbered
    }
    scene.mark(1, "a", "b")
    scene.mark(1, "c")
    scene.check()
    return scene


def go_on(scene: Files) -> None:
    """Let the engine do everything on top."""
    scene.put_rows("x", range(100, 105))
    scene.names = dict(enumerate(scene.live()))  # type: ignore[arg-type]
    for step in (lambda: scene.mark(3, *scene.names), lambda: scene.do("compact"), lambda: scene.delete_number(103)):
        step()
        scene.check()
    kept = {number: row for number, row in scene.rows.items() if row[100] != "x"}
    scene.put_rows("x", range(200, 203), overwrite=True)
    scene.rows = kept | {number: scene.rows[number] for number in range(200, 203)}
    scene.check()
    scene.do("drop_partitions", specs=[{"s": "x"}])
    scene.rows = kept
    scene.check()


@pytest.mark.parametrize("gone", ["one", "whole"])
@pytest.mark.parametrize("letter", ["a", "b", "c", "d", "e"])
def test_a_delete_of_the_engine_that_began_before(
    engine: Engine, tmp_path: Path, letter: str, gone: str, width: str
) -> None:
    """It fails where we have changed the file, or the index file that it shares. Run again, it deletes its rows too."""
    scene = scene_of(engine, tmp_path, f"held_{letter}_{gone}", width)
    scene.mark(3, letter, hold=True)
    if gone == "whole":
        scene.delete_where("rid < 10", lambda row: row["rid"] < 10)
        assert scene.names["a"] not in scene.live()
    else:
        scene.delete_number(5)
    if letter in "ab":
        with pytest.raises(EngineError, match="conflict"):
            scene.do("commit_held")
        scene.check()
        if letter in {name for name, file in scene.names.items() if file in scene.live()}:
            scene.mark(3, letter)
    else:
        rows = len(scene.rows)
        scene.do("commit_held")
        scene.learn()
        assert rows - len(scene.rows) == (2 if letter == "c" else 3)
    scene.check()
    go_on(scene)


def test_two_first_vectors_of_a_file(engine: Engine, tmp_path: Path, width: str) -> None:
    """The engine's fails, as the file has one of ours."""
    scene = scene_of(engine, tmp_path, "first", width)
    scene.mark(1, "d", hold=True)
    scene.delete_number(35)
    with pytest.raises(EngineError, match="conflict"):
        scene.do("commit_held")
    scene.mark(1, "d")
    scene.check()
    go_on(scene)


@pytest.mark.parametrize(("number", "two_without"), [(5, False), (25, False), (35, False), (35, True)])
def test_a_compaction_that_began_before(engine: Engine, tmp_path: Path, number: int, two_without: bool) -> None:
    """It fails where we have deleted rows of its files, and the next one takes our vectors into account."""
    scene = scene_of(engine, tmp_path, f"compact_{number}_{two_without}".lower())
    if two_without:  # a lone file without a vector is not worth a compaction
        scene.put_rows("x", range(50, 55))
    scene.do("compact", hold=True)
    scene.delete_number(number)
    if number == 35 and not two_without:
        scene.do("commit_held")
    else:
        with pytest.raises(EngineError, match="conflict"):
            scene.do("commit_held")
        scene.check()
        scene.do("compact")
    assert scene.names["a"] not in scene.live()
    scene.check()
    go_on(scene)


def test_an_append_that_began_before(engine: Engine, tmp_path: Path) -> None:
    """It succeeds. Its rows come after our delete, so they stay."""
    scene = scene_of(engine, tmp_path, "append")
    scene.put_rows("x", range(300, 304), hold=True)
    scene.delete_where("i = 1", lambda row: row["i"] == 1)
    scene.do("commit_held")
    scene.rows |= {number: {0: number, 1: number % 10, 100: "x"} for number in range(300, 304)}
    scene.check()
    go_on(scene)


ACTS = (
    "the same file", "an index file that is shared", "a first vector", "elsewhere", "all at once", "compaction",
    "manifests", "append", "overwrite", "drop", "a column",
)  # fmt: skip
SEARCHED = {
    "the same file": 2, "an index file that is shared": 2, "a first vector": 1, "all at once": 4, "compaction": 1,
    "overwrite": 1,
}  # fmt: skip
"""Data files that are read after the four of the first search: no others than those that have changed."""


def do(scene: Files, act: str) -> None:
    """Let the engine do something."""
    match act:
        case "the same file":
            scene.mark(3, "a")
        case "an index file that is shared":
            scene.mark(2, "b")
        case "a first vector":
            scene.mark(2, "d")
        case "elsewhere":
            scene.mark(2, "c", "e")
        case "all at once":
            scene.mark(4, "a", "b", "c", "d", "e")
        case "compaction":
            scene.do("compact")
        case "manifests":
            scene.do("compact_manifests")
        case "append":
            scene.put_rows("x", [303])
        case "overwrite":
            scene.put_rows("x", [303], overwrite=True)
            scene.rows = {number: row for number, row in scene.rows.items() if number == 303 or row[100] == "y"}
        case "drop":
            scene.do("drop_partitions", specs=[{"s": "x"}])
            scene.rows = {number: row for number, row in scene.rows.items() if row[100] == "y"}
        case "a column":
            scene.do("typed_alter", changes=[["add", ["more"], "INT"]])
            scene.columns.append(Column(2, "more", "more", "INT"))


@pytest.mark.parametrize("act", ACTS)
def test_the_engine_commits_meanwhile(engine: Engine, tmp_path: Path, act: str, width: str) -> None:
    """Between our search and our commit. Both deletes hold, and what was appended stays."""
    scene = scene_of(engine, tmp_path, f"meanwhile_{ACTS.index(act)}", width)
    newest = scene.newest()
    racing = Acting(f"table put snapshot/snapshot-{newest + 1}".__eq__, lambda: do(scene, act))
    report = scene.call("i = 3 AND rid <> 23 AND rid < 40 OR i = 3 AND rid > 300", switch=racing)
    assert racing.has_acted
    commits: Any = report.to_json()["commits"]
    deleted = {3, 13, 33} & scene.rows.keys()
    if act == "overwrite":  # all that was found is gone, so we look again
        deleted = {303}
    scene.rows = {number: row for number, row in scene.rows.items() if number not in deleted}
    scene.check(after_ours=True)
    assert report.status == ("nothing_to_do" if act == "drop" else "done"), report.refusal
    assert commits["rows"] == len(deleted)
    if act != "drop":
        assert commits["made"][0]["attempts"] == (1 if act == "a column" else 2)
        assert commits["searched_files"] == 4 + SEARCHED.get(act, 0), commits
        assert commits["reused_attempt"] == (act in ("elsewhere", "manifests", "append")), commits
    if act not in ("drop", "a column"):
        go_on(scene)


def test_a_column_of_the_condition_changes_meanwhile(engine: Engine, tmp_path: Path) -> None:
    """The run ends, and its caller looks at the condition again."""
    scene = scene_of(engine, tmp_path, "renamed")
    newest = scene.newest()

    def rename() -> None:
        scene.do("typed_alter", changes=[["rename", ["i"], "j"]])
        scene.do("typed_alter", changes=[["add", ["i"], "INT"]])
        scene.columns[1:2] = [Column(1, "j", "j", "INT")]
        scene.columns.append(Column(2, "i", "i", "INT"))
        scene.put_rows("y", [303])

    racing = Acting(f"table put snapshot/snapshot-{newest + 1}".__eq__, rename)
    report = scene.call("i = 3", switch=racing)
    assert report.status == "stale" and report.refusal is not None, report
    assert scene.newest() == newest + 1
    scene.rows[303][2] = scene.rows[303].pop(2, None)
    scene.check()


def test_vectors_of_files_that_are_gone(engine: Engine, tmp_path: Path) -> None:
    """Our delete works beside them; cleaned away, the engine goes on."""
    from random import Random

    scene = scene_of(engine, tmp_path, "dangling")
    delete_files(scene.location, [scene.names["b"]])
    scene.rows = {number: row for number, row in scene.rows.items() if not 10 <= number < 20}
    report = scene.call("rid = 5")
    assert report.status == "done", report.refusal
    del scene.rows[5]
    scene.compare("the engine", scene.read_by_engine())
    scene.clean(Random(1))
    scene.check()
    go_on(scene)
