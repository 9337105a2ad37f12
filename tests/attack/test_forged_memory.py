"""What earlier runs remembered, written anew by somebody who may write the control location and nothing else.

With a plan key such a memory is not believed. Without one it is, as docs/safety.md says, unless it is switched off.
"""

import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

import botocore.session
import fastavro
import pytest

from lakesweep.aws.plan_key import kms_keys
from lakesweep.control.area import ControlArea
from lakesweep.control.cache import read_cache, write_cache
from lakesweep.control.plans import load_plan, store_part
from lakesweep.control.quarantine import Quarantine, believed_quarantine, read_quarantine, write_quarantine
from lakesweep.control.seal import Sealer, SecretKeys
from lakesweep.control.sealed import believed, put_sealed
from lakesweep.errors import StorageError
from lakesweep.model.identity import table_identity
from lakesweep.model.plan import Plan, joined_hash
from lakesweep.model.report import RunReport
from lakesweep.operations.registry import run_operation
from lakesweep.runs.run import plan_and_execute
from lakesweep.runs.session import Table
from lakesweep.storage.store import Body
from lakesweep.storage.wrappers.remembering import IMMUTABLE_FOLDER, Remembered
from lakesweep.table.discover import discover
from tests.support.maintenance import Maintainer, assert_roots_readable
from tests.support.memory_store import MemoryStore
from tests.support.mocked_aws import mocked_aws
from tests.support.orphan_scene import OrphanScene
from tests.support.table_builder import TableBuilder
from tests.support.waves import planned, planted

KEYS = SecretKeys((b"k" * 32,))
RETAIN = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1", "snapshot.time-retained": "1 ms"}


@dataclass
class Scene:
    """A table, an operation on it, and two files: one that it takes, and one that a root needs."""

    table: TableBuilder
    maintainer: Maintainer
    operation: str
    arguments: Mapping[str, object]
    dead: str
    live: str

    def run(self, sealer: Sealer | None, *, execute: bool = True, remembers: bool = True) -> RunReport:
        table = self.maintainer.table
        assert table.area is not None
        area = replace(table.area, sealer=sealer, remembers=remembers)
        return run_operation(replace(table, area=area), self.operation, dict(self.arguments), execute=execute)

    @property
    def area(self) -> ControlArea:
        found = self.maintainer.table.area
        assert found is not None
        return found

    def forge(self) -> None:
        """Have all that is remembered of manifests say each of the two files for the other."""
        known = read_cache(self.area)
        forged = {
            name: replace(each, body=Body(self._swapped(name, each), each.body.etag)) for name, each in known.items()
        }
        assert forged != known
        write_cache(self.area, forged, identity=table_identity(discover(self.table.store)))

    def _swapped(self, key: str, known: Remembered) -> bytes:
        if not key.startswith(f"{IMMUTABLE_FOLDER}manifest-") or key.startswith(f"{IMMUTABLE_FOLDER}manifest-list-"):
            return known.body.data
        dead, live = (PurePosixPath(path).name for path in (self.dead, self.live))
        names = {dead: live, live: dead}

        def swap(record: dict[str, Any]) -> dict[str, Any]:
            file = record["_FILE"]
            return {**record, "_FILE": {**file, "_FILE_NAME": names.get(file["_FILE_NAME"], file["_FILE_NAME"])}}

        return rewritten(known.body.data, swap)


def rewritten(data: bytes, change: Callable[[dict[str, Any]], dict[str, Any]]) -> bytes:
    """Return an Avro file with other records and of the same size."""
    reader = fastavro.reader(io.BytesIO(data))
    old = list(reader)
    new = [change(record) for record in old]  # type: ignore[arg-type]
    if new == old:
        return data
    for level in (3, 9, 15, 19, 22):
        for metadata in ({}, *({"pad": "x" * count} for count in range(300))):
            out = io.BytesIO()
            fastavro.writer(
                out,
                reader.writer_schema,  # type: ignore[arg-type]
                new,
                codec="zstandard",
                codec_compression_level=level,
                sync_marker=b"lakesweep-tests!",
                metadata=metadata,
            )
            if len(out.getvalue()) == len(data):
                return out.getvalue()
            if len(out.getvalue()) > len(data):
                break
    raise AssertionError("expected a file of the same size")


