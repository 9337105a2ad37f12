"""Expiry of tags: time to live, count, calendar rules, and what is said of each tag."""

import dataclasses
import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from lakesweep.model.policy import KeepRules
from lakesweep.model.report import RunReport
from lakesweep.operations.tags.expire import ExpireTagsArguments, plan_expire_tags
from lakesweep.runs.run import plan_and_execute
from lakesweep.storage.store import DeleteRequest
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.world import ReadWorld

START_MS = 1_800_000_000_000  # 2027-01-15T08:00:00Z
HOUR_MS = 3_600_000


class TaggedWorld(ReadWorld):
    """A table whose snapshots but the newest are gone."""

    is_broken = False
    """Some document does not parse."""

    def tagged(self, **tags: Mapping[str, Any]) -> None:
        """Make a snapshot with a file of its own for each tag, and one more, and expire them all but the last."""
        before = ""
        for number, (name, details) in enumerate(tags.items(), 1):
            self.table.commit(f"+{name}", *([f"-{before}"] if before else []))
            self.table.tag(name.replace("_", "-"), snapshot=number, **details)
            before = name
        self.table.commit("+Z", f"-{before}")
        self.expire()

    def expire_tags(self, *, status: str = "done", **arguments: Any) -> RunReport:
        return self.run("expire-tags", status=status, **arguments)

    def as_pass(self, *, status: str = "done", **arguments: Any) -> RunReport:
        wanted = ExpireTagsArguments(is_pass=True, **arguments)
        report = plan_and_execute(
            self.maintainer().table, "expire-tags", lambda target: plan_expire_tags(target, wanted)
        )
        return self.ended(report, status)

    def after_run(self) -> None:
        if not self.is_broken:
            super().after_run()

    def tags(self) -> set[str]:
        return {key.removeprefix("tag/tag-") for key in self.keys("tag/")}


def findings(report: RunReport) -> dict[str, Any]:
    found = report.to_json()["findings"]
    assert isinstance(found, dict)
    tags = found["tags"]
    assert isinstance(tags, dict)
    return tags


MADE = datetime(2027, 1, 15, 8)


def _ttl(**span: float) -> dict[str, Any]:
    return {"ttl": timedelta(**span), "create_time": MADE}


def test_a_time_to_live_is_over_strictly_after_its_end() -> None:
    scene = TaggedWorld()
    scene.tagged(t=_ttl(milliseconds=500), forever={})
    scene.now_ms = START_MS + 500
    report = scene.expire_tags(status="nothing_to_do", time_zone="UTC")
    assert findings(report)["kept"] == {"forever": ["no_rule"], "t": ["time_to_live"]}
    assert findings(report)["next_due_ms"] == START_MS + 501
    scene.now_ms += 1
    report = scene.expire_tags(time_zone="UTC")
    assert scene.tags() == {"forever"}
    assert scene.table.present() == {"forever", "Z"}
    assert findings(report)["going"] == {"t": "time_to_live"}


def test_without_a_zone_a_tag_lives_26_hours_longer_and_the_report_says_so() -> None:
    scene = TaggedWorld()
    scene.tagged(t=_ttl(hours=1))
    scene.now_ms = START_MS + 27 * HOUR_MS
    report = scene.expire_tags(status="nothing_to_do")
    assert any("26 h" in warning for warning in report.all_warnings())
    scene.now_ms += 1
    scene.expire_tags()
    assert scene.tags() == set()


@pytest.mark.parametrize(("zone", "ends_h"), [("Asia/Shanghai", -7), ("UTC", 1), ("America/New_York", 6)])
def test_times_of_creation_are_read_in_the_declared_zone(zone: str, ends_h: int) -> None:
    scene = TaggedWorld()
    scene.tagged(t=_ttl(hours=1))
    scene.now_ms = START_MS + ends_h * HOUR_MS
    scene.expire_tags(status="nothing_to_do", time_zone=zone)
    scene.now_ms += 1
    scene.expire_tags(time_zone=zone)


def test_an_unknown_zone_is_refused() -> None:
    scene = TaggedWorld()
    scene.tagged(t=_ttl(hours=1))
    report = scene.expire_tags(status="refused", time_zone="Mars/Olympus")
    assert report.refusal is not None
    assert "Mars/Olympus" in report.refusal.message


def test_older_than_takes_tags_without_a_time_to_live_by_when_they_were_written() -> None:
    scene = TaggedWorld()
    scene.tagged(a={}, b={})
    scene.store.set_modified("tag/tag-a", START_MS - 2)
    scene.store.set_modified("tag/tag-b", START_MS - 1)
    scene.expire_tags(older_than="2027-01-15T07:59:59.999Z")
    assert scene.tags() == {"b"}


