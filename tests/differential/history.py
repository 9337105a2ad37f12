"""Random tables: what writers may do to one between its creation and an expiry, drawn from a seed.

A *history* is a list of *steps*; each is one command of the engine's driver, or one of the few that work on the files
themselves (`retime`, `hint`: see `writing.py`). A step may name its snapshot, tag or branch by a *pick*, a place
between the first and the last one that exist when the step's turn comes, since only the engine knows how many snapshots
a commit makes.
The same seed and space give the same history on every machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.differential.engine import RETAIN_EVERYTHING


@dataclass(frozen=True, slots=True)
class Space:
    """What a history may contain."""

    name: str = "base"
    append_tables: bool = True
    primary_key_tables: bool = True
    dynamic_buckets: bool = True
    data_formats: tuple[str, ...] = ("parquet", "orc", "avro")
    manifest_formats: tuple[str, ...] = ("avro",)
    manifest_compressions: tuple[str, ...] = ("zstd", "zstd", "deflate", "null")
    odd_partition_values: bool = True
    file_indexes: bool = True
    tags: bool = True
    schema_changes: bool = True
    statistics: bool = True
    expiry_in_between: bool = True
    clock_skew: bool = True
    changelog_producers: bool = False
    deletion_vectors: bool = False
    branches: bool = False
    consumers: bool = False
    rollbacks: bool = False
    external_paths: bool = False
    data_directories: bool = False
    decoupled_changelogs: bool = False
    wrong_hints: bool = False
    commits: tuple[int, int] = (4, 25)


BASE = Space()
FULL = Space(
    name="full",
    changelog_producers=True,
    deletion_vectors=True,
    branches=True,
    consumers=True,
    rollbacks=True,
    external_paths=True,
    data_directories=True,
    decoupled_changelogs=True,
    wrong_hints=True,
)
"""Everything that an expiry may meet. Where changelogs outlive snapshots, it is the pass after a commit or the expiry
of changelogs: the engine's procedure for snapshots does not know of them, and makes holes."""


@dataclass(frozen=True, slots=True)
class Pick:
    """One of the roots that exist when a step is applied: `at` 0.0 is the first, just below 1.0 the last."""

    kind: str
    at: float


@dataclass(frozen=True, slots=True)
class Step:
    """One command and its arguments; a `Pick` may stand for a value."""

    command: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.command} {json.dumps(self.arguments, default=str)}"


@dataclass(frozen=True, slots=True)
class ExpireArguments:
    """The arguments of the expiry under test; `None` leaves the choice to the table's options."""

    operation: str = "expire-snapshots"
    """Or `expire-changelogs`; or `maintain`, which goes by the table's options and takes no arguments."""
    retain_max: int | None = None
    retain_min: int | None = None
    older_than_ticks: int | None = None
    """The cutoff in ticks before the anchor; 0 is the anchor itself, which every commit precedes."""
    max_deletes: int | None = None
    delete_all: bool = False
    """Every changelog."""


@dataclass(frozen=True, slots=True)
class History:
    """Steps that make a table, and the expiry to try on it."""

    space: str
    """The name of what it was drawn from."""
    seed: int
    steps: tuple[Step, ...]
    expire: ExpireArguments


@dataclass(frozen=True, slots=True)
class _Shape:
    """What the writes of one history have in common."""

    primary_key: bool
    bucket: int
    partition_keys: tuple[tuple[str, str], ...]
    partitions: tuple[tuple[str | None, ...], ...]
    vectors: bool
    full_compaction: bool
    decoupled: bool
    """Changelogs outlive snapshots."""
    moves: bool
    """Snapshots become changelogs in between. The engine's own expiry forgets what only a branch needs, so without
    any."""

    def spec(self, partition: Sequence[str | None]) -> dict[str, str]:
        names = (name for name, _ in self.partition_keys)
        return {name: "__DEFAULT_PARTITION__" if v is None else v for name, v in zip(names, partition, strict=True)}


PLAIN_VALUES = ("2024-01-01", "2024-01-02", "2024-01-03", "eu")
ODD_VALUES = ("a b", "x=y", "k/v", "50%", "über", "UPPER", "'quoted'", "..", "a:b", "#1", "日本", "plus+and&")


