"""`create-tag` and `replace-tag`: what a tag is made of, what it says, and what is refused."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from lakesweep.control.intent import Intent
from lakesweep.control.lease import acquire, read_lease
from lakesweep.control.plans import store_plan
from lakesweep.control.state import always_due, read_states, write_state
from lakesweep.errors import FormatError, OutOfTimeError, UsageError
from lakesweep.model.plan import Plan, Put, content_hash
from lakesweep.model.report import RunReport
from lakesweep.operations.registry import run_operation
from lakesweep.operations.tags.steps import OPERATION as AUTOMATIC
from lakesweep.storage.store import DeleteRequest
from lakesweep.storage.wrappers.wrapping import WrappingStore
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.reader import read_root
from tests.support.table_builder import TableBuilder

MINUTE_MS = 60_000
START_MS = 1_800_000_000_000


class Place:
    """A table of snapshots 1 to 5, a minute apart, at a time that stands still."""

    def __init__(self, *, count: int = 5, **options: str) -> None:
        self.store = MemoryStore("memory://bucket/t", clock=lambda: START_MS)
        self.table = TableBuilder(self.store, options=options)
        for number in range(1, count + 1):
            gone = [f"-F{number - 1}"] if number > 1 else []
            self.table.commit(*gone, f"+F{number}", time_ms=START_MS + number * MINUTE_MS)
        self.maintainer = Maintainer(self.store)

    def run(self, operation: str = "create-tag", *, execute: bool = True, **arguments: Any) -> RunReport:
        return self.maintainer.run(operation, execute=execute, **{"tag": "now", **arguments})

    def tag(self, name: str = "now", branch: str = "") -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.store.read(f"{branch}tag/tag-{name}").data)
        return document

    def expire(self, *ids: int) -> None:
        """Let snapshots go that tags hold."""
        for snapshot_id in ids:
            self.table.remove(f"snapshot/snapshot-{snapshot_id}")


def code_of(report: RunReport) -> str:
    assert report.status == "refused", report.status
    assert report.refusal is not None
    return report.refusal.code


# What it is made of.


def test_the_newest_snapshot() -> None:
    place = Place()
    report = place.run()
    assert report.status == "done"
    assert place.tag() == json.loads(place.store.read("snapshot/snapshot-5").data)
    assert report.to_json()["created"] == [{"kind": "tag", "path": "tag/tag-now"}]
    assert report.to_json()["snapshots"] == {"earliest": 1, "latest": 5, "expired": []}
    assert report.run_id == report.to_json()["plan_id"]
    read_root(place.store, "tag/tag-now")


def test_a_dry_run_writes_nothing_and_says_what_it_would() -> None:
    place = Place()
    before = [entry.key for entry in place.store.list("")]
    report = place.run(execute=False)
    assert (report.status, report.executed, report.run_id) == ("planned", False, None)
    assert report.to_json()["created"] == [{"kind": "tag", "path": "tag/tag-now"}]
    assert [entry.key for entry in place.store.list("")] == before
    plan = report.plan
    assert plan is not None
    assert place.maintainer.execute(plan.header.plan_id).status == "done"
    assert place.tag()["id"] == 5


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"snapshot": 2}, 2),
        ({"snapshot": "3"}, 3),
        ({"from_tag": "t1"}, 1),
        ({"snapshot": 1}, 1),
        ({"timestamp": START_MS}, 1),
        ({"timestamp": START_MS + MINUTE_MS}, 1),
        ({"timestamp": START_MS + MINUTE_MS + 1}, 2),
        ({"timestamp": START_MS + 5 * MINUTE_MS}, 5),
        ({"timestamp": "2027-01-15T08:02:30Z"}, 3),
        ({"version": "t4"}, 4),
        ({"version": 2}, 2),
        ({"version": "1"}, 1),
    ],
)
def test_where_it_comes_from(arguments: Mapping[str, Any], expected: int) -> None:
    """Snapshot 1 has expired, and tag t1 holds it: by id, by the tag, or by a time it lives on there."""
    place = Place()
    place.table.tag("t1", 1)
    place.table.tag("t4", 4)
    place.expire(1)
    assert place.run(**arguments).status == "done"
    assert place.tag()["id"] == expected
    read_root(place.store, "tag/tag-now")


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        ({"snapshot": 1}, "no_such_snapshot", "no snapshot 1, and no tag of it, either"),
        ({"snapshot": 6}, "no_such_snapshot", "2 to 5"),
        ({"from_tag": "t1"}, "no_such_tag", "no tag 't1'"),
        ({"timestamp": START_MS + 5 * MINUTE_MS + 1}, "no_such_snapshot", "committed at 2027-01-15T08:05:00.001+00:00"),
        ({"watermark": 1}, "no_such_snapshot", "no snapshot has watermark 1 or a higher one"),
        ({"version": "watermark-1"}, "no_such_snapshot", "no snapshot has watermark 1 or a higher one"),
        ({"version": "1"}, "no_such_snapshot", "no snapshot 1, and no tag of it, either"),
        ({"version": "t1"}, "no_such_tag", "version 't1' is not valid; expected a tag, watermark-<n> or the id"),
    ],
)
def test_there_is_no_such_source(arguments: Mapping[str, Any], code: str, sentence: str) -> None:
    place = Place()
    place.expire(1)
    for execute in (False, True):
        report = place.run(execute=execute, **arguments)
        assert code_of(report) == code
        assert report.refusal is not None
        assert sentence in report.refusal.message
    assert not [entry.key for entry in place.store.list("tag/")]


def test_no_snapshot_at_all() -> None:
    place = Place(count=0)
    assert code_of(place.run()) == "no_such_snapshot"


@pytest.mark.parametrize(
    ("first", "second"),
    [("snapshot", "from_tag"), ("from_tag", "timestamp"), ("timestamp", "watermark"), ("watermark", "version")],
)
def test_two_sources(first: str, second: str) -> None:
    with pytest.raises(UsageError, match=f"{first}: expected it without {second}"):
        Place().run(**{first: 1, second: 1})


WATERMARKS = {1: None, 2: 100, 3: None, 4: 200, 5: None, 6: 300}


@pytest.mark.parametrize(
    ("watermark", "expected"), [(-5, 2), (100, 2), (101, 4), (200, 4), (201, 6), (300, 6), (301, None)]
)
def test_watermarks_that_some_snapshots_lack(watermark: int, expected: int | None) -> None:
    """The first that has it or more; those without one are nobody's."""
    place = Place(count=0)
    for number, mark in WATERMARKS.items():
        place.table.commit(f"+F{number}", document={} if mark is None else {"watermark": mark})
    report = place.run(watermark=watermark)
    if expected is None:
        assert code_of(report) == "no_such_snapshot"
    else:
        assert place.tag()["id"] == expected


