"""Check whether the ledger of a run is reliable enough for an undo.

Only the ledger names the deletions and their delete markers. If a part were lost, objects would stay absent unnoticed.
So the chain of each run is checked. Every deletion without a row is compared with the table. An object that exists was
not deleted, or is back. If an object is absent, its deletion stays unknown, and nothing is undone.
"""

from collections.abc import Iterator, Sequence

from lakesweep.control.area import ControlArea
from lakesweep.control.audit.verify import RunAudit, audit_run
from lakesweep.control.ends import PUT_OFF, PlanEnd
from lakesweep.errors import RefusedError
from lakesweep.execute.attempt import Environment
from lakesweep.model.plan import Delete, Plan
from lakesweep.table.stores import TableStores

UNKNOWN_RESULT = "unknown_result"
"""Code for a deletion with an unknown result."""


class Presence:
    """Tells whether an object exists or comes back; each store is listed at most once."""

    def __init__(self, stores: TableStores, returning: frozenset[str] = frozenset()) -> None:
        """Look into `stores`; paths in `returning` count as existing."""
        self._stores = stores
        self._returning = returning
        self._keys: dict[str, frozenset[str]] = {}

    def __call__(self, path: str) -> bool:
        """Tell whether the object exists or comes back."""
        if path in self._returning:
            return True
        store, key = self._stores.resolve(path)
        if store.location not in self._keys:
            self._keys[store.location] = frozenset(entry.key for entry in store.list(""))
        return key in self._keys[store.location]


def check_ledger(env: Environment, plan: Plan, end: PlanEnd, silent: Sequence[Delete]) -> None:
    """Make sure that no object of a plan is absent without a row in the ledger.

    Args:
        env: Stores of the table.
        plan: The plan to undo.
        end: How it ended.
        silent: Deletions without a usable row in the ledger.

    Raises:
        RefusedError: `unknown_result`: such an object is absent.
        StorageError: A request failed.
    """
    audits = tuple(_audits(env.area, plan, end))
    problems = [problem for each in audits for problem in each.problems]
    suspects = plan.deletes if problems else silent
    if not problems and end.status == PUT_OFF and all(each.verdict == "whole" for each in audits):
        return  # such a plan may end before everything is deleted, and the chain proves that no row is lost
    is_there = Presence(env.stores)
    absent = next((delete.path for delete in suspects if not is_there(delete.path)), None)
    if absent is None:
        return
    what = f"its ledger is damaged ({problems[0]})" if problems else "the ledger has no result for it"
    raise RefusedError(
        f"table {env.area.table}: run {end.run_id} cannot be undone: {absent} is not there, and {what}; expected a row "
        f"for each deletion of plan {plan.header.plan_id}; `lakesweep audit verify` says what is wrong with the ledger",
        code=UNKNOWN_RESULT,
    )


def _audits(area: ControlArea, plan: Plan, end: PlanEnd) -> Iterator[RunAudit]:
    for run_id in end.runs:
        found = audit_run(area, run_id, {plan.header.plan_id: plan.header.content_hash})
        if found is not None:
            yield found
