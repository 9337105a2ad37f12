"""Writers commit to tables on S3, and the verdict on what is left of them sees what is wrong."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakesweep.storage.open import open_store
from lakesweep.storage.store import DeleteRequest
from tests.support.lake import Lake
from tests.support.reader import read_root
from tests.support.s3_server import fresh_bucket, moto_endpoint, moto_server, moto_settings
from tests.support.system.verdict import Verdict, judge
from tests.support.system.writer_loop import DivergedError, Loop, Made
from tests.support.system.writers import (
    KEY,
    Kind,
    ReadError,
    Writer,
    WriterError,
    environment,
    java_is_missing,
)
from tests.support.system.written import Assignment, Commit, RowSum, Table, sum_of, together

SHAPES: dict[Kind, tuple[str, ...]] = {
    "pypaimon": ("partitioned", "plain", "keyed"),
    "java": ("streamed", "vectors"),
}
ENOUGH = 15
"""Commits of three tables, of which each loses data files."""


def assignment(kind: Kind, **more: object) -> Assignment:
    tables = tuple(Table(f"shop.{shape}", shape) for shape in SHAPES[kind])
    return Assignment(f"{kind}-1", moto_endpoint(), f"s3://{fresh_bucket()}/warehouse", tables, **more)  # type: ignore[arg-type]


def maintain(writer: Writer) -> None:
    """Expire every table by its own options, with the command line."""
    server = moto_server()
    for table in writer.tables:
        lake = Lake(writer.location(table), f"s3://{server.bucket()}/control", server)
        answer = lake.call("maintain", "--execute")
        assert (answer.exit_code, answer.document["status"]) == (0, "done"), answer.messages


def newest(writer: Writer, shape: str) -> int:
    """Return the id of the last snapshot that a writer reported of a table."""
    return max(commit.snapshot_id for commit in writer.commits if commit.table == f"shop.{shape}")


def verdict_on(writer: Writer, *, maintained: bool = True) -> Verdict:
    return judge([writer], moto_settings(), maintained=maintained)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writer]:
    """A pypaimon writer that was told to stop after some five commits to each of three tables, and two tags of each."""
    seen: list[Commit] = []
    with Writer("pypaimon", assignment("pypaimon", tag_every=2), tmp_path_factory.mktemp("writer"), seen.append) as it:
        commits = iter(it)
        first = next(commits)
        assert it.read(first.table, snapshot_id=1).digest == first.digest, "read while it writes"
        early = [first, *(next(commits) for _ in range(ENOUGH - 1))]
        it.stop()
        assert [*early, *commits] == it.commits == seen
        assert it.exit_code is None
        yield it
    with pytest.raises(WriterError, match="does not run"):
        it.read(first.table)


def test_rows_sum_up_in_any_order() -> None:
    some, others = [(1, "a"), (2, "b")], [(3, "c"), (3, "c")]
    assert sum_of(some) == sum_of(reversed(some))
    assert together([sum_of(others), sum_of(some)]) == sum_of(some + others)
    assert sum_of(others).digest != sum_of(others[:1]).digest
    assert together([]) == RowSum()


def test_what_pypaimon_wrote(written: Writer) -> None:
    """Everything is as it was written, and nothing is expired yet."""
    verdict = verdict_on(written)
    assert verdict.problems == tuple(
        f"shop.{shape}: {count} snapshots are left of {count}; expected 4 or fewer"
        for shape, count in ((shape, newest(written, shape)) for shape in SHAPES["pypaimon"])
    )
    said = len(written.commits) + len(written.tags)
    assert (verdict.tables, verdict.commits) == (3, len(written.commits))
    assert verdict.roots == verdict.snapshots_verified == said
    assert (verdict.unreported, verdict.failed_commits, verdict.unreferenced) == (0, 0, 0)
    assert verdict.rows_verified == sum(each.rows for each in (*written.commits, *written.tags))
    for table in written.tables:
        ids = [commit.snapshot_id for commit in written.commits if commit.table == table.name]
        assert ids == list(range(1, newest(written, table.shape) + 1))


def test_a_table_as_it_is_and_a_snapshot_that_is_not_there(written: Writer) -> None:
    last = written.commits[-1]
    assert written.read(last.table).digest == last.digest
    with pytest.raises(ReadError, match="99"):
        written.read(last.table, snapshot_id=99)


def test_what_is_wrong_is_named(written: Writer) -> None:
    """Expired, the tables are clean but for a stray file; then each loses something else, and one row sum changes."""
    maintain(written)
    bucket, _, prefix = written.assignment.warehouse.removeprefix("s3://").partition("/")
    moto_server().seed(bucket, {f"{prefix}/shop.db/plain/bucket-0/data-of-nobody.parquet": b"x"})
    clean = verdict_on(written)
    assert (clean.problems, clean.unreferenced) == ((), 1), str(clean)
    assert clean.roots == 3 * 2 + len(written.tags)
    assert "shop.plain: unreferenced: bucket-0/data-of-nobody.parquet" in str(clean)

    stores = {table.shape: open_store(written.location(table), settings=moto_settings()) for table in written.tables}
    latest = {shape: newest(written, shape) for shape in stores}
    live = min(read_root(stores["plain"], f"snapshot/snapshot-{latest['plain']}").live)
    stores["plain"].delete([DeleteRequest(live)])
    stores["partitioned"].delete([DeleteRequest(f"snapshot/snapshot-{latest['partitioned']}")])
    stores["keyed"].delete([DeleteRequest("tag/tag-at-2")])
    at = max(place for place, commit in enumerate(written.commits) if commit.table == "shop.keyed")
    said = written.commits[at]
    written.commits[at] = replace(said, digest="0" * 32)
    spoiled = verdict_on(written)
    written.commits[at] = said

    def problems(shape: str) -> list[str]:
        found = (problem.partition(": ") for problem in spoiled.problems)
        return [sentence for table, _, sentence in found if table == f"shop.{shape}"]

    assert f"snapshot/snapshot-{latest['plain']} cannot be read: {live} is missing" in problems("plain")
    assert any(f"snapshot {latest['plain']} cannot be read by pypaimon" in each for each in problems("plain"))
    assert problems("partitioned") == [
        f"the latest snapshot is {latest['partitioned'] - 1}; the writer's last commit made {latest['partitioned']}",
        f"1 snapshots are left of {latest['partitioned']}; expected 2 or more",
    ]
    assert problems("keyed") == [
        "tag at-2 is gone",
        f"snapshot {said.snapshot_id} holds {said.rows} rows ({said.digest}); "
        f"expected the {said.rows} ({'0' * 32}) written",
    ]
    assert spoiled.left["shop.keyed"] != (), "what the tag alone needed"


class Rehearsed:
    """An engine whose commits end as was said beforehand: `lost` or `landed` behind an error, `other`'s, or well."""

    def __init__(self, *endings: str) -> None:
        self._endings = iter(endings)
        self._latest = self._known = 0
        self._diverged = False

    def create(self, table: Table) -> None:
        self.table = table

    def commit(self, table: Table) -> Made | None:
        ending = next(self._endings, "well")
        self._diverged = ending == "other's"
        self._latest += ending != "lost"
        if ending != "well":
            raise OSError(ending)
        return self.settle(table)

    def settle(self, table: Table) -> Made | None:
        if self._diverged:
            raise DivergedError("rows of somebody else")
        came_through, self._known = self._latest > self._known, self._latest
        return Made(self._latest, 0.0, *self.read(table, self._latest, None)) if came_through else None

    def tag(self, table: Table, name: str, snapshot_id: int) -> None:
        raise OSError(f"no {name}")

    def read(self, table: Table, snapshot_id: int | None, tag: str | None) -> tuple[int, str]:
        return 10 * (snapshot_id or self._latest), "abc"

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("endings", "said"),
    [
        (("well", "lost", "well"), ["commit 1", "failure lost", "commit 2"]),
        (("well", "landed", "well"), ["commit 1", "failure landed", "commit 2", "commit 3"]),
        (("well", "well", "well", "landed"), ["commit 1", "commit 2", "commit 3", "failure landed", "commit 4"]),
        (("well", "other's", "well"), ["commit 1", "failure other's", "abandoned rows of somebody else"]),
    ],
)
def test_what_came_of_a_commit_that_failed(endings: tuple[str, ...], said: list[str]) -> None:
    """It is found out before the table's next commit, or before the writer stops."""
    heard: list[dict[str, Any]] = []
    order = Assignment("w", "", "", (Table("shop.plain", "plain"),), commits=4)
    Loop(order, Rehearsed(*endings), heard.append, _open_input(heard)).run()
    told = [
        f"commit {line['snapshot_id']}" if line["kind"] == "commit"
        else ("abandoned " if line["abandoned"] else "failure ") + line["error"].removeprefix("OSError: ")
        for line in heard
        if line["kind"] in ("commit", "failure")
    ]  # fmt: skip
    assert told[: len(said)] == said
    assert heard[-1] == {"kind": "stopped"}