def test_a_text_that_may_be_a_tag_a_watermark_or_an_id() -> None:
    """In this order, as a reader would have it; of a watermark the first snapshot, as for the maker of any tag."""
    place = Place(count=0)
    for number, mark in WATERMARKS.items():
        place.table.commit(f"+F{number}", document={} if mark is None else {"watermark": mark})
    place.table.tag("3", 5)
    for text, expected in (("3", 5), ("2", 2), ("watermark-101", 4)):
        assert place.run(tag=f"of-{text}", version=text).status == "done"
        assert place.tag(f"of-{text}")["id"] == expected
    report = place.maintainer.run("replace-tag", tag="of-2", version="watermark-300")
    assert report.status == "done" and report.plan is not None
    assert report.plan.header.arguments == {"tag": "of-2", "version": "watermark-300"}
    assert place.tag("of-2")["id"] == 6


def test_a_tag_of_an_expired_snapshot_has_the_watermark() -> None:
    place = Place(count=0)
    for number, mark in WATERMARKS.items():
        place.table.commit(f"+F{number}", document={} if mark is None else {"watermark": mark})
    place.table.tag("t2", 2)
    place.table.tag("t3", 3)
    place.expire(1, 2, 3)
    assert place.run(watermark=50).status == "done"
    assert place.tag()["id"] == 2


