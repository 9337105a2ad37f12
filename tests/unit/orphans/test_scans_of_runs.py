"""What happens between a scan and the last deletion, and S3."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from botocore.client import BaseClient

from lakesweep.errors import StorageError
from lakesweep.table.reach import capture as module
from tests.support.orphan_scene import DAY_MS, FOLDER, HOUR_MS, OrphanScene, S3Scene, unique
from tests.support.reader import assert_all_readable
from tests.support.s3_server import seed_moto

NAME = "remove-orphan-files"


@pytest.mark.parametrize("scene_type", [OrphanScene, S3Scene])
def test_a_sidecar_that_is_written_again(scene_type: type[OrphanScene]) -> None:
    """Its name is the same, its bytes are others: it is not what was listed."""
    scene = scene_type()
    scene.table.commit("+A")
    sidecar, other = scene.orphan("d", "-0.parquet.index"), scene.orphan("b")
    scene.age()
    plan = scene.maintainer().run(NAME, execute=False, no_history="its commit has yet to come").plan
    assert plan is not None
    assert {delete.path for delete in plan.deletes} == {sidecar, other}
    scene.put(sidecar, b"rewritten")
    report = scene.maintainer().execute(plan.header.plan_id)
    assert report.status == "done"
    assert report.outcome is not None
    assert (report.outcome.deleted, report.outcome.kept_by_recheck) == (1, 1)
    assert scene.store.read(sidecar).data == b"rewritten"
    assert other not in scene.listed()
    assert_all_readable(scene.table)


def test_a_sidecar_that_is_committed_with_its_file() -> None:
    """The commit of a file that looked dead comes before the deletion: neither it nor its sidecar goes."""
    scene = OrphanScene()
    scene.table.commit("+A")
    scene.table.commit("+d", extra={"d": ["index"]})
    data = scene.table.path("d")
    bodies = {key: scene.store.read(key).data for key in ("snapshot/snapshot-2", data, f"{data}.index")}
    scene.drop("snapshot/snapshot-2")
    scene.age()
    plan = scene.maintainer().run(NAME, execute=False, no_history="its commit has yet to come").plan
    assert plan is not None
    assert {data, f"{data}.index"} < {delete.path for delete in plan.deletes}
    for key, body in bodies.items():
        scene.put(key, body)
    report = scene.maintainer().execute(plan.header.plan_id)
    assert report.status == "done"
    assert_all_readable(scene.table)


def test_letters_that_are_escaped_in_a_path() -> None:
    """The folder's percent signs are letters of the key; a listing escapes them once more, and that is undone once."""
    scene = S3Scene()
    scene.table.commit("+A", partition=("a:b/c%",))
    folder = "dt=a%3Ab%2Fc%25/bucket-0/"
    assert scene.table.path("A").startswith(folder)
    orphan = scene.orphan("b", folder=folder)
    other = scene.orphan("c", folder="dt=a%253Ab%252Fc%2525/bucket-0/")
    blank = scene.orphan("d", folder="dt=a b+ü/bucket-0/")
    scene.age()
    assert scene.remove() == {orphan, other, blank}


def test_a_table_whose_name_begins_alike() -> None:
    """A prefix without its closing slash would list them all."""
    first = S3Scene(prefix="db.db/t")
    others = [S3Scene(prefix=prefix, bucket=first.bucket) for prefix in ("db.db/t2", "db.db/t-", "db.db/t.b/x")]
    orphans = []
    for scene in (first, *others):
        scene.table.commit("+A")
        orphans.append(scene.orphan(scene.store.location))
    first.age()
    assert first.remove() == {orphans[0]}
    assert first.findings["listed"]["objects"] == len(first.listed()) + 1
    for scene, orphan in zip(others, orphans[1:], strict=True):
        assert orphan in scene.listed()
        assert_all_readable(scene.table)
        assert scene.remove() == {orphan}


def rolled_back() -> tuple[OrphanScene, set[str]]:
    """Ten snapshots, of which a rollback takes five; return the data files that it leaves behind."""
    scene = OrphanScene()
    for number in range(1, 11):
        scene.table.commit(f"+F{number}")
    scene.table.rollback(5)
    return scene, {scene.table.path(f"F{number}") for number in range(6, 11)}


