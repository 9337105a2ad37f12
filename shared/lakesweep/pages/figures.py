"""Figures as a page shows them. The scripts of the pages have the same rules (`assets/common.js`)."""

from datetime import UTC, datetime

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")
_SPANS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


def human_bytes(size: int | None) -> str:
    """Return a size in the unit that makes it short, in powers of 1024."""
    if size is None:
        return "unknown"
    if size < 1024:
        return f"{size} B"
    power = min((size.bit_length() - 1) // 10, len(_UNITS))
    return f"{size / 1024**power:.1f} {_UNITS[power - 1]}"


def human_count(count: int | None) -> str:
    """Return a number with a space between thousands."""
    return "unknown" if count is None else f"{count:,}".replace(",", "\u202f")


def human_usd(amount: float | None) -> str:
    """Return an amount of US dollars. A small amount is never shown as nothing."""
    if amount is None:
        return "unknown"
    if 0 < amount < 0.01:
        return "< $0.01"
    return f"${amount:,.0f}" if amount >= 1000 else f"${amount:,.2f}"


def human_time(epoch_ms: int | None) -> str:
    """Return a time in UTC to the minute; the bare number if no calendar date has it."""
    if epoch_ms is None:
        return "unknown"
    try:
        return datetime.fromtimestamp(epoch_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        return f"{epoch_ms} ms"


def age(span_ms: int) -> str:
    """Return a duration in its largest unit."""
    for size, unit in _SPANS:
        if span_ms >= size:
            return f"{span_ms // size} {unit}"
    return "0 s"


def visible(text: str) -> str:
    """Return a text with control characters, and marks that turn the direction of text, as escapes."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