def test_of_several_snapshots_of_one_time_the_first() -> None:
    place = Place(count=0)
    for number in range(1, 8):
        place.table.commit(f"+F{number}", time_ms=START_MS + (number // 3) * MINUTE_MS)
    assert place.run(timestamp=START_MS + MINUTE_MS).status == "done"
    assert place.tag()["id"] == 3


def test_a_tag_of_a_tag_loses_its_time_to_live() -> None:
    """The new tag has the one of its own call."""
    place = Place()
    assert place.run(tag="old", time_retained="1 d").status == "done"
    assert place.run(from_tag="old").status == "done"
    assert "tagTimeRetained" not in place.tag()
    assert "tagCreateTime" not in place.tag()
    assert place.run(tag="both", from_tag="old", time_retained="2 d").status == "done"
    assert place.tag("both")["tagTimeRetained"] == 172800


def test_the_branch_has_tags_of_its_own() -> None:
    place = Place()
    place.table.tag("base", 2)
    branch = place.table.branch("b", from_tag="base")
    branch.commit("+B")
    maintainer = Maintainer(place.store, branch="b")
    assert maintainer.run("create-tag", tag="now").status == "done"
    assert place.tag(branch="branch/branch-b/")["id"] == 3
    assert code_of(maintainer.run("create-tag", tag="now")) == "tag_exists"
    assert code_of(maintainer.run("create-tag", tag="other", snapshot=5)) == "no_such_snapshot"
    assert code_of(Maintainer(place.store, branch="c").run("create-tag", tag="x")) == "no_such_branch"


# How long it lives.


def test_a_time_to_live() -> None:
    """The time of creation is the one in the declared zone."""
    place = Place()
    report = place.run(time_retained="36 h", time_zone="Asia/Kolkata")
    assert report.status == "done"
    assert place.tag()["tagCreateTime"] == [2027, 1, 15, 13, 30]
    assert place.tag()["tagTimeRetained"] == 129600
    assert not any("time zone" in warning for warning in report.all_warnings())


def test_without_a_zone_it_is_utc_and_that_is_said() -> None:
    place = Place()
    report = place.run(time_retained="1 d")
    assert place.tag()["tagCreateTime"] == [2027, 1, 15, 8, 0]
    assert any("is written in UTC" in warning for warning in report.all_warnings())


@pytest.mark.parametrize(("given", "expected"), [(None, 604800), ("1 d", 86400)])
def test_the_tables_default(given: str | None, expected: int) -> None:
    """A time to live in the call comes first."""
    place = Place(**{"tag.default-time-retained": "7 d"})
    assert place.run(time_retained=given).status == "done"
    assert place.tag()["tagTimeRetained"] == expected


@pytest.mark.parametrize("span", ["0 ms", "0", "400000 d"])
def test_a_time_to_live_that_means_nothing(span: str) -> None:
    assert code_of(Place().run(time_retained=span)) == "bad_time_retained"


@pytest.mark.parametrize("span", ["-1 d", "soon", "1 fortnight"])
def test_a_time_to_live_that_does_not_parse(span: str) -> None:
    with pytest.raises(UsageError, match="time_retained: expected a duration"):
        Place().run(time_retained=span)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "+99", "Europe/../UTC"])
def test_an_unknown_zone(zone: str) -> None:
    """With a time to live or without."""
    for arguments in ({}, {"time_retained": "1 d"}):
        place = Place()
        try:
            assert code_of(place.run(time_zone=zone, **arguments)) == "bad_option"
        except UsageError as error:
            assert "time_zone" in str(error)
        assert not list(place.store.list("tag/"))


# Names.


@pytest.mark.parametrize(
    "name", ["", " ", "\t", "a/b", "/", "..", ".", "a\nb", "a\x00b", "\x7f", "x" * 300, "\udcff", "success-file"]
)
@pytest.mark.parametrize("operation", ["create-tag", "replace-tag"])
def test_names_that_no_tag_may_have(name: str, operation: str) -> None:
    place = Place()
    for execute in (False, True):
        try:
            report = place.run(operation, tag=name, execute=execute)
        except UsageError as error:
            assert error.code == "bad_tag_name"
            assert "tag" in str(error)
        else:
            assert code_of(report) == "bad_tag_name"
    assert not list(place.store.list("tag/"))


