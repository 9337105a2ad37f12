"""What table options and callers say about tags, and what is refused."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.errors import RefusedError, UsageError
from lakesweep.format.values.zone import parse_zone
from lakesweep.model.policy import AutoTagRules, FleetRule
from lakesweep.model.roots import TableRef
from lakesweep.operations.tags.options import (
    MAX_TIME_RETAINED_MS,
    auto_tag_rules,
    check_callbacks,
    check_time_retained,
    declared_zone,
    default_time_retained_ms,
    expires_by_time,
    has_auto_tags,
    is_write_only,
    writes_success_file,
)
from lakesweep.runs.fleet import Ruling
from lakesweep.runs.session import Table
from lakesweep.runs.tags.documents import check_tag_name
from tests.support.memory_store import MemoryStore

STORE = MemoryStore("memory://lake/orders")
TABLE = Table(TableRef(STORE.location), STORE, None, lambda location: STORE)
BERLIN = parse_zone("Europe/Berlin", "zone")
HOUR = timedelta(hours=1)
PROCESS = {"tag.automatic-creation": "process-time", "sink.process-time-zone": "UTC"}


def rules(options: Mapping[str, str], declared: tzinfo | None = None) -> AutoTagRules:
    found = auto_tag_rules(options, declared)
    assert found is not None
    return found


def refusal(options: Mapping[str, str], declared: tzinfo | None = None) -> tuple[str, str]:
    with pytest.raises(RefusedError) as caught:
        auto_tag_rules(options, declared)
    return caught.value.code, str(caught.value)


# --- automatic tags ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"tag.automatic-creation": "none"}, {"tag.automatic-creation": "NONE"}])
def test_a_table_without_automatic_tags(options: dict[str, str]) -> None:
    """Whatever its other options say."""
    assert auto_tag_rules(options | {"tag.creation-period": "weekly"}, None) is None
    assert not has_auto_tags(options)


def test_defaults() -> None:
    assert rules(PROCESS) == AutoTagRules("process-time", UTC)
    assert rules({"tag.automatic-creation": "Watermark"}) == AutoTagRules("watermark", UTC)
    assert has_auto_tags(PROCESS)


def test_every_option() -> None:
    options = PROCESS | {
        "sink.process-time-zone": "Europe/Berlin",
        "tag.creation-period": "Hourly",
        "tag.creation-delay": "10 min",
        "tag.period-formatter": "WITHOUT_DASHES",
        "tag.num-retained-max": "24",
        "tag.default-time-retained": "7 d",
        "tag.automatic-completion": "true",
        "tag.batch.customized-name": "nightly",
    }
    assert rules(options) == AutoTagRules(
        mode="process-time",
        zone=BERLIN,
        period=HOUR,
        is_custom_period=False,
        formatter="without_dashes",
        delay=timedelta(minutes=10),
        completion=True,
        max_count=24,
        time_retained_ms=7 * 86_400_000,
        batch_name="nightly",
    )


@pytest.mark.parametrize(
    ("options", "period", "custom"),
    [
        ({"tag.creation-period": "daily"}, 24 * HOUR, False),
        ({"tag.creation-period": "hourly"}, HOUR, False),
        ({"tag.creation-period": "two-hours"}, 2 * HOUR, False),
        ({"tag.creation-period-duration": "15 min"}, HOUR / 4, True),
        ({"tag.creation-period-duration": "1 d", "tag.creation-period": "hourly"}, 24 * HOUR, True),
        ({"tag.creation-period-duration": "1 d", "tag.creation-period": "nonsense"}, 24 * HOUR, True),
    ],
)
def test_periods(options: dict[str, str], period: timedelta, custom: bool) -> None:
    """A duration makes the other option count for nothing, and the names have minutes."""
    found = rules(PROCESS | options)
    assert (found.period, found.is_custom_period) == (period, custom)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"tag.automatic-creation": "processtime"}, "tag.automatic-creation"),
        ({"tag.automatic-creation": ""}, "tag.automatic-creation"),
        ({"tag.creation-period": "weekly"}, "tag.creation-period"),
        ({"tag.creation-period-duration": "0 s"}, "tag.creation-period-duration"),
        ({"tag.creation-period-duration": "999 ns"}, "tag.creation-period-duration"),
        ({"tag.creation-period-duration": "1 week"}, "tag.creation-period-duration"),
        ({"tag.creation-period-duration": "366001 d"}, "tag.creation-period-duration"),
        ({"tag.creation-delay": "1 d"}, "tag.creation-delay"),
        ({"tag.creation-delay": "2 d"}, "tag.creation-delay"),
        ({"tag.creation-delay": "1 h", "tag.creation-period": "hourly"}, "tag.creation-delay"),
        ({"tag.creation-delay": "soon"}, "tag.creation-delay"),
        ({"tag.creation-delay": "-1 s"}, "tag.creation-delay"),
        ({"tag.period-formatter": "with-dashes"}, "tag.period-formatter"),
        ({"tag.num-retained-max": "0"}, "tag.num-retained-max"),
        ({"tag.num-retained-max": "-1"}, "tag.num-retained-max"),
        ({"tag.num-retained-max": "many"}, "tag.num-retained-max"),
        ({"tag.default-time-retained": "0 d"}, "tag.default-time-retained"),
        ({"tag.default-time-retained": "999 micros"}, "tag.default-time-retained"),
        ({"tag.default-time-retained": "366001 d"}, "tag.default-time-retained"),
        ({"tag.default-time-retained": "long"}, "tag.default-time-retained"),
        ({"tag.automatic-completion": "yes"}, "tag.automatic-completion"),
        ({"tag.batch.customized-name": " "}, "tag.batch.customized-name"),
        ({"tag.batch.customized-name": "a/b"}, "tag.batch.customized-name"),
        ({"sink.process-time-zone": "Mars/Olympus"}, "sink.process-time-zone"),
        ({"sink.process-time-zone": "localtime"}, "sink.process-time-zone"),
        ({"sink.process-time-zone": ""}, "sink.process-time-zone"),
    ],
)
def test_options_that_mean_nothing(options: dict[str, str], named: str) -> None:
    code, sentence = refusal(PROCESS | options, UTC)
    assert code == "bad_option"
    assert f"option {named}: expected" in sentence


def test_a_delay_may_be_almost_a_period() -> None:
    assert rules(PROCESS | {"tag.creation-delay": "86399999 ms"}).delay == timedelta(days=1) - timedelta(milliseconds=1)
    assert rules(PROCESS | {"tag.creation-delay": "1 ns"}).delay == timedelta(microseconds=1), "never earlier"


# --- zones ------------------------------------------------------------------------------------------------------------


def test_the_tables_own_zone_is_stronger_than_a_declared_one() -> None:
    assert rules(PROCESS, BERLIN).zone == UTC
    del_zone = {"tag.automatic-creation": "process-time"}
    assert rules(del_zone, BERLIN).zone == BERLIN


@pytest.mark.parametrize("mode", ["process-time", "batch"])
def test_a_zone_that_nobody_says(mode: str) -> None:
    """It is never the worker's."""
    code, sentence = refusal({"tag.automatic-creation": mode})
    assert code == "zone_not_declared"
    assert "sink.process-time-zone" in sentence
    assert "time_zone" in sentence


