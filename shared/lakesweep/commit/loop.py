"""Commit: prepare on the newest snapshot, publish, and prepare anew when another writer was first.

The lease is held only while a snapshot is published, not while it is prepared. Until it is published, a commit leaves
orphans at most. From then on the snapshot is whole, whatever happens to this process.

A writer that tests whether a snapshot exists, and then writes without a condition, can replace ours. Nobody can prevent
that, but it is noticed: after a few seconds, and by the next commit, which finds the last one in the lease.
"""

import itertools
from dataclasses import replace
from uuid import uuid4

from lakesweep.commit.base import Base, read_base
from lakesweep.commit.early import EarlyFiles
from lakesweep.commit.environment import Attempt, CommitEnvironment, Committed, Prepare, Prepared, Status
from lakesweep.commit.files import check_prepared, probe, write_files
from lakesweep.commit.former import became
from lakesweep.commit.publish import Published, Publishing, seen_at
from lakesweep.commit.retries import retries_of
from lakesweep.control.commit_record import CommitRecord
from lakesweep.control.lease import Lease, LeaseDocument, acquire, read_lease, refuse_held
from lakesweep.control.noticed import NoticingStore
from lakesweep.errors import (
    LeaseHeldError,
    MaintenanceError,
    ObjectNotFoundError,
    RefusedError,
)
from lakesweep.format.snapshot import parse_snapshot
from lakesweep.model.commits.lost import SEE
from lakesweep.model.commits.seen import COMMIT_USER, SeenSnapshot
from lakesweep.model.identity import number_of
from lakesweep.model.roots import branch_dir
from lakesweep.model.safety import ORPHAN_AGE_MS, SEEN_AGAIN_S
from lakesweep.storage.clock import Stopwatch
from lakesweep.table.documents import MAX_DOCUMENT_BYTES

_MARKS = 3
"""The last of them may be replaced or rolled back."""


def commit(env: CommitEnvironment, prepare: Prepare) -> Committed:
    """Commit one snapshot to a branch.

    Args:
        env: The stores, limits and callbacks.
        prepare: Makes the snapshot of each attempt.

    Raises:
        LeaseHeldError: Another run maintains this table, or left a plan that must be finished first.
        LeaseLostError: Another run took the lease; no snapshot was written.
        RefusedError: Among others: the table is paused, or its store knows no conditional put
            (`no_conditional_put`).
        FormatError: An option `commit.*` is not valid, or what the commit builds on is damaged.
        StorageError: A request failed; no snapshot was written.
        OutOfTimeError: The caller's time is nearly over; no snapshot was written.
    """
    return _Committing(env, prepare).run()


