"""The ledger: rows for each object that a run deletes, before and after the deletion. Append-only.

A run writes numbered parts below `ledger/dt=<day>/<run_id>/`. A part that ends in `-intent.ndjson.gz` is written before
a batch of deletes. It has a row without a result for each object of the batch. The next part, of either kind, has the
results of the batch. So a run of n batches writes n + 1 parts; the last one ends in `-result.ndjson.gz`.

Documents (snapshots, changelogs, tags) are deleted first and have no intent of their own: the stored plan, and the
lease that names it, say which ones may be deleted. An intent without a result means that the batch was sent and its
answer is not known.

When many processes carry out a plan, each slice has its own parts: `<slice>-<attempt>-intent.ndjson.gz` and
`<slice>-<attempt>-result.ndjson.gz`. Slices are counted through the plan, from 0. A process begins an attempt only
where no intent of that name exists, so two processes that work on one slice never share an attempt.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from lakesweep.control.area import ControlArea
from lakesweep.control.chain import Beginning, Chain
from lakesweep.control.ledger_rows import folder_of_run, slice_answers
from lakesweep.errors import MaintenanceError, PreconditionFailedError
from lakesweep.model.plan import Delete, Restore
from lakesweep.storage.store import DeleteResult

SLICE_ATTEMPTS = 100
"""At most this many attempts may begin one slice in one run."""


class Ledger:
    """The rows of one run."""

    def __init__(self, area: ControlArea, run_id: str, plan_id: str, chain: Chain | None = None) -> None:
        self._area = area
        self._chain = chain or Chain(Beginning(area.table, run_id, plan_id, by=area.who()))
        self._folder = folder_of_run(run_id)
        self._plan_id = plan_id
        self._batch = 0
        self._unwritten = ""
        """Name of a part that was sent; the run does not know whether it was written."""
        self._waiting: list[dict[str, object]] = []

    def intend(self, deletes: Sequence[Delete]) -> None:
        """Record what the next batch will delete, and with it the results of the batch before."""
        self._batch += 1
        self._waiting += [self._row(delete) for delete in deletes]
        self._put("intent")

    def record(
        self,
        deletes: Sequence[Delete],
        results: Mapping[str, DeleteResult],
        kept: Iterable[tuple[Delete, str]],
        why: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Note the results of the batch; the next part holds them.

        Args:
            deletes: The deletions that were sent.
            results: By path.
            kept: Deletions that a recheck held back, with the reason.
            why: By path, a further remark on a result.
        """
        self._waiting += _results(self._plan_id, self._batch, deletes, results, kept, why)

    def record_earlier(
        self, deletes: Sequence[Delete], results: Mapping[str, DeleteResult], why: Mapping[str, str]
    ) -> None:
        """Note what earlier runs of the plan deleted without recording it.

        Args:
            deletes: The deletions of these runs.
            results: By path.
            why: By path, how this run knows it.
        """
        self._batch += 1
        self._waiting += _results(self._plan_id, self._batch, deletes, results, (), why)

    def record_restored(self, deletes: Sequence[Delete]) -> None:
        """Note documents that were put back."""
        self._waiting += [{**self._row(delete), "result": "restored"} for delete in deletes]

    def record_heads(self, heads: Mapping[str, str]) -> None:
        """Note where the chains of other writers end: writer -> hash of its last part."""
        self._waiting += [{"writer": writer, "ends": head} for writer, head in sorted(heads.items())]

    def record_undeleted(self, restores: Sequence[Restore], codes: Mapping[str, str]) -> None:
        """Record which objects were restored, and why others were not.

        Args:
            restores: The objects to restore.
            codes: By path.
        """
        self._batch += 1
        self._waiting += [
            {**self._row(restore), "version_id": restore.version_id, "result": codes[restore.path]}
            for restore in restores
        ]
        self.flush()

    def flush(self) -> None:
        """Write the rows that are noted and not yet written. Call it when no batch follows."""
        if self._waiting:
            self._put("result")

    def _row(self, delete: Delete | Restore) -> dict[str, object]:
        return _row(self._plan_id, self._batch, delete)

    def _put(self, suffix: str) -> None:
        # If a part may not have been written, it is written again with the rows that came since: no row is lost or
        # doubled.
        rows = tuple(self._waiting)
        data = self._chain.pack(rows)
        self._unwritten = self._unwritten or f"{self._folder}{self._chain.number + 1:05d}-{suffix}.ndjson.gz"
        self._area.put(self._unwritten, data)
        self._unwritten = ""
        self._chain.written(data)
        del self._waiting[: len(rows)]