@pytest.mark.parametrize("name", ["a", "2026-01-31", "x" * 200, "héllo", "a b", "a=b", "tag-1", "日本", "a%2Fb", "'\""])
def test_names_that_a_tag_may_have(name: str) -> None:
    place = Place()
    assert place.run(tag=name).status == "done"
    assert place.tag(name)["id"] == 5


def test_a_number_warns_that_it_shadows_a_snapshot() -> None:
    """Readers that are given `3` as a version get the tag."""
    report = Place().run(tag="3")
    assert report.status == "done"
    assert any("3" in warning and "snapshot" in warning for warning in report.all_warnings())


@pytest.mark.parametrize("names", [[], ["a", "b"]])
def test_one_name_is_expected(names: list[str]) -> None:
    with pytest.raises(UsageError, match=f"tag: expected the name of one tag, found {len(names)}"):
        Place().run(tag=names)


# Tags that are there.


@pytest.mark.parametrize("execute", [False, True])
def test_a_name_that_is_taken(execute: bool) -> None:
    """By the same snapshot or another: the engine refuses both."""
    place = Place()
    for snapshot_id in (5, 2):
        place.table.tag("now", snapshot_id)
        before = place.store.read("tag/tag-now")
        report = place.run(execute=execute)
        assert code_of(report) == "tag_exists"
        ignored = place.run(execute=execute, ignore_if_exists=True)
        assert ignored.status == "nothing_to_do"
        assert any("is there already" in warning for warning in ignored.all_warnings())
        assert place.store.read("tag/tag-now") == before


def test_a_name_that_is_taken_matters_after_the_source() -> None:
    """As in the engine, whose call looks for the snapshot first."""
    place = Place()
    place.table.tag("now", 2)
    assert code_of(place.run(snapshot=99, ignore_if_exists=True)) == "no_such_snapshot"


@pytest.mark.parametrize(
    ("name", "options", "code"),
    [
        ("2027-01-14", {"tag.automatic-creation": "process-time", "sink.process-time-zone": "UTC"}, "auto_tag_exists"),
        ("2027-01-14", {"tag.automatic-creation": "process-time"}, "auto_tag_exists"),
        ("2027-01-14", {"tag.automatic-creation": "watermark"}, "auto_tag_exists"),
        ("2027-01-14", {"tag.automatic-creation": "batch"}, None),
        ("2027-01-14", {}, None),
        ("daily", {"tag.automatic-creation": "watermark"}, None),
        ("2027-01-14 05", {"tag.automatic-creation": "watermark", "tag.creation-period": "hourly"}, "auto_tag_exists"),
    ],
)
@pytest.mark.parametrize("operation", ["create-tag", "replace-tag"])
def test_no_snapshot_has_two_automatic_tags(
    name: str, options: dict[str, str], code: str | None, operation: str
) -> None:
    place = Place(**options)
    place.table.tag("2027-01-13 04" if "tag.creation-period" in options else "2027-01-13", 5)
    place.table.tag("manual", 5)
    if operation == "replace-tag":
        place.table.tag(name, 2)
    report = place.run(operation, tag=name)
    if code is None:
        assert report.status == "done", report.refusal
    else:
        assert code_of(report) == code
        assert place.run(operation, tag=name, snapshot=4).status == "done"


def test_an_automatic_tag_that_does_not_parse_may_be_on_the_snapshot() -> None:
    place = Place(**{"tag.automatic-creation": "watermark"})
    place.store.put("tag/tag-2027-01-13", b"{")
    assert code_of(place.run(tag="2027-01-14")) == "unreadable_root"
    assert place.run(tag="manual").status == "done"


def test_an_existing_automatic_tag_may_be_ignored() -> None:
    """That the name is there is found out before the rule about automatic tags."""
    place = Place(**{"tag.automatic-creation": "watermark"})
    place.table.tag("2027-01-13", 5)
    assert place.run(tag="2027-01-13", ignore_if_exists=True).status == "nothing_to_do"
    assert code_of(place.run(tag="2027-01-13")) == "tag_exists"


# Replacing.


