"""Random steps of a table with tags: what its writers do, and what is done to its tags.

A step is drawn from the table as it stands, so the same seed gives the same steps on every machine. What writers do is
done once, by the engine. What is done to tags and snapshots is *judged*: it has words for the engine and for Lakesweep,
and is done by both, to equal tables.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from tests.differential.engine import RETAIN_EVERYTHING
from tests.differential.writing import TICK_MS, branch_root, retime, snapshot_ids

ZONES = ("UTC", "Asia/Kolkata", "America/New_York", "Australia/Lord_Howe", "Asia/Shanghai", "America/Los_Angeles")
NAMES = (
    "t{}",
    "daily-2026-01-{:02}",
    "renamed {}",
    "ü{}",
    "{}",
    "batch-write-2024-01-{:02}",
    "2024-02-{:02}",
    "x.{}",
    "2024-02-{:02} 05",
    "202402{:02}",
    "202402{:02}0530",
    "20240230{:02}",
)
_FIRST_WATERMARKS = (
    1689681600000,  # 2023-07-18T12:00:00Z
    1710050400000,  # 2024-03-10T06:00:00Z: an hour before New York's clocks go forward
    1730606400000,  # 2024-11-03T04:00:00Z: before they go back
    1712409000000,  # 2024-04-06T13:10:00Z: before Lord Howe's go back by half an hour
    1728139200000,  # 2024-10-05T14:40:00Z: before they go forward
)
LEAST_LONG = -(2**63)


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happens to a table."""

    name: str
    arguments: Mapping[str, Any]
    """Of the engine's command."""
    ours: Mapping[str, Any] | None = None
    """Arguments of Lakesweep's operation; `None`: a writer's step, which nobody judges."""
    operation: str = ""
    """Lakesweep's name of it."""
    command: str = "tag"
    """The engine's name of it."""

    @property
    def branch(self) -> str:
        """Return the branch that it happens to."""
        return str(self.arguments.get("branch", "main"))

    def __str__(self) -> str:
        words = f"{self.name} {json.dumps(self.arguments)}"
        return words if self.ours is None else f"{words} | {self.operation} {json.dumps(self.ours)}"


@dataclass(frozen=True, slots=True)
class Kind:
    """What the steps of one history have in common."""

    primary_key: bool
    partitions: tuple[str, ...]
    options: Mapping[str, str]
    auto: Mapping[str, str]
    """Options of the tags that are made by themselves; empty: none are."""
    stated: bool
    """The table's own options say so, and writers leave it to others; else each call says it."""
    branches: bool

    @property
    def mode(self) -> str:
        """Return the mode of the tags that are made by themselves."""
        return self.auto.get("tag.automatic-creation", "none")

    @property
    def create(self) -> Mapping[str, Any]:
        """Return the words that make the table."""
        return {
            "columns": [["p", "STRING"], ["id", "INT"], ["v", "STRING"]],
            "primary_keys": ["p", "id"] if self.primary_key else [],
            "partition_keys": ["p"],
            "options": {**RETAIN_EVERYTHING, **self.options, **(self.auto if self.stated else {})},
        }


@dataclass(slots=True)
class Clock:
    """How far the watermarks of a history have come."""

    watermark: int = 0
    numbers: int = 0

    def number(self) -> int:
        """Return a number that no name has."""
        self.numbers += 1
        return self.numbers