def _row(plan_id: str, batch: int, delete: Delete | Restore) -> dict[str, object]:
    return {
        "plan_id": plan_id,
        "batch": batch,
        "kind": delete.kind,
        "key": delete.path,
        "size_bytes": delete.size_bytes,
        "reason": delete.reason,
    }


def _results(
    plan_id: str,
    batch: int,
    deletes: Sequence[Delete],
    results: Mapping[str, DeleteResult],
    kept: Iterable[tuple[Delete, str]],
    why: Mapping[str, str] = MappingProxyType({}),
) -> list[dict[str, object]]:
    rows = [
        {
            **_row(plan_id, batch, delete),
            "result": results[delete.path].code,
            "version_id": results[delete.path].version_id,
            **({"why": why[delete.path]} if delete.path in why else {}),
        }
        for delete in deletes
    ]
    return rows + [{**_row(plan_id, batch, delete), "result": "kept_by_recheck", "why": why} for delete, why in kept]


class SliceLedger:
    """The rows of one slice of a plan, as one process writes them."""

    def __init__(self, area: ControlArea, run_id: str, plan_id: str, number: int) -> None:
        self._area = area
        self._name = f"{folder_of_run(run_id)}{number:07d}"
        self._plan_id = plan_id
        self._number = number
        self._attempt = 0
        self._run_id = run_id
        self._chain = self._begun()

    def _begun(self) -> Chain:
        writer = f"{self._number:07d}-{self._attempt:02d}"
        return Chain(Beginning(self._area.table, self._run_id, self._plan_id, by=self._area.who()), writer)

    @property
    def end(self) -> str:
        """Return the writer of this attempt and the hash of its last part; empty if it has written none."""
        return f"{self._chain.writer} {self._chain.last}" if self._chain.number else ""

    def intend(self, deletes: Sequence[Delete]) -> bool:
        """Record what is about to be deleted.

        Returns:
            False if another process of this run has begun the slice. Then `answers` returns its results, and another
                call begins the next attempt.

        Raises:
            MaintenanceError: The slice was begun too often.
        """
        if self._attempt >= SLICE_ATTEMPTS:
            raise MaintenanceError(
                f"{self._area.path(self._name)}: expected {SLICE_ATTEMPTS} attempts at most in one run, found more",
                code="too_many_attempts",
            )
        rows = [_row(self._plan_id, self._batch, delete) for delete in deletes]
        data = self._chain.pack(rows)
        try:
            self._area.put(self._part("intent"), data, if_absent=True)
        except PreconditionFailedError:
            self._attempt += 1
            self._chain = self._begun()
            return False
        self._chain.written(data)
        return True

    def answers(self) -> dict[str, str]:
        """Return path -> result of the attempt that the last call of `intend` found; empty if it has no result yet."""
        return slice_answers(self._area, self._plan_id, [f"{self._name}-{self._attempt - 1:02d}-result.ndjson.gz"])

    def record(
        self,
        deletes: Sequence[Delete],
        results: Mapping[str, DeleteResult],
        kept: Iterable[tuple[Delete, str]],
        why: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Record the results, as `Ledger.record` does, and write them at once."""
        data = self._chain.pack(_results(self._plan_id, self._batch, deletes, results, kept, why))
        self._area.put(self._part("result"), data)
        self._chain.written(data)

    @property
    def _batch(self) -> int:
        return self._number * SLICE_ATTEMPTS + self._attempt + 1

    def _part(self, suffix: str) -> str:
        return f"{self._name}-{self._attempt:02d}-{suffix}.ndjson.gz"
