"""Option values by Paimon's grammar."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.errors import FormatError
from lakesweep.format.values import options

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1 d", DAY_MS),
        ("1d", DAY_MS),
        ("2 DAYS", 2 * DAY_MS),
        ("1day", DAY_MS),
        ("1 h", 3_600_000),
        ("1 hour", 3_600_000),
        ("10min", 600_000),
        ("10 m", 600_000),
        ("3601 s", 3_601_000),
        ("1 Secs", 1000),
        ("500", 500),
        ("500 ms", 500),
        ("5 millis", 5),
        ("1500 \u00b5s", 1),
        ("1500 micro", 1),
        ("999999 ns", 0),
        ("  7 \t d \n", 7 * DAY_MS),
        ("0", 0),
        ("007 d", 7 * DAY_MS),
        ("9223372036854775807", 2**63 - 1),
    ],
)
def test_durations(text: str, milliseconds: int) -> None:
    assert options.parse_duration_ms(text, "k") == milliseconds


def test_durations_are_exact_to_the_nanosecond() -> None:
    assert options.parse_duration_ns("1500 \u00b5s", "k") == 1_500_000
    assert options.parse_duration_ns("3 nanos", "k") == 3
    assert options.parse_duration_ns("9223372036854775807 ns", "k") == 2**63 - 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "d",
        "-1 d",
        "+1 d",
        "1.5 d",
        "1 d 2 h",
        "PT24H",
        "P1D",
        "1 week",
        "1 dd",
        "1_000",
        "\u0661 d",
        "1\u00a0d",
        "9223372036854775808",
        "9223372036854775807 d",
        "9" * 5000,
    ],
)
def test_no_durations(text: str) -> None:
    with pytest.raises(FormatError, match=r"^option snapshot.time-retained: expected a duration.*, found ") as raised:
        options.parse_duration_ms(text, "snapshot.time-retained")
    assert raised.value.code == "bad_option"
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("128", 128),
        ("8 mb", 8 << 20),
        ("8M", 8 << 20),
        ("1 kibibytes", 1024),
        ("1B", 1),
        ("2 gb", 2 << 30),
        ("1 t", 1 << 40),
    ],
)
def test_memory_sizes(text: str, size: int) -> None:
    assert options.parse_memory_bytes(text, "k") == size


@pytest.mark.parametrize("text", ["", "mb", "1 MiB", "1.5 gb", "-1", "9223372036854775807 kb", "1 pb"])
def test_no_memory_sizes(text: str) -> None:
    with pytest.raises(FormatError, match=r"^option k: expected a memory size such as 128 mb, found "):
        options.parse_memory_bytes(text, "k")


def test_booleans() -> None:
    assert options.parse_bool("TRUE", "k") is True
    assert options.parse_bool("False", "k") is False
    for text in ("", " true", "true ", "1", "yes", "t"):
        with pytest.raises(FormatError, match=r"^option k: expected true or false, found "):
            options.parse_bool(text, "k")


def test_integers() -> None:
    assert options.parse_int("2147483647", "k") == 2**31 - 1
    assert options.parse_int("-2147483648", "k") == -(2**31)
    assert options.parse_int("+5", "k") == 5
    assert options.parse_long("9223372036854775807", "k") == 2**63 - 1
    for text in ("", " 1", "1 ", "1_0", "1.0", "0x1", "2147483648", "-2147483649", "\u0661", "9" * 5000):
        with pytest.raises(FormatError, match=r"^option k: expected a 32-bit integer, found ") as raised:
            options.parse_int(text, "k")
        assert raised.value.code == "bad_option"


@given(st.text())
def test_nothing_else_is_raised(text: str) -> None:
    for parse in (
        options.parse_duration_ns,
        options.parse_memory_bytes,
        options.parse_bool,
        options.parse_int,
        options.parse_long,
    ):
        try:
            parse(text, "k")
        except FormatError as error:
            assert error.code == "bad_option"
