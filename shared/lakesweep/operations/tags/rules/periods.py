"""The names of periods: automatic tags are named after the begin of their period.

Source: Paimon `TagPeriodHandler`.
"""

import re
from datetime import datetime, timedelta

from lakesweep.model.policy import AutoTagRules

DASHED_DAY = "{y}-{m}-{d}"
DASHED_HOUR = "{y}-{m}-{d} {h}"
PLAIN_DAY = "{y}{m}{d}"
SPACED_HOUR = "{y}{m}{d} {h}"
PLAIN_HOUR = "{y}{m}{d}{h}"
MINUTES = "{y}{m}{d}{h}{min}"
SHAPES = (DASHED_DAY, DASHED_HOUR, PLAIN_DAY, SPACED_HOUR, PLAIN_HOUR, MINUTES)
"""The shapes of the names of automatic tags."""

_PATTERNS = {
    shape: re.compile(shape.format(y=r"(\d{4})", **dict.fromkeys(("m", "d", "h", "min"), r"(\d\d)")), re.ASCII)
    for shape in SHAPES
}
_DAY = timedelta(days=1)
_HOUR = timedelta(hours=1)


def tag_name(rules: AutoTagRules, period_begin: datetime) -> str:
    """Return the name of the tag of a period."""
    return period_name(period_begin, _shape(rules))


def period_of(rules: AutoTagRules, name: str) -> datetime | None:
    """Return the begin of the period in a tag's name, `None` for a name that these rules do not make.

    With daily names, only the text before the first blank counts. So an hourly name with the same dashes is a daily
    tag, too.
    """
    shape = _shape(rules)
    return parsed_name(name.partition(" ")[0] if shape in (DASHED_DAY, PLAIN_DAY) else name, shape)


def parsed_name(name: str, shape: str) -> datetime | None:
    """Return the begin of the period in a name of one shape, `None` for any other text."""
    match = _PATTERNS[shape].fullmatch(name)
    if match is None:
        return None
    try:
        return datetime(*map(int, match.groups()))  # type: ignore[arg-type]  # Year, month, day, hour, minute.
    except ValueError:
        return None


def period_name(time: datetime, shape: str) -> str:
    """Return the name of a period in one shape."""
    # Not `strftime`: its result for years before 1000 depends on the machine.
    return shape.format(
        y=f"{time.year:04d}", m=f"{time.month:02d}", d=f"{time.day:02d}", h=f"{time.hour:02d}", min=f"{time.minute:02d}"
    )


def _shape(rules: AutoTagRules) -> str:
    if rules.is_custom_period:
        return MINUTES
    if rules.period == _DAY:
        return DASHED_DAY if rules.formatter == "with_dashes" else PLAIN_DAY
    if rules.period == _HOUR:
        return {"with_dashes": DASHED_HOUR, "without_dashes": SPACED_HOUR}.get(rules.formatter, PLAIN_HOUR)
    return DASHED_HOUR  # Periods of two hours ignore the formatter.
