"""The rules of automatic tags beside the engine: random commits, options and zones; and what clocks show where.

A table of which only the documents matter: each case writes snapshots with times and watermarks of its own, and lets
the engine walk them in a few runs. `LAKESWEEP_TAG_HISTORIES` times 30 cases.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from tests.differential.engine import RETAIN_EVERYTHING, Engine, EngineError
from tests.differential.tag_steps import LEAST_LONG, ZONES

pytestmark = pytest.mark.differential

COUNT = 30 * int(os.environ.get("LAKESWEEP_TAG_HISTORIES") or 10)
FIRST_SEED = int(os.environ.get("LAKESWEEP_RULES_SEED") or 20260101)
TABLE = "rules.t"

TURNS = (
    datetime(2024, 3, 10, 7, tzinfo=UTC),  # New York's clocks go forward
    datetime(2024, 11, 3, 6, tzinfo=UTC),  # and back
    datetime(2024, 4, 6, 15, tzinfo=UTC),  # Lord Howe's go back by half an hour
    datetime(2024, 10, 5, 15, 30, tzinfo=UTC),  # and forward
    datetime(2024, 2, 29, tzinfo=UTC),
    datetime(2023, 12, 31, 20, tzinfo=UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
)


@dataclass(frozen=True, slots=True)
class Documents:
    """The folder of a table whose snapshots are written by the test."""

    engine: Engine
    location: Path
    body: str
    """Of a snapshot that the engine wrote."""

    def write(self, snapshot_id: int, time_ms: int, watermark: int | None) -> None:
        """Write a snapshot that holds nothing new."""
        document = json.loads(self.body)
        document |= {"id": snapshot_id, "timeMillis": time_ms}
        if watermark is not None:
            document["watermark"] = watermark
        (self.location / "snapshot" / f"snapshot-{snapshot_id}").write_text(json.dumps(document))
        (self.location / "snapshot" / "LATEST").write_text(str(snapshot_id))

    def clear(self) -> None:
        """Remove all roots."""
        for folder in ("snapshot", "tag"):
            shutil.rmtree(self.location / folder, ignore_errors=True)
        (self.location / "snapshot").mkdir()

    def tag(self, name: str, snapshot_id: int) -> None:
        """Make a tag by hand."""
        (self.location / "tag").mkdir(exist_ok=True)
        body = (self.location / "snapshot" / f"snapshot-{snapshot_id}").read_bytes()
        (self.location / "tag" / f"tag-{name}").write_bytes(body)

    def tags(self) -> dict[str, int]:
        """Return name -> snapshot id."""
        paths = sorted((self.location / "tag").glob("tag-*"))
        return {path.name[4:]: json.loads(path.read_text())["id"] for path in paths}


@pytest.fixture(scope="module")
def documents(engine: Engine) -> Iterator[Documents]:
    options = {**RETAIN_EVERYTHING, "bucket": "-1"}
    engine("create", table=TABLE, columns=[["id", "INT"]], primary_keys=[], partition_keys=[], options=options)
    engine("write", table=TABLE, n=1, seed=1, keys=[0, 9])
    location = engine.location(TABLE)
    yield Documents(engine, location, (location / "snapshot" / "snapshot-1").read_text())
    engine("drop", table=TABLE)


def draw_options(random: Random) -> dict[str, str]:
    """Draw options of automatic tags."""
    mode = random.choice(["process-time", "watermark"])
    zone = "sink.watermark-time-zone" if mode == "watermark" else "sink.process-time-zone"
    options = {"tag.automatic-creation": mode, zone: random.choice(ZONES)}
    if random.random() < 0.3:
        options["tag.creation-period-duration"] = random.choice(["15 min", "40 min", "7 h", "1 d", "3 min", "90 s"])
        delays = ["0 ms", "1 ms", "1 min"]
    else:
        options["tag.creation-period"] = random.choice(["daily", "hourly", "hourly", "two-hours"])
        delays = ["10 s", "5 min", "59 min"]
    if random.random() < 0.4:
        options["tag.creation-delay"] = random.choice(delays)
    if random.random() < 0.4:
        options["tag.period-formatter"] = random.choice(["with_dashes", "without_dashes", "without_dashes_and_spaces"])
    if random.random() < 0.35:
        options["tag.automatic-completion"] = "true"
    if random.random() < 0.4:
        options["tag.num-retained-max"] = str(random.randint(1, 4))
    return options


def ours(options: Mapping[str, str], snapshots: Mapping[int, tuple[int, int | None]], tags: dict[str, int]) -> None:
    """Make the tags that are due, and remove those beyond the count."""
    from lakesweep.operations.tags.options import auto_tag_rules
    from lakesweep.operations.tags.rules.automatic import Commit, beyond_count, due_tags, pointer_of

    rules = auto_tag_rules(options, None)
    assert rules is not None
    commits = [Commit(id, time, watermark, 0, "APPEND") for id, (time, watermark) in sorted(snapshots.items())]
    pointer = pointer_of(rules, tags.items(), min(snapshots))
    due, _ = due_tags(rules, pointer, commits, tags)
    tags |= {tag.name: tag.snapshot_id for tag in due}
    if due:
        for name in beyond_count(rules, tags):
            del tags[name]


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + COUNT))
def test_the_same_tags_are_made(documents: Documents, seed: int) -> None:
    random = Random(seed)
    documents.clear()
    options = draw_options(random)
    now = random.choice(TURNS) + timedelta(minutes=random.randint(-180, 60))
    snapshots: dict[int, tuple[int, int | None]] = {}
    newest = 0
    story = [f"{options}"]
    for _ in range(random.randint(1, 5)):
        if random.random() < 0.1:
            options = draw_options(random)
            story.append(f"{options}")
        for _ in range(random.randint(1, 4)):
            newest += 1
            minutes = random.choice([0, 1, 15, 29, 30, 31, 59, 60, 61, 119, 120, 180, 24 * 60, 50 * 60])
            now += timedelta(minutes=minutes, seconds=random.choice([0, 0, 1, 9, 10, 59]))
            now = now.replace(second=0, microsecond=random.choice([0, 999_000])) if random.random() < 0.3 else now
            time_ms = int(now.timestamp() * 1000)
            other = random.choice([time_ms, time_ms - 3_600_000, LEAST_LONG, None])
            watermark = time_ms if random.random() < 0.85 else other
            snapshots[newest] = (time_ms, watermark)
            documents.write(newest, time_ms, watermark)
            story.append(f"snapshot {newest}: {now.isoformat()} {watermark}")
        if len(snapshots) > 2 and random.random() < 0.2:
            for gone in sorted(snapshots)[: random.randint(1, len(snapshots) - 1)]:
                del snapshots[gone]
                (documents.location / "snapshot" / f"snapshot-{gone}").unlink()
            story.append(f"left: {sorted(snapshots)}")
        if random.random() < 0.2:
            documents.tag(f"by hand {newest}", newest)
        before = documents.tags()
        expected_tags = dict(before)
        failed = None
        try:
            documents.engine("tag", table=TABLE, op="auto", options=options)
        except EngineError as error:
            failed = error.error
        ours(options, snapshots, expected_tags)
        made = documents.tags()
        story.append(f"the engine: {made}, ours: {expected_tags}, before: {before} {failed or ''}")
        assert failed is None and made == expected_tags, "\n".join(story)


def test_clocks(engine: Engine) -> None:
    """What clocks show in a zone, at all turns of a hundred years, by every way to name a zone."""
    from lakesweep.format.values.zone import local_time, parse_zone

    random = Random(1)
    names = (*ZONES, "Europe/Berlin", "Asia/Tehran", "Pacific/Apia", "America/Caracas", "Africa/Casablanca")
    offsets = ("Z", "UTC", "GMT", "UT", "+8", "+08", "-0330", "+05:45", "UTC+8", "GMT+08:00", "UT-01:02:03", "+18")
    for name in (*names, *offsets, "US/Pacific", "Asia/Calcutta", "Etc/GMT+5", "CET", "EST5EDT", "GMT0"):
        instants = [random.randrange(0, 2_000_000_000_000, 900_000) for _ in range(300)]
        instants += [int(turn.timestamp() * 1000) + offset for turn in TURNS for offset in (-1, 0, 1, 1_800_000)]
        shown = engine("zone", name=name, instants=instants)
        zone = parse_zone(name, "zone")
        for instant, text in zip(instants, shown, strict=True):
            assert local_time(instant, zone) == datetime.fromisoformat(text), f"{name} {instant}"


@pytest.mark.parametrize(
    "name", ["utc", "", " UTC", "Berlin", "+25", "UTC+19", "+8:00", "GMT+8:0", "EST5", "Mars/Base"]
)
def test_no_zones(engine: Engine, name: str) -> None:
    """What the engine takes for no zone is none here, either."""
    from lakesweep.errors import FormatError
    from lakesweep.format.values.zone import parse_zone

    with pytest.raises(EngineError):
        engine("zone", name=name, instants=[])
    with pytest.raises(FormatError, match=re.escape("zone")):
        parse_zone(name, "zone")
