"""What an ORC file tells about its time stamps: their bounds, and the zone of the writer."""

from lakesweep.errors import FormatError, UnsupportedFormatError
from lakesweep.format.orc.frame import FOOTER_STRIPE, MAX_TOTAL_BYTES, read_footer, stripe_footer
from lakesweep.format.orc.messages import BrokenFrameError, Message, number, packed, submessage

Bounds = tuple[int, int]

# Field numbers of the messages read here.
_FOOTER_TYPE, _FOOTER_STATISTICS = 4, 7
_TYPE_KIND, _TYPE_SUBTYPES, _TYPE_NAMES = 1, 2, 3
_STATS_COUNT, _STATS_TIME_STAMP = 1, 9
_STRIPE_ZONE = 3
_TIME_STAMPS = (9, 18)
"""Kinds of types: without a zone, and of an instant."""


def time_stamp_bounds(body: bytes, path: str) -> dict[str, Bounds | None]:
    """Return the bounds of time stamps in each column that has any, nested ones too, by the name of the column.

    pyarrow returns nanoseconds, and other values without a word where they do not reach. Only statistics show that.

    Args:
        body: The whole file, whose frame was checked.
        path: The path for messages.

    Returns:
        Name -> bounds in milliseconds, `None` if the file does not state them.

    Raises:
        FormatError: The footer is damaged.
        UnsupportedFormatError: The codec is not decompressed here.
    """
    try:
        found = read_footer(body, MAX_TOTAL_BYTES)
        if found is None:
            raise UnsupportedFormatError(
                f"{path}: expected time stamps in a file with zlib, zstd or no compression, found another",
                code="unsupported_codec",
            )
        return _bounds(found[0])
    except (BrokenFrameError, IndexError) as error:
        raise FormatError(f"{path}: expected the footer of an ORC file, found {error}") from error


def writer_zones(body: bytes, path: str) -> frozenset[str]:
    """Return the time zones in which the stripes of a file were written, "" for one that does not say.

    Raises:
        FormatError: A footer is damaged.
    """
    try:
        found = read_footer(body, MAX_TOTAL_BYTES)
        if found is None:
            return frozenset(("",))
        footer, chunks, _, _ = found
        stripes = [stripe_footer(body, submessage(each), chunks) for each in footer.get(FOOTER_STRIPE, [])]
    except (BrokenFrameError, IndexError) as error:
        raise FormatError(f"{path}: expected the footers of an ORC file, found {error}") from error
    names = [stripe.get(_STRIPE_ZONE, [b""])[-1] for stripe in stripes]
    return frozenset(str(name, "utf-8", "replace") if isinstance(name, bytes) else "" for name in names)


def _bounds(footer: Message) -> dict[str, Bounds | None]:
    types = [submessage(each) for each in footer.get(_FOOTER_TYPE, [])]
    stats = [submessage(each) for each in footer.get(_FOOTER_STATISTICS, [])]
    if not types or len(stats) not in (0, len(types)):
        raise BrokenFrameError(f"{len(types)} types with {len(stats)} statistics")
    starts = [*packed(types[0].get(_TYPE_SUBTYPES, [])), len(types)]
    names = [str(name, "utf-8", "replace") for name in types[0].get(_TYPE_NAMES, []) if isinstance(name, bytes)]
    if len(names) != len(starts) - 1:
        raise BrokenFrameError(f"{len(names)} names of {len(starts) - 1} columns")
    found: dict[str, Bounds | None] = {}
    for name, start, end in zip(names, starts[:-1], starts[1:], strict=True):
        numbers = [n for n in range(start, end) if number(types[n], _TYPE_KIND) in _TIME_STAMPS]
        if not numbers:
            continue
        parts = [_stated(stats[n]) if stats else None for n in numbers]
        known = [part for part in parts if part is not None]
        whole = known and len(known) == len(parts)
        found[name] = (min(low for low, _ in known), max(high for _, high in known)) if whole else None
    return found


def _stated(stats: Message) -> Bounds | None:
    """Return the bounds that statistics of one column state; (0, 0) without values."""
    if _STATS_COUNT in stats and not number(stats, _STATS_COUNT):
        return 0, 0
    parts = [submessage(each) for each in stats.get(_STATS_TIME_STAMP, [])]
    values = [
        value >> 1 ^ -(value & 1)
        for part in parts
        for field in (1, 2, 3, 4)  # minimum and maximum, both in the zone of the writer, and in UTC
        for value in part.get(field, [])
        if isinstance(value, int)
    ]
    has_both = any(1 in part or 3 in part for part in parts) and any(2 in part or 4 in part for part in parts)
    return (min(values), max(values)) if has_both else None
