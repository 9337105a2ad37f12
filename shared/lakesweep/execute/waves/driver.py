"""Carry out a large plan of files with many processes, one wave at a time.

One process coordinates: it holds the lease, rechecks the roots, and hands out slices of the plan
(`execute/waves/slices.py`). It never holds more of the plan than the header and one part. A *wave* is the work covered
by a single recheck: at most `WAVE_KEYS` objects and about `WAVE_S` seconds. The lease is renewed before each wave, so
that the wave ends under it. After a long time under the lease, the coordinator releases it for a moment between two
waves, as `execute/deletions/executor.py` does.

Only plans of files are carried out in this way. No root refers to any of the files, so any process may delete them in
any order. The plan may stop anywhere, and needs no compensation. Documents have an order, so a plan with documents is
refused.

The rate is bounded, since the writers of the table share the capacity of its prefix. If a store throttles, the rate is
halved for the next wave. After each wave without throttling it rises a little.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from lakesweep.control.lease import Lease
from lakesweep.control.ledger import Ledger
from lakesweep.control.ledger_rows import slice_answers, slice_parts
from lakesweep.errors import (
    AccessDeniedError,
    FormatError,
    HeldBackError,
    MaintenanceError,
    OutOfTimeError,
    RefusedError,
    StalePlanError,
    StorageError,
)
from lakesweep.execute.attempt import Attempt, Environment, Executed, UnderLease, stopped, under_lease
from lakesweep.execute.part_actions import (
    FILES,
    NOT_FILES_ALONE,
    PartActions,
    actions_of_part,
    deletions_of,
    not_files_alone,
)
from lakesweep.execute.present import NewRoots
from lakesweep.execute.recheck import RootRecheck
from lakesweep.execute.waves.slices import GONE, NOT_BEGUN, SLICE_KEYS, THROTTLED, Assignment, Slice, SliceResult
from lakesweep.model.outcome import FailedDelete, Outcome
from lakesweep.model.paths.stays import Stays, add_stays
from lakesweep.model.plan import Delete, PlanHeader, joined_hash
from lakesweep.model.safety import EPOCH_MS, LEASE_MS
from lakesweep.storage.guard import Guard
from lakesweep.storage.pools import threads
from lakesweep.storage.reads import PARALLEL

KEYS_PER_S = 2000
"""S3 takes 3 500 writes a second for a prefix, and each key of a DeleteObjects counts as one."""
MIN_KEYS_PER_S = 100
"""At a lower rate, one request would take a good part of the lease."""
MAX_KEYS_PER_S = 20_000
"""For tables that S3 has spread over several partitions."""
WAVE_KEYS = 100_000
WAVE_S = 60
ATTEMPTS = 3
"""How often a throttled slice is sent, and how many waves in a row may achieve nothing."""
SHOWN_FAILURES = 1000
"""At most this many objects that could not be deleted are named in the report; the ledger names all."""
_SLOWEST = 20
"""The lowest rate, in keys per second, for a store that never stops throttling."""
_RECOVERY = 1 / 10

RunWave = Callable[[Sequence[Assignment], Guard], Iterable[SliceResult]]
"""Has each lane worked on by a process, and returns the results of the slices. A slice without a result is done again,
so a lane whose process was lost costs only time. Workers in this process ask the guard before each attempt to delete;
others use the end of the lease that their lane names."""


@dataclass(frozen=True, slots=True)
class Workers:
    """The workers, and their rate."""

    run_wave: RunWave
    assignments: int
    """How many lanes are worked on at the same time."""
    keys_per_s: float = KEYS_PER_S
    """Of all lanes together."""
    slice_keys: int = SLICE_KEYS
    wave_keys: int = WAVE_KEYS
    actions: PartActions | None = None
    """Of the plan, where the workers are in this process and share them."""
    ends_with_wave: bool = False
    """No worker deletes anything after `run_wave` has returned or raised."""


def execute_in_waves(env: Environment, header: PlanHeader, attempt: Attempt, workers: Workers) -> Executed:
    """Execute a stored plan of files under the table's lease.

    Args:
        env: Stores and control area.
        header: Of the plan.
        attempt: The run, and what earlier runs did. There is no grace period: no reader opens a file without a root.
        workers: The workers.

    Raises:
        RefusedError: The plan holds more than files.
        LeaseHeldError: Another run maintains this table.
        LeaseLostError: The lease went to another run; this one stopped.
        OutOfTimeError: The caller's time was over before anything was deleted.
        StorageError: A request failed before anything was deleted; the intent is kept, and the next run continues the
            plan.
    """
    check_whole(header)
    # Documents come first in a plan. If the first part had any, files must not be deleted before them.
    deletions_of(actions_of_part(env.area, header, 0), header)
    return under_lease(env.area, header, attempt, lambda lease: _Waves(env, header, attempt, workers, lease).run())


def check_files_alone(header: PlanHeader) -> None:
    """Make sure that a plan deletes nothing but orphan files.

    Raises:
        RefusedError: With code `not_files_alone`.
    """
    if header.operation != "remove-orphan-files" or header.end_id is not None or not FILES.issuperset(header.by_kind):
        raise not_files_alone(header)


def check_whole(header: PlanHeader) -> None:
    """Make sure that a header names all parts of its plan.

    Raises:
        RefusedError: The plan holds more than files.
        FormatError: Parts are missing, or do not match the header.
    """
    check_files_alone(header)
    if not header.parts:
        return  # the actions are in the header, and are checked when they are read
    count = sum(part.count for part in header.parts)
    found = joined_hash((part.hash for part in header.parts), header.steering)
    if count != header.action_count or found != header.content_hash:
        raise FormatError(
            f"plan {header.plan_id} of table {header.table}: expected a steering and parts of {header.action_count} "
            f"actions that match the header's hash, found {count} in {len(header.parts)} parts"
        )


class _Waves(UnderLease):
    def __init__(self, env: Environment, header: PlanHeader, attempt: Attempt, workers: Workers, lease: Lease) -> None:
        super().__init__(env, header, attempt, lease)
        self._workers = workers
        self._actions = workers.actions or PartActions(env.area, header.plan_id, content_hash=header.content_hash)
        self._new_roots = NewRoots(RootRecheck(env.stores.table, header, env.known, env.sleep))
        self._rate = workers.keys_per_s
        self._outcome = Outcome()
        self._failures = 0
        self._stays: tuple[Stays, ...] = ()
        self._chains: dict[str, str] = {}
        """Writer -> hash of its last part in the ledger."""
        self._settled = 0
        self._again: deque[Slice] = deque()
        self._throttled: dict[int, int] = {}
        """Number of a slice -> how often the store throttled it."""
        self._idle_waves = 0
        self._due_ms = 0
        """When the next wave may begin."""
        self._epoch_began_ms = env.area.store.now_ms()

    def run(self) -> Executed:
        executed = self._run_whole()
        if self._chains and not self._lease.is_let_go:
            ledger = Ledger(self._env.area, self._attempt.run_id, self._header.plan_id, self._attempt.chain)
            ledger.record_heads(self._chains)  # too many for the report, which has the hash of this part
            ledger.flush()
        return executed

    def _run_whole(self) -> Executed:
        try:
            self._carry_out()
        except KeyboardInterrupt as stop:
            self._attempt.on_stop(stopped(self._outcome, stop))
            raise
        except StalePlanError as error:
            return Executed("stale", self._outcome, str(error), error.code, self._warnings())
        except (HeldBackError, OutOfTimeError) as error:
            if isinstance(error, OutOfTimeError) and not (self._outcome.deleted or self._outcome.already_gone):
                raise  # another attempt would achieve nothing more
            # The rest can wait. No run has to finish it first, so retention continues meanwhile. While others have the
            # lease, this run cannot record the end. It need not: before it released the lease, it recorded that the
            # plan will continue.
            status = "interrupted" if self._lease.is_let_go else "put_off"
            return Executed(status, self._outcome, str(error), error.code, self._warnings())
        except MaintenanceError as error:
            if not self._outcome.deleted:
                raise
            return Executed("interrupted", self._outcome, str(error), error.code, self._warnings())
        return Executed("partial" if self._failures else "done", self._outcome, warnings=self._warnings())

    def _warnings(self) -> tuple[str, ...]:
        shown = len(self._outcome.failed)
        told = tuple(map(str, self._stays))
        if shown == self._failures:
            return told
        return (
            *told,
            f"{self._failures} objects could not be deleted. The report names {shown} of them, and the ledger of run "
            f"{self._attempt.run_id} names all",
        )

    def _carry_out(self) -> None:
        left = list(self._unfinished(self._slices(slice_parts(self._env.area, self._attempt.earlier_runs))))
        if not self._attempt.has_just_planned or self._attempt.asks_roots:
            parts = sorted({each.part for each in left})
            self._new_roots.ask_all(
                lambda: self._deletions(parts), self._still_ours, has_begun=bool(self._attempt.earlier_runs)
            )
        upcoming = iter(left)
        while wave := self._next_wave(upcoming):
            self._rest()
            self._sleep(self._early_s)
            self._env.check_time(self._what)
            self._env.check_policy()
            self._lease.check()
            self._new_roots.look()
            wave = self._spared(wave)
            self._lease.check(LEASE_MS)  # renewed in full, since the recheck took time
            self._fold(wave, self._run(wave))
            self._env.progress("objects deleted", self._settled, self._header.action_count)

    def _deletions(self, parts: Iterable[int]) -> Iterator[Delete]:
        """Yield what some parts of the plan delete, one part after the other."""
        for part in parts:
            yield from deletions_of(actions_of_part(self._env.area, self._header, part), self._header)

    def _slices(self, earlier: Mapping[int, tuple[str, ...]]) -> Iterator[Slice]:
        """Yield the plan in slices. Their numbers are the same in every run."""
        counts = [part.count for part in self._header.parts] or [self._header.action_count]
        number = 0
        for part, count in enumerate(counts):
            for start in range(0, count, self._workers.slice_keys):
                stop = min(count, start + self._workers.slice_keys)
                yield Slice(number, part, start, stop, earlier=earlier.get(number, ()))
                number += 1

    def _unfinished(self, slices: Iterator[Slice]) -> Iterator[Slice]:
        """Leave out slices that earlier runs have finished. They need no recheck and no share of the rate."""
        with threads(PARALLEL, "ledger") as pool:
            while some := list(islice(slices, PARALLEL)):
                self._still_ours()
                for each, is_done in zip(some, pool.map(self._is_done, some), strict=True):
                    if is_done:
                        self._settled += each.count
                    else:
                        yield each

    def _is_done(self, each: Slice) -> bool:
        if not each.earlier:
            return False
        answers = slice_answers(self._env.area, self._header.plan_id, each.earlier)
        return sum(answer in GONE for answer in answers.values()) >= each.count

    def _next_wave(self, upcoming: Iterator[Slice]) -> list[Slice]:
        most = min(self._workers.wave_keys, self._rate * WAVE_S)
        wave: list[Slice] = []
        keys = 0
        while keys < most:
            each = self._again.popleft() if self._again else next(upcoming, None)
            if each is None:
                break
            if wave and keys + each.count > most:
                self._again.appendleft(each)
                break
            wave.append(each)
            keys += each.count
        return sorted(wave, key=lambda each: each.number)

    def _rest(self) -> None:
        """Let others maintain the table after a long time under the lease."""
        now_ms = self._env.area.store.now_ms()
        if now_ms - self._epoch_began_ms >= EPOCH_MS:
            self._lease.check()  # a lease that was lost meanwhile cannot be released, and must not be taken again
            self._env.check_time(self._what)
            self._attempt.on_rest()
            self._lease.rest(self._sleep, self._attempt.before_return)
            self._epoch_began_ms = self._env.area.store.now_ms()

    @property
    def _early_s(self) -> float:
        """Return how much longer the keys of the last wave must take at this rate. Its lanes may have ended earlier."""
        return (self._due_ms - self._env.area.store.now_ms()) / 1000

    def _sleep(self, seconds: float) -> None:
        self._env.wait(seconds, self._what)

    def _spared(self, wave: Sequence[Slice]) -> list[Slice]:
        """Mark the objects of a wave that new roots need, so that they are kept."""
        if not self._new_roots.are_any:
            return list(wave)
        return [
            replace(each, kept=self._new_roots.needed(self._actions.of(each.part, each.start, each.stop)))
            for each in wave
        ]

    def _assignments(self, wave: Sequence[Slice]) -> list[Assignment]:
        length = math.ceil(len(wave) / max(1, self._workers.assignments))
        assignments = [tuple(wave[start : start + length]) for start in range(0, len(wave), length)]
        share = self._rate / len(assignments)
        return [
            Assignment(
                plan_id=self._header.plan_id,
                run_id=self._attempt.run_id,
                until_ms=self._lease.expires_ms,
                keys_per_s=share,
                delay_s=number * self._workers.slice_keys / self._rate,
                slices=slices,
                content_hash=self._header.content_hash,
            )
            for number, slices in enumerate(assignments)
        ]

    def _run(self, wave: Sequence[Slice]) -> dict[int, SliceResult]:
        """Have a wave deleted; return the results of its slices, by number.

        A process that gave no answer may still be alive, and may delete as long as the lease that it knows lasts. So no
        other run may have this lease before, even if this run ends.
        """
        keys = sum(each.count for each in wave)
        self._due_ms = self._env.area.store.now_ms() + int(keys / self._rate * 1000)
        lent_before_ms = self._lease.lent_until_ms
        self._lease.lent_until_ms = self._lease.expires_ms
        try:
            results = list(self._workers.run_wave(self._assignments(wave), self._lease.refuse_late))
            self._chains |= dict(result.chain.split(" ") for result in results if result.chain)
            found = {result.number: result for result in results}
        except BaseException:
            if self._workers.ends_with_wave:
                self._lease.lent_until_ms = lent_before_ms
            raise
        if all(each.number in found and not found[each.number].is_doubled for each in wave):
            self._lease.lent_until_ms = lent_before_ms
        return found

    def _fold(self, wave: Sequence[Slice], found: Mapping[int, SliceResult]) -> None:
        """Add up the results of a wave, and note the slices to do again.

        Raises:
            MaintenanceError: A slice failed. It is raised after all other results are added up.
        """
        failed: SliceResult | None = None
        was_throttled, done = False, 0
        for each in wave:
            result = found.get(each.number, SliceResult(each.number, NOT_BEGUN))
            if result.code == NOT_BEGUN:
                self._again.append(each)
            elif self._is_to_wait(result):
                was_throttled = True
                self._again.append(each)
            elif result.code:
                failed = failed or result
            else:
                self._accept(each, result)
                was_throttled = was_throttled or result.is_slowed
                done += 1
        self._set_rate(was_throttled)
        if failed is not None:
            raise _error_of(failed)
        self._idle_waves = 0 if done or was_throttled else self._idle_waves + 1
        if self._idle_waves >= ATTEMPTS:
            raise MaintenanceError(
                f"table {self._header.table}: in {ATTEMPTS} waves in a row no slice of plan {self._header.plan_id} was "
                "begun before the lease ran low; expected executors that start within minutes",
                code="no_progress",
            )

    def _set_rate(self, was_throttled: bool) -> None:
        most = self._workers.keys_per_s
        if was_throttled:
            self._rate = max(self._rate / 2, min(most, _SLOWEST))
        else:
            self._rate = min(most, self._rate + most * _RECOVERY)

    def _is_to_wait(self, result: SliceResult) -> bool:
        """Tell whether to send a slice again at a lower rate."""
        if result.code not in THROTTLED and not (result.throttled and not result.code):
            return False
        times = self._throttled[result.number] = self._throttled.get(result.number, 0) + 1
        return times < ATTEMPTS

    def _accept(self, each: Slice, result: SliceResult) -> None:
        room = SHOWN_FAILURES - len(self._outcome.failed)
        shown: tuple[FailedDelete, ...] = result.failed[:room]
        self._outcome += replace(result.outcome, failed=shown)
        self._failures += result.failures
        self._stays = add_stays((*self._stays, *result.stays))
        self._settled += each.count - result.failures


def _error_of(result: SliceResult) -> MaintenanceError:
    """Return the error that a slice failed with."""
    for kind in (FormatError, AccessDeniedError):
        if result.code == kind.code:
            return kind(result.message)
    if result.code == NOT_FILES_ALONE:
        return RefusedError(result.message, code=result.code)
    return StorageError(result.message, code=result.code)
