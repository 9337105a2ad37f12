"""Delete documents of one table from the control location, under the table's lease, and record it.

The run has a ledger and a report as every other run. Its id ends in `-housekeeping`, so that somebody who misses a plan
or report finds by names which ledgers may say what became of it (`control/expired.py`).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from lakesweep.control.area import ControlArea
from lakesweep.control.chain import Beginning, Chain
from lakesweep.control.expired import SUFFIX
from lakesweep.control.lease import Lease, LeaseDocument, acquire
from lakesweep.control.ledger import Ledger
from lakesweep.model.housekeeping import Going
from lakesweep.model.outcome import FailedDelete, Outcome
from lakesweep.model.plan import Delete
from lakesweep.runs.identifiers import new_id
from lakesweep.storage.guard import GuardedStore
from lakesweep.storage.store import DeleteRequest, DeleteResult

_CHANGED = "it was written again after the listing"
_HELD_UP = "what it belongs to stays"
_BATCH = 1000


@dataclass(slots=True)
class Deletion:
    """One run of housekeeping in one table."""

    run_id: str
    started_ms: int
    chain: Chain
    results: dict[str, DeleteResult] = field(default_factory=dict)
    """Path -> result."""
    sizes: dict[str, int] = field(default_factory=dict)

    def outcome(self) -> Outcome:
        """Return what became of the documents."""
        results = self.results.items()
        deleted = [path for path, each in results if each.code == "deleted"]
        failed = [(path, each.code) for path, each in results if not each.ok and each.code != "precondition_failed"]
        return Outcome(
            deleted=len(deleted),
            already_gone=sum(each.code == "already_gone" for _, each in results),
            failed=tuple(FailedDelete(path, code) for path, code in failed),
            kept_by_recheck=sum(each.code == "precondition_failed" for _, each in results),
            deleted_bytes=sum(self.sizes[path] for path in deleted),
        )


def delete(
    area: ControlArea, going: Callable[[Lease], Sequence[Going]], known: LeaseDocument | None = None
) -> Deletion:
    """Delete documents in the order of their ranks.

    Args:
        area: Of the table.
        going: Returns the documents, by rank. It is called under the lease.
        known: The lease as it was read before the documents were listed. If anybody has held it since, nothing is
            deleted. `None`: they are listed under the lease.

    Raises:
        LeaseHeldError: Another run holds the lease, has held it since, or left a plan unfinished.
        LeaseLostError: The lease went to another run; this one stopped.
        StorageError: A request failed.
    """
    started_ms = area.store.now_ms()
    run_id = f"{new_id(started_ms)}{SUFFIX}"
    deletion = Deletion(run_id, started_ms, Chain(Beginning(area.table, run_id, run_id, by=area.who())))
    lease = acquire(area, run_id, None, known, exactly=known is not None)
    try:
        _delete(area, going(lease), lease, deletion)
    finally:
        lease.release(ended=True)
    return deletion


def _delete(area: ControlArea, going: Sequence[Going], lease: Lease, deletion: Deletion) -> None:
    store = GuardedStore(area.store, lease.refuse_late)
    ledger = Ledger(area, deletion.run_id, deletion.run_id, deletion.chain)
    key = area.prefix.split("/")[1]
    held_up: set[str] = set()
    try:
        # One part of the ledger has the intents of several ranks. With a part for each rank, this ledger would have
        # more parts than those that it deletes, and the next one of its kind even more.
        for start in range(0, len(going), _BATCH):
            batch = going[start : start + _BATCH]
            keys = {each: f"{each.document.place}/{key}/{each.document.name}" for each in batch}
            deletes = {each: _action(f"{area.store.location}/{keys[each]}", each) for each in batch}
            answers: dict[Going, DeleteResult] = {}
            ledger.intend([*deletes.values()])
            try:
                for _, ranked in groupby(batch, key=lambda each: each.rank):
                    # What depends on a document that is still there stays with it.
                    if not (sent := [each for each in ranked if each.document.group not in held_up]):
                        continue
                    lease.check()
                    requests = [DeleteRequest(keys[each], each.document.etag) for each in sent]
                    answers.update(zip(sent, store.delete(requests), strict=True))
                    held_up.update(each.document.group for each in sent if not answers[each].ok)
            finally:
                _record(ledger, deletion, deletes, answers, held_up)
    finally:
        ledger.flush()


def _record(
    ledger: Ledger,
    deletion: Deletion,
    deletes: Mapping[Going, Delete],
    answers: Mapping[Going, DeleteResult],
    held_up: Collection[str],
) -> None:
    results = {deletes[each].path: answer for each, answer in answers.items()}
    deletion.results.update(results)
    deletion.sizes.update((deletes[each].path, deletes[each].size_bytes or 0) for each in answers)
    kept = {each: _CHANGED for each, answer in answers.items() if answer.code == "precondition_failed"}
    kept |= {each: _HELD_UP for each in deletes if each not in answers and each.document.group in held_up}
    answered = [deletes[each] for each in answers if each not in kept]
    ledger.record(answered, results, [(deletes[each], why) for each, why in kept.items()])


def _action(path: str, going: Going) -> Delete:
    document = going.document
    return Delete("control", document.kind, path, document.size_bytes, going.reason, document.etag)
