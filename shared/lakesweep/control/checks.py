"""Rules for the values of control documents, whoever wrote them."""

import re
from typing import TypeGuard

MAX_NUMBER = 1 << 80
"""Beyond every time, count and size that Lakesweep writes."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def is_number(value: object) -> TypeGuard[int]:
    """Tell whether a value is an integer of plausible size."""
    return type(value) is int and -MAX_NUMBER < value < MAX_NUMBER


def is_count(value: object) -> TypeGuard[int]:
    """Tell whether a value is an integer of plausible size, and not negative."""
    return is_number(value) and value >= 0


def is_id(value: object) -> TypeGuard[str]:
    """Tell whether a value can be the id of a run or a plan."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def are_ids(value: object) -> TypeGuard[list[str]]:
    """Tell whether a value is a list of at least one such id."""
    return isinstance(value, list) and bool(value) and all(map(is_id, value))
