"""Two days of tags on the running system: whatever happens to commits, messages, workers and the clock, there are the
tags that the rule says, each of which reads whole, and no others.

The days are a weekend on which clocks in New York go forward. The schedule comes every half hour, and hours are
skipped. `tests/support/system/tag_rule.py` says what is to be there.
"""

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from lakesweep.aws.messages import Work, to_body
from tests.support.reader import TableReader
from tests.support.system.build import build_here
from tests.support.system.deployed import PREFIX, System
from tests.support.system.embedded_aws import Request
from tests.support.system.live_watch import LiveWatch, referenced_keys
from tests.support.system.maintainers import Maintainers
from tests.support.system.message import Message
from tests.support.system.source_mapping import SourceMapping
from tests.support.system.tag_rule import History, Rule
from tests.support.table_builder import TableBuilder

SUNDAY = datetime(2030, 3, 10, tzinfo=UTC)
"""On which 02:00 in New York is 03:00."""
BEGIN_S = (SUNDAY - timedelta(hours=18)).timestamp()
DAYS_S = 2 * 86_400.0
TICK_S = 1800.0
"""Every other tick of the schedule is lost."""
TAGS = "TagTrigger"
FEW = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "3", "snapshot.time-retained": "1 h"}
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
HOURLY, DAILY = "%Y-%m-%d %H", "%Y-%m-%d"
NEW_YORK, KOLKATA = "America/New_York", "Asia/Kolkata"
SILENT_S = 3 * 3600.0
"""No table is without a commit for longer."""
MANUAL = "before-load"

RULES = {
    "plain.db/ny_daily": Rule(NEW_YORK, DAY, DAILY),
    "plain.db/kolkata_daily": Rule(KOLKATA, DAY, DAILY, lives=timedelta(hours=12)),
    "plain.db/kolkata_hourly": Rule(KOLKATA, HOUR, HOURLY, most=5),
    "plain.db/kolkata_all": Rule(KOLKATA, HOUR, HOURLY, delay=timedelta(minutes=10), completes=True),
    "ny.db/hourly": Rule(NEW_YORK, HOUR, HOURLY, lives=timedelta(hours=6), declared=NEW_YORK),
}


def options_of(rule: Rule) -> dict[str, str]:
    """Return the options that say a rule."""
    return {
        **FEW,
        "tag.automatic-creation": "process-time",
        "tag.creation-period": "daily" if rule.period == DAY else "hourly",
        "sink.process-time-zone": rule.zone,
        **({"tag.creation-delay": f"{int(rule.delay.total_seconds())} s"} if rule.delay else {}),
        **({"tag.automatic-completion": "true"} if rule.completes else {}),
        **({"tag.num-retained-max": str(rule.most)} if rule.most is not None else {}),
        **(
            {
                "tag.default-time-retained": f"{int(rule.lives.total_seconds())} s",
                "tag.time-expire-enabled": "true",
            }
            if rule.lives is not None
            else {}
        ),
    }


class Tagged:
    """A table with automatic tags, and what is known of them."""

    def __init__(self, system: System, name: str, rule: Rule) -> None:
        self.name, self.system = name, system
        self.store = system.backdoor(name)
        self.table = TableBuilder(self.store, options=options_of(rule))  # type: ignore[arg-type]
        self.history = History(rule)
        self.commits: list[tuple[int, float]] = []
        self.since: list[tuple[int, float]] = []
        """Commits of this step."""

    def commit(self) -> None:
        """Write a snapshot, with a file in place of the one before; it is an event."""
        at_s = self.system.clock.now()
        number = len(self.commits) + 1
        entries = [f"+F{number}", *([f"-F{number - 1}"] if number > 1 else [])]
        self.table.commit(*entries, time_ms=int(at_s * 1000), identifier=number)
        self.commits.append((number, int(at_s * 1000) / 1000))
        self.since.append(self.commits[-1])

    def found(self) -> dict[str, int]:
        """Return the automatic tags that are there."""
        tags = {each.key.removeprefix("tag/tag-"): each.key for each in self.store.list("tag/tag-")}
        return {name: int(json.loads(self.store.read(key).data)["id"]) for name, key in tags.items() if name != MANUAL}

    def judge(self, began_s: float, ended_s: float, *, has_passed: bool) -> str | None:
        """Hold what is there against the rule, and say what is wrong."""
        found, before = self.found(), self.history
        allowed = list(before.outcomes(self.since, began_s, ended_s)) if has_passed else [before]
        for outcome in allowed:
            new = dict.fromkeys(outcome.tags.keys() - before.tags.keys(), (began_s, ended_s))
            after = replace(outcome, made={**before.made, **new})
            sure, may = after.over(began_s, ended_s) if has_passed else (set(), set())
            stays = {name: snapshot for name, snapshot in after.tags.items() if name in found or name not in may}
            if found == stays and not sure & found.keys():
                self.since = []
                self.history = replace(after, tags=found)
                return None
        at = datetime.fromtimestamp(ended_s, UTC)
        expected = " or ".join(sorted({str(dict(sorted(after.tags.items()))) for after in allowed}))
        return f"{at:%d. %H:%M} {self.name}: expected {expected}, found {dict(sorted(found.items()))}"


