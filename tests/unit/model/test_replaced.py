"""What another snapshot in the place of one that was seen means, sign by sign."""

from dataclasses import replace
from typing import Any

import pytest

from lakesweep.format.snapshot import Snapshot, snapshot_of
from lakesweep.model.commits.replaced import Around, FoundSnapshot, Verdict, judge, judge_gone
from lakesweep.model.commits.seen import SeenSnapshot

T = 1_800_000_000_000
"""When the store wrote the old snapshot; a whole second."""
SEEN = SeenSnapshot(7, 70, T, 500)
EMPTY = Around(first_id=3)


def snapshot_made_at(time_ms: int) -> Snapshot:
    lists = {"baseManifestList": "base", "deltaManifestList": "delta"}
    commit = {"commitUser": "other", "commitIdentifier": 1, "commitKind": "APPEND", "timeMillis": time_ms}
    return snapshot_of({"id": 7, "schemaId": 0, **lists, **commit}, "snapshot/snapshot-7")


def found(made_ms: int = -30, written_ms: int = 0, **changes: Any) -> FoundSnapshot:
    """Return another snapshot, made and written so long after the old one was written."""
    return replace(FoundSnapshot(71, T + written_ms, 500, snapshot_made_at(T + made_ms), True), **changes)


@pytest.mark.parametrize(
    ("made_ms", "written_ms", "seen_ms", "verdict"),
    [
        (-30, 0, 0, "replaced"),  # the usual race: both within a second
        (900, 0, 0, "replaced"),  # the store cuts its times off
        (1100, 1000, 0, "replaced"),
        (1101, 2000, 0, "unclear"),
        (6100, 7000, 0, "unclear"),
        (6101, 7000, 0, "rolled_back"),
        (3_600_000, 3_601_000, 0, "rolled_back"),
        (-30, 59_000, 0, "replaced"),  # the writer stood still for a minute
        (-30, 61_000, 0, "unclear"),  # or somebody copied an old document
        (900, 1000, T + 901, "replaced"),  # it was seen after the other one was made
        (900, 1000, T + 900, "unclear"),  # or somebody rolled back right after it was seen
        (-30, 1000, T - 500, "replaced"),  # made before the old one was written, whenever that was seen
        (40_000, 0, 0, "replaced"),  # a clock ahead by 40 s shows: no snapshot is made after it is written
        (40_000, 9000, 0, "rolled_back"),
    ],
)
def test_the_time_when_the_new_one_was_made(made_ms: int, written_ms: int, seen_ms: int, verdict: Verdict) -> None:
    assert judge(replace(SEEN, seen_ms=seen_ms), found(made_ms, written_ms), EMPTY) == verdict


@pytest.mark.parametrize(
    ("prepared_ms", "made_ms", "written_ms", "verdict"),
    [
        (-1000, -3_600_000, 0, "replaced"),  # whatever the clock of the writer says
        (-1000, 3_600_000, 0, "replaced"),
        (-1000, 3_600_000, 9000, "replaced"),
        (-1000, -30, 59_000, "replaced"),
        (-1000, -30, 61_000, "unclear"),  # an old document was copied
        (2000, -3_600_000, 2000, "rolled_back"),
        (2000, -30, 2000, "rolled_back"),
        (2000, 3_600_000, 2000, "rolled_back"),
        (0, 900, 0, "replaced"),  # within one second, the commit time decides
        (0, 1101, 2000, "unclear"),
        (0, -3_600_000, 0, "replaced"),  # unless it is wrong
        (0, 3_600_000, 2000, "replaced"),
        (1000, 1050, 1000, "replaced"),
        (1000, 1150, 1000, "unclear"),
        (1000, -30_000, 1000, "unclear"),  # a doubt: the clock is wrong, and the list was written after the second
        (1000, 30_000, 1000, "unclear"),
    ],
)
def test_the_time_of_the_manifest_list(prepared_ms: int, made_ms: int, written_ms: int, verdict: Verdict) -> None:
    assert judge(SEEN, found(made_ms, written_ms, prepared_ms=T + prepared_ms), EMPTY) == verdict


