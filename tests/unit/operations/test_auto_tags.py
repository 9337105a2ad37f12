"""Automatic tags as the pass makes them: by commits, by the clock, by watermarks and by batch jobs.

Which tag is due is a matter of `operations/tags/rules/automatic.py` and its tests; here it is whether a table gets it,
once, in time, and before its snapshot goes.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lakesweep.control.state import NEVER_MS, BranchState, read_states
from lakesweep.format.tag import parse_tag
from lakesweep.model.report import RunReport
from tests.support.acting import Acting
from tests.support.faulty_store import DyingSwitch, ProcessDeathError, Switch
from tests.support.world import World

KEEP = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "100", "snapshot.time-retained": "1000 d"}
TEN = {"snapshot.num-retained.min": "10"}
"""So many snapshots stay in any case, so that the state of a pass answers the next commits."""
HOURLY = {**KEEP, "tag.automatic-creation": "process-time", "tag.creation-period": "hourly"}
UTC_HOURLY = {**HOURLY, "sink.process-time-zone": "UTC"}
BY_WATERMARK = {**HOURLY, "tag.automatic-creation": "watermark"}
BATCHES = {**KEEP, "tag.automatic-creation": "batch", "sink.process-time-zone": "UTC"}
DAY_MS, HOUR_MS, MINUTE_MS = 86_400_000, 3_600_000, 60_000
BATCH = (1 << 63) - 1


def ms(text: str) -> int:
    """Return a time of 2023-07-18 (or of a day that is given) in UTC as epoch milliseconds."""
    day, _, time = text.rpartition(" ")
    return round(datetime.fromisoformat(f"{day or '2023-07-18'}T{time}").replace(tzinfo=UTC).timestamp() * 1000)


class TimedWorld(World):
    """A table whose commits and passes have times of a day."""

    def __init__(self, options: dict[str, str], now: str = "12:00") -> None:
        super().__init__(now_ms=ms(now), options=options)

    def at(self, time: str) -> "TimedWorld":
        """Let it be this time."""
        self.now_ms = ms(time)
        return self

    def commit(self, time: str | None = None, *, watermark: str | None = None, **details: Any) -> int:
        """Commit now, or at a time; each commit replaces the file of the one before."""
        if time is not None:
            self.now_ms = ms(time)
        if watermark is not None:
            details["document"] = {"watermark": ms(watermark)}
        return self.replace(**{"kind": "OVERWRITE", **details})

    def settle(self) -> RunReport:
        """Make the pass, which has to end well."""
        report = self.maintain()
        assert report.status in ("done", "nothing_to_do"), report.refusal
        self.assert_reads()
        return report

    def call(self, *, execute: bool = True, **arguments: object) -> RunReport:
        """Ask for tags alone."""
        return self.run("tag-schedule", execute=execute, **arguments)

    def tags(self) -> dict[str, int]:
        """Return the snapshot of each tag."""
        found = self.keys("tag/") - self.keys("tag/tag-success-file/")
        return {key.removeprefix("tag/tag-"): parse_tag(self.store.read(key).data, key).snapshot.id for key in found}

    def state(self) -> BranchState:
        return read_states(self.area)["main"]

    def lose_state(self) -> None:
        """Forget what passes left, and what they have read."""
        for entry in list(self.control.list("")):
            if entry.key.endswith(("state.json", "cache.bin")):
                self.control.put(entry.key, b"")


def names(world: TimedWorld) -> list[str]:
    """Return the tags of the day without the day."""
    return sorted(name.removeprefix("2023-07-18 ") for name in world.tags())


ROWS = {
    "default": ({}, [("12:12", ["11"]), ("12:59", ["11"]), ("13:00", ["11", "12"])]),
    "max": (
        {"tag.num-retained-max": "3"},
        [
            ("12:12", ["11"]),
            ("13:00", ["11", "12"]),
            ("14:00", ["11", "12", "13"]),
            ("15:00", ["12", "13", "14"]),
        ],
    ),
    "delay": (
        {"tag.creation-delay": "10 s"},
        [("12:00:09", ["11"]), ("13:00:09", ["11"]), ("13:00:10", ["11", "12"])],
    ),
    "delay and gap": ({"tag.creation-delay": "10 s"}, [("12:00:09", ["11"]), ("14:00:05", ["11", "13"])]),
    "completion": (
        {"tag.automatic-completion": "true"},
        [("16:12", ["15"]), ("18:05", ["15", "16"]), ("18:10", ["15", "16", "17"])],
    ),
    "no completion": ({}, [("12:12", ["11"]), ("14:00", ["11", "13"])]),
    "two hours": (
        {"tag.creation-period": "two-hours"},
        [("12:00:01", ["10"]), ("13:00:01", ["10"]), ("14:00:09", ["10", "12"])],
    ),
}


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("mode", ["watermark", "process-time"])
@pytest.mark.parametrize("forgets", [False, True], ids=["with_state", "without"])
def test_scans_of_commits(row: str, mode: str, forgets: bool) -> None:
    """Each commit gets its pass, with what the last one kept and without it."""
    options, commits = ROWS[row]
    world = TimedWorld({**UTC_HOURLY, "tag.automatic-creation": mode, **options})
    for time, expected in commits:
        if mode == "watermark":
            world.commit("20:00", watermark=time)
        else:
            world.commit(time)
        if forgets:
            world.lose_state()
        world.settle()
        assert names(world) == expected, time


@pytest.mark.parametrize("row", ROWS)
def test_scans_of_commits_that_one_pass_sees(row: str) -> None:
    """The engine's writer, away for hours, would walk them as well. A limit of tags holds at the end."""
    options, commits = ROWS[row]
    world = TimedWorld({**BY_WATERMARK, **options})
    for time, _ in commits:
        world.commit("20:00", watermark=time)
    world.settle()
    assert names(world) == commits[-1][1]