@pytest.mark.parametrize("option", [None, "true", "false"])
def test_a_pass_asks_the_table_whether_tags_expire(option: str | None) -> None:
    scene = TaggedWorld(options=({} if option is None else {"tag.time-expire-enabled": option}))
    scene.tagged(t=_ttl(hours=1))
    scene.now_ms += 100 * HOUR_MS
    assert scene.as_pass(status="nothing_to_do" if option == "false" else "done").plan is not None
    assert scene.tags() == ({"t"} if option == "false" else set())
    if option == "false":
        scene.expire_tags()
        assert scene.tags() == set(), "by hand it is asked for"


def test_beyond_the_count_the_oldest_automatic_tags_go() -> None:
    options = {
        "tag.automatic-creation": "process-time",
        "sink.process-time-zone": "UTC",
        "tag.num-retained-max": "2",
    }
    scene = TaggedWorld(options=options)
    scene.tagged(**{"2027-01-10": {}, "2027-01-11": {}, "manual": {}, "2027-01-12": {}})
    scene.as_pass(status="nothing_to_do")
    report = scene.as_pass(counts=True)
    assert scene.tags() == {"2027-01-11", "2027-01-12", "manual"}
    assert findings(report)["going"] == {"2027-01-10": "count"}


def test_calendar_rules_keep_and_take() -> None:
    scene = TaggedWorld()
    scene.tagged(
        **{"2026-11-30": {}, "2026-12-30": {}, "2026-12-31": {}, "2027-01-13": {}, "2027-01-14": {}, "mine": {}}
    )
    report = scene.expire_tags(pattern="20*", keep_daily="1", keep_monthly="2")
    assert scene.tags() == {"2026-12-31", "2027-01-14", "mine"}
    found = findings(report)
    assert found["kept"]["2027-01-14"] == ["keep_daily", "keep_monthly"]
    assert found["kept"]["2026-12-31"] == ["keep_monthly"]
    assert found["kept"]["mine"] == ["no_rule"]
    assert found["going"] == {"2026-11-30": "keep_rules", "2026-12-30": "keep_rules", "2027-01-13": "keep_rules"}
    assert scene.table.present() == {"2026-12-31", "2027-01-14", "mine", "Z"}
    assert any("UTC" in note for note in found["notes"]), "nobody declares a zone"


def test_a_calendar_rule_is_stronger_than_a_time_to_live_that_is_over() -> None:
    scene = TaggedWorld()
    scene.tagged(**{"2026-12-31": _ttl(hours=1), "2027-01-14": _ttl(hours=1)})
    scene.now_ms += 100 * HOUR_MS
    scene.expire_tags(pattern="*", keep_last="1")
    assert scene.tags() == {"2027-01-14"}


def test_a_time_to_live_that_is_not_over_is_stronger_than_a_calendar_rule() -> None:
    scene = TaggedWorld()
    scene.tagged(**{"2026-12-31": _ttl(days=10), "2027-01-14": {}})
    report = scene.expire_tags(status="nothing_to_do", pattern="*", keep_last="1")
    assert findings(report)["kept"]["2026-12-31"] == ["time_to_live"]


def test_tags_of_rollbacks_never_go_by_themselves() -> None:
    scene = TaggedWorld()
    scene.tagged(**{"rollback-to-as-latest-1-x": _ttl(hours=1), "t": {}})
    scene.now_ms += 100 * HOUR_MS
    scene.expire_tags(pattern="*", keep_last="1", status="nothing_to_do")
    assert scene.tags() == {"rollback-to-as-latest-1-x", "t"}


def test_a_policy_states_rules_and_a_zone() -> None:
    scene = TaggedWorld()
    scene.tagged(**{"2027-01-13": {}, "2027-01-14": {}, "t": _ttl(hours=1)})
    policies = MemoryStore("memory://policies")
    rule = {
        "tables": "memory://bucket/",
        "mode": "delete",
        "time_zone": "Asia/Shanghai",
        "tags": [{"pattern": "20*", "keep_last": 1}],
    }
    policies.put("policy.json", json.dumps({"version": 1, "rules": [rule]}).encode())
    maintainer = Maintainer(scene.store, control=scene.control, open_store=lambda location: policies)
    table = dataclasses.replace(maintainer.table, policy="memory://policies/policy.json")
    plan = plan_expire_tags(table, ExpireTagsArguments(is_pass=True))
    assert plan.header.findings["tags"]["going"] == {"2027-01-13": "keep_rules", "t": "time_to_live"}  # type: ignore[index]


