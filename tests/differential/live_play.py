"""A play: the engine works on a table in one process, and Lakesweep moves its branches in others, some of them killed.

Nothing is simulated: the two meet wherever they happen to. So a seed says what is done, and not what comes of it.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from random import Random
from typing import Any

from tests.differential.branch_steps import age_files, branches_of
from tests.differential.engine import RETAIN_EVERYTHING, Engine, EngineError
from tests.differential.live_actor import CASTS, Actor, Play, commit_of, documents_in, live_tags
from tests.differential.live_cli import Forks
from tests.differential.live_judge import forget, judge, read_all
from tests.differential.live_ours import Ours
from tests.differential.writing import branch_root, snapshot_ids


def run_play(engine: Engine, forks: tuple[Forks, Forks], work: Path, seed: int) -> Play:
    """Play once; a table with problems stays for inspection.

    Args:
        engine: Nobody else uses it meanwhile.
        forks: Where our processes come from: one at a time from each.
        work: For control locations.
        seed: Of all that is drawn; the cast is `seed` modulo the number of casts.
    """
    random, play = Random(seed), Play(seed, CASTS[seed % len(CASTS)])
    table, control = f"d.live{seed}", work / "control" / f"live{seed}"
    is_append = random.random() < 0.5
    _create(engine, table, random, is_append=is_append)
    actor = Actor(engine, table, random, play, control, is_append=is_append)
    ours = Ours(forks[0], actor.location, control, Random(seed + 1), play)
    _begin(actor, random)
    if play.cast == "ours twice":
        actor.maintain = Ours(forks[1], actor.location, control, Random(seed + 2), play, ours).maintain
    _play(actor, ours, random)
    ours.settle()
    judge(actor, ours, play)
    if not play.problems and ours.runs and random.random() < 0.4:
        ours.call(["undo", random.choice(ours.runs)], may_die=random.random() < 0.3)
        ours.settle()
        judge(actor, ours, play)
    if not play.problems:
        _go_on(actor, play)
    if not (play.problems or actor.broken) and random.random() < 0.5:
        _remove_orphans(actor, ours, play)
    if not play.problems:
        forget(actor.location)
        shutil.rmtree(control, ignore_errors=True)
    return play


def _create(engine: Engine, table: str, random: Random, *, is_append: bool) -> None:
    options = {
        **RETAIN_EVERYTHING,
        "bucket": "-1" if is_append else "1",
        "file.format": "avro",
        "manifest.merge-min-count": random.choice(["2", "30"]),
        "write-only": "true" if is_append or random.random() < 0.4 else "false",
        "num-sorted-run.compaction-trigger": "2",
        "commit.max-retries": "4",
    }
    columns = [["p", "STRING"], ["id", "INT"], ["v", "STRING"]]
    keys = [] if is_append else ["p", "id"]
    engine("create", table=table, columns=columns, primary_keys=keys, partition_keys=["p"], options=options)


def _begin(actor: Actor, random: Random) -> None:
    """Write some commits, tags of them, and a branch."""
    for number in range(random.randint(4, 7)):
        actor.write("main")
        if random.random() < 0.4:
            actor.do("tag", op="create", name=f"s{number}")
    if random.random() < 0.3:
        actor.do("expire", retain_max=2, retain_min=2, time_retain_s=0)
    tags = live_tags(actor.location)
    if tags and random.random() < 0.7:
        actor.do("branch", op="create", name="b", tag=random.choice(tags))
        for _ in range(random.randint(0, 3)):
            actor.write("b")
    actor.excused.update(actor.acked)  # what has expired by now
    for name, rows in actor.engine("scan_all", table=actor.table).items():
        branch, _, root = name.partition("/")
        kind, _, called = root.partition("-")
        actor.rows[commit_of(documents_in(branch_root(actor.location, branch), kind)[called])] = rows


def _play(actor: Actor, ours: Ours, random: Random) -> None:
    actor.start()
    try:
        for _ in range(random.randint(1, 4)):
            time.sleep(random.random() * 0.1)
            ours.round()
    finally:
        actor.join()


def _go_on(actor: Actor, play: Play) -> None:
    """Let the engine commit to every branch, and read what it has then."""
    for branch in ("main", *branches_of(actor.location)):
        ids = snapshot_ids(branch_root(actor.location, branch))
        if f"{branch}/snapshot-{ids[-1] if ids else ''}" in actor.broken:
            continue
        try:
            _go_on_with(actor, play, branch, ids)
        except EngineError as error:
            play.problems.append(f"STUCK: the engine cannot go on with {branch} of {ids}: {error.error}")


def _go_on_with(actor: Actor, play: Play, branch: str, ids: list[int]) -> None:
    at: dict[str, Any] = {"table": actor.table} | ({} if branch == "main" else {"branch": branch})
    identifier = actor.next()
    before = actor.engine("scan", **at)["rows"] if ids else 0
    actor.engine("write", n=3, seed=identifier, keys=[0, 40], parts=[["a"]], identifier=identifier, **at)
    after = actor.engine("scan", **at)["rows"]
    documents = documents_in(branch_root(actor.location, branch))
    new = [int(name) for name, document in documents.items() if document["commitIdentifier"] == identifier]
    if not new:
        play.problems.append(f"STUCK: a commit to {branch} of {ids} is not there")
    elif ids and max(new) <= ids[-1]:
        play.windows["a commit goes below the newest snapshot"] += 1
        play.say(f"{branch} of {ids} gets {new}")
    if actor.is_append and after != before + 3:
        play.problems.append(f"STUCK: {branch} had {before} rows and has {after}")


def _remove_orphans(actor: Actor, ours: Ours, play: Play) -> None:
    """Let what nobody refers to go, and read everything again."""
    before = actor.engine("scan_all", table=actor.table)
    age_files(actor.location)
    ours.call(["remove-orphan-files", "--no-history", "plays make branches without a snapshot"])
    after = actor.engine("scan_all", table=actor.table)
    read_all(actor, play, after)
    if after != before:
        play.problems.append(f"ROWS: {before} became {after} when orphan files went")
