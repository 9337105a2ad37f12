"""When files may come back although Paimon's own expiry is to spare them.

Paimon's expiry never asks the newest snapshot. A file that the delta of snapshot `i` deletes is deleted with the
snapshots before `i`, unless the last tag below `i` holds it. The deletion of a tag asks only its two neighbours. So
Paimon takes for granted that a file lives once: in one range of ids, which ends for good. A rollback as latest gives a
file another life.

Paimon 1.4.2 spares such a file if each of its lives has a tag that stays. Then the last tag below the end of the life
lies in this life. So does a neighbour of every other tag of the file. So a rollback tags its target, which lies in
the life that has ended, and the new snapshot, which begins the next one. Files of earlier rollbacks have such tags
already, unless somebody has deleted them. The same holds for index files, index manifests and statistics, which expiry
keeps if the first kept snapshot or a tag next to the expired ones names them.

The expiry of any other branch asks the tags of main, too, by the ids of that branch. So a branch that has a file may
delete it although main took it back, if the last tag below is one of main without the file.

Source: Paimon `ExpireSnapshotsImpl#findSkippingTags`, `FileDeletionBase#createDataFileSkipperForTag`, `TagDeletion`.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

File = TypeVar("File", bound=Hashable)
"""What tells a file from every other."""


@dataclass(frozen=True, slots=True)
class Lives(Generic[File]):
    """In which versions of a branch files live."""

    ids: tuple[int, ...]
    """The snapshot ids of all snapshots and tags, ascending, each once; the last one is the newest."""
    tagged: frozenset[int]
    """Ids with a tag that stays, among them that of the target."""
    held: Mapping[File, frozenset[int]]
    """File -> the ids that have it."""
    deleted_before: frozenset[File] = frozenset()
    """Files that a changelog document from before the target deletes when it expires."""
    asked: frozenset[int] = frozenset()
    """Ids with any tag, among them that of the target."""

    def unsafe(self, coming: Collection[File], going: Collection[File]) -> set[File]:
        """Return the files that Paimon's expiry could delete although some version has them.

        Args:
            coming: Files that come back, so that each of their lives so far has ended.
            going: Files whose present life ends. With a single life, no tag from before it has them.
        """
        found = {name for name in coming if name in self.deleted_before or not self._are_safe(self._lives(name))}
        for name in going:
            lives = list(self._lives(name))
            if len(lives) > 1 and not self._are_safe(lives):
                found.add(name)
        return found

    def unsafe_on_branch(self, name: File, first: int) -> bool:
        """Tell whether the expiry of another branch could delete a file that comes back.

        Where it deletes the file, it asks the last tag of main from before that id. The tag of the new snapshot has the
        file, and so do later ones while it is live.

        Args:
            name: The file.
            first: The first snapshot of the branch that has it, so the branch deletes it later.
        """
        if first > self.ids[-1]:
            return False
        held = self.held.get(name, frozenset[int]())
        last = max((each for each in self.asked if each <= first), default=None)
        return last is None or any(each not in held for each in self.asked if each >= last)

    def _are_safe(self, lives: Iterable[set[int]]) -> bool:
        return all(not self.tagged.isdisjoint(life) for life in lives)

    def _lives(self, name: File) -> Iterator[set[int]]:
        """Yield the unbroken ranges of ids that have a file."""
        held, life = self.held.get(name, frozenset[int]()), set[int]()
        for each in self.ids:
            if each in held:
                life.add(each)
            elif life:
                yield life
                life = set()
        if life:
            yield life
