"""The tables of docs/cost.md are what counts and prices make them."""

import datetime
import json
import re

import pytest

from benchmarks import cost
from lakesweep.model.prices import request_units, storage_usd, usd_of
from tests.conftest import REPOSITORY
from tests.support.stack import render

TEMPLATE = REPOSITORY / "template.yaml"


def template() -> str:
    if not TEMPLATE.is_file():
        pytest.skip("no template.yaml")
    return TEMPLATE.read_text(encoding="utf-8")


def test_the_page_is_up_to_date() -> None:
    """Who changes a price, a count or an assumption runs `python -m benchmarks.cost`."""
    page = cost.PAGE.read_text(encoding="utf-8")
    assert cost.with_tables(page) == page


def test_every_price_says_where_it_comes_from() -> None:
    """A page of AWS each, and a link to whoever repeats what that page does not show."""
    document = json.loads(cost.PRICES.read_text(encoding="utf-8"))
    datetime.date.fromisoformat(document["date"])
    for name, entry in document["prices"].items():
        assert entry["page"].startswith("https://aws.amazon.com/"), name
        assert entry["from"] in ("aws", "quoted", "known"), name
        assert ("quoted" in entry) == (entry["from"] == "quoted"), name
        assert entry["usd"] >= 0, name
        assert entry["per"] > 0, name


def test_usages_add_up() -> None:
    """A sum costs what its parts cost."""
    one, other = cost.quiet_commit(), cost.expiring_commit()
    assert cost.dollars(one + other) == pytest.approx(cost.dollars(one) + cost.dollars(other))
    assert cost.dollars(one * 3) == pytest.approx(3 * cost.dollars(one))


def test_what_the_page_says_of_twice_an_assumption() -> None:
    """The last column of its table of assumptions."""
    second = cost.price_of("lambda_gb_second")
    million = 1_000_000 * second
    assert cost.SECONDS["on_snapshot_written"] * cost.MEMORY_GB["on_snapshot_written"] * million == pytest.approx(
        2, 0.1
    )
    assert cost.SECONDS["pass of 1"] * cost.MEMORY_GB["expire"] * million == pytest.approx(20, 0.1)
    assert cost.SECONDS["pass of 60"] * cost.MEMORY_GB["expire"] * cost.MINUTES * second == pytest.approx(5, 0.1)
    swept = cost.SECONDS["sweep, a table"] * 1000 * cost.MEMORY_GB["sweep"] * cost.HOURS * second
    assert swept == pytest.approx(0.10, 0.1)
    swept = cost.SECONDS["table of a table sweep"] * 1000 * cost.MEMORY_GB["orphan_scan"] * cost.HOURS * second
    assert swept == pytest.approx(0.10, 0.1)
    swept = (
        cost.SECONDS["table of a table sweep"]
        * 1000
        * cost.MEMORY_GB["tag_schedule"]
        * cost.HOURS
        * cost.TAG_SWEEPS
        * second
    )
    assert swept == pytest.approx(0.20, 0.1)
    kilobytes = sum(cost.LOG_KB.values())
    gigabyte = cost.price_of("cloudwatch_logs") + cost.price_of("cloudwatch_log_storage")
    assert kilobytes * gigabyte == pytest.approx(3.70, 0.01)
    puts = cost.WRITTEN_A_COMMIT * cost.price_of("s3_put_list")
    bridge = cost.hot_table().units["eventbridge_opt_in"] * cost.price_of("eventbridge_opt_in")
    assert puts * cost.SECONDS_A_MONTH / bridge == pytest.approx(2.5, 0.05)


def test_the_template_has_what_is_counted() -> None:
    """Queues with a function, and metrics that alarms look at; in a deployment without Spark."""
    stack = render()
    functions = stack.of_type("AWS::Serverless::Function").values()
    assert sum(len(function.get("Events", {})) for function in functions) == cost.QUEUES
    alarms = stack.of_type("AWS::CloudWatch::Alarm").values()
    metrics = [sum("MetricStat" in each for each in alarm.get("Metrics", ())) or 1 for alarm in alarms]
    assert sum(metrics) == cost.ALARM_METRICS


def test_the_dashboard_has_the_same_prices() -> None:
    """The template's estimate and docs/prices.json are one."""
    prices = dict(re.findall(r'^      (\w+): "([0-9.]+)"', template().split("\n  Prices:", 1)[1], flags=re.MULTILINE))
    expected = {
        "S3Write": "s3_put_list",
        "S3Read": "s3_get",
        "GigabyteSecond": "lambda_gb_second",
        "Invocation": "lambda_request",
    }
    for name, price in expected.items():
        assert float(prices[name]) == pytest.approx(cost.price_of(price)), name
    assert float(prices["Message"]) == pytest.approx(3 * cost.price_of("sqs_standard"))


def test_what_the_demo_cost() -> None:
    """The page's arithmetic, from the requests that the demo printed; how many it sends is not held here."""
    units = request_units({"get": 494, "list": 305, "put": 322, "delete": 74})
    usd, freed = usd_of(units), 505_276
    text = cost.PAGE.read_text(encoding="utf-8")
    assert f"39 of them runs, sent 1 195 requests for {usd:.4f} USD" in text
    assert f"{freed / 1024:.0f} KiB, or {storage_usd(freed):.5f} USD a month" in text
    assert f"within a month from {usd / 39 / storage_usd(1 << 20):.1f} MiB freed" in text
