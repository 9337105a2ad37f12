"""Where to split a range of keys of which only the beginning is known.

A range may be split at any text, whether or not a key begins with it: the two halves hold what the range held. So a
guess that is off costs one request, which finds its half empty, and nothing else. A good guess leaves much on both
sides. Keys are counted through: dates, hours, buckets, hexadecimal digits of writers' names, numbers of files. What the
keys listed so far went through shows where the counting goes on, at the first letter in which they differ, and any
letter before it may be counted on too, by someone with more to count.
"""

_TOPS = {**dict.fromkeys("0123456789", "9"), **dict.fromkeys("abcdef", "f")}
_TOPS |= {**dict.fromkeys("ghijklmnopqrstuvwxyz", "z"), **dict.fromkeys("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "Z")}
"""Letter -> the last that may come at its place when others count on."""


def split_point(first: str, last: str, until: str | None, *, climb: int, fixed: int = 0) -> str | None:
    """Return a text between `last` and `until`, greater than the one and less than the other, or `None`.

    Args:
        first: The first key listed of the range.
        last: The key after which the rest begins.
        until: Where the range ends, if it does.
        climb: By how many places that can be counted on to go up from where the listed keys differ. Higher places
            split larger ranges, and find nothing more often.
        fixed: So many letters all keys begin with.
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
    """Return the beginning of `last` with another letter at a place, halfway to the last one possible there."""
    letter = last[place]
    top = _TOPS.get(letter, letter)
    if until is not None and until[:place] == last[:place]:
        end = until[place : place + 1]
        if end <= top:  # the next letter before `end`, so that the split comes before `until`
            top = chr(ord(end) - 1) if end > letter else letter
    if top <= letter:
        return None
    return last[:place] + chr((ord(letter) + ord(top) + 1) // 2)


def shared_letters(one: str, other: str) -> int:
    """Return how many letters both begin with."""
    for place, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return place
    return min(len(one), len(other))
