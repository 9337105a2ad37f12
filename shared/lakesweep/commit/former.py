"""What became of the last commit of Lakesweep to a branch, as the next one finds it."""

from collections.abc import Mapping

from lakesweep.commit.base import Base
from lakesweep.commit.environment import CommitEnvironment, Known
from lakesweep.control.commit_record import CommitRecord
from lakesweep.errors import FormatError, ObjectNotFoundError, UnsupportedFormatError
from lakesweep.format.snapshot import Snapshot, parse_snapshot
from lakesweep.model.commits.lost import SEE
from lakesweep.model.commits.replaced import Around, FoundSnapshot, Verdict, judge
from lakesweep.model.identity import number_of
from lakesweep.model.roots import branch_dir
from lakesweep.storage.store import Body
from lakesweep.table.documents import MAX_DOCUMENT_BYTES, prepared_ms

_BECAME: Mapping[Verdict, str] = {
    "replaced": "another writer replaced it",
    "rolled_back": "somebody rolled the branch back, and a writer committed again",
    "fast_forwarded": "somebody fast-forwarded the branch",
    "unclear": "another writer replaced it, or committed after a rollback",
}


def became(env: CommitEnvironment, record: CommitRecord, base: Base) -> tuple[str, bool]:
    """Return a warning, empty if there is nothing to tell, and whether to count the commit as replaced.

    Args:
        env: What the next commit works with.
        record: The last commit.
        base: What the next commit builds on.

    Raises:
        StorageError: A request failed.
    """
    path = f"{branch_dir(env.branch)}snapshot/snapshot-{record.id}"
    is_base = record.id == base.id
    try:
        found = Body(base.root.body, base.root.ref.etag) if is_base else env.table.read(path, MAX_DOCUMENT_BYTES)
    except ObjectNotFoundError:
        return "", False  # expired or rolled back
    snapshot = _parsed(found.data, path)
    if snapshot is not None and snapshot.uuid == record.uuid:
        return "", False
    did, then, is_new = "was about to commit", "another writer committed first, or replaced it", False
    if record.state == "published":
        known = env.known()
        verdict = _verdict(env, record, found, snapshot, base, known)
        did, then = "committed", _BECAME[verdict]
        is_new = verdict == "replaced" and record.seen.key not in known.judged  # otherwise a pass has told it
    now = "one that is no snapshot"
    if snapshot is not None:
        now = f"{snapshot.uuid or 'one without uuid'} of commit user {snapshot.commit_user}"
    sentence = f"{path}: expected the snapshot {record.uuid} that run {record.run_id} {did}, found {now}; {then}"
    return f"{sentence}; {SEE}" if is_new else sentence, is_new


def _verdict(
    env: CommitEnvironment, record: CommitRecord, body: Body, snapshot: Snapshot | None, base: Base, known: Known
) -> Verdict:
    """Tell what happened to the last commit, given that another snapshot is in its place."""
    if not record.modified_ms:
        return "replaced"  # an earlier version made this record, without a time
    found = FoundSnapshot(
        number=number_of(body.etag),
        modified_ms=base.root.ref.modified_ms if record.id == base.id else 0,
        size_bytes=len(body.data),
        snapshot=snapshot,
        is_digest=True,  # another uuid means other bytes
        prepared_ms=0 if snapshot is None else prepared_ms(env.table, snapshot),
    )
    return judge(record.seen, found, Around(first_schema_ms=base.first_schema_ms, rewritten_ms=known.rewritten_ms))


def _parsed(data: bytes, path: str) -> Snapshot | None:
    try:
        return parse_snapshot(data, path)
    except (FormatError, UnsupportedFormatError):
        return None