def make_history(seed: int, space: Space = BASE) -> History:
    """Draw a history from `space`."""
    random = Random(seed)
    shape, options = _shape(random, space)
    columns = [*map(list, shape.partition_keys), ["id", "INT"], ["v", "STRING"]]
    create = Step(
        "create",
        {
            "columns": columns,
            "primary_keys": [*(name for name, _ in shape.partition_keys), "id"] if shape.primary_key else [],
            "partition_keys": [name for name, _ in shape.partition_keys],
            "options": {**RETAIN_EVERYTHING, **options},
        },
    )
    commits = random.randint(*space.commits)
    steps = [create, _write(random, shape)]
    names = iter(range(1000))
    for _ in range(commits - 1):
        steps += _commit(random, shape, space, names)
        steps += _root_changes(random, shape, space, names)
    steps.append(Step("retime", {"seed": random.randrange(1 << 20), "skew": space.clock_skew}))
    steps.append(_policy(random) if not shape.decoupled else _decoupled_policy(random))
    if space.wrong_hints and random.random() < 0.3:
        steps.append(Step("hint", {"name": "EARLIEST", "id": random.choice([None, Pick("snapshot", random.random())])}))
    if space.wrong_hints and random.random() < 0.2:
        # Never too high: then the engine deletes data of snapshots that it keeps.
        steps.append(Step("hint", {"name": "LATEST", "id": random.choice([None, Pick("snapshot", 0.99)])}))
    arguments = _changelog_arguments(random, commits) if shape.decoupled else _expire_arguments(random, commits)
    return History(space.name, seed, tuple(steps), arguments)


def _shape(random: Random, space: Space) -> tuple[_Shape, dict[str, str]]:
    kinds = ["append"] * space.append_tables + ["primary key"] * space.primary_key_tables
    primary_key = random.choice(kinds) == "primary key"
    partition_keys = random.choice(
        [(), (("p", "STRING"),), (("p", "STRING"),), (("q", "INT"),), (("p", "STRING"), ("q", "INT"))]
    )
    pools: dict[str, list[str | None]] = {"STRING": [*PLAIN_VALUES], "INT": ["1", "2", "-7", "20240101"]}
    if space.odd_partition_values:
        pools["STRING"] += ODD_VALUES
        if not primary_key:
            pools["STRING"].append(None)
            pools["INT"].append(None)
    partitions = {tuple(random.choice(pools[kind]) for _, kind in partition_keys) for _ in range(random.randint(1, 4))}
    dynamic = primary_key and space.dynamic_buckets and random.random() < 0.3
    bucket = -1 if dynamic or (not primary_key and random.random() < 0.5) else random.randint(1, 3)
    options = {
        "bucket": str(bucket),
        "file.format": random.choice(space.data_formats),
        "manifest.format": random.choice(space.manifest_formats),
        "manifest.compression": random.choice(space.manifest_compressions),
        "manifest.merge-min-count": random.choice(["2", "3", "5", "30"]),
        "manifest.target-file-size": random.choice(["1 kb", "8 mb"]),
        "manifest.full-compaction-threshold-size": random.choice(["1 kb", "16 mb"]),
        "num-sorted-run.compaction-trigger": random.choice(["2", "3", "5"]),
        "compaction.min.file-num": random.choice(["2", "3"]),
        "write-only": random.choice(["true", "false"]),
    }
    if dynamic:
        options["dynamic-bucket.target-row-num"] = random.choice(["10", "40"])
    if not primary_key and bucket > 0:
        options["bucket-key"] = "id"
    if space.file_indexes and random.random() < 0.3:
        # at this threshold an index lies in a file beside the data file, not in the manifest
        options |= {"file-index.bloom-filter.columns": "id", "file-index.in-manifest-threshold": "1 b"}
    producer = "none"
    if space.changelog_producers and primary_key and random.random() < 0.6:
        producer = random.choice(["input", "lookup", "full-compaction"])
        options["changelog-producer"] = producer
    vectors = space.deletion_vectors and (primary_key or bucket == -1) and random.random() < 0.4
    if vectors and producer not in ("full-compaction", "input"):
        options["deletion-vectors.enabled"] = "true"
    if primary_key and (producer == "lookup" or "deletion-vectors.enabled" in options):
        # the engine names a local file of its lookup after the partition, slash and all, and fails
        partitions = {tuple(value and value.replace("/", "-") for value in partition) for partition in partitions}
    if space.external_paths and random.random() < 0.4:
        options |= {"data-file.external-paths": "{external}", "data-file.external-paths.strategy": "round-robin"}
    if space.data_directories and random.random() < 0.2:
        options["data-file.path-directory"] = "data"
    decoupled = space.decoupled_changelogs and random.random() < 0.5
    if decoupled:
        options |= {"changelog.num-retained.min": "1", "changelog.num-retained.max": "200000"}
        options["changelog.time-retained"] = "20000 d"
    shape = _Shape(
        primary_key,
        bucket,
        partition_keys,
        tuple(sorted(partitions, key=repr)),
        vectors="deletion-vectors.enabled" in options and not primary_key,
        full_compaction=producer == "full-compaction",
        decoupled=decoupled,
        moves=decoupled and random.random() < 0.7,
    )
    return shape, options