@pytest.mark.parametrize(("prepared_ms", "verdict"), [(122, "replaced"), (300, "unclear"), (1300, "rolled_back")])
def test_the_list_in_a_store_with_exact_times(prepared_ms: int, verdict: Verdict) -> None:
    exact = replace(SEEN, modified_ms=T + 123)
    assert judge(exact, found(prepared_ms + 20, 1500, prepared_ms=T + prepared_ms), EMPTY) == verdict


@pytest.mark.parametrize("made_ms", [-30, -3_600_000])
def test_the_age_of_a_document_beside_a_later_one(made_ms: int) -> None:
    """A writer with a wrong clock replaces a snapshot now, and somebody restores an old one."""
    around = Around(is_later_same=True)
    assert judge(SEEN, found(made_ms, 5000, prepared_ms=T - 1000), around) == "replaced"
    assert judge(SEEN, found(made_ms, 5000, prepared_ms=T - 90_000), around) == "unclear"
    copied = judge(SeenSnapshot(7, 0, T), found(-3_600_000, 5000, prepared_ms=T - 1000), EMPTY)
    assert copied == "unclear", "somebody copied the whole table"


@pytest.mark.parametrize(
    ("apart_ms", "sizes", "around", "verdict"),
    [
        (0, (500, 501), EMPTY, "replaced"),
        (1000, (500, 501), EMPTY, "replaced"),
        (2000, (500, 501), EMPTY, "unclear"),
        (61_000, (500, 501), EMPTY, "rolled_back"),
        (0, (500, 500), EMPTY, "unclear"),  # one put that was sent twice
        (0, (500, 501), Around(rewritten_ms=T), "rolled_back"),
        (0, (500, 501), Around(first_schema_ms=T + 1), "rolled_back"),
    ],
)
def test_two_of_one_id_that_has_expired(
    apart_ms: int, sizes: tuple[int, int], around: Around, verdict: Verdict
) -> None:
    before, after = (SeenSnapshot(7, 70 + n, T + n * apart_ms, size) for n, size in enumerate(sizes))
    assert judge_gone(before, after, around) == verdict
    assert judge_gone(replace(before, modified_ms=0), after, around) == "rolled_back"


def test_the_same_bytes_under_another_etag() -> None:
    assert judge(SEEN, found(same=frozenset({70})), EMPTY) == "same"


def test_a_store_with_exact_times() -> None:
    """A rollback takes 0.1 s at least, and the next commit some more."""
    exact = replace(SEEN, modified_ms=T + 123)
    assert judge(exact, found(123 + 100, 500), EMPTY) == "replaced"
    assert judge(exact, found(123 + 101, 500), EMPTY) == "unclear"


@pytest.mark.parametrize("made_ms", [-30, 2000, 3_600_000])
@pytest.mark.parametrize(
    ("around", "verdict"),
    [
        (Around(first_schema_ms=T + 1), "fast_forwarded"),  # Java writes the schemas again
        (Around(is_copy=True), "fast_forwarded"),
        (Around(is_copy=True, is_later_same=True), "fast_forwarded"),  # pypaimon leaves what is later
        (Around(rewritten_ms=T), "rolled_back"),  # by Lakesweep
        (Around(below="marker"), "rolled_back"),
        (Around(below="object"), "replaced"),
        (Around(is_later_same=True), "replaced"),
    ],
)
def test_signs_that_need_no_clock(made_ms: int, around: Around, verdict: Verdict) -> None:
    assert judge(SEEN, found(made_ms, made_ms + 100), around) == verdict


@pytest.mark.parametrize("around", [Around(is_later_same=True), Around(below="object")])
def test_an_old_document_in_its_place_may_be_restored(around: Around) -> None:
    """The writers of a race write within a minute what they made."""
    assert judge(SEEN, found(-30, 59_000), around) == "replaced"
    assert judge(SEEN, found(-30, 61_000), around) == "unclear"


