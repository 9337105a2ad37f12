"""Input that means nothing, and places that cannot be reached: a run says what it met and loses nothing."""

from collections.abc import Sequence

import pytest

from lakesweep.errors import AccessDeniedError, MaintenanceError, StorageError
from lakesweep.model.report import RunReport
from lakesweep.storage.store import DeleteRequest, DeleteResult, Store
from tests.support.maintenance import Maintainer, assert_roots_readable
from tests.support.memory_store import MemoryStore
from tests.support.outside import opener
from tests.support.table_builder import TableBuilder

NOW_MS = 1_800_000_000_000
RULES = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2", "snapshot.time-retained": "1000 d"}
OUTSIDE = "memory://outside/p"


def outside_key(number: int) -> str:
    """Return the key of a data file outside."""
    return f"bucket-0/data-00000000-0000-0000-0000-{number:012d}-0.parquet"


class Scene:
    """Six snapshots, each of which replaces the file of the one before; every other file may lie outside."""

    def __init__(self, outside: MemoryStore | None = None, **options: str) -> None:
        self.store = MemoryStore("memory://bucket/db.db/t", clock=lambda: NOW_MS)
        self.outside = outside
        self.table = TableBuilder(
            self.store,
            options=RULES | {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()},
            externals={outside.location: outside} if outside is not None else None,
            start_ms=NOW_MS - 86_400_000,
        )
        for number in range(1, 7):
            external = {f"F{number}": f"{OUTSIDE}/{outside_key(number)}"} if outside is not None and number % 2 else {}
            gone = [f"-F{number - 1}"] if number > 1 else []
            self.table.commit(*gone, f"+F{number}", changelog=[f"+L{number}"], external=external)
        self.maintainer = Maintainer(
            self.store,
            control=MemoryStore("memory://control", clock=lambda: NOW_MS),
            open_store=self._open,
            sleep=lambda seconds: None,
            external_roots=(OUTSIDE,),
        )

    def _open(self, location: str) -> Store:
        assert self.outside is not None
        return opener(self.outside)(location)

    def listing(self) -> dict[str, str]:
        return {entry.key: entry.etag for entry in self.store.list("")}

    def snapshots(self) -> list[int]:
        names = [entry.key.rpartition("-")[2] for entry in self.store.list("snapshot/")]
        return sorted(int(name) for name in names if name.isdigit())


def refused(scene: Scene, operation: str = "maintain", **arguments: object) -> str:
    """Run, make sure that nothing changed, and return what was said."""
    before = scene.listing()
    try:
        report = scene.maintainer.run(operation, **arguments)
        assert report.status == "refused"
        assert report.refusal is not None
        sentence = report.refusal.message
    except MaintenanceError as error:
        sentence = str(error)
    assert scene.listing() == before
    return sentence


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
    scene = Scene(changelog__num_retained__max="9")
    scene.store.set_modified(scene.table.consumer("reader", 6), NOW_MS - 1)
    scene.table.alter(options={key: value})
    sentence = refused(scene)
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
    scene = Scene()
    scene.maintainer.expire(retain_max=3, retain_min=3)  # something to do is left, and a changelog if there are any
    scene.table.changelog_document(4)
    scene.table.alter(options=options)
    report = scene.maintainer.maintain()
    steps = report.steps or (report,)
    assert any(step.refusal is not None and word in step.refusal.message for step in steps), report
    assert_roots_readable(scene.table)
    assert scene.snapshots()[-2:] == [5, 6]


def test_an_option_that_nobody_knows_is_left_alone() -> None:
    """Tables hold options of readers, of writers and of versions to come."""
    scene = Scene()
    scene.table.alter(options={"snapshot.num-retained.maximum": "1", "something.new": "\u00fc", "bucket-key": ""})
    assert scene.maintainer.maintain().status == "done"
    assert scene.snapshots() == [5, 6]


def test_only_the_newest_schema_counts() -> None:
    """A value that meant nothing and was mended stops nobody."""
    scene = Scene(snapshot__time_retained="soon")
    refused(scene)
    scene.table.alter(options={"snapshot.time-retained": "1000 d"})
    assert scene.maintainer.maintain().status == "done"


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
    scene = Scene()
    scene.store.put("consumer/consumer-odd", body)
    assert "consumer/consumer-odd" in refused(scene)


