"""The arguments of a simulation, as a program states them."""

from collections.abc import Mapping, Sequence
from typing import Any

from lakesweep.api.arguments import plain, texts_of, typed
from lakesweep.errors import UsageError
from lakesweep.operations.simulation.many import simulate
from lakesweep.operations.simulation.policies import policies_of
from lakesweep.runs.parameters.signatures import OLDER_THAN, PROTECT_COMMIT_USER, RETAIN_MAX, RETAIN_MIN, RETAINED
from lakesweep.runs.session import Table

_LIMITS = tuple(each.name for each in (RETAIN_MAX, RETAIN_MIN, OLDER_THAN, RETAINED, PROTECT_COMMIT_USER))


def simulation_of(
    table: Table, policies: Sequence[str], tag_rules: str | None, days: int | None, limits: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the document of a simulation.

    Raises:
        UsageError: An argument is not known, or has a wrong value.
        MaintenanceError: As `simulate`.
    """
    for name in limits:
        if name not in _LIMITS:
            raise UsageError(
                f"simulate has no argument {name!r}; expected some of {', '.join(_LIMITS)}", code="unknown_argument"
            )
    if typed("days", days, int) is not None and not days:
        raise UsageError(f"days: expected a number from 1, found {days}", code="bad_argument")
    stated = {name: plain(limits.get(name)) for name in _LIMITS}
    cases = policies_of(texts_of("policies", policies), stated, typed("tag_rules", tag_rules, str))
    return simulate(table, cases, days).to_json()
