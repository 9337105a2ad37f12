"""The tour of all tables, where the folders are not as one would wish."""

import pytest

from lakesweep.aws import places as walk
from lakesweep.aws.sweeps import passes as module
from tests.functions.deployment import PREFIX, Deployment
from tests.support.iam import recorded
from tests.support.s3_server import moto_client

SWEEP: dict[str, object] = {"format_version": 1, "kind": "sweep", "cursor": None, "hop": 0}


def lake(places: str, names: list[str]) -> Deployment:
    """Write folders that look like tables to the sweep: a hint, a schema, and no more."""
    deployed = Deployment()
    deployed.extra = {"LAKESWEEP_TABLES": places.replace("B", deployed.bucket)}
    for name in names:
        deployed.store(name).put("snapshot/LATEST", b"1")
        deployed.store(name).put("schema/schema-0", b"{}")
    return deployed


def tour(deployed: Deployment, reads: int) -> tuple[list[str], int]:
    """Make a tour in parts, and return what was asked for, in order, and the number of parts."""
    message, parts, asked = SWEEP, 0, []
    while True:
        parts += 1
        answer = deployed.send("sweep", message, reads=reads)
        assert answer.failed == []
        assert "HopLimitReached" not in answer.metrics
        asked += [hint["table"] for hint in deployed.waiting("expire")]
        rest = deployed.waiting("sweep")
        if not rest:
            return asked, parts
        (message,) = rest


@pytest.mark.parametrize(
    "places",
    [f"B/{PREFIX}/sales.db,B/{PREFIX}", f"B/{PREFIX},B/{PREFIX}/sales.db", f"B/{PREFIX},B/{PREFIX}/sales.db/t03,B/x"],
)
def test_places_that_overlap(monkeypatch: pytest.MonkeyPatch, places: str) -> None:
    """Each table is asked once, and no part begins again where an earlier one has been."""
    monkeypatch.setattr(walk, "PARALLEL", 1)
    names = [f"{database}.db/t{number:02}" for database in ("sales", "zzz") for number in range(9)]
    deployed = lake(places, names)
    asked, parts = tour(deployed, reads=8)
    assert set(asked) == set(map(deployed.location, names))
    assert len(asked) <= len(names) + 4 * parts, "a part that was cut off asks its last group again"
    assert parts > 2


def test_odd_names() -> None:
    """In the order of keys, where `a-b/` comes before `a/`, and `a/` before `ab/`."""
    names = ["a/t", "a-b/t", "a.b/t", "ab/t", "a.db/x-1", "a.db/x", "é.db/t", "é/t", "deep/1/2/t", "sp ace/t+%41"]
    deployed = lake(f"B/{PREFIX}", names)
    asked, _ = tour(deployed, reads=10_000)
    assert sorted(asked) == sorted(map(deployed.location, names))
    for cut in (8, 20):
        fresh = lake(f"B/{PREFIX}", names)
        assert set(tour(fresh, reads=cut)[0]) == set(map(fresh.location, names))


def test_a_place_that_is_a_table() -> None:
    deployed = lake(f"B/{PREFIX}/sales.db/t", ["sales.db/t", "sales.db/u"])
    assert tour(deployed, reads=10) == ([deployed.location("sales.db/t")], 1)


def test_many_folders_that_are_no_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time may run out before the first table: the next part goes on in the folders, and does not list all again."""
    monkeypatch.setattr(walk, "PARALLEL", 2)
    deployed = lake("B", ["zzz/t"])
    for number in range(60):
        deployed.store(f"logs/dt={number:02}").put("file", b"x")
    asked, parts = tour(deployed, reads=3)
    assert asked == [deployed.location("zzz/t")]
    assert 2 < parts < 14


def test_the_control_location_below_a_place() -> None:
    """Its folders are many, and none is a table."""
    deployed = lake("B", ["sales.db/t"])
    deployed.extra = {**deployed.extra, "LAKESWEEP_CONTROL": f"s3://{deployed.bucket}/lakesweep"}
    for number in range(50):
        moto_client().put_object(
            Bucket=deployed.bucket, Key=f"lakesweep/tables/t{number}/plans/p/header.json", Body=b"x"
        )
    with recorded() as calls:
        answer = deployed.send("sweep", SWEEP)
    assert answer.metrics["TablesSwept"] == 1
    assert not [call for call in calls if call.context.get("s3:prefix", "").startswith("lakesweep/")]


def test_one_table_that_breaks_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that nobody foresaw is told of, and does not hold back the tables after it."""
    deployed = lake(f"B/{PREFIX}", ["a.db/t", "b.db/t"])
    found = module.lag_of

    def lag_of(table: object, state: object) -> object:
        if "a.db" in str(table.ref):  # type: ignore[attr-defined]
            raise ZeroDivisionError
        return found(table, state)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "lag_of", lag_of)
    answer = deployed.send("sweep", SWEEP)
    assert (answer.failed, answer.metrics["RunsFailed"]) == ([], 1)
    assert [hint["table"] for hint in deployed.waiting("expire")] == [deployed.location("b.db/t")]


def test_a_sweep_that_fails_is_counted() -> None:
    """Its message is a dead letter only hours later."""
    deployed = lake(f"B/{PREFIX}", ["sales.db/orders"])
    deployed.extra = {**deployed.extra, "LAKESWEEP_POLICY": f"s3://{deployed.bucket}/missing.json"}
    answer = deployed.send("sweep", SWEEP)
    assert answer.failed == ["m0"]
    assert answer.metrics["RunsFailed"] == 1