@dataclass
class Trouble:
    """What goes wrong, as chance says it."""

    system: System
    chance: random.Random
    happened: Counter[str]
    is_over: bool = False
    tag_changes: int = 0

    def disturb(self, mapping: SourceMapping, messages: Sequence[Message]) -> Sequence[Sequence[Message]]:
        """Deliver messages twice, or late."""
        drawn = 1.0 if self.is_over else self.chance.random()
        if drawn < 0.15:
            self.happened["doubled"] += 1
            return [messages, messages]
        if drawn < 0.20 and not mapping.queue.fifo:
            self.happened["delayed"] += 1
            for message in messages:
                mapping.queue.change_visibility(str(message.receipt), self.chance.randint(30, 600))
            return []
        return [messages]

    def kill(self, request: Request) -> None:
        """Kill a worker that has just written or removed a tag, before it hears of it."""
        is_tag = request.bucket == self.system.bucket and "/tag/tag-" in request.key
        changes = is_tag and request.function in ("Expire", "ExecuteBatch") and request.operation != "GetObject"
        self.tag_changes += changes
        if changes and not self.is_over and self.tag_changes % 15 == 0:
            self.happened["killed"] += 1
            self.system.functions[request.function].kill(request.caller)


@pytest.fixture
def system() -> Iterator[System]:
    names = {"TableBuckets": "lake-tags", "TablePrefixes": f"lake-tags/{PREFIX}", "ControlBucket": "control-tags"}
    policy = {"PolicyLocation": "s3://control-tags/policy.json"}
    with System(build_here(), began_s=BEGIN_S, parameters={**names, **policy}) as made:
        rules = [{"tables": made.location("plain.db"), "mode": "delete"}]
        rules.append({"tables": made.location("ny.db"), "mode": "delete", "time_zone": NEW_YORK})
        document = json.dumps({"version": 1, "rules": rules}).encode()
        made.s3.put_object(Bucket="control-tags", Key="policy.json", Body=document)
        yield made


SECOND = timedelta(seconds=1)
UTC_HOURLY = Rule("UTC", HOUR, HOURLY)


@pytest.mark.parametrize(
    ("rule", "times", "expected"),
    [
        (UTC_HOURLY, ["2024-03-05T12:10"], {"2024-03-05 11": 1}),
        (UTC_HOURLY, ["2024-03-05T12:10", "2024-03-05T12:59:59", "2024-03-05T13:00"], {"05 11": 1, "05 12": 3}),
        (UTC_HOURLY, ["2024-03-05T12:10", "2024-03-05T15:01"], {"05 11": 1, "05 14": 2}),
        (replace(UTC_HOURLY, completes=True), ["2024-03-05T12:10", "2024-03-05T15:01"], {"05 11": 1, "05 12": 2}),
        (replace(UTC_HOURLY, delay=10 * SECOND), ["2024-03-05T12:10", "2024-03-05T14:00:05"], {"05 11": 1, "05 13": 2}),
        (replace(UTC_HOURLY, delay=10 * SECOND), ["2024-03-05T12:10", "2024-03-05T13:00:05"], {"05 11": 1}),
        (Rule(KOLKATA, HOUR, HOURLY), ["2023-07-18T12:00"], {"2023-07-18 16": 1}),
        (Rule(KOLKATA, DAY, DAILY), ["2023-07-18T12:00", "2023-07-18T18:30"], {"2023-07-17": 1, "2023-07-18": 2}),
        # Clocks go forward from 02:00 to 03:00, and back from 02:00 to 01:00.
        (
            Rule(NEW_YORK, HOUR, HOURLY),
            ["2024-03-10T06:00", "2024-03-10T07:00"],
            {"2024-03-10 00": 1, "2024-03-10 02": 2},
        ),
        (
            Rule(NEW_YORK, HOUR, HOURLY),
            ["2024-11-03T05:00", "2024-11-03T06:00", "2024-11-03T07:00"],
            {"2024-11-03 00": 1, "2024-11-03 01": 3},
        ),
    ],
)
def test_the_rule_itself(rule: Rule, times: list[str], expected: dict[str, int]) -> None:
    """What the engine's documentation and its writers do with commits at these times of UTC."""
    commits = [(n, datetime.fromisoformat(f"{at}+00:00").timestamp()) for n, at in enumerate(times, start=1)]
    found = History(rule).walk(commits).tags
    assert {name[-len(key) :] for name in found for key in expected if name.endswith(key)} == set(expected)
    assert sorted(found.values()) == sorted(expected.values())


