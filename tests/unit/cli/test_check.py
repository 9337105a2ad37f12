"""`lakesweep check`: what is wrong with a table, one case a check, and the command that mends it."""

import json
import os
import re
import shlex
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.fixture_tables import TABLE_NAMES
from tests.support.table_builder import TableBuilder
from tests.unit.cli.command_line import Answer, call, contents, write_table

LOOKED = "checked the data files of the newest snapshot of each branch; --all-roots checks all data files"
RETAINED = {"snapshot.num-retained.max": "100", "snapshot.num-retained.min": "1", "snapshot.time-retained": "100000 d"}


@pytest.fixture
def control(tmp_path: Path) -> Path:
    return tmp_path / "control"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "db" / "orders"


@pytest.fixture
def table(folder: Path) -> TableBuilder:
    return write_table(folder, options=RETAINED)


def check(place: Path, control: Path, *more: object) -> Answer:
    before = contents(place)
    answer = call("check", place, "--control", control, "--json", *more)
    assert contents(place) == before
    return answer


def found(answer: Answer) -> list[dict[str, Any]]:
    assert (answer.exit_code, answer.document["status"]) == (6, "findings"), answer.printed
    findings: list[dict[str, Any]] = answer.document["findings"]
    return findings


@pytest.mark.parametrize("more", [(), ("--all-roots",)])
def test_a_healthy_table(table: TableBuilder, folder: Path, control: Path, more: tuple[str, ...]) -> None:
    table.tag("t", snapshot=2, ttl=timedelta(days=3))
    answer = check(folder, control, *more)
    assert (answer.exit_code, answer.document["status"], answer.document["findings"]) == (0, "healthy", [])
    text = call("check", folder, "--control", control, *more)
    looked = "" if more else f"; {LOOKED}"
    assert (text.exit_code, text.printed) == (0, f"{folder}: healthy{looked}\n")


def lost_data(table: TableBuilder) -> str:
    path = table.path("F6")
    table.remove(path)
    return path


def cut_data(table: TableBuilder) -> str:
    path = table.path("F6")
    body = table.store.read(path).data
    table.remove(path)
    table.store.put(path, body[:-1])
    return path


def lost_manifest(table: TableBuilder) -> str:
    path = f"manifest/{table.model('snapshot/snapshot-6').delta[0].name}"
    table.remove(path)
    return path


def lost_snapshots(table: TableBuilder) -> str:
    table.tag("t", snapshot=2)
    for number in range(1, 7):
        table.remove(f"snapshot/snapshot-{number}")
    return "tag/tag-t"


def wrong_hint(table: TableBuilder) -> str:
    table.hint("LATEST", 4)
    return "snapshot/LATEST"


def hole(table: TableBuilder) -> str:
    table.remove("snapshot/snapshot-2")
    table.hint("EARLIEST", 1)
    return "snapshot/snapshot-1"


def consumer_beyond(table: TableBuilder) -> str:
    table.consumer("search", 99)
    return "search"


CASES: dict[str, Callable[[TableBuilder], str]] = {
    "files": lost_data,
    "wrong_size": cut_data,
    "roots": lost_manifest,
    "history": lost_snapshots,
    "hints": wrong_hint,
    "ids": hole,
    "consumers": consumer_beyond,
}


@pytest.mark.parametrize("more", [(), ("--all-roots",)])
@pytest.mark.parametrize("name", CASES)
def test_each_damage_is_found(
    table: TableBuilder, folder: Path, control: Path, name: str, more: tuple[str, ...]
) -> None:
    what = CASES[name](table)
    findings = [each for each in found(check(folder, control, *more)) if each["check"] == name]
    assert findings, name
    assert what in findings[0]["says"] + " ".join(findings[0]["paths"])
    assert findings[0]["mend"]


@pytest.mark.parametrize("name", ["ids", "hints"])
def test_the_command_mends_it(table: TableBuilder, folder: Path, control: Path, name: str) -> None:
    CASES[name](table)
    for each in found(check(folder, control)):
        words = shlex.split(each["mend"])
        assert words[0] == "lakesweep" and call(*words[1:]).exit_code == 0
    answer = check(folder, control)
    assert answer.exit_code == 0, answer.printed


