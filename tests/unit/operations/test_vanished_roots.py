"""A root that vanishes while a plan is made, and is back before the plan is carried out."""

from typing import Any

from lakesweep.storage.store import Body
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.reader import assert_all_readable
from tests.support.table_builder import TableBuilder


class Fickle(MemoryStore):
    """Roots of branches are listed, are gone while they are to be read, and come back as they were."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.hidden: dict[str, Any] = {}
        self.is_hiding = False

    def read(self, key: str, max_bytes: int | None = None) -> Body:
        if self.is_hiding and key.startswith(("branch/branch-b/tag/", "branch/branch-b/snapshot/snapshot-")):
            self.hidden |= {key: self._objects.pop(key)} if key in self._objects else {}
        return super().read(key, max_bytes)

    def come_back(self) -> None:
        self.is_hiding = False
        self._objects |= self.hidden


def test_a_root_that_nobody_could_ask_is_a_new_one_when_it_comes_back() -> None:
    """Its ETag is what it was, as after two renamings; what it needs nobody knew when the plan was made."""
    store = Fickle("memory://bucket/db.db/t")
    table = TableBuilder(store)
    table.commit("+A")
    table.tag("t", snapshot=1)
    table.commit("+B")
    table.tag("other", snapshot=2)
    table.branch("b", from_tag="other")
    table.commit("-A", "-B", "+C")
    assert Maintainer(store).expire().status == "done"
    assert Maintainer(store).run("delete-tag", tag="other").status == "done"
    maintainer = Maintainer(store)  # one that remembers nothing of the branch
    store.is_hiding = True
    plan = maintainer.run("delete-tag", tag="t", execute=False).plan
    assert plan is not None and any(delete.kind == "data" for delete in plan.deletes)
    assert store.hidden
    store.come_back()
    assert maintainer.execute(plan.header.plan_id).status == "done"
    assert_all_readable(table)
