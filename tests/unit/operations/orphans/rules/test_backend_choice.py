"""Where a scan runs, and what it would take: rules at their borders, and sentences with figures."""

import json
from dataclasses import replace
from typing import Any

import pytest

from lakesweep.model.prices import PRICES_DATE, USD, request_units, usd_of
from lakesweep.model.scans import Facts, InventoryFacts, LocalFacts, SparkFacts
from lakesweep.operations.orphans.fan_out import limits
from lakesweep.operations.orphans.fan_out.spill import SLOTS
from lakesweep.operations.orphans.rules import fan_out_estimate
from lakesweep.operations.orphans.rules.backend_choice import (
    FAR_LONGER,
    MAX_LAMBDA_OBJECTS,
    MIN_INVENTORY_OBJECTS,
    Choice,
    choose_backend,
    estimate_of,
    say_count,
    say_seconds,
    say_usd,
)
from lakesweep.operations.orphans.rules.backend_estimates import local_mib
from tests.conftest import REPOSITORY

IN_A_FUNCTION = LocalFacts(memory_mib=1024, seconds=900.0, cores=1024 / 1769, is_lambda=True)
EMR = SparkFacts(executors=16, cores=4, start_s=120.0)
HOUR_MS = 3_600_000


def facts(objects: int, **more: Any) -> Facts:
    """Return a table of a hundred roots whose files are named by two manifests each."""
    return Facts(
        objects,
        more.pop("objects_from", "last_run"),
        **{
            "roots": 100,
            "lists": 200,
            "manifests": 40 + objects // 8000,
            "entries": 2 * objects,
            "local": IN_A_FUNCTION,
            "has_fan_out": True,
            "spark": EMR,
            **more,
        },
    )


def chosen(objects: int, **more: Any) -> Choice:
    return choose_backend(facts(objects, **more))


def test_prices_are_those_of_the_document() -> None:
    """One source of prices: what the package carries is what docs/prices.json says."""
    document = json.loads((REPOSITORY / "docs" / "prices.json").read_text(encoding="utf-8"))
    assert document["date"] == PRICES_DATE
    for name, usd in USD.items():
        entry = document["prices"][name]
        assert usd == pytest.approx(entry["usd"] / entry["per"]), name


@pytest.mark.parametrize(
    ("objects", "engine"),
    [
        (0, "local"),
        (1_000, "local"),
        (1_000_000, "local"),
        (2_000_000, "lambda"),
        (10_000_000, "lambda"),
        (MAX_LAMBDA_OBJECTS + 1, "spark"),
        (1_000_000_000, "spark"),
    ],
)
def test_size_decides(objects: int, engine: str) -> None:
    """In a deployment: one function, then many, then Spark."""
    assert chosen(objects).engine == engine


def test_memory_of_one_process_bounds_it() -> None:
    """At half of its memory it still runs there; with a byte more to keep it does not."""
    objects = next(n for n in range(0, 4_000_000, 1000) if local_mib(facts(n)) > 512)
    assert chosen(objects - 1000).engine == "local"
    assert chosen(objects).engine == "lambda"
    assert "one process would take 512 MiB of 1024" in chosen(objects).reason


def test_time_of_one_process_bounds_it() -> None:
    """Many roots take time and little memory."""
    found = chosen(10_000, roots=30_000, lists=60_000, manifests=30_000)
    assert found.engine == "lambda"
    assert "one process would take 1" in found.reason
    assert found.reason.endswith("of 15 min")


@pytest.mark.parametrize(
    ("objects", "more", "engine"),
    [
        (5_000_000, {"has_fan_out": False}, "spark"),
        (5_000_000, {"spark": None}, "lambda"),
        (5_000_000, {"has_fan_out": False, "spark": None}, "local"),
        (50_000_000, {"spark": None}, "lambda"),
        (50_000_000, {"has_fan_out": False, "spark": None}, "local"),
    ],
)
def test_what_is_not_there_is_not_chosen(objects: int, more: dict[str, Any], engine: str) -> None:
    """What outgrows everything goes to the largest that is there, and says so."""
    found = chosen(objects, **more)
    assert found.engine == engine
    assert found.estimate.engine == engine
    only = objects > MAX_LAMBDA_OBJECTS or engine == "local"
    assert ("no larger backend is available" in found.reason) == (only and engine != "spark")


def test_a_cent_does_not_decide() -> None:
    """Spark on this machine costs nothing but requests, and a few of them less: that is no reason to start it."""
    found = chosen(100_000, local=LocalFacts(8192, 3600.0), spark=SparkFacts(cores=2), has_fan_out=False)
    assert {estimate.engine for estimate in found.estimates} == {"local", "spark"}
    assert found.engine == "local"
    assert found.reason.endswith("since it fits, and no other saves a cent")


