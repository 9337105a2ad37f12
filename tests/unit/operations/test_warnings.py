"""Warnings that matter: a streaming writer that would lose its last snapshot, and what pins old files."""

from datetime import timedelta
from typing import Any

import pytest

from lakesweep.errors import RefusedError, StorageError, UsageError
from lakesweep.operations.inspect.show import summarise
from lakesweep.operations.inspect.table_summary import ShownPin
from lakesweep.runs.parameters.signatures import PROTECT_COMMIT_USER, SIGNATURES
from lakesweep.storage.requests import RequestCounter
from tests.support.maintenance import Maintainer, assert_roots_readable
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TICK_MS, TableBuilder

RULES = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3", "snapshot.time-retained": "1 h"}
USERS = ("spark", "flink-a", "flink-a", "flink-b", "spark", "flink-a", "spark", "spark")
"""Who made snapshots 1 to 8. Every one replaces the file of the one before."""


def table_of(*users: str, options: dict[str, str] | None = None, counter: RequestCounter | None = None) -> TableBuilder:
    store = MemoryStore("memory://lake/t", counter, clock=lambda: len(users) * TICK_MS)
    table = TableBuilder(store, options=RULES if options is None else options)
    for number, user in enumerate(users, 1):
        entries = (f"+F{number}", *([f"-F{number - 1}"] if number > 1 else []))
        identifier = {} if user == "spark" else {"identifier": number}
        table.commit(*entries, user=user, size={f"F{number}": 100 + number}, **identifier)  # type: ignore[arg-type]
    return table


@pytest.fixture
def table() -> TableBuilder:
    return table_of(*USERS)


def test_expiry_warns_of_streaming_users(table: TableBuilder) -> None:
    """Snapshots 1 to 5 go: the last of flink-b is among them, flink-a has a later one, spark never looks."""
    report = Maintainer(table.store).plan(retain_max=3)
    (warning,) = report.all_warnings()
    assert warning.startswith("snapshot 4, the last one of the streaming commit user flink-b, expires; ")
    assert "--protect-commit-user flink-b keeps the snapshot" in warning


def test_a_protected_user_keeps_its_last_snapshot(table: TableBuilder) -> None:
    """And every later one; then nobody needs a warning."""
    maintainer = Maintainer(table.store)
    report = maintainer.expire(protect_commit_users=("flink-b",))
    assert report.status == "done"
    assert report.plan is not None
    assert report.plan.header.snapshots["expired"] == [1, 2, 3]
    assert report.plan.header.kept["commit_user"] == 4
    assert report.plan.header.arguments["protect_commit_user"] == ["flink-b"]
    assert report.all_warnings() == ()
    assert_roots_readable(table)


def test_a_protected_user_may_keep_everything() -> None:
    """Nothing to do, whatever the retention says."""
    table = table_of("flink-a", *["spark"] * 7)
    report = Maintainer(table.store).expire(protect_commit_users=("flink-a",))
    assert report.plan is not None
    assert (report.status, report.plan.header.kept["commit_user"]) == ("nothing_to_do", 7)


def test_a_protected_user_without_snapshots_is_named(table: TableBuilder) -> None:
    """A misspelt user protects nothing, so that is said."""
    report = Maintainer(table.store).plan(protect_commit_users=("flink_b",))
    assert "no snapshot of the protected commit user flink_b is left to keep" in report.all_warnings()


def test_show_warns_of_what_the_next_run_takes(table: TableBuilder) -> None:
    """The same sentence as the plan's."""
    (warning,) = summarise(Maintainer(table.store).table).warnings
    assert warning == Maintainer(table.store).plan(retain_min=None, retain_max=None).all_warnings()[0]
    calm = table_of(*USERS[4:])
    assert summarise(Maintainer(calm.store).table).warnings == ()


def test_show_stays_quick_with_many_snapshots() -> None:
    """Hundreds of snapshots that nobody expires cost no more reads than ten."""
    costs = []
    for count in (10, 300):
        counter = RequestCounter()
        table = table_of(*["flink-a"] * count, options={"snapshot.time-retained": "1000 d"}, counter=counter)
        table.merge_manifests()
        before = counter.snapshot()["get"]
        summarise(Maintainer(table.store, counter=counter).table)
        costs.append(counter.snapshot()["get"] - before)
    assert costs[1] <= costs[0] + 2


# What pins old files.


def pins(table: TableBuilder, *, pinned: bool = True, branch: str = "main") -> dict[str, ShownPin]:
    found = summarise(Maintainer(table.store, branch=branch).table, pinned=pinned).pins
    return {pin.name: pin for pin in found}


def test_nothing_pins(table: TableBuilder) -> None:
    """No consumer, no branch, no tag."""
    assert pins(table) == {}