@pytest.mark.parametrize("body", BODIES)
def test_a_consumer_of_another_branch_that_does_not_parse_stops_nobody(body: bytes) -> None:
    """It says nothing about this branch, whatever it says."""
    scene = Scene()
    scene.table.tag("t", snapshot=3)
    scene.table.branch("b", from_tag="t")
    scene.store.put("branch/branch-b/consumer/consumer-odd", body)
    assert scene.maintainer.maintain().status == "done"
    assert scene.snapshots() == [5, 6]
    assert_roots_readable(scene.table)


@pytest.mark.parametrize("body", BODIES)
def test_a_consumer_that_stops_parsing_before_the_execution(body: bytes) -> None:
    scene = Scene()
    scene.table.consumer("reader", 6)
    planned = scene.maintainer.run("expire_snapshots", execute=False).plan
    assert planned is not None
    scene.store.put("consumer/consumer-reader", body)
    before = scene.listing()
    report = scene.maintainer.execute(planned.header.plan_id)
    assert report.status == "refused"
    assert report.refusal is not None
    assert report.refusal.code == "unreadable_consumer"
    assert scene.listing() == before
    scene.table.consumer("reader", 6)
    assert scene.maintainer.maintain().status == "done"
    assert scene.snapshots() == [5, 6]


# Changelogs with holes.


@pytest.mark.parametrize("producer", ["none", "input"])
@pytest.mark.parametrize("holes", [(1,), (1, 2), (3,), (2, 4), (1, 2, 3), (3, 4)], ids=str)
@pytest.mark.parametrize("hint", [None, 0, 1, 3, 99])
def test_holes_among_changelogs(producer: str, holes: tuple[int, ...], hint: int | None) -> None:
    """What exists is listed: holes and hints that name them change neither what goes nor what stays."""
    scene = Scene(changelog__num_retained__max="4", changelog_producer=producer)
    table = scene.table
    for number in (1, 2, 3, 4):
        table.changelog_document(number)
        table.remove(f"snapshot/snapshot-{number}")
    for number in holes:
        table.remove(f"changelog/changelog-{number}")
    for name in ("EARLIEST", "LATEST"):
        if hint is not None:
            table.hint(name, hint, folder="changelog")
    report = scene.maintainer.maintain()
    assert report.status in ("done", "nothing_to_do"), report.refusal
    assert_roots_readable(table)
    left = {int(e.key.rpartition("-")[2]) for e in scene.store.list("changelog/") if "changelog-" in e.key}
    assert left == _by_the_rules({1, 2, 3, 4} - set(holes))


def _by_the_rules(here: set[int]) -> set[int]:
    """Return which of these changelogs stay beside snapshots 5 and 6, when four are to stay in all and none is old."""
    first, last = max(3, min(here)), max(here)
    end = next((number for number in range(first, last + 1) if number in here), last)
    return {number for number in here if number >= end} if last > min(here) and end in here else here


def test_changelogs_with_holes_up_to_the_snapshots() -> None:
    """An expiry adds to them, and fills no hole."""
    scene = Scene(changelog__num_retained__max="100")
    scene.table.changelog_document(1)
    for number in (1, 2, 3):
        scene.table.remove(f"snapshot/snapshot-{number}")
    assert scene.maintainer.maintain().status == "done"
    left = sorted(int(e.key.rpartition("-")[2]) for e in scene.store.list("changelog/") if "changelog-" in e.key)
    assert left == [1, 4]
    assert scene.snapshots() == [5, 6]
    assert_roots_readable(scene.table)


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
    scene = Scene(outside)
    outside.how = how
    report = scene.maintainer.run("expire_snapshots")
    assert report.status == "partial"
    assert report.outcome is not None
    assert {failed.path for failed in report.outcome.failed} == {
        f"{OUTSIDE}/{outside_key(1)}",
        f"{OUTSIDE}/{outside_key(3)}",
    }
    assert {entry.key for entry in outside.list("")} == {outside_key(1), outside_key(3), outside_key(5)}
    assert not {"F2", "F4", "L1", "L2", "L3", "L4"} & scene.table.present(), "what lies inside is gone"
    assert scene.snapshots() == [5, 6]
    assert_roots_readable(scene.table)
    scene.table.commit("+G")
    assert scene.maintainer.run("expire_snapshots").status == "partial", "file 5 left the table at snapshot 6"
    assert scene.snapshots() == [6, 7]
    assert_roots_readable(scene.table)
    outside.how = ""
    assert report.plan is not None
    assert scene.maintainer.execute(report.plan.header.plan_id).status == "done"
    assert {entry.key for entry in outside.list("")} == {outside_key(5)}
    assert_roots_readable(scene.table)