@dataclass(frozen=True, slots=True)
class State:
    """The roots of one branch."""

    snapshots: Sequence[int]
    tags: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Name -> document."""
    newest: Mapping[str, Any] = field(default_factory=dict)
    """The document of the newest snapshot."""


def state_of(location: Path, branch: str = "main") -> State:
    """Read the roots of a branch."""
    root = branch_root(location, branch)
    tags = {path.name[4:]: path for path in sorted((root / "tag").glob("tag-*")) if path.is_file()}
    ids = snapshot_ids(root)
    newest = json.loads((root / "snapshot" / f"snapshot-{ids[-1]}").read_text()) if ids else {}
    return State(ids, {name: json.loads(path.read_text()) for name, path in tags.items()}, newest)


def draw_kind(random: Random) -> Kind:
    """Draw a table."""
    primary_key = random.random() < 0.5
    options = {
        "bucket": "1" if primary_key else "-1",
        "file.format": random.choice(["parquet", "avro"]),
        "manifest.merge-min-count": random.choice(["2", "3", "30"]),
        "manifest.full-compaction-threshold-size": random.choice(["1 kb", "16 mb"]),
        "num-sorted-run.compaction-trigger": random.choice(["2", "5"]),
        "compaction.min.file-num": "2",
    }
    if primary_key and random.random() < 0.5:
        options["changelog-producer"] = random.choice(["input", "lookup"])
    if primary_key and "changelog-producer" not in options and random.random() < 0.4:
        options["deletion-vectors.enabled"] = "true"
    if random.random() < 0.3:
        options["tag.create-success-file"] = "true"
    auto, stated = _draw_auto(random), random.random() < 0.5
    if stated:
        options["write-only"] = "true"
    return Kind(
        primary_key=primary_key,
        partitions=("a", "b", "c")[: random.randint(1, 3)],
        options=options,
        auto=auto,
        stated=stated,
        branches=random.random() < 0.35,
    )


def _draw_auto(random: Random) -> Mapping[str, str]:
    mode = random.choice(["watermark", "watermark", "process-time", "process-time", "batch", "none"])
    if mode == "none":
        return {}
    options = {"tag.automatic-creation": mode}
    if random.random() < 0.5:
        options["tag.num-retained-max"] = str(random.randint(1, 4))
    if random.random() < 0.4:
        options["tag.default-time-retained"] = random.choice(["30 d", "1 h", "500 ms"])
        if random.random() < 0.6:
            options["tag.time-expire-enabled"] = "true"
    if random.random() < 0.8:
        options["sink.watermark-time-zone" if mode == "watermark" else "sink.process-time-zone"] = random.choice(ZONES)
    if mode == "batch":
        if random.random() < 0.3:
            options["tag.batch.customized-name"] = "nightly"
        return options
    if random.random() < 0.3:
        options["tag.creation-period-duration"] = random.choice(["15 min", "40 min", "7 h"])
    else:
        options["tag.creation-period"] = random.choice(["hourly", "hourly", "two-hours", "daily"])
    if random.random() < 0.4:
        options["tag.creation-delay"] = random.choice(["10 s", "5 min"])
    if random.random() < 0.3:
        options["tag.period-formatter"] = random.choice(["without_dashes", "without_dashes_and_spaces"])
    if random.random() < 0.35:
        options["tag.automatic-completion"] = "true"
    return options


def draw_prologue(random: Random, kind: Kind, clock: Clock) -> list[Step]:
    """Draw a table of old tags: nearly every commit has one, and nearly every snapshot is gone."""
    steps = []
    for number in range(1, random.randint(6, 11)):
        steps.append(_commit(random, kind, clock, "main", begins=number < 3))
        for _ in range(random.choice([0, 1, 1, 1, 2])):
            ttl = {"ttl": random.choice(["P1D", "PT1H"])} if random.random() < 0.5 else {}
            name = f"old {number} {clock.number()}"
            steps.append(Step("tag", {"op": "create", "name": name, **ttl}))
    keep = random.randint(1, 2)
    words = {"retain_max": keep, "retain_min": keep, "time_retain_s": 0}
    return [*steps, Step("expire", words, command="expire")]


def draw_step(random: Random, kind: Kind, clock: Clock, location: Path) -> Step | None:
    """Draw what happens next; `None` when there is nothing that it could happen to."""
    branch = random.choice(_branches(location)) if random.random() < 0.25 else "main"
    state = state_of(location, branch)
    draw = random.random()
    if len(state.snapshots) < 3 or draw < 0.3:
        return _commit(random, kind, clock, branch, begins=not state.snapshots)
    if draw < 0.46:
        return _create(random, clock, state, branch)
    if draw < 0.52:
        return _replace(random, clock, state, branch)
    if draw < 0.57:
        return _rename(random, clock, state, branch)
    if draw < 0.67:
        return _delete(random, state, branch)
    if draw < 0.75:
        return _expire_tags(random, branch)
    if draw < 0.89:
        return _auto(random, kind, state, branch)
    if draw < 0.91:
        return _rollback(random, state, branch)
    if draw < 0.97 or not kind.branches:
        return _expire_snapshots(random, state, branch)
    copyable = sorted(name for name, document in state.tags.items() if document["id"] in state.snapshots)
    source = {"tag": random.choice(copyable)} if copyable else {}
    return Step("branch", {"op": "create", "name": f"b{clock.number()}", **source}, command="branch")


def _branches(location: Path) -> list[str]:
    names = [path.name.removeprefix("branch-") for path in sorted((location / "branch").glob("branch-*"))]
    return ["main", *names]


def _commit(random: Random, kind: Kind, clock: Clock, branch: str, *, begins: bool) -> Step:
    on_branch = {} if branch == "main" else {"branch": branch}
    draw = 1.0 if begins else random.random()
    if draw < 0.12:
        return Step("compact", on_branch, command="compact")
    if draw < 0.18:
        return Step("statistics", on_branch, command="statistics")
    parts = [[part] for part in kind.partitions]
    arguments = {"n": random.randint(1, 6), "seed": random.randrange(1 << 20), "keys": [0, 12], "parts": parts}
    if draw < 0.4:
        part = random.choice(kind.partitions)
        arguments |= {"overwrite": {"p": part}, "parts": [[part]]}
    elif kind.mode == "watermark" and branch == "main":
        if clock.watermark == 0:
            clock.watermark = random.choice(_FIRST_WATERMARKS)
        minutes = random.choice([0, 1, 20, 59, 60, 61, 90, 150, 24 * 60])
        clock.watermark += minutes * 60_000 + random.choice([0, 0, 1, -1, 9_000, 10_000])
        arguments["watermark"] = clock.watermark if random.random() < 0.9 else LEAST_LONG
    if random.random() < 0.1:
        arguments["properties"] = {"job": "nightly", "ü": '"quoted" / \\ \u2028'}
        arguments.pop("overwrite", None)
    return Step("write", {**arguments, **on_branch}, command="write")


def _create(random: Random, clock: Clock, state: State, branch: str) -> Step:
    name = random.choice(NAMES).format(clock.number() % 28 + 1)
    if state.tags and random.random() < 0.06:
        name = random.choice(sorted(state.tags))
    theirs, ours = _source(random, state)
    return _tag("create", branch, {"name": name, **theirs}, "create-tag", {"tag": name, **ours})


def _replace(random: Random, clock: Clock, state: State, branch: str) -> Step | None:
    name = random.choice([*sorted(state.tags), f"nobody's {clock.number()}"])
    theirs, ours = _source(random, state, procedures=False)
    return _tag("replace", branch, {"name": name, **theirs}, "replace-tag", {"tag": name, **ours})


def _source(random: Random, state: State, *, procedures: bool = True) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draw the snapshot to tag and how long the tag lives, in the words of both."""
    theirs: dict[str, Any] = {}
    draw = random.random()
    documents = list(state.tags.values())
    if draw < 0.35:
        theirs["snapshot"] = random.choice(state.snapshots)
    elif draw < 0.5 and documents:
        theirs["snapshot"] = random.choice(documents)["id"]  # perhaps of a snapshot that is gone
    elif draw < 0.55:
        theirs["snapshot"] = state.snapshots[-1] + 5
    elif draw < 0.68 and documents and procedures:
        theirs["timestamp_ms"] = random.choice(documents)["timeMillis"] + random.choice([-1, 0, 1])
    elif draw < 0.78 and procedures:
        known = [document["watermark"] for document in documents if document.get("watermark", -1) > 0]
        if known:
            theirs["watermark"] = random.choice(known) + random.choice([-1, 0, 1])
    ours = {"timestamp" if name == "timestamp_ms" else name: value for name, value in theirs.items()}
    if random.random() < 0.5:
        theirs["ttl"], ours["time_retained"] = random.choice(
            [("P1D", "1 d"), ("PT0.5S", "500 ms"), ("PT1H", "1 h"), ("PT90M", "90 min"), ("P365D", "365 d")]
        )
    return theirs, ours


