"""What is judged: partitions dropped, truncated or expired, or manifests compacted; and what must be gone after it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from tests.differential.commit_tables import DEFAULT_NAME, Kind, Partition
from tests.differential.engine import Engine, EngineError
from tests.differential.ours import REFUSED, Answer, operate

COMPACTION = "compact-manifest"
OLD_HOURS = 6
"""What `update-time` takes as old; writers whose clock is late write files of twelve hours ago."""


@dataclass(frozen=True, slots=True)
class Act:
    """One operation, in words for both."""

    name: str
    """Of Lakesweep's operation."""
    specs: tuple[Mapping[str, str | None], ...] = ()
    expiry: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the engine's `expire_partitions`."""

    def __str__(self) -> str:
        return f"{self.name} {json.dumps(self.specs or self.expiry, ensure_ascii=False)}"

    @property
    def by_update(self) -> bool:
        """Tell whether it goes by the creation time of files."""
        return self.expiry.get("strategy") == "update-time"


Maintainer = Callable[[Path, Kind, Act, Path], Answer]
"""Does an act to the table at the first path, and keeps its own notes below the second one."""


@dataclass(frozen=True, slots=True)
class State:
    """The newest snapshot, as the engine lists it."""

    snapshot: int | None
    files: frozenset[tuple[Partition, int, int, str, int]]
    """Partition, bucket, level, name, rows."""
    index: frozenset[tuple[Partition, int, str, str, int]]
    """Partition, bucket, type, name, rows."""
    newest_ms: Mapping[Partition, int]
    """Newest creation time of any entry of a partition that has files."""

    @property
    def partitions(self) -> frozenset[Partition]:
        """Return the partitions that have files."""
        return frozenset(file[0] for file in self.files)


def state_of(listed: Mapping[str, Any]) -> State:
    """Read what the engine's `live` or `judge` said."""
    return State(
        listed["snapshot"],
        frozenset((tuple(partition), *rest) for partition, *rest in listed["files"]),
        frozenset((tuple(partition), *rest) for partition, *rest in listed["index"]),
        {tuple(partition): newest for partition, files, _, newest in listed["partitions"] if files > 0},
    )


def draw_act(random: Random, kind: Kind, partitions: Iterable[Partition]) -> Act:
    """Draw what is done to a table that holds these partitions."""
    draw = random.random()
    if not kind.keys or draw < 0.08:
        return Act("truncate")
    if kind.clock is not None and draw < 0.6:
        return _draw_expiry(random, kind)
    there = sorted(partitions, key=repr)
    specs: dict[str, Mapping[str, str | None]] = {}
    for _ in range(random.choice([1, 1, 2, 3])):
        partition = random.choice(there if there and random.random() < 0.9 else kind.partitions)
        spec = dict(zip(kind.names, partition, strict=True))
        if random.random() < 0.35:
            names = random.sample(kind.names, random.randint(1, len(kind.names)))
            spec = {name: value for name, value in spec.items() if name in names}
        specs[repr(spec)] = spec
    return Act("drop-partition", tuple(specs.values()))


def draw_compaction(random: Random, kind: Kind, partitions: Iterable[Partition]) -> Act:
    """Draw a compaction of manifests mostly, so that the others come after one."""
    return Act(COMPACTION) if random.random() < 0.7 else draw_act(random, kind, partitions)


def _draw_expiry(random: Random, kind: Kind) -> Act:
    assert kind.clock is not None
    if not kind.clock.times or random.random() < 0.35:
        words: dict[str, Any] = {"strategy": "update-time", "expiration_time": f"{OLD_HOURS} h"}
    else:
        words = {"strategy": "values-time", "expiration_time": random.choice(["1 d", "3 d", "30 h", "30 d"])}
        words |= {"formatter": kind.clock.formatter, "pattern": kind.clock.pattern}
    if random.random() < 0.3:
        words["max_expires"] = random.choice([1, 2, 3])
    return Act("expire-partitions", expiry={name: value for name, value in words.items() if value is not None})


