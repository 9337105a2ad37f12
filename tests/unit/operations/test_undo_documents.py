"""`undo` of documents whose content the plan has: no bucket has to keep versions for that."""

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.control.audit.object_history import history_of
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.world import World


class Scene:
    """A table with a tag that was deleted, on a store without versions."""

    def __init__(self, *, is_last: bool = False) -> None:
        self.stage = World()
        self.stage.replace_each(3)
        self.stage.table.tag("old", 1)
        if is_last:
            self.maintainer.expire()
        self.before = self.stage.store.read("tag/tag-old").data
        deleted = self.maintainer.run("delete_tag", tag="old")
        assert deleted.status == "done"
        self.run_id = str(deleted.run_id)

    @property
    def maintainer(self) -> Maintainer:
        return Maintainer(self.stage.store, control=self.stage.control, sleep=self.stage.sleep)

    def undo(self, *, execute: bool = True) -> tuple[str, str | None]:
        self.stage.now_ms += 1000  # ids of runs tell seconds
        report = self.maintainer.run("undo", run_id=self.run_id, execute=execute)
        return report.status, report.refusal.code if report.refusal else None


def test_a_tag_comes_back_without_versions() -> None:
    """Byte for byte; asked again, there is nothing to do."""
    scene = Scene()
    assert isinstance(scene.stage.store, MemoryStore)
    assert scene.undo(execute=False) == ("planned", None)
    assert scene.undo() == ("done", None)
    assert scene.stage.store.read("tag/tag-old").data == scene.before
    assert scene.undo()[0] == "nothing_to_do"
    area = ControlArea(scene.stage.control, scene.stage.store.location)
    assert [entry.result for entry in history_of(area, "tag/tag-old").entries] == ["restored", "deleted"]


@pytest.mark.parametrize("execute", [False, True])
def test_a_success_file_that_stays_away_is_warned_of(execute: bool) -> None:
    """No plan has its content."""
    stage = World(options={"tag.create-success-file": "true"})
    stage.replace_each(3)
    stage.table.tag("old", 1)
    stage.store.put("tag/tag-success-file/old_SUCCESS", b"{}")
    maintainer = Maintainer(stage.store, control=stage.control, sleep=stage.sleep)
    deleted = maintainer.run("delete_tag", tag="old")
    stage.now_ms += 1000  # ids of runs tell seconds
    report = maintainer.run("undo", run_id=str(deleted.run_id), execute=execute)
    assert report.status == ("done" if execute else "planned")
    (warning,) = report.all_warnings()
    (warning,) = report.all_warnings()
    assert "old_SUCCESS does not come back" in warning


def test_another_tag_of_that_name_stays() -> None:
    """Somebody made it since."""
    scene = Scene()
    scene.stage.table.tag("old", 2)
    assert scene.undo() == ("refused", "tag_exists")


@pytest.mark.parametrize("execute", [False, True])
def test_files_do_not_come_back_without_versions(execute: bool) -> None:
    """The last tag of a snapshot that is gone took files with it; nothing of that comes back, the tag neither."""
    scene = Scene(is_last=True)
    assert scene.undo(execute=execute) == ("refused", "not_versioned")
    assert "tag/tag-old" not in {entry.key for entry in scene.stage.store.list("tag/")}
