"""What the audit says of runs that many processes carry out, each with a chain of its own."""

import gzip
import json

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.control.audit.verify import RunAudit, audit
from lakesweep.control.chain import hash_of_beginning
from tests.support.orphan_scene import OrphanScene
from tests.support.waves import Team, planned, planted


def _only(scene: OrphanScene) -> RunAudit:
    area = ControlArea(scene.control, scene.store.location)
    (found,) = audit(area).runs
    return found


def _forge(scene: OrphanScene, run_id: str, writer: str) -> None:
    """Write a part of an attempt that never was."""
    (first,) = (e.key for e in scene.control.list("") if f"{run_id}/0000000-00-intent" in e.key)
    rows = gzip.decompress(scene.control.read(first).data).decode().splitlines()
    head = json.loads(rows[0])["head"]
    head["writer"] = writer
    rows[0] = json.dumps({"head": {**head, "previous": hash_of_beginning(head)}})
    scene.control.put(first.replace("0000000-00", writer), gzip.compress("\n".join(rows).encode()))


def test_a_run_that_names_all_its_attempts_is_whole() -> None:
    """Its last part has where each of them ends."""
    scene = OrphanScene()
    planted(scene, 120)
    report = Team(scene).execute(planned(scene).plan_id)
    assert report.status == "done"
    assert (_only(scene).verdict, _only(scene).problems) == ("whole", ())


def test_a_run_that_was_stopped_is_open() -> None:
    """It could not write down where its attempts end: that is not whole, and nobody has done wrong."""
    scene = OrphanScene()
    planted(scene, 450)

    def stop(number: int) -> None:
        if number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Team(scene, before_wave=stop).execute(planned(scene).plan_id)
    assert (_only(scene).verdict, _only(scene).problems) == ("open", ())


def test_an_attempt_that_nothing_names_is_not_whole() -> None:
    """A process that was lost may have left it. So may somebody else."""
    scene = OrphanScene()
    planted(scene, 120)
    report = Team(scene).execute(planned(scene).plan_id)
    assert report.run_id is not None
    _forge(scene, report.run_id, "0000009-00")
    assert _only(scene).verdict == "open"
