"""The history of a branch while a plan that moves it is taken back: which snapshots may return, which have to stay.

Somebody may have committed on the half-way history. That commit stays, and so does what it stands on; what the plan
took from there on upwards stays away, since the commit has taken its place.
"""

from lakesweep.execute.batches import id_of
from lakesweep.execute.destination import snapshots_seen
from lakesweep.execute.ground import Ground
from lakesweep.format.hint import parse_hint
from lakesweep.model.plan import Action, Put

_IDS = frozenset({"snapshot", "changelog_document"})


class HalfWay:
    """The snapshots of the branch, kept up with what is taken back."""

    def __init__(self, ground: Ground, hollow: frozenset[str]) -> None:
        """Begin with what a look found.

        Args:
            ground: That look.
            hollow: Paths of roots that are not to return, since their files are gone.
        """
        self._hollow = hollow
        self._lacks_snapshots = any("snapshot/snapshot-" in path for path in hollow)
        self._seen = snapshots_seen(ground.plan)
        self._there = {ref.id for ref in ground.own.snapshots}
        self._foreign = ground.foreign_ids()
        self._written = _written(ground)

    def add(self, snapshot_id: int) -> None:
        """Note that a snapshot is there again."""
        self._there.add(snapshot_id)

    def remove(self, snapshot_id: int) -> None:
        """Note that a snapshot is gone."""
        self._there.discard(snapshot_id)

    def may_return(self, action: Action) -> bool:
        """Tell whether a document that is not there may be again."""
        if action.path in self._hollow:
            return False
        if action.kind not in _IDS:
            return True
        snapshot_id = id_of(action.path)
        if self._foreign and snapshot_id >= self._foreign[0]:
            return False
        if action.kind != "snapshot" or not self._there or self._lacks_snapshots:
            return True
        # A hole would be left where others have taken what it followed on: a rollback further down, most likely.
        before = f"{action.path.rpartition('-')[0]}-{snapshot_id - 1}"
        return before not in self._seen or snapshot_id - 1 in self._there

    def is_built_on(self, snapshot_id: int) -> bool:
        """Tell whether a commit of somebody else stands on a snapshot that the plan wrote, and on none of before."""
        new = {*self._foreign, *self._written}
        return any(foreign > snapshot_id and new.issuperset(range(snapshot_id, foreign)) for foreign in self._foreign)

    def is_last(self, snapshot_id: int) -> bool:
        """Tell whether a branch that had snapshots would be left without any: an expiry has taken those of before."""
        return self._there == {snapshot_id} and bool(self._seen)

    def latest(self, before: bytes) -> bytes:
        """Return what LATEST is to say: what it said, unless that snapshot did not come back or others went on there.

        A writer that had said so before the plan wrote over it does not say it again.
        """
        named = parse_hint(before)
        if named is None or not self._there:
            return before
        newest = named if named in self._there else max(self._there)
        while newest + 1 in self._there:
            newest += 1
        return before if newest == named else str(newest).encode()


def _written(ground: Ground) -> frozenset[int]:
    """Return the snapshots that the plan wrote and that are there."""
    return frozenset(
        id_of(action.path)
        for number, action in enumerate(ground.plan.actions)
        if number in ground.standing.done
        and isinstance(action, Put)
        and action.kind == "snapshot"
        and action.path in ground.standing.etags
    )