@pytest.mark.parametrize("more", [(), ("--all-roots",)])
@pytest.mark.parametrize(
    ("name", "repair"), [("files", "remove-unexisting-files"), ("roots", "remove-unexisting-manifests")]
)
def test_a_loss_of_the_newest_snapshot_is_restored_or_given_up(
    table: TableBuilder, folder: Path, control: Path, name: str, repair: str, more: tuple[str, ...]
) -> None:
    """The plan of the repair names everything that is lost, so the command prints it."""
    path = CASES[name](table)
    (finding,) = (each for each in found(check(folder, control, *more)) if each["check"] == name)
    before, _, mend = finding["mend"].partition(": ")
    assert before == f"restore {path} from the bucket's versions or a backup; where that cannot be done"
    words = shlex.split(mend)
    assert words[:3] == ["lakesweep", repair, str(folder)] and "--execute" not in words
    accepted = re.findall("--accept-loss [0-9a-f]{12}", call(*words[1:]).printed)[0].split()
    call(*words[1:], "--catalog-type", "filesystem", "--catalog-lock", "--execute", *accepted)
    left = [each["paths"] for each in check(folder, control).document["findings"]]
    assert left == ([["snapshot/snapshot-6"]] if name == "roots" else [])


def test_a_printed_command_runs_nothing_that_a_name_says(table: TableBuilder, folder: Path, control: Path) -> None:
    """Whoever writes a table names its branches."""
    table.branch("$(touch pwned); 'x").commit("+B1")
    table.store.put("branch/branch-$(touch pwned); 'x/snapshot/LATEST", b"77")
    (hint,) = (each for each in found(check(folder, control, "--all-roots")) if each["check"] == "hints")
    words = shlex.split(hint["mend"].partition(": ")[2])
    assert words[:3] == ["lakesweep", "repair-hints", str(folder)]
    assert words[words.index("--branch") + 1] == "$(touch pwned); 'x"


def test_a_hint_above_the_newest_snapshot_may_tell_of_lost_commits(
    table: TableBuilder, folder: Path, control: Path
) -> None:
    """The snapshot has to be restored, if it was ever there, before anybody writes over the hint."""
    table.hint("LATEST", 99)
    (hint,) = (each for each in found(check(folder, control)) if each["check"] == "hints")
    assert "either snapshot 99 is lost, or the hint is wrong" in hint["says"]
    assert hint["mend"].startswith("restore snapshot/snapshot-99 from the bucket's versions or a backup; where")
    assert f"lakesweep repair-hints {folder} " in hint["mend"]
    assert "--execute" not in hint["mend"], "a person has to confirm the plan"


@pytest.mark.parametrize("more", [(), ("--all-roots",)])
def test_a_damaged_tag_is_found(table: TableBuilder, folder: Path, control: Path, more: tuple[str, ...]) -> None:
    table.tag("t", snapshot=2)
    call("expire-snapshots", folder, "--retain-max", 1, "--retain-min", 1, "--control", control, "--execute")
    table.remove(f"manifest/{table.document('tag/tag-t')['baseManifestList']}")
    (finding,) = found(check(folder, control, *more))
    assert (finding["check"], finding["paths"]) == ("roots", ["tag/tag-t"])
    assert call(*shlex.split(finding["mend"])[1:]).exit_code in (0, 4)
    assert check(folder, control, *more).exit_code == 0