def test_a_snapshot_without_a_watermark_makes_no_tag() -> None:
    world = TimedWorld(BY_WATERMARK)
    world.commit("12:12")
    world.commit("12:13", document={"watermark": -(1 << 63)})
    world.settle()
    assert world.tags() == {}
    assert world.state().tag_watermark < NEVER_MS
    world.commit("12:14", watermark="12:00")
    world.settle()
    assert names(world) == ["11"]


def test_tags_are_made_before_their_snapshots_go() -> None:
    """Of twelve hours only the last snapshot stays, and each hour is readable."""
    options = {"snapshot.num-retained.max": "1", "snapshot.time-retained": "1 ms"}
    world = TimedWorld({**UTC_HOURLY, **options})
    for hour in range(12):
        world.commit(f"{hour:02}:30")
    report = world.settle()
    assert [step.operation for step in report.steps or ()] == ["auto-tags", "expire-snapshots"]
    assert world.ids() == [12]
    assert len(world.tags()) == 12
    assert world.tags()["2023-07-18 10"] == 12


def test_a_dry_run_shows_the_whole_pass() -> None:
    options = {
        "snapshot.num-retained.max": "1",
        "snapshot.time-retained": "1 ms",
        "tag.num-retained-max": "2",
    }
    world = TimedWorld({**UTC_HOURLY, **options})
    for hour in range(6):
        world.commit(f"{hour:02}:30")
    before = world.etags()
    report = world.maintain(execute=False)
    assert report.status == "planned", report.refusal
    steps = {step.operation: step.plan for step in report.steps or ()}
    assert world.etags() == before
    made = [action.path for action in steps["auto-tags"].actions]  # type: ignore[union-attr]
    assert len(made) == 6
    gone = {delete.path for delete in steps["expire-tags"].deletes}  # type: ignore[union-attr]
    assert gone == set(sorted(made)[:4])
    planned = {delete.path for plan in steps.values() if plan for delete in plan.deletes}
    world.settle()
    there = {entry.key for entry in world.store.list("")}
    assert there.isdisjoint(planned)
    assert set(before) - there == planned - gone


