"""Where to split a range of keys if only its beginning is known.

A range may be split at any text, whether or not a key begins with it: the two halves together hold the same keys. So a
bad guess costs only one request, which finds its half empty. A good guess leaves many keys on both sides.

Keys usually contain counters: dates, hours, buckets, hexadecimal digits of writers' names, numbers of files. The first
letter in which the listed keys differ shows which counter advances now. An earlier letter may advance, too; a split
there divides a larger range.
"""

_TOPS = {**dict.fromkeys("0123456789", "9"), **dict.fromkeys("abcdef", "f")}
_TOPS |= {**dict.fromkeys("ghijklmnopqrstuvwxyz", "z"), **dict.fromkeys("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "Z")}
"""Letter -> the last letter that a counter may reach at its place."""


def split_point(first: str, last: str, until: str | None, *, climb: int, fixed: int = 0) -> str | None:
    """Return a text greater than `last` and less than `until`, or `None`.

    Args:
        first: The first listed key of the range.
        last: The last listed key of the range.
        until: The end of the range, if it has one.
        climb: How many counting places to go up from the place where the listed keys differ. Higher places split larger
            ranges, but find nothing more often.
        fixed: Number of leading letters that all keys share.
    """
    if until is not None:
        fixed = max(fixed, shared_letters(last, until))
    differ = min(shared_letters(first, last), len(last) - 1)
    above = [split for place in range(differ, fixed - 1, -1) if (split := _counted_on(last, until, place))]
    if above:
        return above[min(climb, len(above) - 1)]
    below = (_counted_on(last, until, place) for place in range(max(differ + 1, fixed), len(last)))
    return next((split for split in below if split), None)


def _counted_on(last: str, until: str | None, place: int) -> str | None:
    """Return the beginning of `last` with another letter at a place, halfway to the last possible letter there."""
    letter = last[place]
    top = _TOPS.get(letter, letter)
    if until is not None and until[:place] == last[:place]:
        end = until[place : place + 1]
        if end <= top:  # Take the letter before `end`, so that the split comes before `until`.
            top = chr(ord(end) - 1) if end > letter else letter
    if top <= letter:
        return None
    return last[:place] + chr((ord(letter) + ord(top) + 1) // 2)


def shared_letters(one: str, other: str) -> int:
    """Return the number of leading letters that both share."""
    for place, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return place
    return min(len(one), len(other))
