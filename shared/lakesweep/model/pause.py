"""A pause of the fleet policy: why, until when, and who asked for it.

`true` in the policy is a pause without any of these. A pause whose end has passed counts as not stated, so the pause of
a folder around it still holds. Who compares the end with the store's clock is `runs/fleet.py`.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lakesweep.model.fleet_json import check_keys, refuse

EVERY_TABLE = "*"
"""What stands for the folder of a rule where the policy's own `pause` decides: it covers every table."""
MAX_TEXT = 500
"""Characters of a reason, and of a name. They stand in the message of each refused run."""
_PAUSE_KEYS = ("reason", "until", "by")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause that says more than `true`."""

    reason: str
    until_ms: int | None = None
    """From this time on it is over; `None`: somebody has to end it."""
    by: str | None = None
    """Who asked for it."""

    def __str__(self) -> str:
        """Return the reason, the end and the name, for messages."""
        end = "" if self.until_ms is None else f", until {utc_text(self.until_ms)}"
        return f"{self.reason}{end}{'' if self.by is None else f', by {self.by}'}"

    def is_over(self, now_ms: int) -> bool:
        """Tell whether its end has passed."""
        return self.until_ms is not None and now_ms >= self.until_ms

    def to_json(self) -> dict[str, object]:
        """Return the pause as `show` and `policy test` print it."""
        return {"reason": self.reason, "until_ms": self.until_ms, "by": self.by}

    def stated(self) -> dict[str, object]:
        """Return the pause as the policy states it."""
        found: dict[str, object] = {"reason": self.reason}
        if self.until_ms is not None:
            found["until"] = utc_text(self.until_ms)
        return found if self.by is None else {**found, "by": self.by}


Paused = Pause | bool
"""What a rule says about the pause."""


def read_pause(value: object, location: str, at: str) -> Paused:
    """Read what a document says about a pause.

    Args:
        value: As the document has it.
        location: Of the document.
        at: The place in it.

    Raises:
        UsageError: With code `bad_policy`.
    """
    if isinstance(value, bool):
        return value
    if not isinstance(value, dict):
        refuse(location, at, "true, false or an object with a reason", value)
    check_keys(value, _PAUSE_KEYS, location, f"{at}.")
    for key in ("reason", *(("by",) if "by" in value else ())):
        text = value.get(key)
        if not isinstance(text, str) or not text.strip() or not text.isprintable() or len(text) > MAX_TEXT:
            refuse(location, f"{at}.{key}", f"a text of at most {MAX_TEXT} characters that everybody sees", text)
    until_ms = None
    if "until" in value:
        until = value["until"]
        until_ms = time_text_ms(until) if isinstance(until, str) else None
        if until_ms is None:
            refuse(location, f"{at}.until", "a time with its zone such as 2026-01-31T12:00:00Z", until)
    return Pause(value["reason"], until_ms, value.get("by"))


def is_over(pause: Paused, now_ms: int) -> bool:
    """Tell whether the end of a pause has passed."""
    return isinstance(pause, Pause) and pause.is_over(now_ms)


def folder_text(folder: str) -> str:
    """Return the folder of a rule, for messages."""
    return "all tables" if folder == EVERY_TABLE else folder


def said(pause: Paused) -> str:
    """Return what follows in a message after the folder that is paused; nothing for a pause without a reason."""
    return f": {pause}" if isinstance(pause, Pause) else ""


def time_text_ms(text: str) -> int | None:
    """Return a time of the policy in epoch milliseconds, digits below a millisecond counted as one more.

    `None`: it is no ISO-8601 with a zone. A time without one would be wrong by hours.
    """
    if not text.isascii() or not text.isprintable() or len(text) > MAX_TEXT:
        return None
    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo is None:
            return None
        epoch_ms = max(0, -((_EPOCH - found) // timedelta(milliseconds=1)))
        utc_text(epoch_ms)  # a time of the year 9999 may lie beyond it in UTC
        return epoch_ms
    except (ValueError, OverflowError):
        return None


def utc_text(epoch_ms: int) -> str:
    """Return a time as the policy states it: ISO-8601 in UTC, with milliseconds only if there are some."""
    form = "milliseconds" if epoch_ms % 1000 else "seconds"
    return (_EPOCH + timedelta(milliseconds=epoch_ms)).isoformat(timespec=form).replace("+00:00", "Z")
