"""Random steps of a table with branches: what its writers do, and what is done to its branches and its past.

As in `tag_steps.py`, a step is drawn from the table as it stands, so the same seed gives the same steps on every
machine. What writers do is done once, by the engine. Rollbacks, branches that come and go, fast-forwards, and the
expiry of snapshots and tags between them are *judged*: both do them, to equal tables.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tests.differential.engine import RETAIN_EVERYTHING
from tests.differential.tag_steps import LEAST_LONG, Clock, Step
from tests.differential.writing import branch_root, snapshot_ids

REFUSED_NAMES = ("main", "7", "2024", " ")
"""Names that no branch may have."""


@dataclass(frozen=True, slots=True)
class BranchKind:
    """What the steps of one history have in common."""

    primary_key: bool
    partitions: tuple[str, ...]
    options: Mapping[str, str]
    watermarks: bool
    """Writers give each commit a watermark, or leave it out now and then."""
    changelogs: bool
    """Changelogs outlive snapshots. Such a table has no branches: the engine's expiry would break them."""

    @property
    def create(self) -> Mapping[str, Any]:
        """Return the words that make the table."""
        return {
            "columns": [["p", "STRING"], ["id", "INT"], ["v", "STRING"]],
            "primary_keys": ["p", "id"] if self.primary_key else [],
            "partition_keys": ["p"],
            "options": {**RETAIN_EVERYTHING, **self.options},
        }


def draw_kind(random: Random) -> BranchKind:
    """Draw a table."""
    primary_key = random.random() < 0.5
    changelogs = primary_key and random.random() < 0.25
    options = {
        "bucket": "1" if primary_key else "-1",
        "file.format": random.choice(["parquet", "avro"]),
        "manifest.merge-min-count": random.choice(["2", "3", "30"]),
        "manifest.full-compaction-threshold-size": random.choice(["1 kb", "16 mb"]),
        "num-sorted-run.compaction-trigger": random.choice(["2", "5"]),
        "compaction.min.file-num": "2",
        "write-only": random.choice(["true", "false"]),
    }
    if changelogs:
        options |= {"changelog-producer": random.choice(["input", "lookup"]), "changelog.num-retained.max": "200000"}
        options |= {"changelog.num-retained.min": "1", "changelog.time-retained": "20000 d"}
    elif primary_key and random.random() < 0.4:
        options["changelog-producer"] = random.choice(["input", "lookup"])
    elif primary_key and random.random() < 0.4:
        options["deletion-vectors.enabled"] = "true"
    return BranchKind(
        primary_key=primary_key,
        partitions=("a", "b", "c")[: random.randint(1, 3)],
        options=options,
        watermarks=random.random() < 0.5,
        changelogs=changelogs,
    )


@dataclass(frozen=True, slots=True)
class State:
    """The roots of one branch."""

    snapshots: Sequence[int]
    documents: Sequence[Mapping[str, Any]]
    """Of the snapshots."""
    tags: Mapping[str, Mapping[str, Any]]
    """Name -> document."""


def state_of(location: Path, branch: str = "main") -> State:
    """Read the roots of a branch."""
    root = branch_root(location, branch)
    ids = snapshot_ids(root)
    tags = {path.name[4:]: json.loads(path.read_text()) for path in sorted((root / "tag").glob("tag-*"))}
    return State(ids, [json.loads((root / "snapshot" / f"snapshot-{id}").read_text()) for id in ids], tags)


def branches_of(location: Path) -> list[str]:
    """List the branches of a table, without main."""
    return sorted(path.name.removeprefix("branch-") for path in (location / "branch").glob("branch-*"))


