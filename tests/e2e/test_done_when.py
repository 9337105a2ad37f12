"""What a user does with a table that a real engine wrote: look at the plan, carry it out, and find the table whole.

Judged by the facts that come with the fixture tables, which another reader found. No test of this file reads metadata
with Lakesweep's own readers.
"""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakesweep.api import opening
from lakesweep.storage.local.folders import Trail
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.location import Location
from lakesweep.storage.store import Store
from tests.support.fixture_tables import TABLE_NAMES, expected_facts
from tests.unit.cli.command_line import Answer, call, contents

EXTERNAL_ROOT = "/tmp/external"
"""Where the one table with files outside says that they lie. No test may touch that folder of this machine."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A fixture table in a folder of the test's own, and what is known of it."""

    facts: Mapping[str, Any]
    folder: Path
    external: Path
    control: Path

    def run(self, command: str, *words: object) -> Answer:
        """Run one command on the table, with JSON for an answer."""
        words = (*words, "--external-root", EXTERNAL_ROOT, "--control", self.control)
        return call(command, self.folder, *words, "--json")

    def expire(self, *words: object) -> Answer:
        """Expire everything but the newest snapshot, which is the least that a table can keep."""
        now = datetime.now(UTC).isoformat()
        return self.run("expire-snapshots", "--retain-max", 2, "--retain-min", 1, "--older-than", now, *words)

    def files(self) -> dict[str, bytes]:
        """Return every file of the table by its path, those outside by the path that metadata says."""
        outside = contents(self.external).items() if self.external.is_dir() else ()
        return contents(self.folder) | {f"{EXTERNAL_ROOT}/{path}": data for path, data in outside}

    def survivors(self) -> Iterator[Mapping[str, Any]]:
        """Yield the facts of each snapshot that must stay: main's newest, and all of other branches."""
        for branch, known in self.facts["branches"].items():
            assert not known["tags"] and not known["changelogs"], "the expectations below know snapshots only"
            yield from known["snapshots"][-1:] if branch == "main" else known["snapshots"]

    def expiring_ids(self) -> list[int]:
        return [snapshot["id"] for snapshot in self.facts["branches"]["main"]["snapshots"][:-1]]

    def needed(self) -> set[str]:
        """Return every file that the surviving snapshots need, their documents aside."""
        return {path for snapshot in self.survivors() for path in _needs(snapshot)}

    def never_touched(self) -> set[str]:
        """Return the documents that stay, and the files that nothing names: no expiry removes those."""
        going = {f"snapshot/snapshot-{snapshot_id}" for snapshot_id in self.expiring_ids()}
        unnamed = {path for paths in self.facts["unreferenced"].values() for path in paths}
        return (set(self.facts["root_metadata"]) - going) | unnamed