def test_the_rule_by_the_clock() -> None:
    """On the newest snapshot, five minutes later, and once."""
    first, second, over = (datetime(2024, 3, 5, 12, minute, tzinfo=UTC).timestamp() for minute in (10, 20, 59))
    history = History(UTC_HOURLY).walk([(1, first), (2, second)])
    assert history.by_clock(over + 5 * 60).tags == {"2024-03-05 11": 1}
    later = history.by_clock(over + 6 * 60)
    assert later.tags == {"2024-03-05 11": 1, "2024-03-05 12": 2}
    assert later.by_clock(over + 3 * 3600).tags == later.tags


@pytest.mark.long
@pytest.mark.parametrize("seed", [1])
def test_two_days(system: System, seed: int) -> None:
    chance = random.Random(seed)
    maintainers = Maintainers(system.clock, system.bucket, system.control_bucket)
    maintainers.watch(system.aws)
    live = LiveWatch(system.aws, system.bucket)
    trouble = Trouble(system, random.Random(f"trouble {seed}"), Counter())
    system.aws.after.append(trouble.kill)
    for function in ("TagSchedule", "Expire", "ExecuteBatch", "OnSnapshotWritten"):
        system.mappings[function].disturbance = trouble.disturb

    tables = [Tagged(system, name, rule) for name, rule in RULES.items()]
    for each in tables:
        each.commit()
        each.table.tag(MANUAL)
    settle(system, tables, passed=set(RULES))
    due_s, end_s = BEGIN_S, BEGIN_S + DAYS_S
    steps = 0
    while due_s < end_s:
        due_s = max(due_s + TICK_S, system.clock.now())
        steps += 1
        if steps % 30 == 0:
            due_s += chance.uniform(3600, 3 * 3600)  # nobody came for hours
            trouble.happened["hours without a tick"] += 1
        system.clock.skip_to(due_s + chance.uniform(0, 120))
        if steps % 20 == 0:
            system.clock.jump(-chance.uniform(1, 90))
            trouble.happened["back"] += 1
        step(system, tables, chance, trouble)

    trouble.is_over = True
    system.clock.skip_to(due_s + TICK_S)
    system.tick(TAGS)
    settle(system, tables, passed=set(RULES))
    assert {"doubled", "delayed", "back", "two workers", "killed"} <= trouble.happened.keys(), trouble.happened
    assert live.problems == [] and maintainers.problems == []
    assert system.aws.denied == [] and system.backlog() == {}
    for name in ("RunsFailed", "RunsRefused", "HopLimitReached"):
        assert system.metrics.total("Lakesweep", name) == 0, name
    for each in tables:
        reader = TableReader(each.store)  # type: ignore[arg-type]
        for name in each.history.tags.keys() | {MANUAL}:
            reader.read(f"tag/tag-{name}")
        assert len(each.history.made) >= (2 if each.history.rule.period == DAY else 8)
        left = referenced_keys(each.store) ^ {entry.key for entry in each.store.list("")}
        assert {key for key in left if not key.startswith(("schema/", "snapshot/"))} == set(), each.name


def step(system: System, tables: Sequence[Tagged], chance: random.Random, trouble: Trouble) -> None:
    """Let some tables have commits and the schedule come, in any order, and then everything that follows from it."""
    began_s = system.clock.now()
    passed = set()
    for each in tables:
        if chance.random() < 0.15 or began_s - each.commits[-1][1] > SILENT_S:
            each.commit()
            passed.add(each.name)
        if chance.random() < 0.05:
            trouble.happened["two workers"] += 1
            system.queues["ExecuteQueue"].send(to_body(Work(system.location(each.name))))
            passed.add(each.name)
    if chance.random() < 0.75:
        for _ in range(chance.choice((1, 1, 1, 2))):
            system.tick(TAGS)
        passed |= set(RULES)
    settle(system, tables, passed, began_s)


def settle(system: System, tables: Sequence[Tagged], passed: set[str], began_s: float | None = None) -> None:
    """Let everything be done, and hold each table's tags against its rule."""
    began_s = system.clock.now() if began_s is None else began_s
    system.settle()
    ended_s = system.clock.now()
    problems = [each.judge(began_s, ended_s, has_passed=each.name in passed) for each in tables]
    assert not any(problems), "\n".join(filter(None, problems))