class TestClock:
    """No commit comes."""

    def test_the_clock_makes_one_tag(self) -> None:
        """The hour ends, and five minutes later the newest snapshot gets its name; the next hours have none."""
        world = TimedWorld(UTC_HOURLY)
        world.commit("12:12")
        world.settle()
        world.commit("12:40")
        world.settle()
        assert world.state().tags_due_ms == ms("13:00")
        world.at("13:04:59").settle()
        assert names(world) == ["11"]
        world.at("13:05").settle()
        assert world.tags() == {"2023-07-18 11": 1, "2023-07-18 12": 2}
        for time in ("14:05", "15:05", "23:00"):
            world.at(time).settle()
        assert names(world) == ["11", "12"]

    def test_a_snapshot_that_is_tagged_gets_no_second_tag(self) -> None:
        """So nothing is due until a commit comes, and nobody asks for a pass meanwhile."""
        world = TimedWorld(UTC_HOURLY)
        world.commit("12:12")
        world.settle()
        world.at("14:10").settle()
        assert names(world) == ["11"]
        assert world.state().tags_due_ms == ms("14:10") + DAY_MS
        assert not world.at("15:10").maintain().steps, "the state answers"
        world.commit("15:20")
        world.settle()
        assert names(world) == ["11", "14"]

    def test_a_late_commit_of_the_hour_is_the_one(self) -> None:
        """The pass at 13:01 waits; the commit of 13:02 is the first after the end."""
        world = TimedWorld(UTC_HOURLY)
        world.commit("12:12")
        world.commit("12:40")
        world.settle()
        world.at("13:01").settle()
        world.commit("13:02")
        world.settle()
        assert world.tags() == {"2023-07-18 11": 1, "2023-07-18 12": 3}

    def test_watermarks_go_by_no_clock(self) -> None:
        world = TimedWorld(BY_WATERMARK)
        world.commit("12:12", watermark="12:12")
        world.commit("12:13", watermark="12:59")
        world.settle()
        world.at("19:00").settle()
        assert names(world) == ["11"]


class TestZones:
    """Names go by a zone that somebody stated."""

    def test_the_policys_or_the_calls_zone(self) -> None:
        world = TimedWorld(HOURLY)
        world.commit("12:12")
        report = world.call(time_zone="Asia/Kolkata")
        assert report.status == "done", report.refusal
        assert world.tags() == {"2023-07-18 16": 1}

    def test_the_tables_zone_is_stronger(self) -> None:
        world = TimedWorld({**HOURLY, "sink.process-time-zone": "Asia/Shanghai"})
        world.commit("12:12")
        world.call(time_zone="Asia/Kolkata")
        assert world.tags() == {"2023-07-18 19": 1}

    def test_no_zone_and_writers_that_make_tags(self) -> None:
        """The pass says so, and goes on: the table's own writers make the tags."""
        world = TimedWorld({**HOURLY, "snapshot.num-retained.max": "1", "snapshot.time-retained": "1 ms"})
        world.commit("12:12")
        world.commit("12:13")
        report = world.settle()
        assert any("no time zone is declared for the names of its tags" in warning for warning in report.all_warnings())
        assert world.ids() == [2]
        assert world.tags() == {}

    def test_no_zone_and_write_only(self) -> None:
        """Nobody makes the tags, so no snapshot goes."""
        options = {"snapshot.num-retained.max": "1", "snapshot.time-retained": "1 ms", "write-only": "true"}
        world = TimedWorld({**HOURLY, **options})
        world.commit("12:12")
        world.commit("12:13")
        report = world.maintain()
        assert report.status == "refused"
        assert report.refusal is not None
        assert report.refusal.code == "zone_not_declared"
        assert world.ids() == [1, 2]

    @pytest.mark.parametrize("option", ["tag.callbacks", "metastore.tag-to-partition"])
    def test_tags_that_only_the_engine_makes(self, option: str) -> None:
        """Where writers leave them to others, no snapshot goes; else the pass goes on, and says so."""
        options = {**UTC_HOURLY, "snapshot.num-retained.max": "1", "snapshot.time-retained": "1 ms", option: "dt"}
        for write_only in (True, False):
            world = TimedWorld({**options, "write-only": str(write_only).lower()})
            world.commit("12:12")
            world.commit("12:13")
            report = world.maintain()
            assert world.tags() == {}
            assert world.ids() == ([1, 2] if write_only else [2])
            assert (report.status == "refused") is write_only
            assert world.call().refusal.code == "needs_engine_callbacks"  # type: ignore[union-attr]


