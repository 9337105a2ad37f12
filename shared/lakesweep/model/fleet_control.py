"""Read `control` in the document of the fleet policy: how long Lakesweep keeps its own documents."""

from typing import Any

from lakesweep.model.control_retention import KEYS, ControlRetention
from lakesweep.model.fleet_json import check_keys, refuse
from lakesweep.model.fleet_values import RuleValues

_AT = "control"
_RETENTION = "retention"


def control_of(document: object, location: str) -> ControlRetention:
    """Read the part of the policy. Keys that it does not state have their defaults.

    Args:
        document: The value of `control`.
        location: The name of the policy in messages.

    Raises:
        UsageError: With code `bad_policy`: the place in the document, the expected and the found value.
    """
    if not isinstance(document, dict):
        refuse(location, _AT, "an object", document)
    check_keys(document, (_RETENTION,), location, f"{_AT}.")
    stated = document.get(_RETENTION, {})
    at = f"{_AT}.{_RETENTION}"
    if not isinstance(stated, dict):
        refuse(location, at, "an object", stated)
    check_keys(stated, KEYS, location, f"{at}.")
    values = _Times(location, at)
    times: dict[str, Any] = {f"{key}_ms": values.read(key, value) for key, value in stated.items()}
    retention = ControlRetention(**times)
    if (problem := retention.problem()) is not None:
        key, expected, _ = problem
        refuse(location, f"{at}.{key}", expected, stated.get(key, "the default"))
    return retention


class _Times(RuleValues):
    """The times, each a duration or null."""

    def read(self, key: str, value: object) -> int | None:
        """Read the time of one kind of documents; null keeps them for good."""
        return None if value is None else self._span(key, value)
