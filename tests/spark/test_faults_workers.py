"""Workers and executors that die between writing and answering, and tasks that run twice: one correct plan each."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.control.plans import load_plan
from lakesweep.storage.local.store import LocalStore
from tests.support.random_scene import FolderScene
from tests.support.spark import REPOSITORY, Finished, check_struck, faults_in, submit, two_hosts

OLDER_THAN = (datetime.now(UTC) - timedelta(days=2)).isoformat()
JOB = REPOSITORY / "jobs" / "remove_orphan_files.py"


def make_scene(folder: Path) -> tuple[FolderScene, set[str]]:
    """A table with live files, orphans, a sidecar that waits for its owner, and several manifests."""
    folder.mkdir(parents=True, exist_ok=True)
    scene = FolderScene(folder)
    for number in range(6):
        scene.table.commit(f"+F{number}", extra={f"F{number}": ["index"]})
    scene.put(f"{scene.table.path('F0')}-9.index")
    orphans = {scene.orphan(f"o{number}", folder=f"dt={number % 7}/bucket-0/") for number in range(60)}
    orphans |= {scene.orphan(f"row{number}", "-0.parquet.row") for number in range(5)}
    scene.age()
    return scene, orphans


def run(scene: FolderScene, faults: tuple[str, ...], master: str, *, scan_id: str = "s", **changed: str) -> Finished:
    """Plan with `spark-submit`, while workers meet each of the faults once."""
    more = faults_in(scene.folder, faults)
    finished = submit(
        JOB,
        scene.store.location,
        "--json",
        "--control",
        scene.control.location,
        "--older-than",
        OLDER_THAN,
        "--scan-id",
        scan_id,
        scratch=scene.folder / "spark",
        master=master,
        changed=more | {name.replace("__", "."): value for name, value in changed.items()},
    )
    check_struck(scene.folder, faults, finished.log)
    return finished


def planned(scene: FolderScene, finished: Finished) -> set[str]:
    """Return what goes by the plan that the answer names, as it is stored."""
    assert finished.exit_code == 0, finished.log
    document: dict[str, Any] = json.loads(finished.output)
    area = ControlArea(LocalStore(scene.control.location), scene.store.location)
    plan = load_plan(area, document["plan_id"])
    paths = [delete.path for delete in plan.deletes]
    assert len(paths) == len(set(paths)) == plan.header.action_count
    return set(paths)


@pytest.mark.long
@pytest.mark.slow
def test_workers_that_are_killed_between_writing_and_answering(tmp_path: Path) -> None:
    """One of each stage. What they wrote is nobody's, and their tasks run again."""
    scene, orphans = make_scene(tmp_path)
    finished = run(scene, ("worker live", "worker listing", "worker owned", "worker actions"), "local[2,4]")
    assert planned(scene, finished) == orphans
    area = ControlArea(LocalStore(scene.control.location), scene.store.location)
    stored = json.loads(finished.output)["plan_id"]
    header = json.loads(area.read(f"plans/{stored}/header.json").data)
    names = {part["name"] for part in header["parts"]}
    written = {name.rpartition("/")[2] for name in area.names(f"plans/{stored}/") if "actions-" in name}
    assert names < written, "a part of the dead worker lies beside those that count"


@pytest.mark.slow
@pytest.mark.long
def test_executors_that_are_lost_and_rows_that_cannot_be_fetched(tmp_path: Path) -> None:
    """After the live stage; and in the match, where a part of the rows is gone that its later tasks were to fetch."""
    scene, orphans = make_scene(tmp_path)
    finished = run(
        scene,
        ("executor live", "shuffle actions", "executor listing"),
        "local-cluster[2,1,1024]",
        spark__default__parallelism="6",
    )
    assert "Command exited with code 137" in finished.log, "SIGKILL"
    assert "FetchFailed" in finished.log
    assert planned(scene, finished) == orphans


@pytest.mark.long
@pytest.mark.slow
def test_tasks_that_run_twice_at_once(tmp_path: Path) -> None:
    """Speculation: a second copy of a slow task answers first. Both have written their parts."""
    scene, orphans = make_scene(tmp_path)
    with two_hosts(tmp_path / "cluster") as master:
        finished = run(
            scene,
            ("slow live", "slow actions"),
            master,
            spark__speculation="true",
            spark__speculation__interval="100ms",
            spark__speculation__multiplier="1.5",
            spark__speculation__quantile="0.5",
            spark__speculation__minTaskRuntime="100ms",
        )
    again = {path.name for path in (tmp_path / "faults").glob("again *")}
    assert again >= {"again live", "again actions"}
    assert planned(scene, finished) == orphans


@pytest.mark.long
def test_a_driver_that_is_killed_goes_on_by_its_scan_id(tmp_path: Path) -> None:
    """On `local[2]` the executor is the driver's JVM. It dies in the listing, then in the match, then no more."""
    scene, orphans = make_scene(tmp_path)
    for fault in ("executor listing", "executor actions"):
        died = run(scene, (fault,), "local[2]")
        assert died.exit_code != 0
        assert not list((tmp_path / "control").rglob("header.json"))
    scans = [path for path in (tmp_path / "control").rglob("*.parquet") if path.name.startswith(("live", "listing"))]

    finished = run(scene, (), "local[2]")

    assert planned(scene, finished) == orphans
    again = [path for path in (tmp_path / "control").rglob("*.parquet") if path.name.startswith("listing")]
    assert set(again) <= set(scans), "what was listed is not listed again"