class TestDocuments:
    """What is written."""

    def test_time_to_live_and_success_file(self) -> None:
        options = {"tag.default-time-retained": "1 h", "tag.create-success-file": "true"}
        world = TimedWorld({**UTC_HOURLY, **options})
        world.commit("12:12")
        assert world.call(time_zone="Asia/Shanghai").status == "done"
        tag = parse_tag(world.store.read("tag/tag-2023-07-18 11").data, "t")
        assert tag.create_time == datetime(2023, 7, 18, 20, 12)
        assert tag.time_retained_ns == HOUR_MS * 1_000_000
        assert world.store.read("tag/tag-success-file/2023-07-18 11_SUCCESS").data
        world.lose_state()
        world.at("13:12:01")
        assert world.call(time_zone="Asia/Shanghai").status in ("done", "nothing_to_do")
        assert "2023-07-18 11" not in world.tags()

    def test_a_name_that_is_there_is_left(self) -> None:
        """Somebody made it by hand, of another snapshot; its period is done."""
        world = TimedWorld(UTC_HOURLY)
        world.commit("12:12")
        world.commit("12:20")
        world.table.tag("2023-07-18 11", snapshot=2)
        body = world.store.read("tag/tag-2023-07-18 11").data
        world.settle()
        assert world.store.read("tag/tag-2023-07-18 11").data == body
        assert world.tags() == {"2023-07-18 11": 2}

    def test_a_tag_that_cannot_be_read_stays_and_is_told(self) -> None:
        world = TimedWorld(UTC_HOURLY)
        world.commit("12:12")
        world.settle()
        world.store.put("tag/tag-2023-07-18 11", b"{ no tag")
        world.commit("13:12")
        report = world.maintain()
        assert any("2023-07-18 11 cannot be read" in warning for warning in report.all_warnings()), report
        assert world.store.read("tag/tag-2023-07-18 11").data == b"{ no tag"
        assert world.store.read("tag/tag-2023-07-18 12").data

    def test_a_success_file_folder_is_no_tag(self) -> None:
        world = TimedWorld({**UTC_HOURLY, "tag.create-success-file": "true", "tag.num-retained-max": "1"})
        for time in ("12:12", "13:12", "14:12"):
            world.commit(time)
            world.settle()
        assert names(world) == ["13"]
        files = [entry.key for entry in world.store.list("tag/tag-success-file/")]
        assert files == ["tag/tag-success-file/2023-07-18 13_SUCCESS"]