@pytest.mark.parametrize("more", [(), ("--all-roots",)])
@pytest.mark.parametrize("what", ["list", "manifest", "truncated manifest", "index manifest"])
def test_an_older_snapshot_that_lacks_metadata_is_found(
    table: TableBuilder, folder: Path, control: Path, what: str, more: tuple[str, ...]
) -> None:
    path = f"manifest/{table.model('snapshot/snapshot-3').delta[0].name}"
    if what == "list":
        path = f"manifest/{table.document('snapshot/snapshot-3')['deltaManifestList']}"
        table.remove(path)
    elif what == "manifest":
        table.remove(path)
    elif what == "truncated manifest":
        (folder / path).write_bytes((folder / path).read_bytes()[:-1])
    else:
        path = "manifest/index-manifest-gone"
        document = {**table.document("snapshot/snapshot-3"), "indexManifest": path.removeprefix("manifest/")}
        (folder / "snapshot/snapshot-3").write_text(json.dumps(document))
    findings = found(check(folder, control, *more))
    assert {each["check"] for each in findings} == {"roots"}
    assert ["snapshot/snapshot-3"] in [each["paths"] for each in findings]
    assert all(path in each["says"] for each in findings)


@pytest.mark.parametrize("more", [(), ("--all-roots",)])
def test_a_tag_that_no_longer_parses_is_mended_by_what_it_says(
    table: TableBuilder, folder: Path, control: Path, more: tuple[str, ...]
) -> None:
    """Each of two such tags is told, not only the first."""
    for name in ("t", "u"):
        table.tag(name, snapshot=2)
        (folder / f"tag/tag-{name}").write_text('{"ver')
    lost_data(table)
    findings = found(check(folder, control, *more))
    roots = [each for each in findings if each["check"] == "roots"]
    assert [each["paths"] for each in roots] == [["tag/tag-t"], ["tag/tag-u"]]
    assert [each["check"] for each in findings if each not in roots] == ["files"]
    for each in roots:
        assert "delete-tag" in each["says"]
        answer = call(*shlex.split(each["mend"])[1:])
        assert answer.exit_code == 0, answer.messages
    assert [each["check"] for each in found(check(folder, control))] == ["files"]


def test_a_document_of_a_snapshot_that_no_longer_parses_is_found(
    table: TableBuilder, folder: Path, control: Path
) -> None:
    (folder / "snapshot/snapshot-2").write_text('{"ver')
    findings = [each for each in found(check(folder, control)) if each["paths"] == ["snapshot/snapshot-2"]]
    assert [each["check"] for each in findings] == ["roots"]
    assert findings[0]["mend"].startswith("restore snapshot/snapshot-2 ")


@pytest.mark.parametrize("more", [(), ("--all-roots",)])
def test_a_branch_without_a_schema_is_found(
    table: TableBuilder, folder: Path, control: Path, more: tuple[str, ...]
) -> None:
    table.branch("b").commit("+B1")
    assert check(folder, control, *more).exit_code == 0
    for path in (folder / "branch/branch-b/schema").iterdir():
        path.unlink()
    (finding,) = [each for each in found(check(folder, control, *more)) if each["check"] == "roots"]
    assert "branch b has no schema" in finding["says"]
    assert f"lakesweep delete-branch {folder} b --execute --control {control}" in finding["mend"]


def test_a_schema_that_snapshots_are_of_and_that_is_gone_is_found(
    table: TableBuilder, folder: Path, control: Path
) -> None:
    (folder / "schema/schema-1").write_text(
        (folder / "schema/schema-0").read_text().replace('"id": 0', '"id": 1').replace('"id":0', '"id":1', 1)
    )
    (folder / "schema/schema-0").unlink()
    roots = [each for each in found(check(folder, control)) if each["check"] == "roots"]
    assert ["snapshot/snapshot-6"] in [each["paths"] for each in roots]
    assert all("schema/schema-0" in each["mend"] for each in roots)


