"""Grace periods and safety margins: each is said once, and they fit each other."""

import ast
from collections.abc import Iterator
from pathlib import Path

import lakesweep
from lakesweep.model import safety

PACKAGE = Path(lakesweep.__file__).parent
NO_MARGINS = {
    # units, and bounds of what can be represented
    *("SECOND_MS", "HOUR_MS", "DAY_MS", "NEVER_MS", "MAX_CREATED_MS", "MAX_TIME_RETAINED_MS", "FARTHEST_MS"),
    # how often something is polled, sent or handed on
    *("LOOK_INTERVAL_S", "AT_ONCE_S", "SOON_S", "MAX_DELAY_S", "SHORTEST_DELAY_S", "LONGEST_DELAY_S", "POLL_S"),
    # how much work is done at a time, and what it costs
    *("WAVE_S", "KEYS_PER_S", "MIN_KEYS_PER_S", "MAX_KEYS_PER_S", "WORTH_S", "EMR_START_S", "START_S", "TURN_DELAY_S"),
    *("TOLD_AFTER_MS", "TOLD_AFTER_S", "PAGE_S", "READ_S", "EVENT_WAIT_SECONDS", "MAX_SECONDS", "TABLE_RESERVE_MS"),
    # when people are told, and how long figures that decide nothing are remembered
    *("CLOCK_LOOK_MS", "CLOCK_ACT_MS", "LATE_MS", "HOLDS_MS", "KEPT_MS", "SAVED_AFTER_S", "PATIENCE_S"),
}


def constants(module: Path) -> Iterator[str]:
    """Yield the public constants of a module that are times."""
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        yield from (it for it in names if it.endswith(("_MS", "_S", "_SECONDS")) and not it.startswith("_"))


def test_margins_are_defined_in_one_module() -> None:
    """A constant that is a time and no margin is named in `NO_MARGINS`."""
    found = {
        f"{module.relative_to(PACKAGE)}: {name}"
        for module in PACKAGE.rglob("*.py")
        if module != Path(safety.__file__)
        for name in constants(module)
        if name not in NO_MARGINS and not name.endswith("_CPU_S")
    }
    assert found == set()


def test_every_margin_has_its_reason() -> None:
    """A docstring follows each, or the next one, which goes with it."""
    body = ast.parse(Path(safety.__file__).read_text(encoding="utf-8")).body[1:]
    names = [it for it in body if isinstance(it, ast.Assign) and not ast.unparse(it.targets[0]).startswith("_")]
    reasons = sum(isinstance(it, ast.Expr) for it in body)
    together = {"CONNECT_TIMEOUT_S", "READ_TIMEOUT_S", "HELD_AGAIN_S", "LEASE_LOOK_MS"}
    assert len(names) - reasons == len(together)


def test_margins_fit_each_other() -> None:
    """A batch ends within its margin, and what is younger than a margin is never believed for longer."""
    assert (safety.DELETES_BEGIN_WITHIN_S + 1 + safety.LONGEST_REQUEST_S) * 1000 <= safety.DELETE_MARGIN_MS
    assert safety.LOCK_WAIT_S * 1000 < safety.DELETE_MARGIN_MS < safety.LEASE_MS // 2
    assert safety.HELD_AGAIN_S * 1000 < safety.REST_MS < safety.LEASE_LOOK_MS * safety.LEASE_LOOKS
    assert safety.FRESH_MS <= safety.SETTLE_MS
    assert safety.SEGMENT_REWRITE_MS < safety.SEGMENT_UNSAFE_MS < safety.SEGMENT_RULE_MS
    assert safety.SCAN_SILENCE_MS < safety.SCAN_LOST_MS <= safety.PLAN_LIFETIME_MS
    assert safety.TASKS_SILENCE_MS < safety.STEP_DEAD_MS < safety.SCAN_SILENCE_MS