def test_a_name_that_says_no_time_needs_no_zone() -> None:
    assert rules({"tag.automatic-creation": "batch", "tag.batch.customized-name": "nightly"}).batch_name == "nightly"


def test_watermarks_have_a_zone_of_their_own() -> None:
    """UTC where the table says none, whatever is declared."""
    mode = {"tag.automatic-creation": "watermark", "sink.process-time-zone": "Asia/Tokyo"}
    assert rules(mode, BERLIN).zone == UTC
    assert rules(mode | {"sink.watermark-time-zone": "Europe/Berlin"}).zone == BERLIN
    assert refusal(mode | {"sink.watermark-time-zone": "Nowhere"})[0] == "bad_option"


def test_who_declares_a_zone() -> None:
    """The call, else the fleet policy's rule, else nobody."""
    tokyo = Ruling("p", FleetRule("/", time_zone="Asia/Tokyo"))
    assert declared_zone(TABLE, "Europe/Berlin", tokyo) == BERLIN
    assert declared_zone(TABLE, None, tokyo) == parse_zone("Asia/Tokyo", "zone")
    assert declared_zone(TABLE, None, Ruling("p", FleetRule("/"))) is None
    assert declared_zone(TABLE, None, Ruling("p", None)) is None
    assert declared_zone(TABLE, None, None) is None