def test_a_tag_pins_what_only_it_needs(table: TableBuilder) -> None:
    """Not what the newest snapshot, a retained one or another tag has; tags with a time to live are no pins."""
    for name, snapshot_id in (("gone", 1), ("twin", 2), ("twin-2", 2), ("young", 7), ("now", 8)):
        table.tag(name, snapshot=snapshot_id)
    table.tag("month", snapshot=3, ttl=timedelta(days=30))
    expected = {
        "gone": ShownPin("tag", "gone", 1, 1, 101),  # snapshot 1 itself goes with the next run
        "twin": ShownPin("tag", "twin", 2, 0, 0),
        "twin-2": ShownPin("tag", "twin-2", 2, 0, 0),
        "young": ShownPin("tag", "young", 7, 0, 0),
        "now": ShownPin("tag", "now", 8, 0, 0),
    }
    assert pins(table) == expected
    table.remove("snapshot/snapshot-1")
    assert pins(table)["gone"] == expected["gone"]


def test_the_oldest_consumer_pins_what_would_expire(table: TableBuilder) -> None:
    """Snapshots 2 to 5 would go without it, and their files with them but for one that a tag has."""
    table.consumer("slow", 2)
    table.consumer("slower", 2)
    table.consumer("quick", 8)
    assert pins(table) == {"slow": ShownPin("consumer", "slow", 2, 4, 102 + 103 + 104 + 105)}
    table.tag("month", snapshot=3, ttl=timedelta(days=30))
    assert pins(table)["slow"] == ShownPin("consumer", "slow", 2, 3, 102 + 104 + 105)


def test_a_consumer_near_the_newest_pins_nothing(table: TableBuilder) -> None:
    """What the retention keeps anyway is not its doing."""
    table.consumer("quick", 7)
    assert pins(table) == {"quick": ShownPin("consumer", "quick", 7, 0, 0)}


def test_the_oldest_branch_pins_what_only_it_needs(table: TableBuilder) -> None:
    """Its own files, and old ones of the table that only it still has."""
    for number, name in ((4, "newer"), (2, "older")):
        table.tag(name, snapshot=number, ttl=timedelta(days=1))
        table.branch(name, from_tag=name)
        table.remove(f"tag/tag-{name}")
    table.on_branch("older").commit("+B", size={"B": 1000})
    assert pins(table) == {"older": ShownPin("branch", "older", 2, 2, 102 + 1000)}
    assert pins(table, pinned=False) == {"older": ShownPin("branch", "older", 2)}


def test_a_file_that_moved_up_a_level_counts_as_one() -> None:
    """Compaction adds the same file again at another level; a tag of before pins nothing."""
    table = TableBuilder(MemoryStore("memory://lake/t", clock=lambda: 0), options=RULES)
    table.commit("+A")
    table.tag("before", snapshot=1)
    table.commit("-A", "+A@5")
    assert pins(table)["before"].bytes == 0


def test_changelogs_need_what_their_commit_added() -> None:
    """A file of a changelog document is not pinned by a tag alone."""
    table = table_of("spark", "spark", "spark")
    table.tag("first", snapshot=1)
    assert pins(table)["first"].bytes == 0  # snapshot 1 stays
    table.changelog_document(1)
    table.remove("snapshot/snapshot-1")
    assert pins(table)["first"].bytes == 0
    table.remove("changelog/changelog-1")
    assert pins(table)["first"].bytes == 101


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_unreadable_metadata_is_refused(table: TableBuilder, damage: str) -> None:
    """A sum that leaves out a root that cannot be read would be wrong; without --pinned it is not asked."""
    table.tag("old", snapshot=2)
    path = f"manifest/{table.document('tag/tag-old')['deltaManifestList']}"
    if damage == "missing":
        table.remove(path)
    else:
        table.corrupt(path)
    assert pins(table, pinned=False) == {"old": ShownPin("tag", "old", 2)}
    with pytest.raises(RefusedError) as raised:
        pins(table)
    assert raised.value.code == "unreadable_root"
    assert path in str(raised.value)


def test_a_failed_read_is_an_error(table: TableBuilder) -> None:
    """A request that fails says nothing about a root."""

    class Failing(MemoryStore):
        def read(self, key: str, max_bytes: int | None = None) -> Any:
            raise StorageError(f"no answer about {key}")

    failing = Failing("memory://lake/t")
    failing.__dict__.update(table.store.__dict__)
    with pytest.raises(StorageError):
        summarise(Maintainer(failing).table, pinned=True)


def test_protected_users_as_a_message_gives_them() -> None:
    """One text or several; a user given twice counts once."""
    for name in ("expire-snapshots", "maintain"):
        for value, users in (("a", ("a",)), (["b", "a", "b"], ("b", "a")), ([], ()), (None, ())):
            assert SIGNATURES[name].parse({"protect_commit_user": value})[PROTECT_COMMIT_USER] == users
        for value in (1, [1], " ", ["a", ""], {"a": "b"}):
            with pytest.raises(UsageError) as raised:
                SIGNATURES[name].parse({"protect_commit_user": value})
            assert raised.value.code == "bad_argument"
