"""Input that means nothing, and places that cannot be reached: a run says what it met and loses nothing."""

from collections.abc import Sequence
from typing import Any

import pytest

from lakesweep.errors import AccessDeniedError, StorageError
from lakesweep.model.report import RunReport
from lakesweep.storage.store import DeleteRequest, DeleteResult
from tests.support.faulty_store import Switch
from tests.support.maintenance import Maintainer, assert_roots_readable
from tests.support.memory_store import MemoryStore
from tests.support.outside import opener
from tests.support.table_builder import TableBuilder
from tests.support.world import START_MS, World

RULES = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2", "snapshot.time-retained": "1000 d"}
OUTSIDE = "memory://outside/p"


def outside_key(number: int) -> str:
    """Return the key of a data file outside."""
    return f"bucket-0/data-00000000-0000-0000-0000-{number:012d}-0.parquet"


class SixWorld(World):
    """Six snapshots, each of which replaces the file of the one before; every other file may lie outside."""

    def __init__(self, outside: MemoryStore | None = None, **options: str) -> None:
        super().__init__(
            location="memory://bucket/db.db/t",
            options=RULES | {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()},
            externals={outside.location: outside} if outside is not None else None,
            start_ms=START_MS - 86_400_000,
        )
        self.external_roots = (OUTSIDE,)
        for number in range(1, 7):
            external = {f"F{number}": f"{OUTSIDE}/{outside_key(number)}"} if outside is not None and number % 2 else {}
            gone = [f"-F{number - 1}"] if number > 1 else []
            self.table.commit(*gone, f"+F{number}", changelog=[f"+L{number}"], external=external)

    def maintainer(self, switch: Switch | None = None, **arguments: Any) -> Maintainer:
        opens = opener(*self.table.externals.values()) if self.table.externals else pytest.fail
        return super().maintainer(switch, **{"open_store": opens, **arguments})

    def refused(self, operation: str = "maintain") -> str:
        """Run, make sure that nothing changed, and return what was said."""
        return self.refusal(operation)[1]


# Options.


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("snapshot.num-retained.min", "ten"),
        ("snapshot.num-retained.min", ""),
        ("snapshot.num-retained.min", "1.0"),
        ("snapshot.num-retained.max", "2147483648"),
        ("snapshot.num-retained.max", "all"),
        ("snapshot.time-retained", "soon"),
        ("snapshot.time-retained", "-1 h"),
        ("snapshot.time-retained", "1 h 30 min"),
        ("snapshot.time-retained", "PT1H"),
        ("snapshot.time-retained", ""),
        ("snapshot.expire.limit", "some"),
        ("changelog.num-retained.min", "x"),
        ("changelog.num-retained.max", "-"),
        ("changelog.time-retained", "1 fortnight"),
        ("changelog-producer", "loud"),
        ("consumer.changelog-only", "perhaps"),
        ("index-file-in-data-file-dir", "perhaps"),
        ("data-file.path-directory", "../elsewhere"),
    ],
)
def test_an_option_of_the_table_that_means_nothing(key: str, value: str) -> None:
    """The sentence names the option and its value, and nothing changes."""
    world = SixWorld(changelog__num_retained__max="9")
    world.store.set_modified(world.table.consumer("reader", 6), world.now_ms - 1)
    world.table.alter(options={key: value})
    sentence = world.refused()
    assert key in sentence
    assert value in sentence


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"snapshot.num-retained.min": "0"}, "retain_min"),
        ({"snapshot.num-retained.min": "-3"}, "retain_min"),
        ({"snapshot.num-retained.min": "5", "snapshot.num-retained.max": "4"}, "retain_max"),
        ({"snapshot.expire.limit": "0"}, "max_deletes"),
        ({"snapshot.expire.limit": "-1"}, "max_deletes"),
        ({"changelog.num-retained.max": "9", "changelog.num-retained.min": "10"}, "retain_max"),
        ({"changelog.num-retained.max": "9", "changelog.num-retained.min": "0"}, "retain_min"),
    ],
)
def test_options_that_contradict_themselves(options: dict[str, str], word: str) -> None:
    """They would empty a table, or never end. The pass may have done what its other steps have to do."""
    world = SixWorld()
    world.maintainer().expire(retain_max=3, retain_min=3)  # something to do is left, and a changelog if there are any
    world.table.changelog_document(4)
    world.table.alter(options=options)
    report = world.maintain()
    steps = report.steps or (report,)
    assert any(step.refusal is not None and word in step.refusal.message for step in steps), report
    assert_roots_readable(world.table)
    assert world.ids()[-2:] == [5, 6]