@pytest.mark.parametrize("text", ["", "Mars/Olympus", "localtime", "UTC+99"])
def test_no_such_zone(text: str) -> None:
    with pytest.raises(RefusedError, match=r"orders: option time_zone: expected a time zone") as caught:
        declared_zone(TABLE, text, None)
    assert caught.value.code == "bad_option"


# --- flags and times to live ------------------------------------------------------------------------------------------


def test_flags() -> None:
    assert (is_write_only({}), expires_by_time({}), writes_success_file({})) == (False, True, False)
    assert is_write_only({"write-only": "TRUE"})
    assert is_write_only({"write.compaction-skip": "true"}), "its old name"
    assert not is_write_only({"write-only": "false", "write.compaction-skip": "true"})
    assert not expires_by_time({"tag.time-expire-enabled": "false"})
    assert writes_success_file({"tag.create-success-file": "true"})


@pytest.mark.parametrize(
    ("read", "option"),
    [
        (is_write_only, "write-only"),
        (expires_by_time, "tag.time-expire-enabled"),
        (writes_success_file, "tag.create-success-file"),
        (has_auto_tags, "tag.automatic-creation"),
    ],
)
def test_flags_that_mean_nothing(read: object, option: str) -> None:
    assert callable(read)
    with pytest.raises(RefusedError, match=f"option {option}: expected") as caught:
        read({option: "maybe"})
    assert caught.value.code == "bad_option"


def test_the_default_time_to_live() -> None:
    assert default_time_retained_ms({}) is None
    assert default_time_retained_ms({"tag.default-time-retained": "1 ms"}) == 1
    assert default_time_retained_ms({"tag.default-time-retained": "500 ms"}) == 500
    assert default_time_retained_ms({"tag.default-time-retained": "366000 d"}) == MAX_TIME_RETAINED_MS


@pytest.mark.parametrize("ms", [None, 1, 86_400_000, MAX_TIME_RETAINED_MS])
def test_times_to_live(ms: int | None) -> None:
    check_time_retained(ms)


@pytest.mark.parametrize("ms", [0, -1, -(1 << 63), MAX_TIME_RETAINED_MS + 1, 1 << 63])
def test_bad_times_to_live(ms: int) -> None:
    with pytest.raises(RefusedError, match="expected 1 ms to 1000 years") as caught:
        check_time_retained(ms)
    assert caught.value.code == "bad_time_retained"


def test_a_delay_that_is_too_long_for_the_period() -> None:
    """The sentence says the period as the table does."""
    options = {"tag.automatic-creation": "process-time", "tag.creation-delay": "2 d", "sink.process-time-zone": "UTC"}
    for stated, period in (({}, "daily"), ({"tag.creation-period-duration": "15 min"}, "15 min")):
        with pytest.raises(RefusedError, match=f"shorter than the period, which is {period}, found '2 d'"):
            auto_tag_rules({**options, **stated}, None)