class TestBatch:
    """A batch job's commit is tagged when it is the newest."""

    def test_a_day_has_one_tag_of_its_last_job(self) -> None:
        world = TimedWorld(BATCHES)
        world.commit("12:12")
        world.settle()
        assert world.tags() == {"batch-write-2023-07-18": 1}
        world.commit("13:12")
        world.settle()
        assert world.tags() == {"batch-write-2023-07-18": 2}
        world.commit("2023-07-19 01:00")
        world.settle()
        assert world.tags() == {"batch-write-2023-07-18": 2, "batch-write-2023-07-19": 3}

    @pytest.mark.parametrize(("kind", "identifier"), [("COMPACT", BATCH), ("APPEND", 7)])
    def test_other_commits_make_none(self, kind: str, identifier: int) -> None:
        world = TimedWorld(BATCHES)
        world.commit("12:12", identifier=identifier)
        if kind == "COMPACT":
            world.commit("12:13", kind=kind)
        world.settle()
        assert world.tags() == {}

    def test_a_tag_that_went_does_not_come_back(self) -> None:
        """Its time was over; the snapshot is still the newest."""
        world = TimedWorld({**BATCHES, "tag.default-time-retained": "1 h"})
        world.commit("12:12")
        assert maintain_in(world, "UTC").status == "done"
        world.at("13:13")
        assert maintain_in(world, "UTC").status == "done"
        assert world.tags() == {}
        world.at("2023-07-19 20:00")
        maintain_in(world, "UTC")
        assert world.tags() == {}

    def test_a_commit_is_noticed(self) -> None:
        """The state alone would say that nothing is to be done."""
        world = TimedWorld({**BATCHES, **TEN, "tag.batch.customized-name": "last"})
        world.commit("12:12")
        world.settle()
        world.commit("12:13", identifier=3)
        assert not world.maintain().steps
        world.commit("12:14")
        assert world.settle().steps
        assert world.tags() == {"last": 3}

    def test_by_hand_names_neither_count_nor_go(self) -> None:
        world = TimedWorld({**BATCHES, "tag.num-retained-max": "1"})
        world.commit("12:12")
        world.table.tag("by-hand", snapshot=1)
        world.settle()
        for day in (19, 20):
            world.commit(f"2023-07-{day} 12:12")
            world.settle()
        assert world.tags() == {"by-hand": 1, "batch-write-2023-07-20": 3}


def maintain_in(world: TimedWorld, zone: str) -> RunReport:
    """Make the steps on tags with a zone that the call declares."""
    report = world.call(time_zone=zone)
    assert report.refusal is None, report.refusal
    world.maintain(is_due=True)
    return report


class TestPointer:
    """Where the last pass stopped."""

    def test_commits_are_read_once(self) -> None:
        world = TimedWorld(UTC_HOURLY)
        for minute in range(10, 20):
            world.commit(f"12:{minute}")
        world.settle()
        world.commit("13:10")
        world.switch = Switch()
        world.settle()
        read = [call for call in world.switch.calls if call.startswith("table read snapshot/snapshot-")]
        assert "table read snapshot/snapshot-5" not in read
        assert names(world) == ["11", "12"]

    def test_a_rollback_invalidates_it(self) -> None:
        """What is committed after a rollback is walked, though its ids were walked before."""
        world = TimedWorld(UTC_HOURLY)
        for minute in range(10, 20):
            world.commit(f"12:{minute}")
        world.settle()
        assert world.state().tag_next_snapshot == 11
        world.table.rollback(3)
        world.commits = 3
        world.now_ms = ms("13:10")
        for number in range(4, 12):
            world.table.commit(f"+G{number}", time_ms=ms(f"13:{number + 10}"))
            world.table.hint("LATEST", number)
        world.at("13:30").settle()
        assert world.tags() == {"2023-07-18 11": 1, "2023-07-18 12": 4}

    def test_other_rules_invalidate_it(self) -> None:
        world = TimedWorld(UTC_HOURLY)
        world.commit("12:12")
        world.settle()
        world.table.alter(options={"tag.creation-period": "daily"})
        world.commit("12:20")
        world.settle()
        # As the engine does it: the daily parser takes the hourly name for one of its own.
        for day in (19, 20):
            world.commit(f"2023-07-{day} 00:10")
            world.settle()
        assert world.tags() == {"2023-07-18 11": 1, "2023-07-19": 4}

    def test_snapshots_that_expired_before_they_were_walked(self) -> None:
        """Another engine expired them; the walk goes on at the oldest that is left."""
        world = TimedWorld(UTC_HOURLY)
        world.commit("12:12")
        world.settle()
        for minute in range(10, 20):
            world.commit(f"13:{minute}")
        for number in range(1, 8):
            world.table.remove(f"snapshot/snapshot-{number}")
        world.settle()
        assert world.tags() == {"2023-07-18 11": 1, "2023-07-18 12": 8}

    def test_a_tag_of_another_engine_moves_it(self) -> None:
        world = TimedWorld(UTC_HOURLY)
        world.commit("12:12")
        world.settle()
        world.commit("13:10")
        world.commit("13:20")
        world.table.tag("2023-07-18 12", snapshot=2)
        world.settle()
        assert world.tags() == {"2023-07-18 11": 1, "2023-07-18 12": 2}
        world.commit("14:10")
        world.settle()
        assert world.tags()["2023-07-18 13"] == 4

    def test_a_tag_that_somebody_deleted_stays_away(self) -> None:
        world = TimedWorld(UTC_HOURLY)
        world.commit("12:12")
        world.settle()
        world.table.remove("tag/tag-2023-07-18 11")
        world.commit("12:20")
        world.maintain(is_due=True)
        assert world.tags() == {}
        world.commit("13:20")
        world.settle()
        assert names(world) == ["12"]


