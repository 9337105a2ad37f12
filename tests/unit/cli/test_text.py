"""Numbers as people read them."""

import re
from pathlib import Path

import pytest

from lakesweep.cli.terminal.output import printable
from lakesweep.cli.text import counted, exact_time, human_bytes, human_time
from lakesweep.runs.parameters.times import parse_time_ms, say_span
from tests.unit.cli.command_line import call, write_table


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1024**2, "1.0 MiB"),
        (5 * 1024**4, "5.0 TiB"),
        (3 * 1024**6, "3072.0 PiB"),
    ],
)
def test_bytes(size: int, text: str) -> None:
    """Powers of 1024, with the unit said."""
    assert human_bytes(size) == text


@pytest.mark.parametrize(
    ("span_ms", "text"), [(0, "0 ms"), (500, "500 ms"), (90_000, "90 s"), (3_600_000, "1 h"), (86_400_000, "1 d")]
)
def test_durations(span_ms: int, text: str) -> None:
    """As Paimon writes them, so that they can be copied into an option."""
    assert say_span(span_ms) == text


def test_times() -> None:
    """In UTC; what no calendar has stays a number."""
    assert human_time(0) == "1970-01-01 00:00:00Z"
    assert human_time(None) == "-"
    assert human_time(10**18) == f"{10**18} ms"


@pytest.mark.parametrize("epoch_ms", [0, 1, 999, 1795350974438, 1795350974999, -1])
def test_times_of_versions(epoch_ms: int) -> None:
    """Copied into `--timestamp`, the time of a version means that version, and not the one before."""
    assert parse_time_ms(exact_time(epoch_ms), "--timestamp") == epoch_ms
    assert (exact_time(None), exact_time(10**18)) == ("-", f"{10**18} ms")


def test_printable() -> None:
    """Letters of any script stay; what a terminal acts on does not."""
    assert printable("dt=\u6f22/a b") == "dt=\u6f22/a b"
    assert printable("a\nb\x1b\u202e") == "a\\nb\\x1b\\u202e"
    assert printable("\ud800") == "\\ud800"


def test_counts() -> None:
    """One of something is not several."""
    assert [counted(count, "file") for count in (0, 1, 2)] == ["0 files", "1 file", "2 files"]


def test_one_of_everything(tmp_path: Path) -> None:
    """Reports, `files` and `show` count in words that fit."""
    table = write_table(tmp_path / "orders", commits=1)
    assert call("files", tmp_path / "orders").printed.splitlines()[-1].startswith("snapshot 1: 1 file, ")
    shown = call("show", tmp_path / "orders").printed
    assert "1 file, " in shown and ", 1 manifest\n" in shown
    table.commit("-F1", "+F2")
    argv = ("--control", tmp_path / "control", "--retain-min", "1", "--retain-max", "1")
    assert "(retain min)" in call("expire-snapshots", tmp_path / "orders", *argv).printed
    assert not re.search(
        r"\b1 (snapshot|file|object|manifest|row)s\b", call("expire-snapshots", tmp_path / "orders", *argv).printed
    )
