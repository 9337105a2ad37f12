"""Every scan that the local engine is tested with, planned by another engine, and held against the local plan.

They are the tests of the local engine: what each names as its outcome has to be that of a plan that comes from
parts. Where nothing happens while a table is looked at, both engines plan it and must agree in everything that they
say.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.control.plans import load_part
from lakesweep.control.quarantine import read_quarantine
from lakesweep.model.plan import Plan, order_problem
from lakesweep.model.scans import OrphanArguments
from lakesweep.operations.orphans import remove
from lakesweep.operations.orphans.local import plan_remove_orphan_files
from lakesweep.runs.execution import require_area
from lakesweep.runs.session import Table
from lakesweep.storage.store import Store
from tests.support.engines_compared import ask, differences
from tests.support.memory_store import MemoryStore
from tests.support.walk import WatchedStore
from tests.unit.orphans import (
    test_collections,
    test_scans_of_damage,
    test_scans_of_files,
    test_scans_of_roots,
    test_scans_of_runs,
)

_OF_THE_LOCAL_ENGINE = frozenset(
    {
        "test_what_is_not_owned_is_counted_and_not_kept_in_memory",
        "test_the_table_is_listed_while_its_roots_are_read",
        "test_a_memory_that_is_damaged_knows_nothing",  # looks for its document by a name that parts have, too
    }
)
_CHANGES_WHILE_IT_SLEEPS = frozenset({"test_a_hollow_snapshot_that_goes"})
Planner = Callable[[Table, OrphanArguments], Plan]


def scans() -> dict[str, Callable[..., object]]:
    """Return the tests by name."""
    found: dict[str, Callable[..., object]] = {}
    for module in (
        test_scans_of_files,
        test_scans_of_roots,
        test_scans_of_damage,
        test_scans_of_runs,
        test_collections,
    ):
        for name, test in vars(module).items():
            if name.startswith("test_") and callable(test) and name not in _OF_THE_LOCAL_ENGINE:
                assert name not in found, name
                found[name] = test
    return found


def plan_by(other: Planner, patch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Have a test planned by another engine, beside the local one where that sees the same."""
    def plan(table: Table, arguments: OrphanArguments) -> Plan:
        area = require_area(table)
        if not _is_quiet(table.store) or request.node.originalname in _CHANGES_WHILE_IT_SLEEPS:
            return _loaded(area, other(table, arguments))
        apart = ControlArea(_copy_of(area.store), area.table)
        expected = ask(lambda: plan_remove_orphan_files(replace(table, area=apart, sleep=lambda _: None), arguments), apart)
        found = ask(lambda: other(table, arguments), area)
        assert differences(expected, found) == {}
        if arguments.quarantine_ms is not None and expected.plan is not None:
            assert read_quarantine(apart) == read_quarantine(area)
        if found.plan is None:
            assert found.error is not None
            raise found.error
        return _loaded(area, found.plan)

    patch.setattr(remove, "plan_remove_orphan_files", plan)


def _loaded(area: ControlArea, plan: Plan) -> Plan:
    """Return a plan with its actions, at which the tests look."""
    actions = tuple(action for part in plan.header.parts for action in load_part(area, plan.header, part))
    assert order_problem(actions) is None
    return Plan(plan.header, actions)


def _is_quiet(store: Store) -> bool:
    """Tell whether nothing happens to a table while it is looked at."""
    return isinstance(store, MemoryStore) or (type(store) is WatchedStore and isinstance(store._store, MemoryStore))


def _copy_of(store: Store) -> MemoryStore:
    copied = MemoryStore(store.location, clock=store.now_ms)
    for entry in store.list(""):
        copied.put(entry.key, store.read(entry.key).data)
    return copied
