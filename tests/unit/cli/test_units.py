"""Times, ages and durations as a person types them: a unit is never guessed, and an age is a time."""

import json
import time
from pathlib import Path

import pytest

from tests.unit.cli.command_line import call, contents, write_table

RULES = {"snapshot.num-retained.min": "1", "snapshot.time-retained": "1 h"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("units") / "orders"
    write_table(folder, options=RULES)
    return folder


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("expire-snapshots --grace 600", "--grace: 600 has no unit; expected '600 ms', as Paimon would read it, or "),
        ("expire-changelogs --grace 600", "'600 s' (10 min)"),
        ("expire-tags --grace 600", "--grace: 600 has no unit"),
        ("execute no-plan --grace 600", "--grace: 600 has no unit"),
        ("maintain --min-interval 60", "--min-interval: 60 has no unit; expected '60 ms', as Paimon would read it, or"),
        ("expire-snapshots --time-retained 3", "--time-retained: 3 has no unit; expected '3 ms', as Paimon would read"),
        ("create-tag t --time-retained 3", "it, or '3 d'"),
        ("remove-orphan-files --quarantine 1", "--quarantine: 1 has no unit"),
        ("explain --quarantine 1", "--quarantine: 1 has no unit; expected '1 ms', as Paimon would read it, or '1 d'"),
        ("expire-tags --pattern x --keep-within 30", "--keep-within: 30 has no unit"),
        ("runs --since 3", "--since: 3 is 1970-01-01T00:00:00.003+00:00 in epoch milliseconds, and an age has a unit"),
        ("expire-snapshots --older-than 3", "and an age has a unit; expected an age with its unit such as '3 d', or"),
        (
            "expire-snapshots --older-than 1769860800",
            "--older-than: 1769860800 is 1970-01-21T11:37:40.800+00:00 in epoch milliseconds, and in epoch seconds it "
            "is 2026-01-31T12:00:00.000+00:00",
        ),
        ("explain --older-than 1769860800", "in epoch seconds it is 2026-01-31T12:00:00.000+00:00; expected an age"),
        ("rollback --timestamp 1769860800", "in epoch seconds it is 2026-01-31T12:00:00.000+00:00; expected a time"),
        ("show --timestamp 1769860800", "in epoch seconds it is 2026-01-31T12:00:00.000+00:00; expected a time"),
        # The version must be the same when the command is repeated with --execute, so an age is no timestamp.
        ("rollback --timestamp 1d", "--timestamp: expected a time with its zone"),
        ("remove-orphan-files --older-than 3weeks", "--older-than: expected an age with its unit such as '3 d', or a"),
    ],
)
def test_a_number_without_a_unit_is_refused(folder: Path, words: str, sentence: str) -> None:
    """The sentence has both readings, and nothing changes."""
    before = contents(folder)
    command, *rest = words.split()
    control = () if command == "show" else ("--control", folder.parent / "control")
    answer = call(command, folder, *rest, *control)
    assert answer.exit_code == 2, answer.messages
    assert len(answer.sentences) == 1
    assert sentence in answer.messages
    assert contents(folder) == before


def test_an_age_is_a_time_by_the_clock_of_the_store(folder: Path) -> None:
    """All spellings of one cutoff make one plan, and the stored plan states the time."""
    now_s = time.time()
    age = f"{now_s - 1500:.0f} s"
    control = folder.parent / "control"
    for words in (("--older-than", age), ("--time-retained", age), ("--older-than", "1970-01-01T00:25:00Z")):
        place = (folder, "--control", control, "--json")
        document = call("expire-snapshots", *place, "--retain-max", 6, *words).document
        assert document["snapshots"]["expired"] == [1, 2], words
        (header,) = control.glob(f"tables/*/plans/{document['plan_id']}/header.json")
        stated = json.loads(header.read_text())["arguments"]
        assert abs(stated["older_than_ms"] - 1_500_000) < 60_000


def test_one_cutoff_is_stated_once(folder: Path) -> None:
    """A time and a retention are the same thing twice."""
    for command in ("expire-snapshots", "expire-changelogs", "expire-tags"):
        answer = call(command, folder, "--older-than", "3 d", "--time-retained", "4 d")
        assert (answer.exit_code, answer.sentences) == (
            2,
            ["lakesweep: --older-than and --time-retained state the same; expected one of the two"],
        )


@pytest.mark.parametrize("command", ["remove-orphan-files", "expire-changelogs", "expire-tags", "explain"])
def test_an_age_is_accepted_where_a_time_is(folder: Path, command: str) -> None:
    """Also where the answer is that nothing is that old."""
    answer = call(command, folder, "--older-than", "3 d", "--json")
    assert (answer.exit_code, answer.messages) == (0, "")


def test_runs_take_a_time_or_an_age(folder: Path) -> None:
    """`--since` says from when, in either way."""
    control = folder.parent / "control"
    for since in ("1d", "1 d", "2026-01-31T12:00:00Z"):
        assert call("runs", folder, "--control", control, "--since", since).exit_code == 0


def test_a_scan_of_files_younger_than_a_day_says_the_time(folder: Path) -> None:
    """An age below a day is as young as the time."""
    answer = call("remove-orphan-files", folder, "--older-than", "2 h")
    assert answer.exit_code == 3
    assert "less than 24 h ago" in answer.messages


def test_a_table_option_keeps_the_meaning_of_paimon(folder: Path) -> None:
    """A person who types one without a unit reads a warning; a schema's says nothing."""
    option = "snapshot.time-retained"
    answer = call("expire-snapshots", folder, "--option", f"{option}=600")
    assert answer.sentences[0] == (
        f"lakesweep: warning: option {option}=600 has no unit, so it means 600 ms, as in Paimon; state the unit, as in "
        "3 d"
    )
    assert "has no unit" not in call("expire-snapshots", folder, "--option", f"{option}=600 ms").messages