def draw_step(random: Random, kind: BranchKind, clock: Clock, location: Path) -> Step | None:
    """Draw what happens next; `None` when there is nothing that it could happen to."""
    branches = branches_of(location)
    branch = random.choice(branches) if branches and random.random() < 0.45 else "main"
    state = state_of(location, branch)
    if branch == "main" and len(state.snapshots) < 3:
        return commit(random, kind, clock, branch)
    if kind.changelogs:
        return _step_of_changelogs(random, kind, clock, state)
    draw = random.random()
    if draw < 0.25 or not state.snapshots:
        return commit(random, kind, clock, branch)
    if draw < 0.29:
        column = {"add_columns": [[f"added_{clock.number()}", random.choice(["STRING", "BIGINT"])]]}
        return _writers("alter", branch, column, command="alter")
    if draw < 0.45:
        return _tag(random, clock, state, branch)
    if draw < 0.50:
        return _delete_tag(random, state, branch)
    if draw < 0.58:
        return _expire(random, state, branch)
    if draw < 0.74:
        return _rollback(random, kind, state, branch)
    if draw < 0.87:
        return _create_branch(random, clock, state_of(location), branches)
    if draw < 0.91:
        return _delete_branch(random, branches)
    return _fast_forward(random, state_of(location), branches)


def _step_of_changelogs(random: Random, kind: BranchKind, clock: Clock, state: State) -> Step:
    """Draw what happens to a table whose changelogs outlive its snapshots."""
    draw = random.random()
    if draw < 0.45:
        return commit(random, kind, clock, "main")
    if draw < 0.6:
        return _tag(random, clock, state, "main")
    if draw < 0.8:
        least = str(random.randint(1, 4))
        options = {"snapshot.num-retained.min": least, "snapshot.num-retained.max": least}
        if random.random() < 0.3:
            options["changelog.num-retained.max"] = str(int(least) + random.randint(1, 4))
        return _writers("expire", "main", {"via": "commit", "options": options}, command="expire")
    return _rollback(random, kind, state, "main")


def commit(random: Random, kind: BranchKind, clock: Clock, branch: str) -> Step:
    """Draw a commit."""
    arguments: dict[str, Any] = {
        "n": random.randint(1, 8),
        "seed": random.randrange(1 << 20),
        "keys": [0, 30],
        "parts": [[value] for value in random.sample(kind.partitions, random.randint(1, len(kind.partitions)))],
    }
    if kind.watermarks:
        clock.watermark += random.choice([0, 1, 10, 60_000])
        if random.random() < 0.85:
            arguments["watermark"] = LEAST_LONG if random.random() < 0.1 else 1_700_000_000_000 + clock.watermark
    elif random.random() < 0.2:
        arguments["overwrite"] = {}
    if random.random() < 0.15:
        return _writers("compact", branch, {}, command="compact")
    return _writers("write", branch, arguments, command="write")


def _writers(name: str, branch: str, arguments: Mapping[str, Any], *, command: str) -> Step:
    return Step(name, arguments if branch == "main" else {**arguments, "branch": branch}, command=command)


def _tag(random: Random, clock: Clock, state: State, branch: str) -> Step:
    words: dict[str, Any] = {"op": "create", "name": f"t{clock.number()}"}
    if random.random() < 0.6:
        words["snapshot"] = random.choice(state.snapshots)
    if random.random() < 0.3:
        words["ttl"] = "P365D"
    return _writers("tag", branch, words, command="tag")


def _judged(name: str, branch: str, theirs: Mapping[str, Any], ours: Mapping[str, Any], *, command: str) -> Step:
    return Step(name, theirs if branch == "main" else {**theirs, "branch": branch}, ours, name, command)


def _delete_tag(random: Random, state: State, branch: str) -> Step | None:
    if not state.tags:
        return None
    gone = [name for name, document in state.tags.items() if document["id"] not in state.snapshots]
    name = random.choice(gone if gone and random.random() < 0.6 else sorted(state.tags))
    return _judged("delete-tag", branch, {"op": "delete", "name": [name]}, {"tag": [name]}, command="tag")


