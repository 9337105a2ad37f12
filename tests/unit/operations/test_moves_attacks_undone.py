"""What is said of a plan that moved a branch once it is done: executed again after an undo, and by `explain`."""

from lakesweep.operations.inspect.explain.file import ExplainArguments, explain_file
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder


def test_a_rollback_that_was_undone_is_not_said_to_be_done() -> None:
    store = MemoryStore("memory://bucket/db.db/t")
    table = TableBuilder(store, options={"write-only": "true"})
    for number in (1, 2, 3):
        table.commit(f"+A{number}")
    maintainer = Maintainer(store)
    planned = maintainer.run("rollback", execute=False, snapshot=1).plan
    assert planned is not None
    plan_id = planned.header.plan_id
    report = maintainer.execute(plan_id)
    assert report.status == "done" and report.run_id is not None
    assert maintainer.execute(plan_id).status == "nothing_to_do"
    assert maintainer.run("undo", run_id=report.run_id).status == "done"
    again = maintainer.execute(plan_id)
    assert (again.status, again.refusal and again.refusal.code) == ("refused", "plan_undone")
    assert table.exists("snapshot/snapshot-3")


def test_explain_does_not_say_that_what_a_rollback_took_is_lost() -> None:
    store = MemoryStore("memory://bucket/db.db/t")
    table = TableBuilder(store, options={"write-only": "true"})
    for number in (1, 2):
        table.commit(f"+A{number}")
    maintainer = Maintainer(store)
    assert maintainer.run("rollback", snapshot=1).status == "done"
    (run,) = explain_file(maintainer.table, "snapshot/snapshot-2", ExplainArguments()).runs
    assert (run.operation, run.result, run.restorable) == ("rollback", "deleted", None)
