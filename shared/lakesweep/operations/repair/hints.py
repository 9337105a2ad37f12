"""Which hints of a branch say something wrong, and what they should say. A pure function.

Readers need no hint: without a valid one they list. A wrong one may be harmless, slow or harmful (tried with Paimon
1.4.2; pypaimon lists, and believes none):

- `LATEST` names a missing snapshot, and the next id is missing, too: readers and writers fail, and an expiry may delete
  the files of all snapshots.
- `LATEST` names a snapshot before a gap in the ids: Paimon does not see the snapshots after the gap. It puts its next
  snapshot into the gap.
- `EARLIEST` names a later snapshot than the oldest: the ones before it never expire.
- Everything else costs one more listing.

A hint that is missing stays missing.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Harm = Literal["readers_fail", "hides_newest", "hides_oldest", "slow"]
WHY: Mapping[Harm, str] = {
    "readers_fail": "readers and writers of Paimon fail",
    "hides_newest": "Paimon does not see the snapshots after the gap",
    "hides_oldest": "Paimon never expires the snapshots before it",
    "slow": "readers list the snapshots",
}


@dataclass(frozen=True, slots=True)
class Hint:
    """A hint as it is."""

    path: str
    """Below the branch's folder: `snapshot/LATEST`."""
    value: int | None
    """`None`: it is no id."""
    etag: str


@dataclass(frozen=True, slots=True)
class WrongHint:
    """A hint, and what it should say."""

    hint: Hint
    right: int
    harm: Harm
    is_ahead: bool = False
    """It names a later snapshot than the newest: either that snapshot is lost, or the hint is wrong."""


def wrong_hints(hints: Sequence[Hint], ids: Mapping[str, Sequence[int]]) -> Iterator[WrongHint]:
    """Yield the hints that say something wrong.

    Args:
        hints: Of one branch.
        ids: `snapshot` and `changelog` -> the ids that exist, ascending.
    """
    for hint in hints:
        folder, _, name = hint.path.partition("/")
        there = ids.get(folder, ())
        if not there:
            continue  # Paimon leaves -1 where the last changelog was
        right = there[-1] if name == "LATEST" else there[0]
        if hint.value == right or (name == "EARLIEST" and follows_gap(hint.value, there)):
            continue
        is_ahead = name == "LATEST" and hint.value is not None and hint.value > right
        yield WrongHint(hint, right, _harm(name, hint.value, frozenset(there)), is_ahead)


def follows_gap(value: int | None, ids: Sequence[int]) -> bool:
    """Tell whether an EARLIEST names the first snapshot after a gap.

    Paimon's `repair_earliest_snapshot` writes such a hint on purpose.
    """
    return value is not None and value > ids[0] and value in ids and value - 1 not in ids


def _harm(name: str, value: int | None, there: Collection[int]) -> Harm:
    if value is None:
        return "slow"
    if name == "EARLIEST":
        return "hides_oldest" if value in there else "slow"
    if value + 1 in there:
        return "slow"
    return "hides_newest" if value in there else "readers_fail"