class _Committing:
    """One commit with all its attempts."""

    def __init__(self, env: CommitEnvironment, prepare: Prepare) -> None:
        self._env = env
        self._prepare = prepare
        self._retries = retries_of(env.options)
        self._begun = Stopwatch()
        self._known: LeaseDocument | None = None
        self._is_proven = False
        """An earlier commit to this table has shown that its store keeps to conditions."""
        self._may_reuse = True
        """See `Attempt`."""
        self._number = 0
        self._replaced = 0
        self._last: Published | None = None
        """Why the latest attempt failed."""
        self._warnings: list[str] = []
        self._told: list[tuple[int, int]] = []
        """Ids and numbers of replaced snapshots."""
        self._made: SeenSnapshot | None = None
        self._marks: tuple[tuple[int, str], ...] = ()
        """Of the last commit before."""

    def run(self) -> Committed:
        """Make attempts until one ends the commit."""
        env = self._env
        self._known = known = env.lease or read_lease(env.area)
        if known.intent is not None:
            refuse_held(env.area, known, None)
        self._is_proven = bool(known.commits)
        base = env.first or read_base(env.table, env.branch)
        if base is not None and (record := known.commits.get(env.branch)) is not None:
            self._marks = record.marks
            self._compare(record, base)
        while base is not None:
            self._number += 1
            env.check_time(env.what)
            ended = self._attempt(base)
            if ended is not None:
                return ended
            if (ended := self._given_up()) is not None:
                return ended
            env.wait(self._retries.wait_s(self._number))
            base = read_base(env.table, env.branch, base)
        return self._ended(
            "nothing_to_do", f"table {env.table.location}: branch {env.branch} has no snapshot", "no_snapshot"
        )

    def _compare(self, record: CommitRecord, base: Base) -> None:
        """Notice that the last commit was replaced."""
        sentence, told = became(self._env, record, base)
        if sentence:
            self._warn(sentence)
        if told:
            self._replaced += 1
            self._told.append(record.seen.key)

    def _attempt(self, base: Base) -> Committed | None:
        """Make one attempt; `None`: another writer was first, or replaced the snapshot."""
        env = self._env
        begun = Stopwatch()
        try:
            with EarlyFiles(env.table, lambda: env.check_time(env.what)) as early:
                attempt = Attempt(
                    base=base,
                    number=self._number,
                    commit_user=env.commit_user(self._number),
                    uuid=str(uuid4()),
                    now_ms=max(env.table.now_ms(), base.root.snapshot.time_ms),
                    write=early.write,
                    may_reuse=self._may_reuse,
                )
                prepared = self._prepare(attempt)
                early.finish()
        except (ObjectNotFoundError, RefusedError) as error:
            is_missing = isinstance(error, ObjectNotFoundError) or isinstance(error.__cause__, ObjectNotFoundError)
            # The base may have been rolled back meanwhile. If it is still there, its file is really missing.
            if not is_missing or read_base(env.table, env.branch) == base:
                raise
            self._last = Published("not_newest", str(error), "commit_conflict")
            self._may_reuse = False  # not all of its files may exist
            return None
        if prepared is None:
            return self._ended("nothing_to_do")
        body = check_prepared(prepared, attempt, env.what)
        self._ask_early()
        write_files(env.table, prepared.files, lambda: env.check_time(env.what))
        if not self._is_proven:
            probe(env.table, prepared.files)
            self._is_proven = True
        self._let_settle(base)
        published = self._publish(attempt, prepared, body, prepared.since or begun)
        self._warnings += published.warnings
        self._last = published
        if published.state == "ours":
            return self._look_again(attempt, prepared.snapshot.id, body)
        if published.state == "replaced":
            self._was_replaced(f"{branch_dir(env.branch)}snapshot/snapshot-{prepared.snapshot.id}")
        return self._final(published, attempt, prepared)

    def _ask_early(self) -> None:
        """Ask the control location what its first document would ask, so that nothing delays the publishing."""
        store = self._env.area.store
        if isinstance(store, NoticingStore):
            store.notice()
        store.now_ms()

    def _let_settle(self, base: Base) -> None:
        """Wait while a writer may be about to replace a base of Lakesweep, as after the own commit.

        Without a snapshot on top, the writer would go on from its own. With one, its rows would be lost.
        """
        env, root = self._env, base.root
        if env.has_lock or not root.snapshot.commit_user.startswith(COMMIT_USER):
            return
        age_s = (env.table.now_ms() - root.ref.modified_ms) / 1000
        env.wait(min(SEEN_AGAIN_S - age_s, SEEN_AGAIN_S))

    def _publish(self, attempt: Attempt, prepared: Prepared, body: bytes, begun: Stopwatch) -> Published:
        """Publish a prepared snapshot under the lease."""
        env, snapshot_id = self._env, prepared.snapshot.id
        told = tuple(number for _, number in self._told)
        marks = ((snapshot_id, attempt.uuid), *self._marks)[:_MARKS] if prepared.compares_marks else self._marks
        record = CommitRecord(snapshot_id, attempt.uuid, env.run_id, "publishing", replaced=told, marks=marks)
        lease = self._take(record)
        publishing = Publishing(env, lease, attempt.base, snapshot_id, body)
        try:
            if begun.elapsed_ms() > ORPHAN_AGE_MS // 2:
                # An orphan scan may soon delete the files of this attempt.
                return Published("not_newest", f"{env.what}: the attempt took too long", "commit_conflict")
            published = publishing.run()
            if published.is_written:
                record = replace(record, state="published")
                if publishing.etag is not None:
                    record = replace(record, number=number_of(publishing.etag), modified_ms=env.table.now_ms())
                    self._made = replace(record.seen, size_bytes=len(body), seen_ms=env.clock_ms())
                lease.commits[env.branch] = record
            return published
        finally:
            self._may_reuse &= not publishing.was_sent
            if not publishing.may_exist:
                lease.forget_commits()
            lease.release(ended=True)
            self._known = lease.document()

    def _take(self, record: CommitRecord) -> Lease:
        """Take the lease. Another commit holds it for a second or so, and is waited for; a run with a plan is not."""
        env, commits = self._env, {self._env.branch: record}
        for failed in itertools.count(1):
            env.check_time(env.what)
            try:
                return acquire(env.area, env.run_id, None, self._known, commits=commits)
            except LeaseHeldError:
                self._known = read_lease(env.area)
                if self._known.intent is not None or failed > self._retries.at_most:
                    raise
            env.wait(self._retries.wait_s(failed))
        raise AssertionError

    def _look_again(self, attempt: Attempt, snapshot_id: int, body: bytes) -> Committed | None:
        """Look whether the snapshot is still there, unless no writer can replace it."""
        env = self._env
        path = f"{branch_dir(env.branch)}snapshot/snapshot-{snapshot_id}"
        if not env.has_lock:
            try:
                env.wait(SEEN_AGAIN_S)
                seen = seen_at(env.table, path, body)
            except MaintenanceError as error:
                self._warn(f"{path} was committed, but not looked at again; the next commit does so: {error}")
                seen = "ours"
            if seen == "other":
                self._was_replaced(path)
                self._last = Published("replaced", f"{path}: another writer replaced it", "commit_replaced")
                return None
            if seen == "absent":
                self._warn(
                    f"{path} was committed, and is gone {SEEN_AGAIN_S:.0f} s later: a rollback or expiry took it"
                )
        return self._ended("committed", snapshot_id=snapshot_id, uuid=attempt.uuid)

    def _was_replaced(self, path: str) -> None:
        """Count a snapshot of this commit that was replaced, and say by whom."""
        self._replaced += 1
        try:
            now = parse_snapshot(self._env.table.read(path, MAX_DOCUMENT_BYTES).data, path)
        except MaintenanceError:
            user = "an unknown commit user"  # it may have changed once more; the next look says so
        else:
            user = f"commit user {now.commit_user}"
        self._warn(f"{path}: another writer replaced this snapshot of Lakesweep, {user}; it is committed again; {SEE}")
        if self._made is not None:
            self._told.append(self._made.key)
            self._made = None

    def _final(self, published: Published, attempt: Attempt, prepared: Prepared) -> Committed | None:
        """Return how the commit ended if another attempt would be wrong; `None`: it may be made."""
        of_state: dict[str, Status] = {"failed": "gave_up", "unknown": "unknown", "base_vanished": "base_vanished"}
        status = of_state.get(published.state)
        if status is None:
            return None
        return self._ended(
            status, published.message, published.code, snapshot_id=prepared.snapshot.id, uuid=attempt.uuid
        )

    def _given_up(self) -> Committed | None:
        """Return the end of a commit that has no attempts left, `None` if it has."""
        timeout_ms, last = self._retries.timeout_ms, self._last
        is_late = timeout_ms is not None and self._begun.elapsed_ms() > timeout_ms
        if last is None or (self._number <= self._retries.at_most and not is_late):
            return None
        limit = f"commit.timeout of {timeout_ms} ms" if is_late else f"commit.max-retries {self._retries.at_most}"
        return self._ended(
            "replaced" if last.state == "replaced" else "gave_up",
            f"{self._env.what} ended after {self._number} attempts ({limit}); the last one: {last.message}",
            "commit_timeout" if is_late else last.code,
        )

    def _warn(self, sentence: str) -> None:
        self._warnings.append(sentence)

    def _ended(
        self, status: Status, message: str = "", code: str = "", snapshot_id: int | None = None, uuid: str | None = None
    ) -> Committed:
        made = self._made if status == "committed" else None
        warnings, told = tuple(self._warnings), tuple(self._told)
        return Committed(
            status, snapshot_id, uuid, self._number, self._replaced, warnings, message, code, made=made, told=told
        )
