"""The snapshots of a branch during compensation of a branch rewrite: which may return, and which must be kept.

Somebody may have committed on the half-rewritten history. Lakesweep keeps that commit and the snapshots it builds on.
Snapshots that the plan deleted do not return from the commit's id upwards, since the commit has taken their place.
"""

from lakesweep.execute.batches import id_of
from lakesweep.execute.branch_rewrites.observation import Ground
from lakesweep.execute.branch_rewrites.target import snapshots_seen
from lakesweep.format.hint import parse_hint
from lakesweep.model.plan import Action, Put

_IDS = frozenset({"snapshot", "changelog_document"})


class HalfWay:
    """The snapshots of the branch; updated with every step of the compensation."""

    def __init__(self, ground: Ground, hollow: frozenset[str]) -> None:
        """Begin with what a recheck found.

        Args:
            ground: What the recheck found.
            hollow: Paths of roots that must not return, since their files are gone.
        """
        self._hollow = hollow
        self._lacks_snapshots = any("snapshot/snapshot-" in path for path in hollow)
        self._seen = snapshots_seen(ground.plan)
        self._there = {ref.id for ref in ground.own.snapshots}
        self._foreign = ground.foreign_ids()
        self._written = _written(ground)

    def add(self, snapshot_id: int) -> None:
        """Note that a snapshot exists again."""
        self._there.add(snapshot_id)

    def remove(self, snapshot_id: int) -> None:
        """Note that a snapshot is gone."""
        self._there.discard(snapshot_id)

    def may_return(self, action: Action) -> bool:
        """Tell whether a document that is gone may return."""
        if action.path in self._hollow:
            return False
        if action.kind not in _IDS:
            return True
        snapshot_id = id_of(action.path)
        if self._foreign and snapshot_id >= self._foreign[0]:
            return False
        if action.kind != "snapshot" or not self._there or self._lacks_snapshots:
            return True
        # The snapshot below is missing: others have removed it, most likely by a rollback further down. It would leave
        # a hole.
        before = f"{action.path.rpartition('-')[0]}-{snapshot_id - 1}"
        return before not in self._seen or snapshot_id - 1 in self._there

    def is_built_on(self, snapshot_id: int) -> bool:
        """Tell whether a commit of somebody else builds on a snapshot that the plan wrote.

        All ids between the two must be new: a snapshot from before the plan breaks the chain.
        """
        new = {*self._foreign, *self._written}
        return any(foreign > snapshot_id and new.issuperset(range(snapshot_id, foreign)) for foreign in self._foreign)

    def is_last(self, snapshot_id: int) -> bool:
        """Tell whether deleting this snapshot would empty a branch that had snapshots.

        An expiry has then deleted its former snapshots.
        """
        return self._there == {snapshot_id} and bool(self._seen)

    def latest(self, before: bytes) -> bytes:
        """Return what LATEST must say.

        This is its old value, unless that snapshot did not return or others committed on top of it.

        A writer that had written this value before the plan overwrote it does not write it again.
        """
        named = parse_hint(before)
        if named is None or not self._there:
            return before
        newest = named if named in self._there else max(self._there)
        while newest + 1 in self._there:
            newest += 1
        return before if newest == named else str(newest).encode()


def _written(ground: Ground) -> frozenset[int]:
    """Return the ids of existing snapshots that the plan wrote."""
    return frozenset(
        id_of(action.path)
        for number, action in enumerate(ground.plan.actions)
        if number in ground.standing.done
        and isinstance(action, Put)
        and action.kind == "snapshot"
        and action.path in ground.standing.etags
    )