class TestBackfill:
    """Only on request."""

    def test_missed_periods(self) -> None:
        world = TimedWorld(UTC_HOURLY)
        for time in ("12:10", "12:50", "13:50", "13:55", "16:10"):
            world.commit(time)
        world.table.remove("snapshot/snapshot-1")
        world.table.tag("2023-07-18 09", snapshot=2)
        world.table.tag("2023-07-18 15", snapshot=5)
        world.settle()
        assert names(world) == ["09", "15"]
        report = world.call(backfill=True)
        assert report.status == "done", report.refusal
        assert world.tags() == {
            "2023-07-18 09": 2,
            "2023-07-18 13": 4,
            "2023-07-18 15": 5,
        }
        said = " ".join(report.all_warnings())
        assert "no snapshot from before its end exists any more" in said
        assert world.call(backfill=True).status == "nothing_to_do"

    def test_a_dry_run_makes_none(self) -> None:
        world = TimedWorld(UTC_HOURLY)
        world.commit("12:10")
        report = world.call(execute=False)
        assert report.status == "planned"
        assert [step.operation for step in report.steps or ()] == ["auto-tags", "expire-tags"]
        assert world.tags() == {}


class TestState:
    """The next commit is answered from the state, unless it makes a tag due."""

    def test_a_commit_that_makes_no_tag_costs_what_it_did(self) -> None:
        world = TimedWorld({**UTC_HOURLY, **TEN})
        world.commit("12:10")
        world.settle()
        for minute in (11, 12, 13):
            world.commit(f"12:{minute}")
            report, requests = world.spent(world.maintain, committed_id=minute - 9)
            assert not report.steps
            assert requests["get"] <= 4
            assert requests["put"] == requests["list"] == 0
        world.commit("13:00")
        assert world.settle().steps
        assert names(world) == ["11", "12"]

    def test_a_watermark_is_noticed_by_one_more_read(self) -> None:
        world = TimedWorld({**BY_WATERMARK, **TEN})
        world.commit("12:10", watermark="12:10")
        world.settle()
        world.commit("19:10", watermark="12:59")
        report, requests = world.spent(world.maintain, committed_id=2)
        assert not report.steps
        assert requests["get"] <= 5
        world.commit("19:11", watermark="13:00")
        assert world.settle().steps
        assert names(world) == ["11", "12"]

    def test_a_watermark_of_any_branch_is_noticed(self) -> None:
        """A pass over all branches asks the newest snapshot of each."""
        world = TimedWorld({**BY_WATERMARK, **TEN})
        world.commit("12:10", watermark="12:10")
        world.table.tag("begin", snapshot=1)
        branch = world.table.branch("b", from_tag="begin")
        assert world.run("maintain", all_branches=True).status == "done"
        assert sorted(e.key for e in world.store.list("branch/branch-b/tag/")) == [
            "branch/branch-b/tag/tag-2023-07-18 11",
            "branch/branch-b/tag/tag-begin",
        ]
        answered = world.run("maintain", all_branches=True)
        assert [step.steps for step in answered.steps or ()] == [(), ()]
        world.now_ms = ms("13:30")
        branch.commit("+G2", time_ms=world.now_ms, document={"watermark": ms("13:00")})
        report = world.run("maintain", all_branches=True)
        assert [bool(step.steps) for step in report.steps or ()] == [False, True]
        assert world.store.read("branch/branch-b/tag/tag-2023-07-18 12").data

    def test_a_table_without_tags_has_nothing_of_them(self) -> None:
        world = TimedWorld({**KEEP, **TEN})
        world.commit("12:10")
        world.settle()
        state = world.state()
        assert (state.tags_due_ms, state.tag_rules) == (NEVER_MS, 0)

    def test_a_branch_with_tags_is_seen_within_a_day(self) -> None:
        """Another engine may make a tag whose time is short."""
        world = TimedWorld({**KEEP, **TEN})
        world.commit("12:10")
        world.table.tag("kept", snapshot=1)
        world.settle()
        assert world.state().tags_due_ms == ms("12:10") + DAY_MS
        world.commit("12:20")
        assert not world.maintain().steps
        world.table.tag("short", snapshot=1, ttl=timedelta(minutes=1))
        world.at("2023-07-19 12:10").maintain(is_due=False)
        assert world.state().tags_due_ms <= ms("2023-07-20 12:10")

    def test_the_time_of_a_tag_ends(self) -> None:
        world = TimedWorld({**UTC_HOURLY, "tag.default-time-retained": "2 h"})
        world.commit("12:10")
        world.call(time_zone="UTC")
        world.maintain(is_due=True)
        # Nobody declares a zone to the pass, so the tag lives 26 h longer, and the hour's end is earlier anyway.
        assert world.state().tags_due_ms <= ms("14:10") + 26 * HOUR_MS

    def test_a_pass_that_finished_what_a_dead_run_left(self) -> None:
        """Its first step has the report of that run, and says nothing of tags; so they are asked for again."""
        world = TimedWorld({**UTC_HOURLY, **TEN, "tag.num-retained-max": "1"})
        world.commit("12:10")
        world.settle()
        world.commit("13:00")
        dying = DyingSwitch(lambda call: call.startswith("table delete"))
        with pytest.raises(ProcessDeathError):
            world.maintain(dying)
        assert names(world) == ["11", "12"]
        world.at("13:20").maintain(is_due=True)
        assert names(world) == ["12"]
        world.commit("14:00")
        assert world.settle().steps
        assert names(world) == ["13"]

    def test_a_tag_by_hand_whose_time_ends(self) -> None:
        """No pass has seen a tag there, so none would come for it."""
        world = TimedWorld({**KEEP, **TEN})
        world.commit("12:10")
        world.settle()
        assert world.state().tags_due_ms == NEVER_MS
        world.run("create-tag", tag="for-good", status="done")
        assert world.state().tags_due_ms == NEVER_MS
        world.run("create-tag", tag="short", time_retained="1 h", time_zone="UTC", status="done")
        assert world.state().tags_due_ms == ms("13:10")
        world.at("13:11").settle()
        assert world.state().tags_due_ms > world.now_ms

    def test_a_tag_that_another_pass_is_making(self) -> None:
        """That one may take it back, so this one does not count on it."""
        world = TimedWorld({**UTC_HOURLY, **TEN})
        world.commit("12:10")
        other = Acting(lambda call: call.startswith("table put tag/tag-"), lambda: world.call(time_zone="Asia/Tokyo"))
        report = world.maintain(other)
        assert other.has_acted and names(world) == ["11"]
        assert report.status == "nothing_to_do", report.refusal
        assert any("is there already" in warning for warning in report.all_warnings())
        assert (world.state().tags_due_ms, world.state().tag_rules) == (0, 0)
        world.table.remove("tag/tag-2023-07-18 11")
        world.settle()
        assert names(world) == ["11"]

    def test_an_older_state_is_ignored(self) -> None:
        world = TimedWorld({**UTC_HOURLY, **TEN})
        world.commit("12:10")
        world.settle()
        (state,) = [entry.key for entry in world.control.list("") if entry.key.endswith("state.json")]
        world.control.put(state, world.control.read(state).data.replace(b'"format_version": 8', b'"format_version": 7'))
        assert world.maintain().steps