def by_engine(engine: Engine, table: str, kind: Kind, act: Act) -> None:
    """Let the engine do it.

    Raises:
        EngineError: It would not.
    """
    match act.name:
        case "truncate":
            engine("truncate", **kind.at(table))
        case "drop-partition":
            name = kind.options.get("partition.default-name", DEFAULT_NAME)
            specs = [{key: name if value is None else value for key, value in spec.items()} for spec in act.specs]
            engine("drop_partitions", **kind.at(table), specs=specs)
        case "compact-manifest":
            engine("compact_manifests", **kind.at(table))
        case _:
            engine("expire_partitions", **kind.at(table), **act.expiry)


def engine_as_maintainer(engine: Engine) -> Maintainer:
    """Let the engine stand where Lakesweep does: what the judges themselves are tested with."""

    def do(location: Path, kind: Kind, act: Act, control: Path) -> Answer:
        try:
            by_engine(engine, f"d.{location.name}", kind, act)
        except EngineError as error:
            return Answer(REFUSED[-1], {}, error.error)
        return Answer(0, {}, "")

    return do


def by_ours(location: Path, kind: Kind, act: Act, control: Path) -> Answer:
    """Let Lakesweep do it."""
    words: dict[str, Any] = {"catalog_type": "filesystem"}
    if act.name == "drop-partition":
        words["partition"] = [json.dumps(spec) for spec in act.specs]
    if act.name == "expire-partitions":
        words["time_zone"] = "UTC"
        names = {"strategy": "expire_strategy", "formatter": "timestamp_formatter", "pattern": "timestamp_pattern"}
        words |= {names.get(name, name): value for name, value in act.expiry.items()}
    return operate(location, act.name, words, branch=kind.branch, control=control)


def gone(kind: Kind, act: Act, before: State) -> frozenset[Partition]:
    """Return the partitions that must be gone, by rules that are independent of both.

    A partition may have index files and nothing else; these go by its values too, but are no reason for an expiry.
    """
    there = before.partitions | {file[0] for file in before.index}
    if act.name == COMPACTION:
        return frozenset()
    if act.name == "truncate":
        return there
    if act.name == "drop-partition":
        return frozenset(partition for partition in there if _is_meant(kind, act, partition))
    return frozenset(_limited(kind, act, _expired(kind, act, before)))


def due(kind: Kind, act: Act, before: State) -> frozenset[Partition]:
    """Return the partitions that are expired, whether or not a limit lets them be."""
    return frozenset(_expired(kind, act, before))


def _is_meant(kind: Kind, act: Act, partition: Partition) -> bool:
    values = dict(zip(kind.names, partition, strict=True))
    null = kind.options.get("partition.default-name", DEFAULT_NAME)
    meant = ({name: None if value == null else value for name, value in spec.items()} for spec in act.specs)
    return any(all(values[name] == value for name, value in spec.items()) for spec in meant)


def _expired(kind: Kind, act: Act, before: State) -> list[Partition]:
    if act.by_update:
        cutoff_ms = time.time() * 1000 - OLD_HOURS * 3_600_000
        return [partition for partition in before.partitions if before.newest_ms[partition] < cutoff_ms]
    assert kind.clock is not None
    amount, _, unit = str(act.expiry["expiration_time"]).partition(" ")
    age = timedelta(days=int(amount)) if unit == "d" else timedelta(hours=int(amount))
    cutoff = datetime.now(UTC).replace(tzinfo=None) - age
    times = kind.clock.times
    return [partition for partition in before.partitions if partition in times and times[partition] < cutoff]


def _limited(kind: Kind, act: Act, expired: list[Partition]) -> list[Partition]:
    """Take the first ones, in the engine's order: texts joined by commas, by their UTF-16 units."""
    null = kind.options.get("partition.default-name", DEFAULT_NAME)

    def text(value: str | None, type_: str) -> str:
        if value is None:
            return null
        return str((date.fromisoformat(value) - date(1970, 1, 1)).days) if type_ == "DATE" else value

    def place(partition: Partition) -> bytes:
        types = (type_ for _, type_ in kind.keys)
        return ",".join(map(text, partition, types)).encode("utf-16-be")

    return sorted(expired, key=place)[: act.expiry.get("max_expires", 100)]
