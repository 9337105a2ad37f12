"""The comparison itself: silent where nothing differs, loud at every kind of harm, and no rule without proof."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.differential.case import Verdict, engine_as_maintainer, run_case
from tests.differential.engine import RETAIN_EVERYTHING, Engine, EngineCrashError, EngineError
from tests.differential.files import listing
from tests.differential.history import BASE, FULL, ExpireArguments, History, Step, make_history
from tests.differential.ours import Answer, Call
from tests.differential.truth import read_roots
from tests.differential.writing import snapshot_ids

pytestmark = pytest.mark.differential

Harm = Callable[[Path, Mapping[Path, bytes]], object]
"""Does something to a table that was expired well; told what the expiry deleted."""


def table(number: int, *more: Step, expire: ExpireArguments | None = None) -> History:
    """Five overwriting commits of one partition with a tag on the second, of which the last two stay."""
    create = Step(
        "create",
        {
            "columns": [["p", "STRING"], ["id", "INT"], ["v", "STRING"]],
            "primary_keys": [],
            "partition_keys": ["p"],
            "options": {**RETAIN_EVERYTHING, "bucket": "-1", "file.format": "avro", "write-only": "true"},
        },
    )
    commits = [
        Step("write", {"n": 4, "seed": seed, "parts": [["x"]], "overwrite": {}, "keys": [0, 9]}) for seed in range(5)
    ]
    commits.insert(2, Step("tag", {"op": "create", "name": "kept", "snapshot": 2}))
    retime = Step("retime", {"seed": 1, "skew": False})
    policy = Step("alter", {"unset": list(RETAIN_EVERYTHING)})
    arguments = expire or ExpireArguments(retain_max=2, retain_min=2, older_than_ticks=0)
    return History("made", number, (create, *commits, retime, policy, *more), arguments)


def judge(engine: Engine, work: Path, history: History, harm: Harm) -> Verdict:
    """Compare the engine with itself, after something was done to the second table."""
    expire = engine_as_maintainer(engine)

    def expire_and_harm(location: Path, call: Call, control: Path) -> Answer:
        before = {path: path.read_bytes() for path in location.rglob("*") if path.is_file()}
        answer = expire(location, call, control)
        harm(location, {path: content for path, content in before.items() if not path.exists()})
        return answer

    return run_case(engine, work, history, expire_and_harm)


def put_back(gone: Mapping[Path, bytes], pattern: str) -> None:
    path, content = next((path, content) for path, content in sorted(gone.items()) if path.match(pattern))
    path.write_bytes(content)


def remove_one(location: Path, pattern: str) -> None:
    sorted(location.glob(pattern))[-1].unlink()


@pytest.mark.parametrize("seed", range(500, 506))
def test_the_engine_agrees_with_itself(engine: Engine, tmp_path: Path, seed: int) -> None:
    verdict = run_case(engine, tmp_path, make_history(seed, BASE), engine_as_maintainer(engine))
    assert not verdict.problems, str(verdict)
    assert not verdict.explained


def test_a_table_is_what_these_tests_need(engine: Engine, tmp_path: Path) -> None:
    verdict = judge(engine, tmp_path, table(1), lambda location, gone: None)
    assert not verdict.problems, str(verdict)
    assert verdict.facts["snapshots expired"] == 3
    assert verdict.facts["tags that protect data files"] == 1


HARMS: dict[str, tuple[Harm, str]] = {
    "a data file of the latest snapshot is lost": (
        lambda at, gone: remove_one(at, "p=x/bucket-0/data-*"),
        "LOST: main/",
    ),
    "a manifest is lost": (lambda at, gone: remove_one(at, "manifest/manifest-*-0"), "LOST: main/"),
    "a snapshot document is lost": (lambda at, gone: remove_one(at, "snapshot/snapshot-4"), "only the engine keeps it"),
    "a tag is lost": (lambda at, gone: remove_one(at, "tag/tag-kept"), "only the engine keeps it: tag/tag-kept"),
    "a schema is lost": (lambda at, gone: remove_one(at, "schema/schema-0"), "only the engine keeps it: schema"),
    "a dead data file stays": (lambda at, gone: put_back(gone, "bucket-0/data-*"), "nothing that survives needs it"),
    "a dead manifest list stays": (lambda at, gone: put_back(gone, "manifest/*-list-*"), "nothing that survives"),
    "an expired snapshot stays": (lambda at, gone: put_back(gone, "snapshot/snapshot-1"), "nothing that survives"),
    "a foreign file appears": (lambda at, gone: (at / "lease.json").write_text("{}"), "nothing that survives needs it"),
    "a file is rewritten": (lambda at, gone: (at / "tag" / "tag-kept").touch(), "rewritten: tag/tag-kept"),
    "the EARLIEST hint is wrong": (
        lambda at, gone: (at / "snapshot" / "EARLIEST").write_text("5"),
        "EARLIEST says '5'",
    ),
}


@pytest.mark.parametrize("name", HARMS)
def test_harm_is_noticed(engine: Engine, tmp_path: Path, name: str) -> None:
    harm, words = HARMS[name]
    verdict = judge(engine, tmp_path, table(2), harm)
    assert any(words in problem for problem in verdict.problems), str(verdict)
    shutil.rmtree(engine.location("d.made2"))


def test_a_reader_notices_other_content_under_the_same_name(engine: Engine, tmp_path: Path) -> None:
    def swap(location: Path, gone: Mapping[Path, bytes]) -> None:
        path = sorted(location.glob("p=x/bucket-0/data-*"))[0]
        path.write_bytes(next(content for dead, content in gone.items() if dead.match("bucket-0/data-*")))

    verdict = judge(engine, tmp_path, table(3), swap)
    assert any(problem.startswith("READS DIFFERENTLY") for problem in verdict.problems), str(verdict)
    shutil.rmtree(engine.location("d.made3"))


def test_both_may_refuse(engine: Engine, tmp_path: Path) -> None:
    refused = ExpireArguments(retain_max=1, retain_min=2)
    verdict = judge(engine, tmp_path, table(4, expire=refused), lambda location, gone: None)
    assert not verdict.problems, str(verdict)
    assert verdict.facts["both refused"] == 1


def test_a_refusal_of_one_is_noticed(engine: Engine, tmp_path: Path) -> None:
    verdict = run_case(engine, tmp_path, table(5), lambda location, call, control: Answer(3, {}, "no"))
    assert any("the engine did its work" in problem for problem in verdict.problems), str(verdict)
    shutil.rmtree(engine.location("d.made5"))


def test_a_document_must_say_what_happened(engine: Engine, tmp_path: Path) -> None:
    expire = engine_as_maintainer(engine)
    document: dict[str, Any] = {
        "operation": "expire-snapshots",
        "steps": None,
        "status": "done",
        "outcome": {"deleted": 1},
        "actions": [],
        "snapshots": {"expired": [1]},
        "kept": {},
    }

    def expire_and_boast(location: Path, call: Call, control: Path) -> Answer:
        expire(location, call, control)
        return Answer(0, document, "")

    verdict = run_case(engine, tmp_path, table(6), expire_and_boast)
    assert any("counts 1 deleted files" in problem for problem in verdict.problems), str(verdict)
    assert any("gone without an action" in problem for problem in verdict.problems)
    assert any("expired, and others are gone" in problem for problem in verdict.problems)
    shutil.rmtree(engine.location("d.made6"))


def test_more_than_the_engine_deletes_is_fine_where_a_hint_misled_it(engine: Engine, tmp_path: Path) -> None:
    def right(location: Path, call: Call, control: Path) -> Answer:
        (location / "snapshot" / "EARLIEST").unlink()
        return engine_as_maintainer(engine)(location, call, control)

    verdict = run_case(engine, tmp_path, table(7, Step("hint", {"name": "EARLIEST", "id": 3})), right)
    assert set(verdict.explained) == {"earliest-hint"}, str(verdict)
    # The engine removed the manifests of snapshots 1 and 2 beside documents that it kept: its affair.
    assert not verdict.problems, str(verdict)


@pytest.mark.parametrize("reasons", [{"branch": 7}, {"too_young": 7}])
def test_what_another_branch_needs_may_stay_if_that_is_reported(
    engine: Engine, tmp_path: Path, reasons: dict[str, int]
) -> None:
    steps = (
        Step("branch", {"op": "create", "name": "b", "tag": "kept"}),
        Step("tag", {"op": "delete", "name": "kept"}),
    )

    def spare_the_branch(location: Path, call: Call, control: Path) -> Answer:
        needed = {path for root in read_roots(engine, "d.made8") if root.branch == "b" for path in root.files}
        shutil.copytree(location, control)
        before = listing(location).paths
        engine_as_maintainer(engine)(location, call, control)
        for path in needed - listing(location).paths:
            shutil.copy2(control / path, location / path)
        gone = before - listing(location).paths
        document: dict[str, Any] = {
            "operation": "expire-snapshots",
            "steps": None,
            "status": "done",
            "outcome": {"deleted": len(gone)},
            "actions": [{"kind": "data", "path": path} for path in gone],
            "snapshots": {"expired": [1, 2, 3]},
            "kept": reasons,
        }
        return Answer(0, document, "")

    verdict = run_case(engine, tmp_path, table(8, *steps), spare_the_branch)
    assert verdict.explained["branch-root"] > 0, str(verdict)
    if "branch" in reasons:
        assert not verdict.problems, str(verdict)
    else:
        assert verdict.problems == ["files stay by branch-root, and the document gives only ['too_young'] as reasons"]
        shutil.rmtree(engine.location("d.made8"))


def test_the_same_seed_draws_the_same_history() -> None:
    assert make_history(7, FULL) == make_history(7, FULL)
    assert make_history(7, FULL) != make_history(8, FULL)


def test_an_error_of_the_engine_carries_its_trace(engine: Engine) -> None:
    with pytest.raises(EngineError, match=r"at EngineDriver\."):
        engine("scan", table="d.missing")


def test_a_dead_engine_says_so(engine_classpath: str, tmp_path: Path) -> None:
    with Engine(tmp_path, engine_classpath) as engine:
        engine._jvm.kill()
        with pytest.raises(EngineCrashError, match="the engine's JVM ended"):
            engine("memory", table="d.t")


def test_commits_are_dated_anew(engine: Engine, tmp_path: Path) -> None:
    """Ten minutes and more lie between commits that were milliseconds apart, and tags keep in step."""
    seen: dict[str, list[list[Any]]] = {}

    def look(location: Path, call: Call, control: Path) -> Answer:
        seen.update(engine("snapshots", table=f"d.{location.name}"))
        assert snapshot_ids(location) == [row[0] for row in seen["snapshots"]]
        return engine_as_maintainer(engine)(location, call, control)

    assert not run_case(engine, tmp_path, table(9), look).problems
    times = [row[3] for row in seen["snapshots"]]
    assert all((later - earlier) % 600_000 == 0 for earlier, later in pairwise(times))
    assert times == sorted(times)
    assert times[-1] - times[0] > 600_000