def _write(random: Random, shape: _Shape, **more: Any) -> Step:
    arguments: dict[str, Any] = {"n": random.randint(1, 12), "seed": random.randrange(1 << 20), "keys": [0, 40], **more}
    if shape.partition_keys and "parts" not in arguments:
        arguments["parts"] = random.sample(shape.partitions, random.randint(1, len(shape.partitions)))
    if shape.primary_key and random.random() < 0.4:
        arguments["deletes"] = 0.3
    if random.random() < 0.15 and not shape.primary_key and shape.bucket == -1:
        arguments["rounds"] = 2  # two writers of one commit; with buckets they would compact the same files
    if (shape.full_compaction or random.random() < 0.1) and shape.bucket != -1:
        arguments["compact"] = True
    return Step("write", arguments)


def _overwrite(random: Random, shape: _Shape) -> Step:
    if not shape.partition_keys:
        return _write(random, shape, overwrite={})
    if random.random() < 0.3:
        return _write(random, shape, overwrite={}, options={"dynamic-partition-overwrite": "false"})
    partition = random.choice(shape.partitions)
    if random.random() < 0.5:
        return _write(random, shape, overwrite={}, parts=[partition])
    return _write(random, shape, overwrite=shape.spec(partition), parts=[partition])


def _commit(random: Random, shape: _Shape, space: Space, names: Iterator[int]) -> list[Step]:
    """Draw what happens to the data next."""
    draw = random.random()
    if draw < 0.13:
        return [_overwrite(random, shape)]
    if draw < 0.19 and shape.partition_keys:
        chosen = random.sample(shape.partitions, random.randint(1, min(2, len(shape.partitions))))
        specs = [shape.spec(partition) for partition in chosen]
        if len(shape.partition_keys) == 2 and random.random() < 0.3:
            specs = [{"p": specs[0]["p"]}]
        return [Step("drop_partitions", {"specs": specs})]
    if draw < 0.33:
        return [Step("compact")]
    if draw < 0.37 and space.schema_changes:
        column = [f"added_{next(names)}", random.choice(["STRING", "BIGINT", "DOUBLE"])]
        return [Step("alter", {"add_columns": [column]}), _write(random, shape)]
    if draw < 0.41 and space.statistics:
        return [Step("statistics")]
    if draw < 0.52 and shape.vectors:
        return [Step("dv_delete", {"n": random.randint(1, 3)})]
    return [_write(random, shape)]


def _root_changes(random: Random, shape: _Shape, space: Space, names: Iterator[int]) -> list[Step]:
    """Draw what happens to tags, branches and readers between two commits; mostly nothing."""
    steps: list[Step] = []
    if space.tags:
        steps += _tag_changes(random, names)
    # The engine's own expiry forgets what only a branch needs, so these two do not mix.
    if space.expiry_in_between and not space.branches and not shape.decoupled and random.random() < 0.03:
        keep, limit = random.randint(1, 5), random.choice([1, 3, 50])
        steps.append(Step("expire", {"retain_max": keep, "retain_min": keep, "time_retain_s": 0, "max_deletes": limit}))
    if shape.moves and random.random() < 0.2:
        least = random.randint(1, 5)
        options = {"snapshot.num-retained.min": str(least), "snapshot.num-retained.max": str(least)}
        if random.random() < 0.3:
            options["changelog.num-retained.max"] = str(least + random.randint(1, 5))
        steps.append(Step("expire", {"via": "commit", "options": options}))
    if space.branches and not shape.moves:
        steps += _branch_changes(random, shape, names)
    if space.consumers and random.random() < 0.04:
        steps.append(Step("consumer", {"id": f"reader-{next(names)}", "next": Pick("snapshot", random.random())}))
    if space.rollbacks and random.random() < 0.03:
        target = random.choice(["snapshot", "tag"])
        steps.append(Step("rollback", {target: Pick(target, random.random())}))
    return steps


def _tag_changes(random: Random, names: Iterator[int]) -> list[Step]:
    steps: list[Step] = []
    if random.random() < 0.2:
        name, snapshot = f"t{next(names)}", Pick("snapshot", random.random())
        steps.append(Step("tag", {"op": "create", "name": name, "snapshot": snapshot}))
    if random.random() < 0.1:
        tag = Pick("tag", random.random())
        changes: list[dict[str, Any]] = [
            {"op": "delete", "name": tag},
            {"op": "rename", "name": tag, "to": random.choice(["renamed ", "r-", "ü"]) + str(next(names))},
            {"op": "replace", "name": tag, "snapshot": Pick("snapshot", random.random())},
        ]
        steps.append(Step("tag", random.choice(changes)))
    return steps