def _open_input(heard: list[dict[str, Any]]) -> Iterator[str]:
    """Return an input that ends when the writer stopped."""
    while {"kind": "stopped"} not in heard:
        time.sleep(0.01)
    yield from ()


def test_a_tag_that_fails() -> None:
    heard: list[dict[str, Any]] = []
    order = Assignment("w", "", "", (Table("shop.plain", "plain"),), commits=2, tag_every=2)
    Loop(order, Rehearsed(), heard.append, _open_input(heard)).run()
    assert [line["kind"] for line in heard] == ["ready", "commit", "commit", "failure", "stopped"]
    assert heard[3]["error"] == "tag at-2: OSError: no at-2"


def test_a_writer_that_fails_says_why(tmp_path: Path) -> None:
    order = replace(assignment("pypaimon"), tables=(Table("shop.other", "unheard-of"),))
    with Writer("pypaimon", order, tmp_path) as writer, pytest.raises(WriterError, match="unheard-of"):
        writer.wait_ready()


def test_nothing_of_the_user_reaches_a_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "https_proxy", "LAKESWEEP_CONTROL"):
        monkeypatch.setenv(name, "of the user")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of the user")
    found = environment()
    assert "of the user" not in found.values()
    assert found["AWS_SECRET_ACCESS_KEY"] == KEY


@pytest.mark.differential
def test_what_java_wrote(tmp_path: Path) -> None:
    """Changelogs that outlive their snapshots, deletion vectors, compactions."""
    if (missing := java_is_missing()) is not None:
        pytest.skip(missing)
    with Writer("java", assignment("java", commits=6, tag_every=3), tmp_path) as writer:
        writer.wait_stopped(120)
        assert writer.failures == []
        maintain(writer)
        verdict = verdict_on(writer)
        assert verdict.problems == ()
        assert (verdict.tables, verdict.unreferenced, verdict.unreported) == (2, 0, 0)
        assert verdict.roots > verdict.snapshots_verified, "expected changelogs among the roots"
        last = writer.commits[-1]
        writer.commits[-1] = replace(last, digest="0")
        (problem,) = verdict_on(writer).problems
        assert problem.startswith(f"{last.table}: snapshot {last.snapshot_id} holds {last.rows} rows")