def test_an_external_root_that_does_not_answer() -> None:
    """That may pass: the run is interrupted and says where, the next one asks again, and then it is finished."""
    outside = Unreachable(OUTSIDE)
    scene = Scene(outside)
    outside.how = "no_answer"
    report = scene.maintainer.maintain()
    assert report.status == "partial"
    assert f"delete in {OUTSIDE}: no answer" in _said(report)
    assert {entry.key for entry in outside.list("")} == {outside_key(1), outside_key(3), outside_key(5)}
    assert_roots_readable(scene.table)
    with pytest.raises(StorageError, match=OUTSIDE):
        scene.maintainer.maintain()
    assert_roots_readable(scene.table)
    outside.how = ""
    scene.table.commit("+G")
    assert scene.maintainer.maintain().status == "done"
    assert list(outside.list("")) == [], "file 5 left the table at snapshot 6, which is the oldest now"
    assert_roots_readable(scene.table)


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
    one = Scene(outside)
    place = MemoryStore(f"{OUTSIDE}/other" if below else "memory://bucket/db.db/other")
    other = TableBuilder(place, externals={OUTSIDE: outside}, options=RULES)
    other.commit("+A", external={"A": f"{OUTSIDE}/{outside_key(9)}"})
    other.commit("+B")
    assert one.maintainer.maintain().status == "done"
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
    scene = Scene(outside)
    scene.table.alter(options={option: value})
    sentence = refused(scene)
    assert "table memory://bucket/db.db/t: schema/schema-1, option " in sentence
    assert option in sentence
    assert value.rpartition(",")[2] in sentence
    assert "expected an absolute path or URI" in sentence
    assert len(list(outside.list(""))) == 3


def test_an_external_root_of_a_branch_that_means_nothing() -> None:
    """Roots of every schema of every branch are asked, so that one is named by its path."""
    scene = Scene(MemoryStore(OUTSIDE))
    branch = scene.table.branch("b")
    branch.alter(options={"data-file.external-paths": "relative/p"})
    assert "branch/branch-b/schema/schema-1" in refused(scene)


def test_an_external_root_that_means_nothing_is_a_refusal_and_no_damage() -> None:
    """It is reported as every other refusal is, before anything goes."""
    scene = Scene(MemoryStore(OUTSIDE))
    scene.table.alter(options={"data-file.external-paths": "relative/p"})
    for report in (scene.maintainer.plan(), scene.maintainer.expire()):
        assert report.status == "refused"
        assert report.refusal is not None
        assert report.refusal.code == "bad_option"


def test_an_external_root_that_stops_to_mean_something_before_the_execution() -> None:
    """A plan is held against the schemas once more."""
    scene = Scene(MemoryStore(OUTSIDE))
    planned = scene.maintainer.plan(retain_max=2).plan
    assert planned is not None
    scene.table.alter(options={"data-file.external-paths": "relative/p"})
    before = scene.listing()
    report = scene.maintainer.execute(planned.header.plan_id)
    assert report.status == "refused"
    assert report.refusal is not None
    assert "schema/schema-1" in report.refusal.message
    assert scene.listing() == before


def test_an_external_root_that_means_nothing_stops_no_plan_of_files_inside() -> None:
    scene = Scene()
    scene.table.alter(options={"data-file.external-paths": "relative/p"})
    assert scene.maintainer.maintain().status == "done"
    assert scene.snapshots() == [5, 6]


@pytest.mark.parametrize(
    ("option", "value"), [("index-file-in-data-file-dir", "maybe"), ("data-file.path-directory", "../elsewhere")]
)
def test_an_option_about_places_that_means_nothing(option: str, value: str) -> None:
    """Where files lie is not known then, so none goes."""
    scene = Scene()
    scene.table.alter(options={**RULES, option: value})
    said = refused(scene)
    assert option in said
    assert scene.store.location in said