def expiry(operation: str, **arguments: object) -> Scene:
    table = TableBuilder(MemoryStore("memory://bucket/t"), options=RETAIN)
    for changes in (["+A"], ["+B"], ["-B", "+C"], ["+D"], ["+E"]):
        table.commit(*changes)
    return Scene(table, Maintainer(table.store), operation, arguments, table.path("B"), table.path("D"))


def tag_removal() -> Scene:
    table = TableBuilder(MemoryStore("memory://bucket/t"), options=RETAIN)
    table.commit("+A")
    table.tag("a", snapshot=1)
    table.commit("-A", "+B")
    table.tag("b", snapshot=2)
    table.commit("-B", "+C")
    maintainer = Maintainer(table.store)
    assert maintainer.expire().status == "done"
    return Scene(table, maintainer, "delete-tag", {"tag": "a"}, table.path("A"), table.path("B"))


def changelog_expiry() -> Scene:
    keep = {"changelog-producer": "input", "changelog.num-retained.max": "9", "changelog.time-retained": "100000 d"}
    table = TableBuilder(MemoryStore("memory://bucket/t"), primary_keys=("k",), options=RETAIN | keep)
    for number in range(1, 5):
        table.commit(f"+F{number}", changelog=[f"+L{number}"])
    maintainer = Maintainer(table.store)
    assert maintainer.expire().status == "done"
    arguments = {"retain_max": 2, "retain_min": 1}
    return Scene(table, maintainer, "expire-changelogs", arguments, table.path("L1"), table.path("L3"))


SCENES: dict[str, Callable[[], Scene]] = {
    "expire-snapshots": lambda: expiry("expire-snapshots", retain_max=1, retain_min=1),
    "maintain": lambda: expiry("maintain"),
    "delete-tag": tag_removal,
    "expire-changelogs": changelog_expiry,
}


@pytest.fixture
def kms() -> Iterator[Sealer]:
    with mocked_aws(), pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "test")
        client = botocore.session.get_session().create_client("kms", region_name="us-east-1")
        key = client.create_key(KeyUsage="GENERATE_VERIFY_MAC", KeySpec="HMAC_256")
        yield kms_keys(str(key["KeyMetadata"]["Arn"]), "PlanKey")


@pytest.mark.parametrize("name", SCENES)
def test_with_a_key_a_forged_memory_deletes_no_live_file(name: str) -> None:
    scene = SCENES[name]()
    scene.run(KEYS, execute=False)
    scene.forge()
    assert scene.run(KEYS).status == "done"
    assert scene.table.exists(scene.live)
    assert not scene.table.exists(scene.dead)
    assert_roots_readable(scene.table)


def test_a_key_of_kms_protects_the_pass_after_a_commit(kms: Sealer) -> None:
    scene = SCENES["maintain"]()
    scene.run(kms, execute=False)
    scene.forge()
    assert scene.run(kms).status == "done"
    assert_roots_readable(scene.table)


@pytest.mark.parametrize("name", SCENES)
def test_without_a_key_a_forged_memory_is_believed_unless_it_is_switched_off(name: str) -> None:
    """docs/safety.md says so: whoever may write the control location must be trusted, or there must be a key."""
    for remembers in (True, False):
        scene = SCENES[name]()
        scene.run(None, execute=False)
        scene.forge()
        scene.run(None, remembers=remembers)
        assert scene.table.exists(scene.live) is not remembers
    assert_roots_readable(scene.table)