def test_much_faster_beats_cheaper() -> None:
    """What takes four times as long, and ten minutes more, gives way."""
    slow = facts(9_000_000, local=LocalFacts(16_384, 36_000.0, cores=0.1), spark=EMR, has_fan_out=False)
    found = choose_backend(slow)
    local, spark = (estimate_of(slow, engine) for engine in ("local", "spark"))
    assert local.usd < spark.usd
    assert local.seconds > FAR_LONGER * spark.seconds
    assert found.engine == "spark"
    assert "local costs less and would take" in found.reason
    assert choose_backend(replace(slow, local=LocalFacts(16_384, 36_000.0))).engine == "local"


@pytest.mark.parametrize(
    ("objects", "age_h", "taken", "why"),
    [
        (50_000_000, 24, True, ""),
        (50_000_000, 72, True, ""),
        (50_000_000, 73, False, "the inventory is 73 h old"),
        (MIN_INVENTORY_OBJECTS - 1, 1, False, "an inventory pays from 10 000 000 objects on"),
        (MIN_INVENTORY_OBJECTS, 1, False, "functions read no inventory"),
    ],
)
def test_inventory(objects: int, age_h: int, taken: bool, why: str) -> None:
    """It is read where it is fresh and where a listing costs something."""
    found = chosen(objects, inventory=InventoryFacts(age_h * HOUR_MS, files=20))
    assert found.use_inventory == taken
    assert why in found.reason
    if taken:
        without = estimate_of(facts(objects), found.engine)
        assert found.estimate.requests["list"] < without.requests["list"] / 2
        assert found.estimate.usd < without.usd


@pytest.mark.parametrize("objects", [0, 1, 999, 10_000, 1_000_000, 20_000_000])
@pytest.mark.parametrize("engine", ["local", "lambda", "spark"])
def test_an_estimate_is_whole(objects: int, engine: Any) -> None:
    """Its cost is that of its units; it grows with the table; as JSON it is JSON."""
    small, large = estimate_of(facts(objects), engine), estimate_of(facts(2 * objects + 5000), engine)
    assert small.usd == pytest.approx(usd_of(small.units))
    assert small.usd <= large.usd
    assert small.seconds <= large.seconds
    assert all(count <= large.requests[kind] for kind, count in small.requests.items())
    assert json.loads(json.dumps(small.to_json()))["usd"] == pytest.approx(small.usd, abs=1e-6)
    if engine == "lambda":
        assert sum(sum(step.values()) for step in small.by_step.values()) == small.request_count


def test_known_manifests_are_not_decoded_again() -> None:
    """A repeat run reads one manifest in a hundred, and decodes as many entries."""
    first = facts(1_000_000)
    again = replace(first, new_manifests=2, segments=3)
    assert again.undecoded_entries == first.entries * 2 // first.manifests
    decoding = [estimate_of(each, "lambda").by_step["decode"]["get"] for each in (first, again)]
    assert decoding[1] == 1 + 2
    assert decoding[0] > 165


def test_requests_to_a_folder_cost_nothing() -> None:
    """A table on a disk has no bill."""
    found = chosen(100_000, is_paid=False, local=LocalFacts(8192, 3600.0), has_fan_out=False, spark=None)
    assert (found.engine, found.estimate.usd) == ("local", 0.0)


def test_units_of_requests() -> None:
    """Kinds have the prices of their classes; deletions have none."""
    assert request_units({"get": 3, "head": 1, "list": 4, "put": 2, "delete": 9}) == {"s3_get": 4, "s3_put_list": 6}
    assert usd_of({"s3_get": 1000, "s3_put_list": 1000}) == pytest.approx(0.0054)


def test_reasons_have_figures() -> None:
    """One sentence: how large, by what, where, and why."""
    assert chosen(3_000_000, objects_from="metrics").reason == (
        "3 000 000 objects (by the bucket's metrics): lambda, since spark would cost 0.186 USD; "
        "one process would take 1130 MiB of 1024"
    )
    assert json.loads(json.dumps(chosen(10).to_json()))["engine"] == "local"


def test_how_figures_are_said() -> None:
    """Thousands apart; units that fit; two figures of an amount."""
    assert (say_count(1234567), say_count(0)) == ("1 234 567", "0")
    assert [say_seconds(each) for each in (0.4, 119, 120, 7199, 7200)] == ["0 s", "119 s", "2 min", "120 min", "2.0 h"]
    assert [say_usd(each) for each in (0.00041, 0.25, 12.345)] == ["0.0004 USD", "0.250 USD", "12.35 USD"]


def test_limits_are_those_of_the_fan_out() -> None:
    """An estimate counts tasks as they are made."""
    estimate = vars(fan_out_estimate)
    for name in ("FIRST_PAGES", "LIST_PAGES", "DECODE_ENTRIES", "DECODE_MANIFESTS", "MATCH_ROWS", "FILL"):
        assert estimate[name] == getattr(limits, name), name
    assert (estimate["WAYS"], estimate["SLOTS"]) == (limits.WAYS, SLOTS)