@pytest.fixture(params=TABLE_NAMES)
def table(request: pytest.FixtureRequest, fixtures_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Copy:
    """A copy of each fixture table."""
    name: str = request.param
    facts = expected_facts(fixtures_dir, name)
    if "orc" in facts["manifest_formats"]:
        pytest.importorskip("pyarrow.orc", reason="this table has ORC manifests")
    copy = Copy(facts, tmp_path / "table", tmp_path / "external", tmp_path / "control")
    shutil.copytree(fixtures_dir / "tables" / name, copy.folder)
    if (fixtures_dir / "external" / name).is_dir():
        shutil.copytree(fixtures_dir / "external" / name, copy.external)
    _redirect_external_root(copy.external, monkeypatch)
    return copy


def _redirect_external_root(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the place outside be the copy, though the table's metadata says otherwise."""
    open_store = opening.open_store

    class Redirected(LocalStore):
        @property
        def location(self) -> str:
            return EXTERNAL_ROOT

        def follow(self, trail: Trail, *, looks: bool) -> None:
            """Expect no folder of the place that metadata names: the copy has others."""

    def opened(location: str | Location, **settings: Any) -> Store:
        if str(location) == EXTERNAL_ROOT:
            return Redirected(str(folder), settings["counter"])
        return open_store(location, **settings)

    monkeypatch.setattr(opening, "open_store", opened)


def test_a_plan_changes_nothing(table: Copy) -> None:
    """Without --execute the table stays as it is, byte for byte."""
    before = table.files()
    answer = table.expire()
    assert answer.exit_code == 0
    assert answer.document["executed"] is False
    assert answer.document["snapshots"]["expired"] == table.expiring_ids()
    assert table.files() == before


def test_what_survives_is_whole_and_nothing_else_is_left(table: Copy) -> None:
    """All that the surviving snapshots need is there as it was; of what only the others needed nothing is."""
    before = table.files()
    planned = table.expire().document
    answer = table.expire("--execute")
    assert answer.exit_code == 0, answer.messages
    done, after = answer.document, table.files()

    gone = before.keys() - after.keys()
    assert gone == {action["path"] for action in done["actions"]} == {action["path"] for action in planned["actions"]}
    assert not gone & table.needed()
    assert not gone & table.never_touched()
    assert table.needed() <= after.keys()
    assert after.keys() - before.keys() <= {"snapshot/EARLIEST"}
    assert {path for path in after if after[path] != before.get(path)} <= {"snapshot/EARLIEST"}
    assert after.keys() == table.needed() | (table.never_touched() & before.keys()) | (after.keys() - before.keys())

    if table.expiring_ids():
        assert done["status"] == "done"
        assert done["outcome"] == {
            "deleted": len(gone),
            "already_gone": 0,
            "failed": [],
            "kept_by_recheck": 0,
            "bytes": done["delete"]["bytes"],
        }
        assert after["snapshot/EARLIEST"] == str(done["snapshots"]["expired"][-1] + 1).encode()


def test_a_second_run_has_nothing_to_do(table: Copy) -> None:
    """Expiring again changes nothing and says so."""
    table.expire("--execute")
    before = table.files()
    answer = table.expire("--execute")
    assert (answer.exit_code, answer.document["status"]) == (0, "nothing_to_do")
    assert answer.document["actions"] == []
    assert table.files() == before


def test_a_stored_plan_may_be_executed_twice(table: Copy) -> None:
    """`execute` does what the plan said; once more is harmless, and so is a plan that another run has overtaken."""
    plan_id, overtaken = table.expire().document["plan_id"], table.expire().document["plan_id"]
    if plan_id is None:
        assert table.expiring_ids() == []
        return
    first = table.run("execute", plan_id)
    assert (first.exit_code, first.document["status"]) == (0, "done")
    assert first.document["outcome"]["deleted"] == first.document["delete"]["count"]
    before = table.files()

    again = table.run("execute", plan_id)
    assert (again.exit_code, again.document["status"]) == (0, "nothing_to_do")
    late = table.run("execute", overtaken)
    assert late.exit_code == 0
    assert late.document["outcome"]["deleted"] == 0
    assert table.files() == before


def _needs(snapshot: Mapping[str, Any]) -> Iterator[str]:
    """Yield the path of everything that one snapshot names and a reader opens."""
    for name in ("base_manifest_list", "delta_manifest_list", "changelog_manifest_list", "index_manifest"):
        if snapshot[name]:
            yield f"manifest/{snapshot[name]}"
    yield from (f"manifest/{name}" for name in snapshot["manifests"])
    if snapshot["statistics"]:
        yield f"statistics/{snapshot['statistics']}"
    for file in snapshot["live_files"]:
        path = _path(file["path"])
        yield path
        folder = path.rpartition("/")[0]
        yield from (extra if "/" in extra else f"{folder}/{extra}" for extra in file["extra_files"])
    yield from (_path(file["path"]) for file in snapshot["index_files"])
    yield from map(_path, snapshot["changelog_files"])


def _path(path: str) -> str:
    """Return a path outside as this machine's file system has it."""
    return path.removeprefix("FILE:")