def test_a_tag_that_cannot_be_read_stays_and_holds_files_back_but_not_documents() -> None:
    scene = TaggedWorld()
    scene.tagged(a=_ttl(hours=1), b=_ttl(hours=2))
    scene.table.tag("c", snapshot=3, ttl=timedelta(hours=1), create_time=MADE)
    scene.store.put("tag/tag-broken", b'{"id": 1')
    scene.is_broken = True
    scene.now_ms += 100 * HOUR_MS
    report = scene.expire_tags(time_zone="UTC")
    assert scene.tags() == {"a", "b", "broken"}
    found = findings(report)
    assert found["kept"] == {"a": ["unreadable_root"], "b": ["unreadable_root"], "broken": ["unreadable"]}
    assert found["going"] == {"c": "time_to_live"}
    assert any("tag-broken" in warning for warning in report.all_warnings())
    scene.store.delete([DeleteRequest("tag/tag-broken")])
    scene.is_broken = False
    scene.expire_tags(time_zone="UTC")
    assert scene.table.present() == {"Z"}


def test_a_broken_root_of_another_branch_holds_files_back() -> None:
    scene = TaggedWorld()
    scene.tagged(a=_ttl(hours=1))
    scene.store.put("branch/branch-x/tag/tag-broken", b"{")
    scene.is_broken = True
    scene.now_ms += 100 * HOUR_MS
    report = scene.expire_tags(status="nothing_to_do")
    assert findings(report)["kept"] == {"a": ["unreadable_root"]}
    assert any("branch-x" in warning for warning in report.all_warnings())


def test_a_branch_without_snapshots_keeps_its_tags() -> None:
    """They may be all that is left of it, as when a rollback to one of them died half-way."""
    scene = TaggedWorld()
    scene.tagged(a=_ttl(hours=1))
    scene.table.remove("snapshot/snapshot-2")
    scene.now_ms += 100 * HOUR_MS
    report = scene.expire_tags(status="nothing_to_do")
    assert findings(report)["kept"] == {"a": ["no_snapshot"]}
    assert scene.tags() == {"a"}


def test_a_table_without_tags_has_nothing_to_do() -> None:
    scene = TaggedWorld()
    scene.table.commit("+A")
    report = scene.expire_tags(status="nothing_to_do")
    assert "findings" not in report.to_json()


@pytest.mark.parametrize("option", ["tag.callbacks", "metastore.tag-to-partition"])
def test_others_who_know_tags_matter_when_one_goes(option: str) -> None:
    scene = TaggedWorld(options={option: "x"})
    scene.tagged(a=_ttl(hours=1))
    scene.as_pass(status="nothing_to_do")
    scene.now_ms += 100 * HOUR_MS
    report = scene.as_pass(status="refused")
    assert report.refusal is not None
    assert report.refusal.code == "needs_engine_callbacks"
    assert scene.tags() == {"a"}


def test_only_what_matches_is_touched() -> None:
    scene = TaggedWorld()
    scene.tagged(**{"daily-2027-01-13": {}, "daily-2027-01-14": {}, "Daily-x": {}, "x-daily-1": {}})
    scene.expire_tags(pattern="daily-*", keep_last="1")
    assert scene.tags() == {"daily-2027-01-14", "Daily-x", "x-daily-1"}


@pytest.mark.parametrize("is_pass", [True, False])
def test_a_call_by_hand_that_takes_much_is_confirmed_a_pass_is_not(
    monkeypatch: pytest.MonkeyPatch, is_pass: bool
) -> None:
    monkeypatch.setattr("lakesweep.operations.retention.release.CONFIRM_ABOVE_FILES", 1)
    scene = TaggedWorld()
    scene.tagged(a=_ttl(hours=1), b=_ttl(hours=1))
    scene.now_ms += 100 * HOUR_MS
    if is_pass:
        scene.as_pass()
        return
    report = scene.expire_tags(status="refused")
    assert report.refusal is not None
    assert report.refusal.code == "confirmation_needed"


def test_unchanged_tags_are_read_once() -> None:
    scene = TaggedWorld()
    scene.tagged(a=_ttl(hours=1), b={}, c={})
    reads: list[str] = []
    read = scene.store.read
    scene.store.read = lambda key, max_bytes=None: (reads.append(key), read(key, max_bytes))[1]  # type: ignore[method-assign, func-returns-value]
    table = Maintainer(scene.store).table
    plan_expire_tags(table, ExpireTagsArguments(is_pass=True))
    assert sum(key.startswith("tag/") for key in reads) == 3
    reads.clear()
    plan_expire_tags(table, ExpireTagsArguments(is_pass=True))
    assert reads == []


def test_several_rules_keep_what_any_of_them_keeps() -> None:
    scene = TaggedWorld()
    scene.tagged(**{"2026-12-31": {}, "2027-01-13": {}, "2027-01-14": {}})
    arguments = ExpireTagsArguments(keep=(KeepRules("*", last=1), KeepRules("2026*", yearly=1)))
    table = Maintainer(scene.store, control=scene.control).table
    plan = plan_expire_tags(table, arguments)
    assert plan.header.findings["tags"]["going"] == {"2027-01-13": "keep_rules"}  # type: ignore[index]