def test_what_a_rollback_leaves_goes_when_it_is_old() -> None:
    scene, left = rolled_back()
    scene.age(24 * HOUR_MS)
    assert scene.remove() == set()
    assert scene.kept["too_young"] >= len(left)
    scene.age(1)
    assert left <= scene.remove()
    assert scene.table.present() == {f"F{number}" for number in range(1, 6)}


def test_what_a_rollback_leaves_waits_in_quarantine() -> None:
    """A committer that began before the rollback may still name those files; a day later it does not."""
    scene, left = rolled_back()
    scene.age(2 * DAY_MS)
    assert scene.remove(quarantine="1 d") == set()
    assert scene.kept["quarantine"] >= len(left)
    scene.age(DAY_MS - 1)
    assert scene.remove(quarantine="1 d") == set(), "a day less one millisecond"
    scene.age(1)
    assert left <= scene.remove(quarantine="1 d")


def test_what_is_written_again_waits_again() -> None:
    """The same name with another time or other bytes was not seen before."""
    scene = OrphanScene()
    scene.table.commit("+A")
    orphan, again = scene.orphan("b"), scene.orphan("e", "-0.parquet.index")
    scene.age()
    assert scene.remove(quarantine="1 d") == set()
    scene.put(again, b"written again")
    scene.age(2 * DAY_MS)
    assert scene.remove(quarantine="1 d") == {orphan}
    scene.age(2 * DAY_MS)
    assert scene.remove(quarantine="1 d") == {again}


@pytest.mark.parametrize("damage", [b"", b"\x1f\x8b", b"not ours", b'{"key": 1}'])
def test_a_memory_that_is_damaged_knows_nothing(damage: bytes) -> None:
    scene = OrphanScene()
    scene.table.commit("+A")
    orphan = scene.orphan("b")
    scene.age()
    assert scene.remove(quarantine="1 d") == set()
    (name,) = [entry.key for entry in scene.control.list("") if "orphans" in entry.key]
    scene.control.put(name, damage)
    scene.age(2 * DAY_MS)
    assert scene.remove(quarantine="1 d") == set(), "nobody knows that it was seen"
    scene.age(2 * DAY_MS)
    assert scene.remove(quarantine="1 d") == {orphan}


@contextmanager
def answering(errors: list[dict[str, str]]) -> Iterator[list[int]]:
    """Let S3 answer for the keys that end with some letters as it is told; yield the sizes of the requests.

    Args:
        errors: `end` of a key and `code`; `once` forgets the error after its first time.
    """
    call = BaseClient._make_api_call  # type: ignore[attr-defined]
    sizes: list[int] = []

    def asked(client: Any, operation: str, words: dict[str, Any]) -> Any:
        if operation != "DeleteObjects":
            return call(client, operation, words)
        objects = words["Delete"]["Objects"]
        sizes.append(len(objects))
        failed = {}
        for error in list(errors):
            for entry in objects:
                if entry["Key"].endswith(error["end"]):
                    failed[entry["Key"]] = {"Key": entry["Key"], "Code": error["code"], "Message": "no"}
                    if "once" in error:
                        errors.remove(error)
        words = {**words, "Delete": {**words["Delete"], "Objects": [e for e in objects if e["Key"] not in failed]}}
        answer = call(client, operation, words) if words["Delete"]["Objects"] else {}
        return {**answer, "Errors": [*answer.get("Errors", ()), *failed.values()]}

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(BaseClient, "_make_api_call", asked)
        yield sizes