def test_an_option_that_nobody_knows_is_left_alone() -> None:
    """Tables hold options of readers, of writers and of versions to come."""
    world = SixWorld()
    world.table.alter(options={"snapshot.num-retained.maximum": "1", "something.new": "\u00fc", "bucket-key": ""})
    assert world.maintain().status == "done"
    assert world.ids() == [5, 6]


def test_only_the_newest_schema_counts() -> None:
    """A value that meant nothing and was mended stops nobody."""
    world = SixWorld(snapshot__time_retained="soon")
    world.refused()
    world.table.alter(options={"snapshot.time-retained": "1000 d"})
    assert world.maintain().status == "done"


# Consumers.

BODIES = [
    b"",
    b"{",
    b"[]",
    b"5",
    b'{"nextSnapshot": null}',
    b'{"nextSnapshot": 1.5}',
    b'{"nextSnapshot": "4"}',
    b"\xff",
]


@pytest.mark.parametrize("body", BODIES)
def test_a_consumer_that_does_not_parse_stops_the_pass(body: bytes) -> None:
    world = SixWorld()
    world.store.put("consumer/consumer-odd", body)
    assert "consumer/consumer-odd" in world.refused()


@pytest.mark.parametrize("body", BODIES)
def test_a_consumer_of_another_branch_that_does_not_parse_stops_nobody(body: bytes) -> None:
    """It says nothing about this branch, whatever it says."""
    world = SixWorld()
    world.table.tag("t", snapshot=3)
    world.table.branch("b", from_tag="t")
    world.store.put("branch/branch-b/consumer/consumer-odd", body)
    assert world.maintain().status == "done"
    assert world.ids() == [5, 6]
    assert_roots_readable(world.table)


@pytest.mark.parametrize("body", BODIES)
def test_a_consumer_that_stops_parsing_before_the_execution(body: bytes) -> None:
    world = SixWorld()
    world.table.consumer("reader", 6)
    planned = world.maintainer().run("expire-snapshots", execute=False).plan
    assert planned is not None
    world.store.put("consumer/consumer-reader", body)
    before = world.etags()
    report = world.maintainer().execute(planned.header.plan_id)
    assert report.status == "refused"
    assert report.refusal is not None
    assert report.refusal.code == "unreadable_consumer"
    assert world.etags() == before
    world.table.consumer("reader", 6)
    assert world.maintain().status == "done"
    assert world.ids() == [5, 6]


# Changelogs with holes.


@pytest.mark.parametrize("producer", ["none", "input"])
@pytest.mark.parametrize("holes", [(1,), (1, 2), (3,), (2, 4), (1, 2, 3), (3, 4)], ids=str)
@pytest.mark.parametrize("hint", [None, 0, 1, 3, 99])
def test_holes_among_changelogs(producer: str, holes: tuple[int, ...], hint: int | None) -> None:
    """What exists is listed: holes and hints that name them change neither what goes nor what stays."""
    world = SixWorld(changelog__num_retained__max="4", changelog_producer=producer)
    table = world.table
    for number in (1, 2, 3, 4):
        table.changelog_document(number)
        table.remove(f"snapshot/snapshot-{number}")
    for number in holes:
        table.remove(f"changelog/changelog-{number}")
    for name in ("EARLIEST", "LATEST"):
        if hint is not None:
            table.hint(name, hint, folder="changelog")
    report = world.maintain()
    assert report.status in ("done", "nothing_to_do"), report.refusal
    assert_roots_readable(table)
    left = set(world.ids("changelog"))
    assert left == _by_the_rules({1, 2, 3, 4} - set(holes))


