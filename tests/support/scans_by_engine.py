"""Every scan that the local engine is tested with, planned by another engine, and held against the local plan.

They are the tests of the local engine: what each names as its outcome has to be that of a plan that comes from
parts. Where nothing happens while a table is looked at, both engines plan it and must agree in everything that they
say.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps

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
        # The other engines list no small table as a whole, and these count such requests.
        "test_what_is_no_table_is_not_listed",
        "test_a_table_without_roots_is_not_listed",
        # These collect roots, and make no plan.
        "test_one_collection_sees_what_moves_forward",
        "test_a_tag_that_is_replaced_in_place_is_another_root",
    }
)
_CHANGES_WHILE_IT_SLEEPS = frozenset({"test_a_hollow_snapshot_that_goes"})
Planner = Callable[[Table, OrphanArguments], Plan]


def scans(
    without: frozenset[str] = frozenset(), long: frozenset[str] = frozenset()
) -> dict[str, Callable[..., object]]:
    """Return the tests by name.

    Args:
        without: Names of tests of what this engine does in another way.
        long: Names of tests that take long with this engine; `make test` leaves them out.
    """
    found: dict[str, Callable[..., object]] = {}
    for module in (
        test_scans_of_files,
        test_scans_of_roots,
        test_scans_of_damage,
        test_scans_of_runs,
        test_collections,
    ):
        for name, test in vars(module).items():
            if name.startswith("test_") and callable(test):
                assert name not in found, name
                found[name] = _long(test) if name in long else test
    left_out = _OF_THE_LOCAL_ENGINE | without
    assert left_out | long <= found.keys(), f"no such test: {sorted((left_out | long) - found.keys())}"
    return {name: test for name, test in found.items() if name not in left_out}


def _long(test: Callable[..., object]) -> Callable[..., object]:
    """Return a copy of a test that is marked, so that the local engine's own is not."""

    @wraps(test)
    def copied(*given: object, **named: object) -> object:
        return test(*given, **named)

    return pytest.mark.long(copied)


@contextmanager
def planned_by(other: Planner, patch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """Have a test planned by another engine, beside the local one where that sees the same.

    A test that the other engine plans nothing of fails: it would show something of the local engine alone.
    """
    calls = 0

    def counted(table: Table, arguments: OrphanArguments) -> Plan:
        nonlocal calls
        calls += 1
        return other(table, arguments)

    def plan(table: Table, arguments: OrphanArguments) -> Plan:
        area = require_area(table)
        if not _is_quiet(table.store) or request.node.originalname in _CHANGES_WHILE_IT_SLEEPS:
            return _loaded(area, counted(table, arguments))
        apart = ControlArea(_copy_of(area.store), area.table)
        beside = replace(table, area=apart, sleep=lambda _: None)
        expected = ask(lambda: plan_remove_orphan_files(beside, arguments), apart)
        found = ask(lambda: counted(table, arguments), area)
        assert differences(expected, found) == {}
        if arguments.quarantine_ms is not None and expected.plan is not None:
            assert read_quarantine(apart) == read_quarantine(area)
        if found.plan is None:
            assert found.error is not None
            raise found.error
        return _loaded(area, found.plan)

    patch.setattr(remove, "plan_remove_orphan_files", plan)
    yield
    assert calls, "expected a plan of the other engine, found that it was never asked"


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