def test_replace() -> None:
    """The time to live is the one of the call; the table's default is not for this."""
    place = Place(**{"tag.default-time-retained": "7 d"})
    assert place.run(snapshot=2).status == "done"
    assert place.tag()["tagTimeRetained"] == 604800
    report = place.run("replace-tag", snapshot=3)
    assert report.status == "done"
    assert place.tag()["id"] == 3
    assert "tagTimeRetained" not in place.tag()
    assert place.run("replace-tag", snapshot=3).status == "nothing_to_do"
    assert place.run("replace-tag", time_retained="1 d").status == "done"
    assert (place.tag()["id"], place.tag()["tagTimeRetained"]) == (5, 86400)


@pytest.mark.parametrize("execute", [False, True])
def test_replace_what_is_not_there(execute: bool) -> None:
    assert code_of(Place().run("replace-tag", execute=execute)) == "no_such_tag"


def test_replace_what_does_not_parse() -> None:
    """That is how such a tag is mended."""
    place = Place()
    place.store.put("tag/tag-now", b"{")
    assert place.run("replace-tag").status == "done"
    assert place.tag()["id"] == 5


def test_replace_has_no_such_argument() -> None:
    with pytest.raises(UsageError, match="replace-tag has no argument 'ignore_if_exists'"):
        Place().run("replace-tag", ignore_if_exists=True)


# The engine.


@pytest.mark.parametrize(
    ("options", "arguments", "warns"),
    [
        ({}, {"snapshot": 2}, True),
        ({}, {"snapshot": 5}, False),
        ({}, {}, False),
        ({"write-only": "true"}, {"snapshot": 2}, False),
        ({"write-only": "false"}, {"timestamp": START_MS}, True),
    ],
)
@pytest.mark.parametrize("execute", [False, True])
def test_what_cannot_be_promised(
    options: dict[str, str], arguments: dict[str, Any], warns: bool, execute: bool
) -> None:
    """Writers of a table that is not write-only expire snapshots, files first; the newest one they leave alone."""
    report = Place(**options).run(execute=execute, **arguments)
    assert any("files of tag" in warning for warning in report.all_warnings()) == warns


@pytest.mark.parametrize(
    "options",
    [
        {"tag.callbacks": "com.example.Callback"},
        {"metastore.tag-to-partition": "dt"},
        {"metadata.iceberg.storage": "table-location"},
    ],
)
@pytest.mark.parametrize("operation", ["create-tag", "replace-tag"])
def test_engine_callbacks(options: dict[str, str], operation: str) -> None:
    place = Place(**options)
    report = place.run(operation)
    assert code_of(report) == "needs_engine_callbacks"
    assert report.refusal is not None
    assert next(iter(options)) in report.refusal.message


def test_success_files() -> None:
    """Written with the tag, kept when a tag of that name was there before, and none for a tag that is replaced."""
    place = Place(**{"tag.create-success-file": "true"})
    path = "tag/tag-success-file/now_SUCCESS"
    report = place.run()
    assert [made["kind"] for made in report.to_json()["created"]] == ["tag", "tag_success"]  # type: ignore[attr-defined]
    first = json.loads(place.store.read(path).data)
    assert first["creationTime"] == first["modificationTime"] == START_MS
    place.store.put(path, json.dumps({"creationTime": 7, "modificationTime": 8}).encode())
    place.table.remove("tag/tag-now")
    assert place.run().status == "done"
    assert json.loads(place.store.read(path).data) == {"creationTime": 7, "modificationTime": START_MS}
    place.table.remove(path)
    assert place.run("replace-tag", snapshot=2).status == "done"
    assert path not in [entry.key for entry in place.store.list("tag/")]


def test_a_success_file_that_cannot_be_written_leaves_the_tag() -> None:
    place = Place(**{"tag.create-success-file": "true"})
    place.store.put("tag/tag-success-file/now_SUCCESS", b"not json")
    assert place.run().status == "done"
    assert json.loads(place.store.read("tag/tag-success-file/now_SUCCESS").data)["creationTime"] == START_MS


@pytest.mark.parametrize("body", [b'{"id": 5}', b"{", b"", b"[]", b'{"version": 99}'])
def test_a_damaged_source(body: bytes) -> None:
    place = Place()
    place.store.put("snapshot/snapshot-5", body)
    assert code_of(place.run()) in ("unreadable_root", "unsupported_version")
    assert not list(place.store.list("tag/"))