def _by_the_rules(here: set[int]) -> set[int]:
    """Return which of these changelogs stay beside snapshots 5 and 6, when four are to stay in all and none is old."""
    first, last = max(3, min(here)), max(here)
    end = next((number for number in range(first, last + 1) if number in here), last)
    return {number for number in here if number >= end} if last > min(here) and end in here else here


def test_changelogs_with_holes_up_to_the_snapshots() -> None:
    """An expiry adds to them, and fills no hole."""
    world = SixWorld(changelog__num_retained__max="100")
    world.table.changelog_document(1)
    for number in (1, 2, 3):
        world.table.remove(f"snapshot/snapshot-{number}")
    assert world.maintain().status == "done"
    assert world.ids("changelog") == [1, 4]
    assert world.ids() == [5, 6]
    assert_roots_readable(world.table)


# External roots.


class Unreachable(MemoryStore):
    """A store that answers nothing, or says no to every deletion."""

    how = ""

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        if self.how == "denied":
            return [DeleteResult(request.key, "access_denied") for request in requests]
        if self.how == "no_answer":
            raise StorageError(f"delete in {self.location}: no answer", code="timeout")
        if self.how == "no_bucket":
            raise StorageError(f"delete in {self.location}: no such bucket", code="no_such_bucket")
        if self.how == "no_permission":
            raise AccessDeniedError(f"delete in {self.location}: permission denied")
        return super().delete(requests)


@pytest.mark.parametrize("how", ["denied", "no_permission", "no_bucket"])
def test_an_external_root_that_says_no(how: str) -> None:
    """Its files stay, the report names each, maintenance goes on, and the plan can be executed again."""
    outside = Unreachable(OUTSIDE)
    world = SixWorld(outside)
    outside.how = how
    report = world.run("expire-snapshots")
    assert report.status == "partial"
    assert report.outcome is not None
    assert {failed.path for failed in report.outcome.failed} == {
        f"{OUTSIDE}/{outside_key(1)}",
        f"{OUTSIDE}/{outside_key(3)}",
    }
    assert {entry.key for entry in outside.list("")} == {outside_key(1), outside_key(3), outside_key(5)}
    assert not {"F2", "F4", "L1", "L2", "L3", "L4"} & world.table.present(), "what lies inside is gone"
    assert world.ids() == [5, 6]
    assert_roots_readable(world.table)
    world.table.commit("+G")
    assert world.run("expire-snapshots").status == "partial", "file 5 left the table at snapshot 6"
    assert world.ids() == [6, 7]
    assert_roots_readable(world.table)
    outside.how = ""
    assert report.plan is not None
    assert world.maintainer().execute(report.plan.header.plan_id).status == "done"
    assert {entry.key for entry in outside.list("")} == {outside_key(5)}
    assert_roots_readable(world.table)


def test_an_external_root_that_does_not_answer() -> None:
    """That may pass: the run is interrupted and says where, the next one asks again, and then it is finished."""
    outside = Unreachable(OUTSIDE)
    world = SixWorld(outside)
    outside.how = "no_answer"
    report = world.maintain()
    assert report.status == "partial"
    assert f"delete in {OUTSIDE}: no answer" in _said(report)
    assert {entry.key for entry in outside.list("")} == {outside_key(1), outside_key(3), outside_key(5)}
    assert_roots_readable(world.table)
    with pytest.raises(StorageError, match=OUTSIDE):
        world.maintain()
    assert_roots_readable(world.table)
    outside.how = ""
    world.table.commit("+G")
    assert world.maintain().status == "done"
    assert list(outside.list("")) == [], "file 5 left the table at snapshot 6, which is the oldest now"
    assert_roots_readable(world.table)


