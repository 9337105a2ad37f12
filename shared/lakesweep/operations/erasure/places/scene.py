"""What a look has found, and how long roots are kept, for those who name the places."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakesweep.model.commits.root_words import roots_in_words
from lakesweep.model.erasure.places import ErasedFiles
from lakesweep.model.roots import RootRef, base_name
from lakesweep.operations.erasure.places.held import Held
from lakesweep.operations.erasure.places.listed import SAMPLE, Listed
from lakesweep.operations.lifetimes.until import Until
from lakesweep.operations.rows.shown import untils_of
from lakesweep.runs.view import TableView

EXPIRE, COMPACT, ORPHANS = "expire-snapshots", "compact-manifest", "remove-orphan-files"
ENDS: Mapping[str, str] = {"snapshot": EXPIRE, "changelog": "expire-changelogs", "tag": "delete-tag"}
"""What ends a root, by its kind."""


@dataclass(slots=True)
class Scene:
    """A table, its tainted files, and what was found of them."""

    view: TableView
    erased: ErasedFiles
    erased_ms: int | None
    erased_id: int
    clean_ms: int | None
    keys: Collection[str]
    held: Held
    listed: Listed
    _untils: dict[str, Until] | None = None

    def until(self, refs: Sequence[RootRef]) -> Until | None:
        """Return how long the last of some roots is kept; `None`: not known."""
        if self._untils is None:
            roots = {root.ref.path: root for root in self.held.holders.roots}
            self._untils = untils_of(self.view, roots, [ref for ref in self.held.refs if ref.path in roots])
        found = [self._untils.get(ref.path) for ref in refs]
        known = [each for each in found if each is not None]
        if not known or len(known) < len(found):
            return None
        return max(known, key=lambda each: (each.at_ms is None, each.at_ms or 0))

    def exists(self, name: str) -> bool:
        """Tell whether a tainted file exists; if that is not known, it does."""
        return self.listed.problem is not None or name in self.listed.tainted

    def paths(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Return a few paths; without their folders, if those contain values of the condition's partition keys."""
        chosen = sorted(paths)[:SAMPLE]
        return tuple(base_name(path) for path in chosen) if self.keys else tuple(chosen)


def in_words(refs: Iterable[RootRef]) -> str:
    """Return roots in words."""
    return ", ".join(roots_in_words(refs))