def test_damaged_tags_elsewhere_do_not_matter() -> None:
    """A tag that does not parse is no source, and nothing else asks for it."""
    place = Place()
    place.table.tag("t1", 1)
    place.store.put("tag/tag-bad", b"{")
    place.expire(1)
    assert place.run(snapshot=1).status == "done"
    assert code_of(place.run(tag="other", from_tag="bad")) == "unreadable_root"


# Others, and the plan.


def test_it_does_not_wait_for_a_maintainer() -> None:
    """The lease is held, and a plan is begun that takes other snapshots."""
    place = Place()
    area = place.maintainer.table.area
    assert area is not None
    acquire(area, "other", Intent("p", "main", end_id=3, runs=("other",), created_ms=START_MS))
    lease = read_lease(area)
    assert place.run().status == "done"
    assert place.run(tag="three", snapshot=3).status == "done"
    assert code_of(place.run(tag="two", snapshot=2)) == "snapshot_is_going"
    assert [entry.key for entry in place.store.list("tag/")] == ["tag/tag-now", "tag/tag-three"]
    assert read_lease(area) == lease


@pytest.mark.parametrize(
    ("intent", "is_going"),
    [
        (None, False),
        (Intent("p", "main", end_id=2, runs=("r",), created_ms=0), False),
        (Intent("p", "main", end_id=3, runs=("r",), created_ms=0), True),
        (Intent("p", "b", end_id=3, runs=("r",), created_ms=0), False),
        (Intent("p", "main", end_id=None, runs=("r",), created_ms=0), False),
        (Intent("p", "main", end_id=None, runs=("r",), created_ms=0, snapshot_ids=(1, 3)), False),
        (Intent("p", "main", end_id=None, runs=("r",), created_ms=0, snapshot_ids=(2,)), True),
    ],
)
def test_what_an_intent_says(intent: Intent | None, is_going: bool) -> None:
    """It is about one branch: snapshots below an id, or those that only tags hold."""
    place = Place()
    area = place.maintainer.table.area
    assert area is not None
    acquire(area, "other", intent)
    report = place.run(snapshot=2)
    assert (report.status == "refused") == is_going
    if is_going:
        assert code_of(report) == "snapshot_is_going"
        assert report.refusal is not None
        assert report.refusal.message.endswith("; the tag is withdrawn")
    replaced = place.run("replace-tag", snapshot=2) if not is_going else None
    assert replaced is None or replaced.status == "nothing_to_do"


def test_a_lease_that_does_not_parse_is_no_free_one() -> None:
    """Nobody knows what is about to go, so the tag is withdrawn."""
    place = Place()
    area = place.maintainer.table.area
    assert area is not None
    area.put("lease.json", b"{")
    with pytest.raises(FormatError, match="lease"):
        place.run(snapshot=2)
    assert not list(place.store.list("tag/"))
    assert place.run().status == "done"


def test_without_a_control_location() -> None:
    """A plan is made all the same; carried out it needs the place where maintainers meet."""
    place = Place()
    table = replace(place.maintainer.table, area=None)
    assert run_operation(table, "create-tag", {"tag": "now"}, execute=False).status == "planned"
    with pytest.raises(UsageError) as raised:
        run_operation(table, "create-tag", {"tag": "now"}, execute=True)
    assert raised.value.code == "control_missing"
    assert not list(place.store.list("tag/"))


@pytest.mark.parametrize("operation", ["create-tag", "replace-tag"])
def test_a_stored_plan_is_carried_out_once_and_for_a_time(operation: str) -> None:
    place = Place()
    if operation == "replace-tag":
        place.table.tag("now", 1)
    plans = [place.run(operation, execute=False).plan for _ in range(2)]
    first, second = (plan.header.plan_id for plan in plans if plan is not None)
    report = place.maintainer.execute(first, run_id="20270115T080000Z-00000000")
    assert (report.status, report.run_id) == ("done", "20270115T080000Z-00000000")
    assert place.maintainer.execute(first).status == "nothing_to_do"
    again = place.maintainer.execute(second)
    if operation == "create-tag":  # the same bytes: what an earlier run of the plan would have left
        assert again.status == "done"
    else:
        assert again.status == "done", again.refusal