def _said(report: RunReport) -> str:
    parts = [report, *(report.steps or ())]
    words = [part.refusal.message for part in parts if part.refusal is not None]
    words += [failed.path for part in parts if part.outcome is not None for failed in part.outcome.failed]
    return " ".join(words)


@pytest.mark.parametrize("below", [False, True])
def test_two_tables_below_one_external_root(below: bool) -> None:
    """Each takes its own files by their exact names, and lists nothing: what else lies there is not its own.

    Args:
        below: The other table itself lies below the root.
    """
    outside = MemoryStore(OUTSIDE)
    one = SixWorld(outside)
    place = MemoryStore(f"{OUTSIDE}/other" if below else "memory://bucket/db.db/other")
    other = TableBuilder(place, externals={OUTSIDE: outside}, options=RULES)
    other.commit("+A", external={"A": f"{OUTSIDE}/{outside_key(9)}"})
    other.commit("+B")
    assert one.maintain().status == "done"
    assert {entry.key for entry in outside.list("")} == {outside_key(5), outside_key(9)}
    assert_roots_readable(one.table)
    assert_roots_readable(other)


@pytest.mark.parametrize(
    "value",
    ["relative/p", f"{OUTSIDE},relative/p", "s3://", "memory://outside/../p", f"{OUTSIDE},memory://outside/./p"],
)
@pytest.mark.parametrize("option", ["data-file.external-paths", "global-index.external-path"])
def test_an_external_root_that_means_nothing(option: str, value: str) -> None:
    """Where files outside may go, the sentence names the schema's file, the option and what it says."""
    outside = MemoryStore(OUTSIDE)
    world = SixWorld(outside)
    world.table.alter(options={option: value})
    sentence = world.refused()
    assert "table memory://bucket/db.db/t: schema/schema-1, option " in sentence
    assert option in sentence
    assert value.rpartition(",")[2] in sentence
    assert "expected an absolute path or URI" in sentence
    assert len(list(outside.list(""))) == 3


def test_an_external_root_of_a_branch_that_means_nothing() -> None:
    """Roots of every schema of every branch are asked, so that one is named by its path."""
    world = SixWorld(MemoryStore(OUTSIDE))
    branch = world.table.branch("b")
    branch.alter(options={"data-file.external-paths": "relative/p"})
    assert "branch/branch-b/schema/schema-1" in world.refused()


def test_an_external_root_that_means_nothing_is_a_refusal_and_no_damage() -> None:
    """It is reported as every other refusal is, before anything goes."""
    world = SixWorld(MemoryStore(OUTSIDE))
    world.table.alter(options={"data-file.external-paths": "relative/p"})
    for report in (world.maintainer().plan(), world.maintainer().expire()):
        assert report.status == "refused"
        assert report.refusal is not None
        assert report.refusal.code == "bad_option"


def test_an_external_root_that_stops_to_mean_something_before_the_execution() -> None:
    """A plan is held against the schemas once more."""
    world = SixWorld(MemoryStore(OUTSIDE))
    planned = world.maintainer().plan(retain_max=2).plan
    assert planned is not None
    world.table.alter(options={"data-file.external-paths": "relative/p"})
    before = world.etags()
    report = world.maintainer().execute(planned.header.plan_id)
    assert report.status == "refused"
    assert report.refusal is not None
    assert "schema/schema-1" in report.refusal.message
    assert world.etags() == before


def test_an_external_root_that_means_nothing_stops_no_plan_of_files_inside() -> None:
    world = SixWorld()
    world.table.alter(options={"data-file.external-paths": "relative/p"})
    assert world.maintain().status == "done"
    assert world.ids() == [5, 6]


@pytest.mark.parametrize(
    ("option", "value"), [("index-file-in-data-file-dir", "maybe"), ("data-file.path-directory", "../elsewhere")]
)
def test_an_option_about_places_that_means_nothing(option: str, value: str) -> None:
    """Where files lie is not known then, so none goes."""
    world = SixWorld()
    world.table.alter(options={**RULES, option: value})
    said = world.refused()
    assert option in said
    assert world.store.location in said
