"""Documents of scans by functions that are damaged, forged or others: the scan ends with an error of ours, or with a
plan whose execution deletes no file that a root needs."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from lakesweep.errors import MaintenanceError
from lakesweep.model.scans import OrphanArguments
from lakesweep.runs.execution import require_area
from tests.attack.control_documents import changes, lies
from tests.support.fan_out import FanOut, small_limits
from tests.support.orphan_scene import OrphanScene

SAMPLE = 20
"""A lie takes a whole scan."""
DELIVERIES = 25
"""So many messages a scan of this table has, about."""


class _Scene:
    """A scan of a small table whose documents change before a delivery."""

    def __init__(self) -> None:
        self.scene = OrphanScene()
        for number in range(8):
            self.scene.table.commit(f"+A{number}", *([f"-A{number - 1}"] if number % 2 else []))
        self.scene.table.tag("t", snapshot=3)
        self.needed = {entry.key for entry in self.scene.store.list("")}
        self.scene.orphan("b")
        self.scene.age()
        self.table = replace(self.scene.maintainer().table, sleep=lambda _: None)
        self.control = require_area(self.table).store

    def scan(self, before: Any = lambda number: None) -> FanOut:
        deliveries = iter(range(10**6))

        def jump(by_ms: int) -> None:
            self.scene.now_ms += by_ms

        return FanOut(self.table, OrphanArguments(), Random(0), jump=jump, before=lambda body: before(next(deliveries)))

    def documents(self) -> dict[str, bytes]:
        return {each.key: self.control.read(each.key).data for each in self.control.list("")}


def _lies(key: str, data: bytes, documents: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    yield from lies(key, data, documents)
    if key.endswith(".json.gz"):
        for where, changed in changes(json.loads(gzip.decompress(data))):
            yield where, gzip.compress(json.dumps(changed).encode())


def _meets(seed: int) -> None:
    """Let one document be another one before some delivery of a scan."""
    scene, random = _Scene(), Random(seed)
    number, where = random.randrange(DELIVERIES), ("nothing", "", "")

    def disturb(at: int) -> None:
        nonlocal where
        documents = scene.documents()
        if at == number and documents:
            key = random.choice(sorted(documents))
            lie = random.choice(list(_lies(key, documents[key], documents)))
            scene.control.put(key, lie[1])
            where = (str(at), key, lie[0])

    scan = scene.scan(disturb)
    try:
        while scan.ended is None and scan.error is None and scan.deliveries < 400 and scan.step():
            pass
    except MaintenanceError as error:
        assert str(error), where
    except Exception as error:
        raise AssertionError(f"{where}: {error!r}") from error
    if scan.ended is None or scan.ended.plan is None:
        return
    header = scan.ended.plan.header
    try:
        scene.scene.maintainer().execute(header.plan_id, confirm=header.plan_id)
    except MaintenanceError as error:
        assert str(error), where
    there = {entry.key for entry in scene.scene.store.list("")}
    assert scene.needed <= there, (where, scene.needed - there)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    small_limits(monkeypatch)


@pytest.mark.parametrize("seed", range(SAMPLE))
def test_a_document_of_a_scan_that_lies(seed: int) -> None:
    _meets(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(SAMPLE, 12 * SAMPLE))
def test_many_documents_of_a_scan_that_lie(seed: int) -> None:
    _meets(seed)


@pytest.mark.parametrize("name", ["decode", "places"])
def test_a_scan_that_does_not_know_its_own_tasks_is_refused(name: str) -> None:
    scene = _Scene()

    def disturb(at: int) -> None:
        for key, data in scene.documents().items():
            if key.endswith("/scan.json.gz"):
                changed = {**json.loads(gzip.decompress(data)), name: {}}
                scene.control.put(key, gzip.compress(json.dumps(changed).encode()))

    scan = scene.scan(disturb)
    while scan.ended is None and scan.error is None and scan.deliveries < 400 and scan.step():
        pass
    assert scan.ended is None or scan.ended.plan is None
