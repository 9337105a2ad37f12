"""Missing rights and full disks: a refusal is never read as an empty set, and never becomes success.

S3 answers each kind of request with AccessDenied in turn, of the table or of the control location, at once or after
some; a control location on a disk takes no more.
"""

import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse

from lakesweep.errors import MaintenanceError
from lakesweep.model.report import RunReport
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.s3.store import S3Store
from tests.attack.metadata import THOROUGH
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.reader import all_roots, read_all, read_root
from tests.support.s3_server import fresh_bucket, moto_client, moto_store, seed_moto
from tests.support.table_builder import TableBuilder
from tests.unit.cli.command_line import write_table

KINDS = ("GetObject", "HeadObject", "ListObjectsV2", "PutObject", "DeleteObject", "DeleteObjects")
PLACES = ("table/", "control/")
OPERATIONS: dict[str, tuple[str, dict[str, object]]] = {
    "expire-snapshots": ("expire-snapshots", {"retain_max": 1, "retain_min": 1}),
    "maintain": ("maintain", {"options": {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}}),
    "remove-orphan-files": ("remove-orphan-files", {"older_than": "10000000000000", "no_writers": "none"}),
    "rollback": ("rollback", {"snapshot": 4}),
    "delete-tag": ("delete-tag", {"tag": "old"}),
    "create-tag": ("create-tag", {"tag": "new", "snapshot": 4}),
    "create-branch": ("create-branch", {"branch": "new", "tag": "old"}),
    "delete-branch": ("delete-branch", {"branch": "side"}),
    "fast-forward": ("fast-forward", {"branch": "side"}),
    "clear-consumers": ("clear-consumers", {"including_consumers": ".*"}),
}


class _Body:
    def stream(self, **_: Any) -> Iterator[bytes]:
        yield b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>"


@cache
def _objects() -> dict[str, bytes]:
    """Return a table with a tag, a branch, a consumer and an orphan."""
    store = MemoryStore("memory://b/t")
    table = TableBuilder(store)
    for number in range(1, 6):
        table.commit(f"+F{number}", *((f"-F{number - 1}",) if number > 1 else ()))
    table.tag("old", snapshot=1)
    table.branch("side", from_tag="old")
    table.consumer("reader", 5)
    table.hint("LATEST", 5)
    store.put("bucket-0/data-11111111-2222-3333-4444-555555555555-0.parquet", b"x")
    return {key: found[0] for key, found in store._objects.items()}


@dataclass
class Denying:
    """A client of moto that is refused some requests, and a table."""

    kind: str = ""
    place: str = ""
    after: int = 0
    """So many requests of this kind to this place are answered before."""
    denied: int = 0
    seen: int = 0
    bucket: str = field(default_factory=fresh_bucket)

    def __post_init__(self) -> None:
        self.client = moto_client()
        self.client.meta.events.register("before-send.s3", self._send)
        for key, data in _objects().items():
            seed_moto(self.bucket, [f"table/{key}"], data)

    def _send(self, request: Any, **words: Any) -> AWSResponse | None:
        kind = words["event_name"].rpartition(".")[2]
        if kind != self.kind or self.place.encode() not in request.url.encode() + _body_of(request):
            return None
        self.seen += 1
        if self.seen <= self.after:
            return None
        self.denied += 1
        return AWSResponse(request.url, 403, {"Content-Type": "application/xml"}, _Body())

    def maintainer(self) -> Maintainer:
        store = S3Store(self.bucket, "table", self.client)
        return Maintainer(store, control=S3Store(self.bucket, "control", self.client))

    def keys(self) -> set[str]:
        return {entry.key for entry in moto_store("table", bucket=self.bucket).list("")}


def _body_of(request: Any) -> bytes:
    return request.body if isinstance(request.body, bytes) else b""


def _run(maintainer: Maintainer, operation: str) -> tuple[str, RunReport | None]:
    name, arguments = OPERATIONS[operation]
    try:
        report = maintainer.run(name, **arguments)
    except MaintenanceError as error:
        assert error.exit_code != 0
        return error.code, None
    refusals = [step.refusal.code for step in (report, *(report.steps or ())) if step.refusal is not None]
    return (refusals[0] if refusals else report.status), report


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", PLACES)
def test_every_kind_of_request_is_refused(place: str, kind: str) -> None:
    operations = tuple(OPERATIONS) if THOROUGH else random.Random(kind + place).sample(tuple(OPERATIONS), 1)
    for operation in operations:
        for after in (0, 1, 2, 4, 8) if THOROUGH else (0, 2):
            scene = Denying()
            before = scene.keys()
            scene.kind, scene.place, scene.after = kind, place, after
            code, report = _run(scene.maintainer(), operation)
            what = f"{operation}, {kind} of {place} denied after {after}: {code} {report}"
            store = moto_store("table", bucket=scene.bucket)
            if scene.denied:
                complete = code in ("done", "nothing_to_do")
                failed = report is not None and report.outcome is not None and report.outcome.failed
                warned = report is not None and list(report.all_warnings())
                assert not complete or failed or warned, what
            if scene.denied and not after and kind in ("GetObject", "ListObjectsV2"):
                assert before == scene.keys() or code == "done", what
            for root in all_roots(store):
                if not root.startswith("branch/") or operation not in ("delete-branch", "create-branch"):
                    read_root(store, root)
            scene.kind = ""
            again, report = _run(scene.maintainer(), operation)
            assert again != "internal", what


_CLI = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
from lakesweep.cli.main import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize("size", [0, 40, 200, 600, 1500, 4000] if THOROUGH else [0, 200, 1500])
def test_a_control_location_on_a_full_disk(tmp_path: Path, size: int) -> None:
    """Whatever cannot be written down does not happen, and the next run goes on."""
    write_table(tmp_path / "t")
    store = LocalStore(str(tmp_path / "t"))
    line = ["expire-snapshots", str(tmp_path / "t"), "--retain-max", "1", "--retain-min", "1", "--execute"]
    line += ["--control", str(tmp_path / "control"), "--json"]
    done = subprocess.run(
        [sys.executable, "-c", _CLI, str(size), *line], capture_output=True, text=True, timeout=60, check=False
    )
    assert "Traceback" not in done.stderr and "this is a bug" not in done.stderr, done.stderr
    gone = 6 - len([entry for entry in store.list("snapshot/") if "snapshot-" in entry.key])
    assert done.returncode in ((0,) if gone == 5 else (1, 3, 4)), (done.returncode, gone, done.stderr, done.stdout)
    assert read_all(store)
    again = subprocess.run(
        [sys.executable, "-m", "lakesweep", *line], capture_output=True, text=True, timeout=60, check=False
    )
    assert again.returncode in (0, 5), again.stderr
    assert read_all(store)
