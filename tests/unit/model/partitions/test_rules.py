"""What table options and calls say about partition expiry, and what is refused."""

import pytest

from lakesweep.errors import RefusedError
from lakesweep.model.partitions.formatter import DEFAULT
from lakesweep.model.partitions.rules import PartitionRules, partition_rules

TIME = {"partition.expiration-time": "7 d"}
DAY_NS = 86_400_000_000_000


def test_a_table_without_a_time() -> None:
    """Whatever its other options say."""
    assert partition_rules({"partition.expiration-strategy": "mine", "partition.expiration-max-num": "x"}) is None
    assert partition_rules({}, {"partition.expiration-time": None}) is None


def test_defaults() -> None:
    rules = partition_rules(TIME)
    assert rules == PartitionRules(7 * DAY_NS)
    assert (rules.strategy, rules.check_interval_ms, rules.max_num) == ("values-time", 3_600_000, 100)
    assert (rules.batch_size, rules.formatter, rules.pattern) == (None, DEFAULT, None)
    assert rules.default_name == "__DEFAULT_PARTITION__"


def test_every_option() -> None:
    rules = partition_rules(
        {
            "partition.expiration-time": "1500 \u00b5s",
            "partition.expiration-strategy": "values-time",
            "partition.expiration-check-interval": "0 s",
            "partition.expiration-max-num": "7",
            "partition.expiration-batch-size": "3",
            "partition.timestamp-formatter": "yyyyMMdd HH",
            "partition.timestamp-pattern": "$dt $hr",
            "partition.default-name": "none",
        }
    )
    assert rules is not None
    assert rules.to_json() == {
        "strategy": "values-time",
        "expiration_ms": 2,
        "check_interval_ms": 0,
        "max_num": 7,
        "batch_size": 3,
        "pattern": "$dt $hr",
    }
    assert rules.expiration_ns == 1_500_000 and rules.default_name == "none"
    assert rules.formatter.time_ns("20240105 08") == 1_704_441_600 * 1_000_000_000


def test_a_call_overrides_the_table() -> None:
    """What a call does not state remains."""
    overrides = {"partition.expiration-time": "1 d", "partition.expiration-max-num": None}
    rules = partition_rules({**TIME, "partition.expiration-max-num": "5"}, overrides)
    assert rules is not None and (rules.expiration_ns, rules.max_num) == (DAY_NS, 5)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("partition.expiration-time", "0"),
        ("partition.expiration-time", "0 d"),
        ("partition.expiration-time", "-1 d"),
        ("partition.expiration-time", "P7D"),
        ("partition.expiration-time", ""),
        ("partition.expiration-time", "7 weeks"),
        ("partition.expiration-check-interval", "-1 h"),
        ("partition.expiration-max-num", "0"),
        ("partition.expiration-max-num", "-1"),
        ("partition.expiration-max-num", "many"),
        ("partition.expiration-batch-size", "0"),
        ("partition.timestamp-formatter", "YYYYMMdd"),
        ("partition.timestamp-formatter", ""),
        ("partition.timestamp-pattern", ""),
        ("partition.timestamp-pattern", "$" * 10_001),
    ],
)
def test_invalid_values(option: str, value: str) -> None:
    """The message names the option."""
    with pytest.raises(RefusedError) as caught:
        partition_rules({**TIME, option: value})
    assert caught.value.code == "bad_option"
    assert f"option {option}: expected" in str(caught.value) and len(str(caught.value)) < 400


@pytest.mark.parametrize("word", ["custom", "values_time", "VALUES-TIME", "", "values-time "])
def test_other_strategies(word: str) -> None:
    """Only a class of the table's owner knows them, even where the word is nearly right."""
    with pytest.raises(RefusedError) as caught:
        partition_rules({**TIME, "partition.expiration-strategy": word})
    assert caught.value.code == "custom_partition_expiration"
    assert "partition.expiration-strategy" in str(caught.value) and "expire_partitions" in str(caught.value)


def test_an_option_that_a_later_paimon_may_know() -> None:
    with pytest.raises(RefusedError, match="expiration-retain-latest") as caught:
        partition_rules({**TIME, "partition.expiration-retain-latest": "true"})
    assert caught.value.code == "unknown_expiration_option"


def test_update_time_needs_no_formatter() -> None:
    """As in Paimon, one that nobody uses may be wrong."""
    options = {
        "partition.expiration-strategy": "update-time",
        "partition.timestamp-formatter": "YYYY",
        "partition.timestamp-pattern": "",
    }
    rules = partition_rules({**TIME, **options})
    assert rules is not None and (rules.formatter, rules.pattern) == (DEFAULT, None)
