"""`lakesweep simulate`."""

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.simulated_tables import SimulatedWorld
from tests.support.world import HOUR_MS
from tests.unit.cli.command_line import call

BEGAN_MS = time.time_ns() // 1_000_000 - 100 * HOUR_MS


def write(folder: Path, commits: int = 20) -> None:
    """Write a table whose snapshots are 5 hours apart, each with a file of 1 000 bytes that replaces the last."""
    world = SimulatedWorld(
        now_ms=BEGAN_MS, options={"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "15"}
    )
    for number in range(1, commits + 1):
        world.now_ms += 5 * HOUR_MS - 60_000
        gone = [f"-F{number - 1}"] if number > 1 else []
        stream = {"user": "loader", "identifier": number} if number == 7 else {}
        world.table.commit(f"+F{number}", *gone, time_ms=world.now_ms, size={f"F{number}": 1000}, **stream)  # type: ignore[arg-type]
    for number in (1, 2, commits // 2):
        world.table.tag(f"t{number}", snapshot=number)
    for key, body in world.bodies().items():
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse of two databases."""
    folder = tmp_path_factory.mktemp("lake")
    write(folder / "sales.db" / "orders")
    write(folder / "sales.db" / "items", 12)
    write(folder / "web.db" / "clicks", 3)
    return folder


def cases(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {case["name"]: case for case in document["tables"][0]["cases"]}


def test_policies_of_one_table(lake: Path) -> None:
    """Default ages lie within the history, and the options and cases that are typed are the policies else."""
    orders = lake / "sales.db" / "orders"
    document = call("simulate", orders, "--json").document
    assert [case["name"] for case in document["cases"]] == ["present policy", "1 h", "1 d", "3 d"]
    assert [case["kept"]["snapshots"] for case in document["cases"]] == [2, 2, 6, 16]
    assert document["tables"][0]["name"] == "orders" and document["place"] == str(orders)
    found = cases(
        call(
            *("simulate", orders, "--retain-max", "5", "--time-retained", "3 d", "--tag-rules", "last=1"),
            *("--policy-case", "time-retained=3 d", "--policy-case", "retain-min=4", "--days", "2", "--json"),
        ).document
    )
    plain = "retain-max=5, time-retained=3 d, tags last=1"
    assert list(found) == ["present policy", plain, "time-retained=3 d", "retain-min=4"]
    assert [case["kept"]["snapshots"] for case in found.values()] == [2, 5, 15, 4]
    assert [case["kept"]["tags"] for case in found.values()] == [3, 1, 3, 3]
    assert found[plain]["rules"]["tag_rules"] == ["keep_last 1 of *"]
    assert [reader["name"] for reader in found[plain]["readers"]] == ["loader"]
    assert found["time-retained=3 d"]["readers"] == []
    history = found[plain]["history"]
    assert history["average_bytes"] <= history["peak_bytes"] and len(history["points"]) == 11


def test_what_is_said(lake: Path) -> None:
    """The table, its policies, who loses what, and a chart."""
    answer = call("simulate", lake / "sales.db" / "orders", "--days", "30")
    lines = answer.printed.splitlines()
    assert answer.exit_code == 0
    assert "20 snapshots, 3 tags, " in lines[0]
    assert lines[2].split("  ")[0] == "POLICY" and lines[2].endswith("AVERAGE")
    assert "commit user loader loses its snapshot 7: present policy, 1 h, 1 d" in lines
    head = next(number for number, line in enumerate(lines) if line.startswith("AGE KEPT"))
    bars = [line.count("#") for line in lines[head + 1 :]]
    assert bars == sorted(bars) and bars[-1] == 40 and len(bars) <= 12


def test_plain_characters(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that shows ASCII alone gets bars of it."""
    from lakesweep.cli import simulate

    class Plain:
        encoding = "ascii"

    monkeypatch.setattr(simulate.sys, "stdout", Plain())  # type: ignore[attr-defined]
    document = {"age_ms": 0, "snapshots": 1, "bytes": 10, "usd_month": 0.0}
    monkeypatch.setattr("lakesweep.cli.text.is_too_narrow", lambda width, stream: False)
    drawn = "".join(simulate._chart([document, {**document, "age_ms": 90_000_000, "bytes": 20}]))
    assert drawn.isascii() and "####" in drawn


def test_a_warehouse(lake: Path) -> None:
    """Sums are those of the tables; a database is part of it."""
    document = call("simulate", lake, "--days", "30", "--json").document
    tables = {each["name"]: each for each in document["tables"]}
    assert tables.keys() == {"sales.db/orders", "sales.db/items", "web.db/clicks"}
    for key in ("snapshots", "data_files", "metadata_files", "bytes"):
        assert document["now"][key] == sum(each["now"][key] for each in tables.values())
    for number, total in enumerate(document["cases"]):
        own = [each["cases"][number] for each in tables.values()]
        assert total["kept"]["bytes"] == sum(case["kept"]["bytes"] for case in own)
        assert total["deleted"]["bytes"] == sum(case["deleted"]["bytes"] for case in own)
        assert total["peak_bytes"] == sum(case["history"]["peak_bytes"] for case in own)
    assert document["curve"][0]["bytes"] == sum(each["curve"][0]["bytes"] for each in tables.values())
    assert document["curve"][-1]["bytes"] == sum(each["curve"][-1]["bytes"] for each in tables.values())
    ages = [point["age_ms"] for point in document["curve"]]
    assert ages == sorted(set(ages))
    database = call("simulate", lake / "sales.db", "--json").document
    assert [each["name"] for each in database["tables"]] == ["orders", "items"]
    printed = call("simulate", lake).printed
    assert "3 tables" in printed and "web.db/clicks" in printed


def test_folders_that_are_no_tables(lake: Path, tmp_path: Path) -> None:
    """Neither they nor the folders of branches are simulated; tables in other layouts are found some levels deep."""
    place = tmp_path / "lake"
    shutil.copytree(lake / "web.db", place / "web.db")
    shutil.copytree(lake / "web.db" / "clicks", place / "a" / "b" / "c")
    shutil.copytree(
        lake / "web.db" / "clicks" / "snapshot", place / "web.db" / "clicks" / "branch" / "branch-x" / "snapshot"
    )
    shutil.copytree(
        lake / "web.db" / "clicks" / "schema", place / "web.db" / "clicks" / "branch" / "branch-x" / "schema"
    )
    (place / "web.db" / "empty").mkdir()
    shutil.copytree(lake / "web.db" / "clicks" / "snapshot", place / "web.db" / "lost" / "snapshot")
    found = {each["name"]: each for each in call("simulate", place, "--json").document["tables"]}
    assert found.keys() == {"web.db/clicks", "a/b/c", "web.db/lost"}
    assert [name for name, each in found.items() if each["problem"]] == ["web.db/lost"]
    assert found["web.db/lost"]["problem_code"] == "not_a_table"


def test_a_table_that_cannot_be_read_is_named(lake: Path, tmp_path: Path) -> None:
    """The others are simulated, and the exit code says so. Alone, it is an error."""
    place = tmp_path / "lake"
    shutil.copytree(lake, place)
    items = place / "sales.db" / "items"
    (next(items.glob("manifest/manifest-list-*"))).write_bytes(b"\0damaged")
    answer = call("simulate", place, "--json")
    assert answer.exit_code == 4
    document = answer.document
    failed = document["tables"][0]
    assert (
        document["failed"] == 1 and failed["name"] == "sales.db/items" and failed["problem_code"] == "unreadable_root"
    )
    assert document["now"]["bytes"] == sum(each["now"]["bytes"] for each in document["tables"][1:])
    assert "sales.db/items: " in answer.messages
    printed = call("simulate", place).printed
    assert "failed" in printed and "3 tables (1 of them could not be simulated, and no sum has it), " in printed
    shutil.copytree(items, tmp_path / "items.db" / "items")
    single = call("simulate", tmp_path / "items.db")
    assert single.exit_code == 4 and "1 table, and none of them could be simulated" in single.printed
    assert "0 B" not in single.printed
    alone = call("simulate", items, "--json")
    assert alone.exit_code == 3 and alone.document["error"]["code"] == "unreadable_root"
    assert alone.messages.count("\n") == 1


def test_wrong_calls(lake: Path, tmp_path: Path) -> None:
    """One sentence, and the exit codes of other commands."""
    orders = lake / "sales.db" / "orders"
    assert call("simulate", orders, "--policy-case", "retain-max=x").exit_code == 2
    assert call("simulate", orders, "--retain-max", "1", "--retain-min", "2").exit_code == 3
    assert call("simulate", orders, "--days", "0").exit_code == 2
    assert call("simulate", tmp_path).exit_code == 3
    assert call("simulate", orders, "--branch", "none").exit_code == 3


def test_names_that_look_like_markup_are_text(lake: Path, tmp_path: Path) -> None:
    """Control characters of a name are escaped."""
    hostile = tmp_path / "a\x1b[31m<script>.db" / "t\u202e\nx"
    shutil.copytree(lake / "web.db" / "clicks", hostile)
    answer = call("simulate", tmp_path)
    assert answer.exit_code == 0
    assert "\x1b" not in answer.printed and "\u202e" not in answer.printed
    document = json.loads(call("simulate", tmp_path, "--json").printed)
    assert document["tables"][0]["name"] == "a\x1b[31m<script>.db/t\u202e\nx"