def _branch_changes(random: Random, shape: _Shape, names: Iterator[int]) -> list[Step]:
    steps: list[Step] = []
    if random.random() < 0.1:
        origin = {"tag": Pick("tag", random.random())} if random.random() < 0.8 else {}
        steps.append(Step("branch", {"op": "create", "name": f"b{next(names)}", **origin}))
    if random.random() < 0.2:
        branch = Pick("branch with snapshots", random.random())
        tag = {"branch": branch, "op": "create", "name": f"t{next(names)}"}
        changes = [
            _write(random, shape, branch=Pick("branch", random.random())),
            Step("compact", {"branch": branch}),
            Step("tag", {**tag, "snapshot": Pick("snapshot", random.random())}),
            Step("branch", {"op": "delete", "name": branch}),
            Step("branch", {"op": "fast_forward", "name": branch}),
        ]
        steps.append(random.choice(changes))
    return steps


def _policy(random: Random) -> Step:
    """Let the table state its own retention, now that no writer comes any more that would apply it."""
    options: dict[str, str] = {}
    least = random.randint(1, 6)
    if random.random() < 0.6:
        options["snapshot.num-retained.min"] = str(least)
    if random.random() < 0.4:
        options["snapshot.num-retained.max"] = str(max(least, 10 if not options else least) + random.randint(0, 6))
    if random.random() < 0.5:
        options["snapshot.time-retained"] = random.choice(["10 min", "1 h", "3 h", "1 d"])
    if random.random() < 0.2:
        options["snapshot.expire.limit"] = str(random.randint(1, 10))
    return Step("alter", {"unset": list(RETAIN_EVERYTHING), "set": options})


def _decoupled_policy(random: Random) -> Step:
    """Let the table state retention of both kinds; in some the changelogs do not outlive the snapshots any more."""
    least, minutes = random.randint(1, 3), random.choice([10, 30, 60, 240])
    most = least + random.randint(0, 4)
    options = {"snapshot.num-retained.min": str(least), "snapshot.time-retained": f"{minutes} min"}
    if random.random() < 0.6:
        options["snapshot.num-retained.max"] = str(most)
    if random.random() < 0.2:
        options["snapshot.expire.limit"] = str(random.randint(1, 10))
    if random.random() < 0.85:
        longer = {
            "changelog.num-retained.min": str(least + random.randint(0, most - least)),
            "changelog.num-retained.max": str(most + random.randint(1, 5)),
            "changelog.time-retained": f"{minutes + random.choice([0, 10, 60, 6000])} min",
        }
        options |= {key: value for key, value in longer.items() if random.random() < 0.7}
    if random.random() < 0.4:
        options["consumer.changelog-only"] = "true"
    unset = [*RETAIN_EVERYTHING, *(key.replace("snapshot.", "changelog.") for key in RETAIN_EVERYTHING)]
    return Step("alter", {"unset": unset, "set": options})


def _changelog_arguments(random: Random, commits: int) -> ExpireArguments:
    if random.random() < 0.7:
        return ExpireArguments("maintain")
    if random.random() < 0.2:
        return ExpireArguments("expire-changelogs", delete_all=True)
    most = random.choice([None, random.randint(1, 5), random.randint(1, commits)])
    return ExpireArguments(
        "expire-changelogs",
        retain_max=most,
        retain_min=random.choice([None, None, random.randint(1, most or 6)]),
        older_than_ticks=random.choice([None, 0, random.randint(0, 2 * commits)]),
        max_deletes=random.choice([None, None, random.randint(1, commits)]),
    )


def _expire_arguments(random: Random, commits: int) -> ExpireArguments:
    most = random.choice([None, None, random.randint(1, 5), random.randint(1, commits)])
    least = None if random.random() < 0.15 else random.randint(1, min(most or 6, 8))
    if least is None and most is not None:
        least = most  # else the table's own minimum is often above it, and the engine refuses
    if random.random() < 0.03:
        most, least = 2, 3
    return ExpireArguments(
        retain_max=most,
        retain_min=least,
        older_than_ticks=random.choice([None, 0, 0, random.randint(0, 2 * commits), random.randint(0, 2 * commits)]),
        max_deletes=random.choice([None, None, None, random.randint(1, commits)]),
    )
