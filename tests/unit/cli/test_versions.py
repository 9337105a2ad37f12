"""`files` and `show` of one version, as the options name it."""

from pathlib import Path

import pytest

from tests.support.table_builder import TableBuilder
from tests.unit.cli.command_line import call, write_table


@pytest.fixture
def builder(tmp_path: Path) -> TableBuilder:
    """Six snapshots ten minutes apart since 1970; a tag of the first, which has expired."""
    table = write_table(tmp_path / "orders")
    table.tag("first", snapshot=1)
    table.tag("4", snapshot=2)
    table.remove(table.root(1))
    return table


def test_files_of_a_version(tmp_path: Path, builder: TableBuilder) -> None:
    """Every way to say it; a tag is told beside the snapshot that it holds."""
    for argv, expected in (
        ([], (6, None)),
        (["--snapshot", "3"], (3, None)),
        (["--tag", "first"], (1, "first")),
        (["--timestamp", "1970-01-01T00:25:00Z"], (3, None)),
        (["--version", "4"], (2, "4")),
        (["--version", "5"], (5, None)),
        (["--version", "1", "--fall-back-to-tags"], (1, "first")),
        (["--snapshot", "1", "--fall-back-to-tags"], (1, "first")),
        (["--timestamp", "0", "--fall-back-to-tags"], (1, "first")),
    ):
        document = call("files", tmp_path / "orders", "--json", *argv).document
        assert (document["snapshot_id"], document["tag"]) == expected, argv
    assert (
        call("files", tmp_path / "orders", "--tag", "first")
        .printed.splitlines()[-1]
        .startswith("snapshot 1, held by tag first: 1 file, ")
    )


def test_show_a_version(tmp_path: Path, builder: TableBuilder) -> None:
    """What the snapshot says, and how much it consists of; without one, nothing more than before."""
    assert call("show", tmp_path / "orders", "--json").document["version"] is None
    version = call("show", tmp_path / "orders", "--json", "--version", "3").document["version"]
    assert version == {
        "kind": "snapshot",
        "name": "3",
        "snapshot_id": 3,
        "schema_id": 0,
        "time_ms": 1_200_000,
        "watermark": None,
        "commit_kind": "COMPACT",
        "commit_user": "builder",
        "delta_rows": 0,
        "live": {"files": 1, "bytes": None, "rows": 10, "manifests": 3},
    }
    pinned = call("show", tmp_path / "orders", "--json", "--tag", "first", "--pinned").document["version"]
    (file,) = call("files", tmp_path / "orders", "--json", "--tag", "first").document["files"]
    assert (pinned["kind"], pinned["name"], pinned["snapshot_id"]) == ("tag", "first", 1)
    assert pinned["live"] == {"files": 1, "bytes": file["size_bytes"], "rows": 10, "manifests": 1}
    text = call("show", tmp_path / "orders", "--snapshot", "1", "--fall-back-to-tags").printed
    assert "snapshot 1, held by tag first: 1970-01-01" in text
    assert "live then: 1 file, 10 rows, 1 manifest" in text


@pytest.mark.parametrize("command", ["files", "show"])
def test_versions_that_mean_nothing(tmp_path: Path, builder: TableBuilder, command: str) -> None:
    """Refused with a sentence, or told to be no version at all."""
    for argv, code, exit_code in (
        (["--snapshot", "1"], "no_such_version", 3),
        (["--snapshot", "7"], "no_such_version", 3),
        (["--watermark", "0"], "no_such_version", 3),
        (["--version", "watermark-0"], "no_such_version", 3),
        (["--version", ""], "no_such_version", 3),
        (["--tag", "../LATEST"], "no_such_version", 3),
        (["--timestamp", "yesterday"], "bad_argument", 2),
        (["--timestamp", "2026-01-31T12:00:00"], "bad_argument", 2),
        (["--timestamp", "0", "--version", "3"], "usage", 2),
    ):
        answer = call(command, tmp_path / "orders", "--json", *argv)
        assert (answer.exit_code, answer.document["error"]["code"]) == (exit_code, code), argv
    assert call(command, tmp_path / "orders", "--watermark", "soon").exit_code == 2