def _rename(random: Random, clock: Clock, state: State, branch: str) -> Step:
    name = random.choice([*sorted(state.tags), f"nobody's {clock.number()}"])
    target = random.choice(NAMES).format(clock.number() % 28 + 1)
    if state.tags and random.random() < 0.15:
        target = random.choice(sorted(state.tags))
    theirs = {"name": name, "to": target}
    return _tag("rename", branch, theirs, "rename-tag", {"tag": name, "target_tag": target})


def _delete(random: Random, state: State, branch: str) -> Step | None:
    if not state.tags:
        return None
    gone = [name for name, document in state.tags.items() if document["id"] not in state.snapshots]
    pool = gone if gone and random.random() < 0.7 else sorted(state.tags)
    names = random.sample(pool, min(len(pool), random.choice([1, 1, 2, 4])))
    if random.random() < 0.05:
        names.append("nobody's")
    return _tag("delete", branch, {"name": names}, "delete-tag", {"tag": names})


def _expire_tags(random: Random, branch: str) -> Step:
    older = random.choice([-1, 0, 5]) * TICK_MS if random.random() < 0.35 else None
    theirs: dict[str, Any] = {} if older is None else {"older_than_ms": int(time.time() * 1000) - older}
    ours = {} if older is None else {"older_than": theirs["older_than_ms"]}
    return _tag("expire_tags", branch, theirs, "expire-tags", {**ours, "time_zone": "UTC"}, command="expire_tags")


