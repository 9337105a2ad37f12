"""One history of commits: the engine writes a table, Lakesweep drops partitions of it, and the engine goes on.

Each judged act is done twice, by the engine to a copy and by Lakesweep to the table. Afterwards both must hold the same
files, and of the table the engine must read what the model says: by a full scan, and by every filter that goes by what
manifests say of themselves. Other implementations read the same rows, Lakesweep's own commands find nothing wrong, and
then the engine appends, overwrites, drops, compacts, expires and rolls back. What differs needs a rule with its reason.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any

from tests.differential.commit_acts import COMPACTION, Act, Maintainer, by_engine, draw_act, state_of
from tests.differential.commit_differences import Evidence, explained, manifests_of, problems
from tests.differential.commit_judge import Judge, Verdict
from tests.differential.commit_model import Model
from tests.differential.commit_tables import Kind, Partition, draw_kind
from tests.differential.commit_writers import Writers
from tests.differential.engine import Engine, EngineError
from tests.differential.writing import branch_root

ROUNDS = 2
ACTS = ("drop-partition", "truncate", "expire-partitions", COMPACTION)
"""What is judged."""
Draw = Callable[[Random, Kind, Iterable[Partition]], Act]


def run_commit_history(
    engine: Engine,
    work: Path,
    seed: int,
    maintainer: Maintainer,
    name: str = "commits",
    draw: Draw = draw_act,
    rounds: int = ROUNDS,
) -> Verdict:
    """Draw a history and judge its acts; it ends with the first problem, whose table stays for inspection."""
    random = Random(seed)
    kind = draw_kind(random)
    table, copy = f"d.{name}{seed}", f"d.{name}{seed}e"
    location = engine.location(table)
    model = Model(kind)
    writers = Writers(engine, table, kind, random, model)
    verdict = Verdict(seed, kind, writers.done)
    verdict.facts[kind.shape] += 1
    verdict.facts["on a branch"] += kind.branch != "main"
    writers.begin()
    judge = Judge(engine, table, kind, model, verdict, work / "control" / f"{name}{seed}")
    for number in range(rounds):
        if number:
            writers.anything()
        act = draw(random, kind, (partition for partition, rows in model.contents.items() if rows))
        writers.done.append(f"JUDGED: {act}")
        verdict.facts[act.name] += 1
        evidence = _do(engine, table, copy, kind, act, maintainer, judge.control)
        verdict.problems += problems(evidence)
        verdict.explained.update(explained(evidence))
        verdict.facts["partitions gone"] += len(evidence.before.partitions - evidence.ours.partitions)
        if not verdict.problems:
            model.drop((evidence.before.partitions - evidence.ours.partitions).__contains__)
            model.committed(evidence.ours.snapshot)
            judge.rows_and_filters()
            judge.by_others(engine.location(copy))
            judge.by_ours(random)
        shutil.rmtree(engine.location(copy), ignore_errors=True)
        if verdict.problems:
            break
        _on_top(writers, judge, sorted(evidence.before.partitions - evidence.ours.partitions, key=repr))
        if verdict.problems:
            break
    if not verdict.problems:
        judge.by_our_expiry()
    if not verdict.problems:
        shutil.rmtree(location, ignore_errors=True)
    return verdict


def _do(engine: Engine, table: str, copy: str, kind: Kind, act: Act, maintainer: Maintainer, control: Path) -> Evidence:
    location, copied = engine.location(table), engine.location(copy)
    before = state_of(engine("live", **kind.at(table)))
    manifests = [manifests_of(engine, table, kind)]
    shutil.copytree(location, copied)
    refusal = None
    try:
        by_engine(engine, copy, kind, act)
    except EngineError as error:
        refusal = error.error
    answer = maintainer(location, kind, act, control)
    engines, ours = (state_of(engine("live", **kind.at(name))) for name in (copy, table))
    roots = branch_root(copied, kind.branch), branch_root(location, kind.branch)
    documents = _newest(roots[0], engines.snapshot), _newest(roots[1], ours.snapshot)
    manifests += [manifests_of(engine, name, kind) for name in (copy, table)]
    return Evidence(kind, act, before, engines, refusal, ours, answer, documents, tuple(manifests), location)


def _newest(root: Path, snapshot: int | None) -> Mapping[str, Any]:
    return json.loads((root / "snapshot" / f"snapshot-{snapshot}").read_text()) if snapshot is not None else {}


def _on_top(writers: Writers, judge: Judge, touched: list[Partition]) -> None:
    """Let the engine do everything on top of our commit."""
    steps = writers.on_top(touched)
    for number, step in enumerate(steps):
        try:
            step()
        except EngineError as error:
            judge.verdict.problems.append(f"the engine fails on top at {writers.done[-1]}: {error}")
            return
        judge.verdict.facts["steps on top"] += 1
        if number % 3 == 2 or number >= len(steps) - 3:
            judge.rows(writers.done[-1])
        if judge.verdict.problems:
            return
    judge.rows_and_filters()