def _expire(random: Random, state: State, branch: str) -> Step:
    keep = random.randint(1, max(1, min(4, len(state.snapshots) - 1)))
    words = {"retain_max": keep, "retain_min": keep}
    now_ms = int(time.time() * 1000)
    theirs, ours = {**words, "older_than_ms": now_ms}, {**words, "older_than": now_ms}
    return _judged("expire-snapshots", branch, theirs, ours, command="expire")


def _rollback(random: Random, kind: BranchKind, state: State, branch: str) -> Step:
    """Go back to a snapshot, a tag, a time or a watermark; now and then to what is not there."""
    draw, theirs = random.random(), {"snapshot": random.choice([*state.snapshots, *state.snapshots[:-1]])}
    ours: dict[str, Any] = dict(theirs)
    if draw < 0.35 and state.tags:
        theirs = ours = {"tag": random.choice(sorted(state.tags))}
    elif draw < 0.42 and state.tags:
        theirs = ours = {"snapshot": random.choice([document["id"] for document in state.tags.values()])}
    elif draw < 0.6:
        moment = random.choice(state.documents)["timeMillis"] + random.choice([-1, 0, 0, 1])
        theirs, ours = {"timestamp_ms": moment}, {"timestamp": moment}
    elif draw < 0.75 and kind.watermarks and _is_marked(state):
        marks = [document.get("watermark", LEAST_LONG) for document in state.documents]
        known = [mark for mark in marks if mark != LEAST_LONG]
        if known:
            theirs = ours = {"watermark": random.choice(known) + random.choice([-1, 0, 0, 1])}
    elif draw < 0.78:
        theirs = ours = random.choice([{"tag": "nobody's"}, {"snapshot": state.snapshots[-1] + 5}])
    ours = {**ours, "lose_tag": sorted(state.tags)} if random.random() < 0.6 else ours
    return _judged("rollback", branch, theirs, ours, command="rollback")


def _is_marked(state: State) -> bool:
    """Tell whether the newest snapshot has a watermark: without one the engine fails before it looks at the others."""
    return "watermark" in state.documents[-1]


def _create_branch(random: Random, clock: Clock, state: State, branches: list[str]) -> Step:
    """Make a branch of main: empty, or of a tag; now and then by a name that cannot be."""
    name = f"b{clock.number()}"
    if random.random() < 0.12:
        name = random.choice([*REFUSED_NAMES, *branches])
    source = {"tag": random.choice(sorted(state.tags))} if state.tags and random.random() < 0.85 else {}
    if random.random() < 0.04:
        source = {"tag": "nobody's"}
    return _judged(
        "create-branch", "main", {"op": "create", "name": name, **source}, {"branch": name, **source}, command="branch"
    )


def _delete_branch(random: Random, branches: list[str]) -> Step | None:
    name = random.choice([*branches, *branches, "nobodys"])
    return _judged("delete-branch", "main", {"op": "delete", "name": name}, {"branch": name}, command="branch")


def _fast_forward(random: Random, state: State, branches: list[str]) -> Step:
    """Let main be one of the branches, and give up its tags now and then."""
    name = random.choice(branches) if branches and random.random() < 0.93 else random.choice(["main", "nobodys"])
    words = {"op": "fast_forward", "name": name}
    ours = {"branch": name, "lose_tag": sorted(state.tags)} if random.random() < 0.6 else {"branch": name}
    return _judged("fast-forward", "main", words, ours, command="branch")


TWO_DAYS_MS = 2 * 86_400_000


def age_files(location: Path) -> None:
    """Let every file be two days old: a scan for orphan files leaves alone what is younger than one."""
    then = time.time() - TWO_DAYS_MS / 1000
    for folder, _, names in os.walk(location):
        for name in names:
            os.utime(Path(folder, name), (then, then))


_EMPTY_BRANCHES = {"no_history": "histories make branches without a snapshot"}
ORPHANS = Step("remove-orphan-files", {}, _EMPTY_BRANCHES, "remove-orphan-files", "orphans")
"""What ends a history: the files that rollbacks and branches left behind go."""
