"""Arguments of operations on tags, as JSON gives them."""

from typing import Any

import pytest

from lakesweep.errors import UsageError
from lakesweep.operations.tags.call import keep_rules, version_of
from lakesweep.runs.parameters.parameter import Parameter
from lakesweep.runs.parameters.signatures import (
    CREATE_TAG,
    EXPIRE_TAGS,
    FROM_TAG,
    IGNORE_IF_EXISTS,
    SNAPSHOT,
    TAGS,
    TIME_RETAINED,
    TIME_ZONE,
    TIMESTAMP,
    VERSION,
    WATERMARK,
)
from lakesweep.runs.parameters.time_travel import Version


@pytest.mark.parametrize(
    ("arguments", "parameter", "expected"),
    [
        ({}, TAGS, ()),
        ({"tag": "now"}, TAGS, ("now",)),
        ({"tag": 7}, TAGS, ("7",)),
        ({"tag": ["a", "b", "a"]}, TAGS, ("a", "b")),
        ({"tag": None, "snapshot": None}, SNAPSHOT, None),
        ({"snapshot": 3}, SNAPSHOT, 3),
        ({"snapshot": " 3 "}, SNAPSHOT, 3),
        ({"watermark": "-5"}, WATERMARK, -5),
        ({"from_tag": "old"}, FROM_TAG, "old"),
        ({"version": "watermark-5"}, VERSION, "watermark-5"),
        ({"version": 3}, VERSION, "3"),
        ({"timestamp": 1769860800000}, TIMESTAMP, 1769860800000),
        ({"timestamp": "2026-01-31T12:00:00Z"}, TIMESTAMP, 1769860800000),
        ({"time_retained": "1 d"}, TIME_RETAINED, 86_400_000),
        ({"time_retained": "500 ms"}, TIME_RETAINED, 500),
        ({"ignore_if_exists": "true"}, IGNORE_IF_EXISTS, True),
        ({"time_zone": "Europe/Berlin"}, TIME_ZONE, "Europe/Berlin"),
    ],
)
def test_what_they_mean(arguments: dict[str, Any], parameter: Parameter[Any], expected: object) -> None:
    """Numbers may be texts; what is null is not given. Every other parameter has its default."""
    call = CREATE_TAG.parse(arguments)
    assert {each.name: call[each] for each in CREATE_TAG.parameters} == {
        each.name: expected if each == parameter else each.kind.default for each in CREATE_TAG.parameters
    }


def test_all_sources_are_read() -> None:
    """Whether there are too many is checked later."""
    call = CREATE_TAG.parse({"snapshot": 1, "from_tag": "a", "timestamp": 2, "watermark": 3, "version": "watermark-4"})
    assert version_of(call, call[FROM_TAG]) == Version(1, "a", 2, 3, "watermark-4")


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
        ({"target_tag": "x"}, "create-tag has no argument 'target_tag'"),
        ({"options": {}}, "create-tag has no argument 'options'"),
        ({"grace": "1 d"}, "create-tag has no argument 'grace'"),
    ],
)
def test_what_means_nothing(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError) as raised:
        CREATE_TAG.parse(arguments)
    assert str(raised.value).startswith(sentence)


@pytest.mark.parametrize("snapshot_id", [-1, 0, 1 << 62])
def test_ids_that_no_snapshot_has(snapshot_id: int) -> None:
    """They are numbers, so the table is asked."""
    assert CREATE_TAG.parse({"snapshot": snapshot_id})[SNAPSHOT] == snapshot_id


@pytest.mark.parametrize(
    ("keep", "sentence"),
    [
        ({"keep_daily": 3}, "pattern: expected the names"),
        ({"pattern": "", "keep_daily": 3}, "pattern: expected the names"),
        ({"pattern": "20*"}, "expected with it one of keep_last, keep_within, keep_daily"),
        ({"pattern": "20*"}, "keep_yearly or keep_tag, since"),
        ({"pattern": "20*", "keep_daily": 0}, "keep_daily: expected a whole number, at least 1, found 0"),
        ({"pattern": "20*", "keep_yearly": "-1"}, "keep_yearly: expected a whole number, at least 1"),
        ({"pattern": "20*", "keep_within": "x"}, "keep_within: expected a duration"),
        (
            {"pattern": "20*", "keep_within": "30"},
            "keep_within: 30 has no unit; expected '30 ms', as Paimon would read it, or '30 d'",
        ),
        ({"pattern": "20*", "keep_within": 30}, "keep_within: 30 has no unit; expected '30 ms'"),
        ({"pattern": "20*", "keep_within": "0 d"}, "keep_within: expected a duration of at least 1 ms, found '0 d'"),
        ({"pattern": "20*", "keep_tag": [1]}, "keep_tag: expected a text or an array of texts"),
    ],
)
def test_calendar_rules_that_mean_nothing(keep: dict[str, Any], sentence: str) -> None:
    """Rules without a pattern would be about every tag, a pattern without rules would keep none."""
    with pytest.raises(UsageError) as raised:
        keep_rules(EXPIRE_TAGS.parse(keep))
    assert sentence in str(raised.value)