@pytest.mark.parametrize("made_ms", [2000, -400_000])
def test_a_rollback_takes_later_snapshots_too(made_ms: int) -> None:
    assert judge(SEEN, found(made_ms, 2500), EMPTY) == "unclear"
    assert judge(SEEN, found(made_ms, 2500), Around(is_later_gone=True)) == "rolled_back"


def test_a_replaced_one_stays_one_where_a_later_one_was_replaced_too() -> None:
    assert judge(SEEN, found(), Around(is_later_gone=True)) == "replaced"


AFTER_MS = T + 5000


@pytest.mark.parametrize(
    ("seen_ms", "verdict"), [(0, "rolled_back"), (AFTER_MS, "rolled_back"), (AFTER_MS + 1, "replaced")]
)
def test_what_was_seen_after_a_rollback_was_not_rolled_back(seen_ms: int, verdict: Verdict) -> None:
    """Both times are Lakesweep's own, so its clock may be ahead of the store's."""
    around = Around(rewritten_ms=AFTER_MS)
    assert judge(replace(SEEN, seen_ms=seen_ms), found(prepared_ms=T - 1000), around) == verdict


def test_what_did_not_change() -> None:
    assert judge(SEEN, found(number=70), EMPTY) == "same"
    named = replace(SEEN, uuid="u1")
    assert judge(named, found(snapshot=replace(snapshot_made_at(T), uuid="u1")), EMPTY) == "same"
    assert judge(named, found(snapshot=replace(snapshot_made_at(T), uuid="u2")), EMPTY) == "replaced"


def test_what_is_gone() -> None:
    assert judge(SEEN, None, Around(first_id=8)) == "expired"
    assert judge(SEEN, None, Around(first_id=3)) == "rolled_back"


def test_a_store_whose_etags_are_no_digests() -> None:
    """A writer that sends its request twice leaves the same bytes with another ETag. Size or uuid may tell."""
    assert judge(SEEN, found(is_digest=False), EMPTY) == "unclear"
    assert judge(replace(SEEN, size_bytes=0), found(is_digest=False), EMPTY) == "unclear"
    assert judge(SEEN, found(is_digest=False, size_bytes=501), EMPTY) == "replaced"
    assert judge(replace(SEEN, uuid="u1"), found(is_digest=False), EMPTY) == "replaced"
    assert judge(replace(SEEN, delta_list="other"), found(is_digest=False), EMPTY) == "replaced", "Java gives no uuid"
    assert judge(replace(SEEN, delta_list="delta"), found(is_digest=False), EMPTY) == "unclear"


def test_a_document_that_nobody_can_read() -> None:
    unreadable = found(snapshot=None)
    assert judge(SEEN, unreadable, Around(is_later_same=True)) == "unclear"
    assert judge(SEEN, unreadable, Around(rewritten_ms=T)) == "rolled_back"


def test_an_event_without_a_time() -> None:
    timeless = replace(SEEN, modified_ms=0)
    assert judge(timeless, found(), Around(first_schema_ms=T - 10)) == "unclear"
    assert judge(timeless, found(), Around(rewritten_ms=T, is_later_same=True)) == "replaced"


def test_an_older_object_is_restored() -> None:
    assert judge(SEEN, found(-10_000, -9_000), EMPTY) == "unclear"


def test_one_of_which_nothing_is_known_but_that_a_later_one_is_older() -> None:
    unknown = SeenSnapshot(7, 0, T)
    assert judge(unknown, found(-30, 20_000), EMPTY) == "replaced"
    assert judge(unknown, found(-30, 70_000), EMPTY) == "unclear", "a copied table has them in any order"
    assert judge(unknown, found(-30, 20_000), Around(is_copy=True)) == "fast_forwarded"


def test_documents_give_names_to_what_was_seen() -> None:
    document: Snapshot = replace(snapshot_made_at(T), commit_user="lakesweep-r1-1", uuid="u" * 300)
    read = SEEN.reading(document)
    assert (read.is_ours, read.time_ms, len(read.uuid)) == (True, T, 200)
    assert SEEN.reading(None) == SEEN