# --- callbacks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tag.callbacks": ""},
        {"tag.callbacks": " "},
        {"tag.callback.com.Example.param": "x"},
        {"metadata.iceberg.storage": "disabled"},
        {"metadata.iceberg.storage": "DISABLED"},
        {"chain-table.enabled": "false"},
        {"tag.create-success-file": "true"},
        {"metastore.tag-to-partition.preview": "process-time"},
        {"commit.callbacks": "com.Example"},
    ],
)
def test_tables_whose_tags_are_their_own(options: dict[str, str]) -> None:
    check_callbacks(TABLE, options)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("tag.callbacks", "com.example.Callback"),
        ("metastore.tag-to-partition", "dt"),
        ("metadata.iceberg.storage", "table-location"),
        ("metadata.iceberg.storage", "hadoop-catalog"),
        ("metadata.iceberg.storage", "hive-catalog"),
        ("metadata.iceberg.storage", "something-new"),
        ("chain-table.enabled", "true"),
        ("chain-table.enabled", "perhaps"),
    ],
)
def test_tables_whose_tags_are_known_elsewhere(option: str, value: str) -> None:
    """The sentence names the table and the option."""
    with pytest.raises(RefusedError) as caught:
        check_callbacks(TABLE, {option: value})
    assert caught.value.code == "needs_engine_callbacks"
    assert f"{STORE.location}: {option} is '{value}'" in str(caught.value)


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "a", "2024-03-01", "2024-03-01 12", "v1.2", ".hidden", "...", "tag-x", "my success-file", "Success-file",
        "x" * 200, "\u00fc" * 100, "\u6f22\u5b57", "\U0001f600", "a b", "%2F", "a:b", "\\", "'",
        '"', "-1", "+5", "1.5", "\u0661",
    ],
)  # fmt: skip
def test_names(name: str) -> None:
    assert check_tag_name(name) == ()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "expected a name, found none"),
        (" ", "expected a name, found none"),
        ("\u3000\t", "expected a name, found none"),
        ("a/b", "without a slash"),
        ("/", "without a slash"),
        ("../a", "without a slash"),
        (".", "meaning for file systems"),
        ("..", "meaning for file systems"),
        ("a\x00", "control characters"),
        ("a\nb", "control characters"),
        ("\x7f", "control characters"),
        ("a\u0085", "control characters"),
        ("a\u202eb", "control characters"),
        ("a\u2028b", "control characters"),
        ("a\ufeff", "control characters"),
        ("a\ud800", "control characters"),
        ("success-file", "success-file"),
        ("success-files", "success-file"),
        ("x" * 201, "more than 200 bytes"),
        ("x" * 300, "more than 200 bytes"),
        ("\u00fc" * 101, "more than 200 bytes"),
    ],
)
def test_bad_names(name: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_tag_name(name)
    assert caught.value.code == "bad_tag_name"
    assert why in str(caught.value)
    assert len(str(caught.value)) < 300
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", ["0", "7", "0007", "20240301", "9" * 30])
def test_a_name_that_is_a_number_hides_a_snapshot(name: str) -> None:
    (warning,) = check_tag_name(name)
    assert f"tag '{name}' is a number" in warning


@given(st.text(max_size=300))
def test_no_name_raises_anything_else(name: str) -> None:
    try:
        check_tag_name(name)
    except UsageError:
        return
    assert 0 < len(name.encode()) <= 200
    assert "/" not in name


OPTIONS = (
    *PROCESS,
    "sink.watermark-time-zone",
    "tag.automatic-completion",
    "tag.batch.customized-name",
    "tag.creation-delay",
    "tag.creation-period",
    "tag.creation-period-duration",
    "tag.default-time-retained",
    "tag.num-retained-max",
    "tag.period-formatter",
)
VALUES = st.text(max_size=12) | st.sampled_from(
    ["batch", "watermark", "1 d", "9999999999999 d", "true", "UTC", "-1", "1"]
)


@given(st.dictionaries(st.sampled_from(OPTIONS), VALUES))
def test_no_option_raises_anything_else(options: dict[str, str]) -> None:
    try:
        found = auto_tag_rules(options, UTC)
    except RefusedError as error:
        assert error.code == "bad_option"
        return
    if found is not None:
        assert timedelta(0) <= found.delay < found.period
        assert datetime(2024, 1, 1) + found.period < datetime(9000, 1, 1)