def test_a_stored_plan_of_a_tag_that_changed() -> None:
    place = Place()
    place.table.tag("now", 1)
    plan = place.run("replace-tag", execute=False).plan
    assert plan is not None
    place.table.tag("now", 3)
    report = place.maintainer.execute(plan.header.plan_id)
    assert (report.status, report.refusal is not None and report.refusal.code) == ("stale", "stale")
    assert place.tag()["id"] == 3


def test_a_stored_plan_whose_snapshot_went_or_came_back_as_another() -> None:
    for change in ("gone", "other"):
        place = Place()
        plan = place.run(execute=False, snapshot=5).plan
        assert plan is not None
        place.table.rollback(4)
        if change == "other":
            place.table.commit("+G")
        report = place.maintainer.execute(plan.header.plan_id)
        assert code_of(report) == "snapshot_vanished"
        assert not list(place.store.list("tag/"))


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("tag/tag-now", "{"),
        ("tag/tag-now", None),
        ("tag/tag-a/b", None),
        ("tag/tag-success-file", None),
        ("snapshot/snapshot-9", None),
        ("branch/branch-b/tag/tag-now", None),
    ],
)
def test_a_stored_plan_that_nobody_here_made(path: str, body: str | None) -> None:
    """It writes a tag that parses, of a root that the plan has seen, where tags lie; or nothing."""
    place = Place()
    plan = place.run(execute=False).plan
    area = place.maintainer.table.area
    assert plan is not None
    assert area is not None
    (put,) = plan.actions
    assert isinstance(put, Put)
    actions = (replace(put, path=path, body=put.body if body is None else body),)
    header = replace(
        plan.header,
        plan_id="crafted",
        roots_seen={} if (path, body) == ("tag/tag-now", None) else plan.header.roots_seen,
        content_hash=content_hash(actions),
    )
    store_plan(area, Plan(header, actions))
    before = [entry.key for entry in place.store.list("")]
    try:
        report = place.maintainer.execute("crafted")
    except FormatError:
        pass
    else:
        assert report.status == "refused", path
    assert [entry.key for entry in place.store.list("")] == before


def test_the_zone_of_the_fleet_policy() -> None:
    """For the time of creation; that of the call comes first. A table that is paused gets no tag."""
    place = Place()
    policies = MemoryStore("memory://policies")
    table = replace(place.maintainer.table, policy="memory://policies/fleet.json", open_store=lambda location: policies)

    def run(rule: dict[str, Any], **arguments: Any) -> RunReport:
        policies.put(
            "fleet.json", json.dumps({"version": 1, "rules": [{"tables": "memory://bucket/t", **rule}]}).encode()
        )
        given = {"tag": "now", "time_retained": "1 d", **arguments}
        return run_operation(table, "create-tag", given, execute=True)

    assert run({"mode": "observe", "time_zone": "Asia/Kolkata"}).status == "done"
    assert place.tag()["tagCreateTime"] == [2027, 1, 15, 13, 30]
    assert run({"mode": "observe", "time_zone": "Asia/Kolkata"}, tag="b", time_zone="UTC").status == "done"
    assert place.tag("b")["tagCreateTime"] == [2027, 1, 15, 8, 0]
    assert code_of(run({"mode": "delete", "pause": True}, tag="c")) == "paused"


def test_when_it_ends_is_noted_for_passes_without_commits() -> None:
    """A pass that comes before, or a tag that stays for good, needs no note; what else is noted stays."""
    place = Place()
    area = place.maintainer.table.area
    assert area is not None
    assert place.run(tag="for-good").status == "done"
    assert read_states(area) == {}
    assert place.run(tag="week", time_retained="7 d").status == "done"
    assert read_states(area)["main"].tags_due_ms == START_MS + 7 * 86_400_000
    write_state(area, {**read_states(area), "b": always_due(3, 4)})
    assert place.run(tag="day", time_retained="1 d").status == "done"
    assert place.run("replace-tag", tag="day", time_retained="2 d").status == "done"
    assert read_states(area)["main"].tags_due_ms == START_MS + 86_400_000
    assert read_states(area)["b"] == always_due(3, 4)
    area.put("state.json", b"{")
    assert place.run(tag="hour", time_retained="1 h").status == "done"