def test_some_of_a_thousand_keys_fail() -> None:
    """Three are denied and stay, one is asked for again and goes; a later run takes the three."""
    scene = S3Scene()
    scene.table.commit("+A")
    names = [f"{FOLDER}data-{unique(str(number))}-0.parquet" for number in range(1000)]
    seed_moto(scene.bucket, [f"db.db/t/{name}" for name in names])
    scene.age()
    errors = [{"end": name, "code": "AccessDenied"} for name in names[:3]]
    errors.append({"end": names[9], "code": "SlowDown", "once": ""})
    with answering(errors) as sizes:
        gone = scene.remove()
    assert gone == set(names[3:])
    assert sizes == [1000, 1]
    assert scene.report is not None
    assert scene.report.status == "partial"
    assert scene.report.outcome is not None
    assert scene.report.outcome.deleted == 997
    assert {failed.path: failed.code for failed in scene.report.outcome.failed} == dict.fromkeys(
        names[:3], "access_denied"
    )
    assert scene.remove() == set(names[:3])
    assert scene.report.status == "done"


class Interrupted:
    """A store that fails from its second deletion on."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._calls = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def delete(self, requests: Any) -> Any:
        self._calls += 1
        if self._calls > 1:
            raise StorageError("delete: it broke off", code="slow_down")
        return self._inner.delete(requests)


def test_a_rollback_ends_a_plan_that_another_run_finishes() -> None:
    """It has no documents to complete, so nothing is gained by going on with what is old by then."""
    scene = OrphanScene()
    for number in range(4):
        scene.table.commit(f"+A{number}")
    orphans = {scene.put(f"manifest/manifest-{unique(str(number))}-0") for number in range(1500)}
    scene.age()
    first = scene.maintainer(Interrupted(scene.store)).run(NAME)
    assert (first.status, len(orphans & scene.listed())) == ("partial", 500)
    scene.table.rollback(2)
    scene.age(HOUR_MS)
    second = scene.maintainer().run(NAME, execute=True, quarantine="1 d")
    assert len(orphans & scene.listed()) == 500
    assert second.status == "stale"
    assert second.outcome is not None
    assert second.outcome.deleted == 0
    scene.age(2 * DAY_MS)
    assert orphans & scene.listed() <= scene.remove(quarantine="1 d")


@contextmanager
def noted() -> Iterator[list[tuple[str, str]]]:
    """Yield the requests of S3 as they are sent: the operation, and the key or prefix. Asking for the time is none."""
    call = BaseClient._make_api_call  # type: ignore[attr-defined]
    sent: list[tuple[str, str]] = []

    def asked(client: Any, operation: str, words: dict[str, Any]) -> Any:
        if "MaxKeys" not in words:
            sent.append((operation, words.get("Key", words.get("Prefix", ""))))
        return call(client, operation, words)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(BaseClient, "_make_api_call", asked)
        yield sent


WHOLE = ("ListObjectsV2", "db.db/t/")
"""A page of everything. Two of them list the roots of a small table."""


@pytest.mark.parametrize("is_small", [True, False])
def test_the_table_is_listed_while_its_roots_are_read(is_small: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before they are listed, which tells that it is a table and has roots."""
    if not is_small:
        monkeypatch.setattr(module, "SMALL_OBJECTS", 0)
    scene = S3Scene()
    scene.table.commit("+A")
    orphan = scene.orphan("b")
    scene.age()
    with noted() as sent:
        plan = scene.maintainer().run(NAME, execute=False).plan
    assert plan is not None
    assert [delete.path for delete in plan.deletes] == [orphan]
    pages = [number for number, request in enumerate(sent) if request == WHOLE]
    assert len(pages) == (7 if is_small else 2)
    if is_small:
        return  # the third page is the scan's
    folders = [sent.index(("ListObjectsV2", f"db.db/t/{name}/")) for name in ("branch", "tag")]
    assert folders[1] < pages[1] < sent.index(("ListObjectsV2", "db.db/t/branch/"), folders[1])


def test_what_is_no_table_is_not_listed() -> None:
    """Two pages show that nothing there is a root."""
    scene = S3Scene()
    scene.put("data/x")
    with noted() as sent:
        assert scene.maintainer().run(NAME).status == "refused"
    assert sent == [WHOLE, WHOLE]


def test_a_table_without_roots_is_not_listed() -> None:
    scene = S3Scene()
    scene.table.commit("+A")
    scene.drop("snapshot/snapshot-1")
    with noted() as sent:
        assert scene.maintainer().run(NAME).status == "refused"
    assert sent.count(WHOLE) == 2
    assert sent[:2] == [WHOLE, WHOLE]
