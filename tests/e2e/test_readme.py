"""The commands of the README, as it shows them: the quickstart in a folder, the others on embedded S3."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.support.page import Shown, difference, recipes, run_ids
from tests.support.s3_server import fresh_bucket, moto_endpoint, seed_moto
from tests.unit.cli.command_line import call, contents

pytest.importorskip("pypaimon", reason="the quickstart writes its table with pypaimon")
PAGE = REPOSITORY / "README.md"
QUICKSTART = recipes(PAGE)["Try it on a table"]
TABLE = "quickstart/sales.db/orders"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bytes]:
    """The table of the quickstart, path -> content."""
    folder = tmp_path_factory.mktemp("home")
    (program,) = [each for each in QUICKSTART if each.is_program]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        exec(program.text, {})
    return contents(folder)


def blocks(language: str) -> Iterator[str]:
    """Yield the blocks of a language."""
    yield from re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_the_quickstart_prints_what_the_readme_shows(
    written: Mapping[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command does what the page says, with the page's output; ids, times and sizes aside."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for path, data in written.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    ids: dict[str, str] = {}
    commands = [each for each in QUICKSTART if not each.is_program]
    assert [shlex.split(each.text)[1] for each in commands] == ["check", "maintain", "maintain", "runs"]
    for shown in commands:
        ids |= follow(shown, tmp_path)

    run_id = ids["20260131T120003Z-5a6b7c8d"]
    found = json.loads(call("report", TABLE, run_id, "--json").printed)["report"]
    expected = json.loads(next(blocks("json")))
    for document in (found, expected):  # neither the path nor compressed sizes are the same everywhere
        del document["table"], document["delete"]["bytes"], document["outcome"]["bytes"]
    assert found.items() >= expected.items()


def follow(shown: Shown, home: Path) -> dict[str, str]:
    """Run a command of the quickstart; return the ids on the page, with those that were printed."""
    program, *words = shlex.split(shown.text)
    assert program == "lakesweep"
    answer = call(*words)
    lines = answer.printed.replace(str(home), "/home/you").splitlines()
    assert answer.exit_code == 0, answer.messages
    assert (found := difference(shown.printed, lines)) is None, f"$ {shown.text}\n{found}"
    return run_ids(shown.printed, lines)


def test_commands_on_s3_work(written: Mapping[str, bytes]) -> None:
    """Each `lakesweep` of the other blocks ends with exit code 0 for that table in a bucket."""
    bucket = fresh_bucket()
    for path, data in written.items():
        seed_moto(bucket, [path.replace("quickstart/", "warehouse/", 1)], data)
    lines = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("lakesweep ")]
    assert len(lines) == 4
    for line in lines:
        words = shlex.split(line.replace("s3://bucket/", f"s3://{bucket}/"), comments=True)[1:]
        words = [bucket if word == "lake" else word for word in words]
        answer = call(*words, "--endpoint-url", moto_endpoint(), "--region", "us-east-1")
        assert answer.exit_code == 0, (line, answer.messages)