@pytest.mark.parametrize("kept", ["snapshot", "manifest"])
def test_a_table_that_lost_its_schemas_is_listed_with_its_database(
    table: TableBuilder, folder: Path, control: Path, kept: str
) -> None:
    write_table(folder.parent / "other", options=RETAINED)
    for name in {"schema", "snapshot", "manifest"} - {kept}:
        shutil.rmtree(folder / name)
    answer = call("check", folder.parent, "--control", control, "--json")
    assert answer.exit_code != 0
    assert [each["table"] for each in answer.document["tables"]] == [str(folder), str(folder.parent / "other")]
    assert "schema" in json.dumps(answer.document["tables"][0])
    answer = call("remove-orphan-files", folder.parent, "--control", control, "--json")
    assert answer.exit_code == 3
    assert len(answer.document["tables"]) == 2
    assert "whose schemas are gone" in answer.messages
    answer = call("check", folder, "--control", control, "--json")
    assert answer.exit_code == (6 if kept == "snapshot" else 3)


def test_a_table_called_snapshot_makes_its_database_no_table(tmp_path: Path, control: Path) -> None:
    write_table(tmp_path / "lake" / "db" / "snapshot", options=RETAINED)
    answer = call("check", tmp_path / "lake", "--control", control)
    assert answer.exit_code == 3
    assert "it is a warehouse" in answer.messages


def test_a_lost_history_is_restored_before_anything_is_rolled_back(
    table: TableBuilder, folder: Path, control: Path
) -> None:
    table.tag("a", snapshot=2)
    table.tag("b", snapshot=4)
    table.tag("c", snapshot=3)
    lost_snapshots(table)
    (finding,) = [each for each in found(check(folder, control)) if each["check"] == "history"]
    assert finding["mend"].startswith("restore snapshot/ ")
    assert finding["mend"].endswith(f"lakesweep rollback {folder} --tag b --execute --control {control}")
    assert "loses every version after snapshot 4" in finding["says"]


@pytest.mark.parametrize("gone", ["snapshot", "snapshot manifest"])
def test_a_table_that_lost_all_its_roots_is_not_healthy(
    table: TableBuilder, folder: Path, control: Path, gone: str
) -> None:
    """Nothing but the manifests says that there were any. A table that was never written has none of them."""
    for name in gone.split():
        shutil.rmtree(folder / name)
    if "manifest" in gone:
        assert check(folder, control).document["status"] == "healthy"
        return
    (finding,) = found(check(folder, control))
    assert finding["check"] == "history"
    assert "the table has lost its history" in finding["says"]
    assert "snapshot/" in finding["mend"]


@pytest.mark.parametrize("more", [(), ("--all-roots",)])
def test_the_oldest_snapshot_may_be_going(
    table: TableBuilder, folder: Path, control: Path, more: tuple[str, ...]
) -> None:
    """Paimon's expiry deletes files before the snapshot."""
    table.remove(f"manifest/{table.document('snapshot/snapshot-1')['deltaManifestList']}")
    (finding,) = found(check(folder, control, *more))
    assert "an expiry by Paimon" in finding["says"]


def test_data_files_of_the_oldest_snapshot_may_be_going(table: TableBuilder, folder: Path, control: Path) -> None:
    table.remove(table.path("F1"))
    (finding,) = found(check(folder, control, "--all-roots"))
    sentence = "an expiry by Paimon"
    assert finding["check"] == "files"
    assert sentence in finding["says"]
    assert sentence in call("explain", folder, "--control", control).messages
    assert sentence in call("remove-orphan-files", folder, "--control", control).messages
    table.tag("t", snapshot=1)
    (finding,) = found(check(folder, control, "--all-roots"))
    assert sentence not in finding["says"]


def test_data_files_of_a_snapshot_between_others_are_lost(table: TableBuilder, folder: Path, control: Path) -> None:
    table.remove(table.path("F3"))
    (finding,) = found(check(folder, control, "--all-roots"))
    assert "under way" not in finding["says"]


def test_a_manifest_of_the_right_size_that_does_not_parse_is_found(
    table: TableBuilder, folder: Path, control: Path
) -> None:
    path = folder / f"manifest/{table.model('snapshot/snapshot-3').delta[0].name}"
    path.write_bytes(bytes(len(path.read_bytes())))
    findings = found(check(folder, control, "--all-roots"))
    assert "roots" in {each["check"] for each in findings}