def _auto(random: Random, kind: Kind, state: State, branch: str) -> Step | None:
    if not kind.auto or branch != "main":
        return None
    if kind.mode == "batch" and state.newest["commitKind"] not in ("APPEND", "OVERWRITE"):
        return None  # a batch job asks for the tag of its own commit
    options = {} if kind.stated else {"options": dict(kind.auto)}
    theirs = {"op": "batch" if kind.mode == "batch" else "auto", **options}
    ours = {**options, "time_zone": "UTC"}
    return Step(kind.mode, theirs, ours, "tag-schedule")


def _expire_snapshots(random: Random, state: State, branch: str) -> Step:
    keep = random.randint(1, max(1, min(4, len(state.snapshots) - 1)))
    words = {"retain_max": keep, "retain_min": keep}
    now_ms = int(time.time() * 1000)
    theirs = {**words, "older_than_ms": now_ms}
    return _tag(
        "expire", branch, theirs, "expire-snapshots", {**words, "older_than": now_ms}, command="expire", zoned=False
    )


def _rollback(random: Random, state: State, branch: str) -> Step:
    """Go back to a snapshot, or to a tag; the engine does that."""
    target: dict[str, Any] = {"snapshot": random.choice(state.snapshots)}
    if state.tags and random.random() < 0.5:
        target = {"tag": random.choice(sorted(state.tags))}
    return Step("rollback", target if branch == "main" else {**target, "branch": branch}, command="rollback")


def _tag(
    name: str,
    branch: str,
    theirs: dict[str, Any],
    operation: str,
    ours: dict[str, Any],
    *,
    command: str = "tag",
    zoned: bool = True,
) -> Step:
    if command == "tag":
        theirs = {"op": name, **theirs}
    if branch != "main":
        theirs = {**theirs, "branch": branch}
    if zoned and operation in ("create-tag", "replace-tag"):
        ours = {**ours, "time_zone": "UTC"}
    return Step(name, theirs, ours, operation, command)


# ---------------------------------------------------------------------------------------------------------------- time

_CREATED = re.compile(r'("tagCreateTime"\s*:\s*)\[[^]]*\]')


def age_tags(location: Path, branch: str, random: Random) -> None:
    """Let the lives of tags end half a tick ago, or half a tick from now: the second a run takes decides nothing."""
    now = datetime.fromtimestamp(int(time.time()), UTC).replace(tzinfo=None)  # as the engine's JVM says it
    for path in sorted((branch_root(location, branch) / "tag").glob("tag-*")):
        if not path.is_file():
            continue
        text = path.read_text()
        document = json.loads(text)
        if "tagTimeRetained" not in document or random.random() < 0.4:
            continue
        life = timedelta(seconds=float(document["tagTimeRetained"]))
        begin = now - life + timedelta(milliseconds=random.choice([-1, 1]) * TICK_MS // 2)
        path.write_text(with_time(text, begin))


def with_time(text: str, moment: datetime) -> str:
    """Return the document of a tag as if it had been made at another time."""
    return _CREATED.sub(rf"\g<1>{created_text(moment)}", text)


def created_text(moment: datetime) -> str:
    """Write a moment down as the engine does."""
    parts = [moment.year, moment.month, moment.day, moment.hour, moment.minute]
    if moment.second or moment.microsecond:
        parts.append(moment.second)
    if moment.microsecond:
        parts.append(moment.microsecond * 1000)
    return f"[ {', '.join(map(str, parts))} ]"


def without_time(text: str) -> str:
    """Return the document of a tag but for the time of its creation."""
    return _CREATED.sub(r"\g<1>[ ]", text)


def date_commits(location: Path, random: Random) -> None:
    """Date all commits anew, the newest two seconds ago: so nothing comes due by the clock alone."""
    retime(location, int(time.time() * 1000) + TICK_MS // 2 - 2000, seed=random.randrange(1 << 20), skew=False)
