"""What several capabilities need to run their operations."""

from collections.abc import Callable
from typing import TypeVar

from lakesweep.errors import UsageError
from lakesweep.model.plan import Plan
from lakesweep.model.report import RunReport
from lakesweep.runs.parameters import signatures as given
from lakesweep.runs.parameters.parameter import Call, Signature
from lakesweep.runs.run import plan_and_execute, plan_only
from lakesweep.runs.session import Table

Arguments = TypeVar("Arguments")
Run = Callable[[Table, Call, bool], RunReport]
"""Makes a plan; executes it, too, if the last argument is true."""


def planned(
    signature: Signature, plan: Callable[[Table, Arguments], Plan], arguments_of: Callable[[Call], Arguments]
) -> Run:
    """Return a function that makes a plan, and executes it if asked."""

    def run(table: Table, call: Call, execute: bool) -> RunReport:
        arguments = arguments_of(call)
        if not execute:
            return plan_only(table, signature.name, lambda target: plan(target, arguments))
        return plan_and_execute(
            table, signature.name, lambda target: plan(target, arguments), grace_ms=call[given.GRACE] or 0
        )

    return run


def cutoff_ms(call: Call) -> int | None:
    """Return the time before which things expire, if the call states one."""
    if call[given.OLDER_THAN] is not None and call[given.RETAINED] is not None:
        raise UsageError("older_than and time_retained state the same; expected one of the two", code="bad_argument")
    return call.time_ms(given.OLDER_THAN if call[given.RETAINED] is None else given.RETAINED)