def test_options_that_contradict_each_other(folder: Path, control: Path) -> None:
    write_table(folder, options={"snapshot.num-retained.max": "2", "snapshot.num-retained.min": "5"})
    assert [each["check"] for each in found(check(folder, control))] == ["policy"]


def test_snapshots_that_are_overdue_and_a_consumer_that_holds_them(folder: Path, control: Path) -> None:
    table = write_table(folder, options={**RETAINED, "snapshot.time-retained": "1 h"})
    (finding,) = found(check(folder, control))
    assert finding["check"] == "retention"
    table.consumer("search", 2)
    checks = {each["check"]: each for each in found(check(folder, control))}
    assert "search" in checks["consumers"]["says"]
    assert "--including-consumers search" in checks["consumers"]["mend"]


def test_a_command_has_the_policy_of_the_call_where_it_takes_one(folder: Path, control: Path) -> None:
    """Without it, the command would delete from a table that the policy says to observe by now."""
    table = write_table(folder, options={**RETAINED, "snapshot.time-retained": "1 h"})
    lost_data(table)
    policy = folder.parent / "policy.json"
    policy.write_text(json.dumps({"version": 1, "rules": [{"tables": f"{folder.parent}/", "mode": "delete"}]}))
    mends = [each["mend"].rpartition("done: ")[2] for each in found(check(folder, control, "--policy", policy))]
    commands = [shlex.split(mend) for mend in mends]
    assert {words[1]: "--policy" in words for words in commands} == {"maintain": True, "remove-unexisting-files": True}
    policy.write_text(json.dumps({"version": 1, "rules": [{"tables": f"{folder.parent}/"}]}))
    before = contents(folder)
    assert all(call(*words[1:]).exit_code in (0, 4) for words in commands)
    assert contents(folder) == before


def test_a_database_has_a_line_a_table(table: TableBuilder, folder: Path, control: Path) -> None:
    write_table(folder.parent / "other", options=RETAINED)
    lost_data(table)
    answer = call("check", folder.parent, "--control", control)
    assert answer.exit_code == 6
    assert answer.printed.splitlines() == [
        f"{folder}: 1 findings (files)",
        f"{folder.parent / 'other'}: healthy",
        LOOKED,
    ]
    document = call("check", folder.parent, "--control", control, "--json").document
    assert [each["status"] for each in document["tables"]] == ["findings", "healthy"]


def test_what_is_no_table_is_refused(tmp_path: Path, control: Path) -> None:
    answer = call("check", tmp_path / "nothing", "--control", control, "--json")
    assert (answer.exit_code, answer.document["error"]["code"]) == (3, "not_a_table")


def test_explain_and_show_tell_of_damage_by_their_exit_codes(table: TableBuilder, folder: Path, control: Path) -> None:
    path = lost_data(table)
    answer = call("explain", folder, "--control", control, "--json")
    assert answer.exit_code == 4
    (row,) = [each for each in answer.document["reasons"] if each["reason"] == "missing"]
    assert (row["count"], row["first"]) == (1, [path])
    assert call("explain", folder, path, "--control", control).exit_code == 4
    assert call("show", folder).exit_code == 0
    lost_snapshots(table)
    for command in ("show", "explain"):
        answer = call(command, folder, "--json")
        assert answer.exit_code == 4
        assert "lost its history" in answer.document["damage"][0]
        assert "lost its history" in answer.messages


@pytest.mark.parametrize("more", [(), ("--all-roots",)])
def test_a_file_of_another_size_is_told_with_both_sizes(
    table: TableBuilder, folder: Path, control: Path, more: tuple[str, ...]
) -> None:
    size = (folder / table.path("F6")).stat().st_size
    path = cut_data(table)
    (finding,) = found(check(folder, control, *more))
    needed_by = ["snapshot 6"]
    assert finding["sizes"] == [{"path": path, "expected": size, "found": size - 1, "needed_by": needed_by}]
    assert f"{path} has {size - 1} bytes; expected {size}" in finding["says"]