def test_a_memory_that_is_switched_off_is_not_written() -> None:
    scene = SCENES["maintain"]()
    scene.run(None, execute=False, remembers=False)
    assert not read_cache(scene.area)


def test_a_sealed_memory_is_believed_and_survives_a_change_of_keys() -> None:
    scene = SCENES["maintain"]()
    scene.run(KEYS, execute=False)
    sealed = replace(scene.area, sealer=KEYS)
    known = read_cache(sealed)
    assert known
    assert read_cache(replace(sealed, sealer=SecretKeys((b"n" * 32, b"k" * 32)))) == known
    assert read_cache(replace(sealed, sealer=None)) == known
    assert read_cache(replace(sealed, sealer=SecretKeys((b"o" * 32,)))) == {}


def test_a_seal_holds_for_one_table_one_place_and_these_bytes() -> None:
    area = ControlArea(MemoryStore("memory://control"), "memory://bucket/t", sealer=KEYS)
    put_sealed(area, "x", b"text")
    data = area.read("x").data
    assert believed(area, "x", data) == b"text"
    assert believed(area, "y", data) is None
    assert believed(replace(area, table="memory://bucket/u"), "x", data) is None
    assert believed(replace(area, root="scans"), "x", data) is None
    assert believed(area, "x", data + b"!") is None
    assert believed(area, "x", b"LSSEAL1 ") is None
    assert believed(area, "x", b"text") is None


def test_a_memory_counts_as_none_while_kms_does_not_answer() -> None:
    class Silent:
        def seal(self, digest: bytes) -> str:
            raise StorageError("no answer")

        def accepts(self, digest: bytes, seal: str) -> bool:
            raise StorageError("no answer")

    scene = SCENES["maintain"]()
    scene.run(KEYS, execute=False)
    assert read_cache(replace(scene.area, sealer=Silent())) == {}


def test_a_quarantine_without_a_right_seal_has_seen_nothing() -> None:
    area = ControlArea(MemoryStore("memory://control"), "memory://bucket/t")
    sealing = replace(area, sealer=KEYS)
    write_quarantine(area, Quarantine({}), [("f", "e", 1)], 5)
    assert read_quarantine(area).is_known("f", "e", 1, 5)
    assert not read_quarantine(sealing).first_seen_ms
    assert believed_quarantine(area) is None
    assert believed_quarantine(sealing) == ""
    assert not read_quarantine(area, "").first_seen_ms
    write_quarantine(sealing, Quarantine({}), [("f", "e", 1)], 5)
    assert read_quarantine(sealing).is_known("f", "e", 1, 5)
    digest = believed_quarantine(sealing)
    assert read_quarantine(area, digest).is_known("f", "e", 1, 5), "executors of Spark have no key"
    write_quarantine(area, Quarantine({}), [("f", "e", 1)], 1)
    assert not read_quarantine(area, digest).first_seen_ms


def test_a_plan_of_tasks_elsewhere_asks_present_roots_in_the_call_that_made_it() -> None:
    """What tasks hand on lies in the control location, so their plan names what somebody wrote there."""
    scene = OrphanScene()
    planted(scene, 3)
    scene.age()
    header = planned(scene)
    table = scene.maintainer().table
    assert table.area is not None
    whole = load_plan(table.area, header.plan_id)
    live = scene.table.path("A")
    before = scene.listed()

    def from_forged_tasks(target: Table) -> Plan:
        area, plan_id = target.area, f"{header.plan_id}-forged"
        assert area is not None
        part = store_part(area, plan_id, "0", [replace(whole.deletes[0], path=live, etag=None)])
        made = replace(header, plan_id=plan_id, parts=(part,), action_count=1, by_kind={"data": 1})
        return Plan(replace(made, content_hash=joined_hash([part.hash], made.steering)))

    report = plan_and_execute(table, "remove-orphan-files", from_forged_tasks)
    assert (report.status, report.refusal and report.refusal.code) == ("stale", "names_live_files")
    assert scene.listed() == before
