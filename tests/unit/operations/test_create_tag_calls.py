"""Arguments of operations on tags, as JSON gives them."""

from typing import Any

import pytest

from lakesweep.errors import UsageError
from lakesweep.operations.registry import OPERATIONS, parse_call
from lakesweep.operations.tags.call import TAG_ARGUMENTS, TagCall
from lakesweep.runs.parameters.time_travel import Version

CREATE = OPERATIONS["create_tag"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, TagCall()),
        ({"tag": "now"}, TagCall(names=("now",))),
        ({"tag": 7}, TagCall(names=("7",))),
        ({"tag": ["a", "b", "a"]}, TagCall(names=("a", "b"))),
        ({"tag": None, "snapshot": None}, TagCall()),
        ({"snapshot": 3}, TagCall(source=Version(snapshot_id=3))),
        ({"snapshot": " 3 "}, TagCall(source=Version(snapshot_id=3))),
        ({"watermark": "-5"}, TagCall(source=Version(watermark=-5))),
        ({"from_tag": "old"}, TagCall(source=Version(tag="old"))),
        ({"version": "watermark-5"}, TagCall(source=Version(version="watermark-5"))),
        ({"version": 3}, TagCall(source=Version(version="3"))),
        ({"timestamp": 1769860800000}, TagCall(source=Version(timestamp_ms=1769860800000))),
        ({"timestamp": "2026-01-31T12:00:00Z"}, TagCall(source=Version(timestamp_ms=1769860800000))),
        ({"time_retained": "1 d"}, TagCall(time_retained_ms=86_400_000)),
        ({"time_retained": 500}, TagCall(time_retained_ms=500)),
        ({"ignore_if_exists": "true"}, TagCall(ignore_if_exists=True)),
        ({"time_zone": "Europe/Berlin"}, TagCall(time_zone="Europe/Berlin")),
    ],
)
def test_what_they_mean(arguments: dict[str, Any], expected: TagCall) -> None:
    """Numbers may be texts; what is null is not given."""
    assert parse_call(CREATE, arguments).tags == expected


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"tag": {}}, "tag: expected a name"),
        ({"tag": [["a"]]}, "tag: expected text"),
        ({"tag": True}, "tag: expected text"),
        ({"snapshot": True}, "snapshot: expected a whole number"),
        ({"snapshot": 1.5}, "snapshot: expected a whole number"),
        ({"snapshot": ""}, "snapshot: expected a whole number"),
        ({"snapshot": "9" * 20}, "snapshot: expected a whole number"),
        ({"from_tag": ["a"]}, "from_tag: expected text"),
        ({"version": ["a"]}, "version: expected text"),
        ({"timestamp": "2026-01-31T12:00:00"}, "timestamp: expected a time with its zone"),
        ({"timestamp": True}, "timestamp: expected text"),
        ({"watermark": "x"}, "watermark: expected a whole number"),
        ({"time_retained": []}, "time_retained: expected text"),
        ({"time_retained": "x"}, "time_retained: expected a duration"),
        ({"ignore_if_exists": "perhaps"}, "ignore_if_exists: expected true or false"),
        ({"ignore_if_exists": 1}, "ignore_if_exists: expected true or false"),
        ({"time_zone": 1.5}, "time_zone: expected text"),
        ({"target_tag": "x"}, "create_tag has no argument 'target_tag'"),
        ({"options": {}}, "create_tag has no argument 'options'"),
        ({"grace": "1 d"}, "create_tag has no argument 'grace'"),
    ],
)
def test_what_means_nothing(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_call(CREATE, arguments)
    assert str(raised.value).startswith(sentence)


@pytest.mark.parametrize("snapshot_id", [-1, 0, 1 << 62])
def test_ids_that_no_snapshot_has(snapshot_id: int) -> None:
    """They are numbers, so the table is asked."""
    assert parse_call(CREATE, {"snapshot": snapshot_id}).tags.source.snapshot_id == snapshot_id


def test_every_operation_on_tags_is_known() -> None:
    """Each says which arguments it takes, and the registry asks the same."""
    assert set(TAG_ARGUMENTS) <= set(OPERATIONS)
    for name, arguments in TAG_ARGUMENTS.items():
        assert arguments <= OPERATIONS[name].arguments


@pytest.mark.parametrize(
    ("keep", "sentence"),
    [
        ({"keep_daily": 3}, "match: expected the pattern"),
        ({"match": "", "keep_daily": 3}, "match: expected the pattern"),
        ({"match": "20*"}, "expected with it one of keep_last, keep_within, keep_daily"),
        ({"match": "20*"}, "keep_yearly or keep_tag, since"),
        ({"match": "20*", "keep_daily": 0}, "keep_daily: expected a whole number, at least 1, found 0"),
        ({"match": "20*", "keep_yearly": "-1"}, "keep_yearly: expected a whole number, at least 1"),
        ({"match": "20*", "keep_within": "x"}, "keep_within: expected a duration"),
        ({"match": "20*", "keep_within": "30"}, "keep_within: expected a duration with its unit such as 30 d, found"),
        ({"match": "20*", "keep_within": 30}, "keep_within: expected a duration with its unit such as 30 d, found"),
        ({"match": "20*", "keep_within": "0 d"}, "keep_within: expected a duration of at least 1 ms, found '0 d'"),
        ({"match": "20*", "keep_tag": [1]}, "keep_tag: expected a text or an array of texts"),
    ],
)
def test_calendar_rules_that_mean_nothing(keep: dict[str, Any], sentence: str) -> None:
    """Rules without a pattern would be about every tag, a pattern without rules would keep none."""
    with pytest.raises(UsageError) as raised:
        parse_call(OPERATIONS["expire_tags"], keep).tags.keep_rules()
    assert sentence in str(raised.value)