def test_an_older_snapshots_file_of_another_size_is_found_with_all_roots(
    table: TableBuilder, folder: Path, control: Path
) -> None:
    path = table.path("F1")
    table.tag("first", snapshot=1)
    (folder / path).write_bytes(b"longer than it was " * 1000)
    assert check(folder, control).exit_code == 0
    (finding,) = found(check(folder, control, "--all-roots"))
    assert (finding["check"], finding["paths"]) == ("wrong_size", [path])
    assert "tag first" in " ".join(finding["sizes"][0]["needed_by"])


@pytest.mark.parametrize("more", [(), ("--all-roots",)])
def test_an_index_file_of_another_size_is_found(
    table: TableBuilder, folder: Path, control: Path, more: tuple[str, ...]
) -> None:
    table.commit("+V", index={"I": {"V": [1, 2]}})
    table.hint("LATEST", 7)
    assert check(folder, control, *more).exit_code == 0
    (path,) = (folder / "index").iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    (finding,) = found(check(folder, control, *more))
    assert (finding["check"], finding["paths"]) == ("wrong_size", [f"index/{path.name}"])


def test_explain_tells_both_sizes(table: TableBuilder, folder: Path, control: Path) -> None:
    path = table.path("F6")
    size = (folder / path).stat().st_size
    answer = call("explain", folder, path, "--control", control, "--json")
    assert (answer.exit_code, answer.document["expected_bytes"], answer.document["size_bytes"]) == (0, size, size)
    cut_data(table)
    answer = call("explain", folder, path, "--control", control, "--json")
    assert (answer.exit_code, answer.document["status"], answer.document["expected_bytes"]) == (4, "live", size)
    assert f"it has {size - 1} bytes, expected {size}" in answer.document["why"]


@pytest.mark.parametrize("more", [(), ("--all-roots",)])
@pytest.mark.parametrize("name", TABLE_NAMES)
def test_a_real_table_has_no_file_of_another_size(name: str, control: Path, more: tuple[str, ...]) -> None:
    fixtures = os.environ.get("LAKESWEEP_FIXTURES")
    if not fixtures:
        pytest.skip("LAKESWEEP_FIXTURES names no folder with fixture tables")
    answer = call("check", Path(fixtures) / "tables" / name, "--control", control, "--json", *more)
    assert [each for each in answer.document["findings"] if each["check"] == "wrong_size"] == []


@pytest.mark.parametrize("more", [(), ("--all-roots",)])
def test_a_live_snapshot_with_a_tag_that_has_lost_its_changelog_is_found(
    table: TableBuilder, folder: Path, control: Path, more: tuple[str, ...]
) -> None:
    """Streaming readers open it, whether it was damaged or a rollback has brought it back."""
    table.commit("+G", changelog=("+G",))
    table.tag("t", snapshot=7)
    table.commit("+H")
    table.hint("LATEST", 8)
    assert check(folder, control, *more).exit_code == 0
    name = json.loads((folder / "snapshot" / "snapshot-7").read_text())["changelogManifestList"]
    table.remove(f"manifest/{name}")
    (finding,) = found(check(folder, control, *more))
    assert (finding["check"], finding["paths"]) == ("roots", ["snapshot/snapshot-7"])
    assert f"snapshot/snapshot-7 has lost its changelog: manifest/{name} does not exist" in finding["says"]
    assert "--retain-max 1 " in finding["mend"]


def test_a_tag_without_a_snapshot_needs_no_changelog(table: TableBuilder, folder: Path, control: Path) -> None:
    """Expiry takes it, and nobody streams from a tag."""
    table.commit("+G", changelog=("+G",))
    table.tag("t", snapshot=7)
    table.commit("+H")
    table.hint("LATEST", 8)
    name = json.loads((folder / "snapshot" / "snapshot-7").read_text())["changelogManifestList"]
    table.remove(f"manifest/{name}")
    for number in range(1, 8):
        table.remove(f"snapshot/snapshot-{number}")
    table.hint("EARLIEST", 8)
    assert check(folder, control).document["findings"] == []