# Several tags of one plan, as a pass makes them.

HOUR_MS = 3_600_000


def hourly(**options: str) -> Place:
    """Five snapshots whose watermarks are an hour apart: each but the first ends an hour."""
    place = Place(count=0, **{"tag.automatic-creation": "watermark", "tag.creation-period": "hourly", **options})
    for number in range(5):
        place.table.commit(f"+F{number}", document={"watermark": START_MS + number * HOUR_MS})
    return place


def step(place: Place, **table: Any) -> RunReport:
    """Run the step that makes automatic tags."""
    report = run_operation(replace(place.maintainer.table, **table), AUTOMATIC, {}, execute=True)
    assert report.steps
    return next(found for found in report.steps if found.operation == "auto-tags")


def test_time_that_runs_out_between_two_tags() -> None:
    """Those that were made stand, and are all that the report speaks of; the next pass makes the others."""
    place = hourly()
    asked: list[str] = []

    def check_time(what: str) -> None:
        asked.append(what)
        if len(asked) > 2:
            raise OutOfTimeError(f"no time is left for {what}")

    report = step(place, check_time=check_time)
    assert (report.status, report.refusal is not None and report.refusal.code) == ("partial", "out_of_time")
    made = [created["path"] for created in report.to_json()["created"]]  # type: ignore[attr-defined]
    assert made == [entry.key for entry in place.store.list("tag/")]
    assert len(made) == 2
    again = step(place)
    assert again.status == "done"
    assert len(list(place.store.list("tag/"))) == 5
    assert step(place).status == "nothing_to_do"


def test_no_time_for_the_first_tag() -> None:
    place = hourly()

    def check_time(what: str) -> None:
        raise OutOfTimeError(f"no time is left for {what}")

    with pytest.raises(OutOfTimeError):
        step(place, check_time=check_time)
    assert not list(place.store.list("tag/"))


class _Losing(WrappingStore):
    """Loses the oldest snapshots when the second tag is put, as an expiry takes them."""

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        etag = super().put(key, data, if_absent=if_absent, if_match=if_match)
        if len(list(self._store.list("tag/"))) == 2:
            super().delete([DeleteRequest("snapshot/snapshot-1"), DeleteRequest("snapshot/snapshot-2")])
        return etag


def test_one_of_several_snapshots_goes() -> None:
    """Those after it wait for the next pass, which finds another snapshot for its tag if there is one."""
    place = hourly()
    report = step(place, store=_Losing(place.store))
    assert (report.status, report.refusal is not None and report.refusal.code) == ("partial", "snapshot_vanished")
    ids = sorted(json.loads(place.store.read(entry.key).data)["id"] for entry in place.store.list("tag/"))
    assert ids == [1]
    assert step(place).status == "done"
    ids = sorted(json.loads(place.store.read(entry.key).data)["id"] for entry in place.store.list("tag/"))
    assert ids == [1, 3, 4, 5]


class _Naming(WrappingStore):
    """Makes a tag of the same name right before, as another pass would."""

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        if if_absent and key.startswith("tag/"):
            super().put(key, b"{}")
        return super().put(key, data, if_absent=if_absent, if_match=if_match)


def test_names_that_others_took_are_left() -> None:
    place = hourly()
    report = step(place, store=_Naming(place.store))
    assert (report.status, report.refusal, report.to_json()["created"]) == ("nothing_to_do", None, [])
    assert sum("stays as it is" in warning for warning in report.all_warnings()) == 5


def test_success_files_of_several_tags() -> None:
    place = hourly(**{"tag.create-success-file": "true"})
    report = step(place)
    kinds = [created["kind"] for created in report.to_json()["created"]]  # type: ignore[attr-defined]
    assert (kinds.count("tag"), kinds.count("tag_success")) == (5, 5)
    assert len(list(place.store.list("tag/tag-success-file/"))) == 5
