"""`undo` of documents whose content the plan has: no bucket has to keep versions for that."""

import pytest

from lakesweep.control.audit.object_history import history_of
from tests.support.world import World


class UntaggedWorld(World):
    """A table with a tag that was deleted, on a store without versions."""

    def __init__(self, *, is_last: bool = False) -> None:
        super().__init__()
        self.replace_each(3)
        self.table.tag("old", 1)
        if is_last:
            self.expire()
        self.before = self.store.read("tag/tag-old").data
        self.deleted = self.run_id("delete-tag", tag="old")

    def undone(self, *, execute: bool = True) -> tuple[str, str | None]:
        self.now_ms += 1000  # ids of runs tell seconds
        report = self.undo(self.deleted, execute=execute)
        return report.status, report.refusal.code if report.refusal else None


def test_a_tag_comes_back_without_versions() -> None:
    """Byte for byte; asked again, there is nothing to do."""
    world = UntaggedWorld()
    assert world.undone(execute=False) == ("planned", None)
    assert world.undone() == ("done", None)
    assert world.store.read("tag/tag-old").data == world.before
    assert world.undone()[0] == "nothing_to_do"
    assert [entry.result for entry in history_of(world.area, "tag/tag-old").entries] == ["restored", "deleted"]


@pytest.mark.parametrize("execute", [False, True])
def test_a_success_file_that_stays_away_is_warned_of(execute: bool) -> None:
    """No plan has its content."""
    world = World(options={"tag.create-success-file": "true"})
    world.replace_each(3)
    world.table.tag("old", 1)
    world.store.put("tag/tag-success-file/old_SUCCESS", b"{}")
    run_id = world.run_id("delete-tag", tag="old")
    world.now_ms += 1000  # ids of runs tell seconds
    report = world.undo(run_id, execute=execute)
    assert report.status == ("done" if execute else "planned")
    (warning,) = report.all_warnings()
    assert "old_SUCCESS does not come back" in warning


def test_another_tag_of_that_name_stays() -> None:
    """Somebody made it since."""
    world = UntaggedWorld()
    world.table.tag("old", 2)
    assert world.undone() == ("refused", "tag_exists")


@pytest.mark.parametrize("execute", [False, True])
def test_files_do_not_come_back_without_versions(execute: bool) -> None:
    """The last tag of a snapshot that is gone took files with it; nothing of that comes back, the tag neither."""
    world = UntaggedWorld(is_last=True)
    assert world.undone(execute=execute) == ("refused", "not_versioned")
    assert "tag/tag-old" not in world.keys("tag/")
