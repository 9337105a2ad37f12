"""Orphans in a table of the running system: files of every kind that no root names, and such as must not go.

    planted = plant(system.backdoor("sales.db/orders"), "first")
    ...
    assert planted.problems(store) == []

All is written past the door. What is to go is made to look old there, since a scan takes nothing that is younger than
a day.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from lakesweep.storage.store import Store
from tests.support.metadata_files import stable_uuid
from tests.support.system.backdoor import Backdoor

DAY_S = 86_400.0
OLD_S = 10 * DAY_S
YOUNG_S = 3600.0
"""Far from a day, since hours of the clock are skipped while things go wrong."""
COPIES = 3


@dataclass(frozen=True, slots=True)
class Planted:
    """What was planted in one table."""

    goes: Mapping[str, str]
    """Key -> the kind that a plan calls it. No root names it, and it is old."""
    strange: frozenset[str]
    """Of a name that no engine gives: this stays for ever."""
    young: Mapping[str, str] = field(default_factory=dict)
    """As `goes`, but written today."""

    @property
    def stays(self) -> frozenset[str]:
        """Return what stays for now."""
        return self.strange | self.young.keys()

    def grown_old(self) -> "Planted":
        """Return what is to go and to stay when what was young has become old."""
        return Planted({**self.goes, **self.young}, self.strange)

    @property
    def by_kind(self) -> dict[str, int]:
        """Return how many are to go."""
        return dict(sorted(Counter(self.goes.values()).items()))

    def problems(self, store: Store, *, gone: bool = True) -> list[str]:
        """Say what of it is not as it should be.

        Args:
            store: Of the table.
            gone: Whether it is time that what is to go went.
        """
        there = {each.key for each in store.list("")}
        left = sorted(self.goes.keys() & there) if gone else ()
        lost = sorted(self.stays - there if gone else (self.stays | self.goes.keys()) - there)
        return [
            *(f"{store.location}: orphan {key} is still there" for key in left),
            *(f"{store.location}: {key} is gone, and should not be" for key in lost),
        ]


def plant(
    store: Backdoor, seed: str, copies: int = COPIES, *, age_s: float = OLD_S, with_young: bool = True
) -> Planted:
    """Plant orphans of each kind, in a folder where data of the table lies if there is one.

    Args:
        store: Of the table.
        seed: Of the names.
        copies: Of each kind.
        age_s: Of what is to go.
        with_young: Plant such that are too young, too. A day later they are orphans like the others.
    """
    there = {each.key.rpartition("/")[0] for each in store.list("")}
    buckets = sorted(folder for folder in there if folder.rpartition("/")[2].startswith("bucket-")) or ["bucket-0"]
    goes: dict[str, str] = {}
    for number in range(copies):
        id_ = stable_uuid(f"{seed} {number}")
        bucket = buckets[number % len(buckets)]
        goes |= {
            f"{bucket}/data-{id_}-0.parquet": "data",
            f"{bucket}/data-{id_}-1.parquet.index": "extra",
            f"{bucket}/changelog-{id_}-0.parquet": "changelog",
            f"manifest/manifest-{id_}-0": "manifest",
            f"manifest/manifest-list-{id_}-0": "manifest_list",
            f"manifest/index-manifest-{id_}-0": "index_manifest",
            f"index/index-{id_}-0": "index",
            f"statistics/stat-{id_}-0": "statistics",
            f"snapshot/.snapshot-{number + 90}.{id_}.tmp": "temp",
            f"schema/.schema-{number + 90}.{id_}.tmp": "temp",
        }
    fresh = stable_uuid(f"{seed} young")
    young = {
        f"{buckets[0]}/data-{fresh}-0.parquet": "data",
        f"manifest/manifest-{fresh}-0": "manifest",
        f"index/index-{fresh}-0": "index",
    }
    strange = {
        f"{buckets[0]}/notes of {seed}.txt",
        f"{buckets[0]}/data-{seed}.parquet",
        f"manifest/manifest-{seed}",
        f"reports/{seed}.csv",
    }
    planted = Planted(goes, frozenset(strange), young if with_young else {})
    for key in (*goes, *planted.stays):
        store.put(key, f"orphan {seed}".encode())
    store.age(age_s, (*goes, *strange))
    store.age(YOUNG_S, planted.young)
    return planted
