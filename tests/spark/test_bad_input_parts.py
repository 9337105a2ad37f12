"""Parts and documents of a scan that are damaged, cut off, missing or somebody else's. No Spark takes part."""

import uuid
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from lakesweep.control.area import ControlArea, area_of
from lakesweep.errors import FormatError, UsageError
from lakesweep.spark.live import LIVE_SCHEMA
from lakesweep.spark.parts import Columns, Part, read_part
from lakesweep.spark.shuffle import LIVE, _chunks
from lakesweep.spark.tasks import SCANS, Access
from lakesweep.storage.local.store import LocalStore
from tests.support.memory_store import MemoryStore


@pytest.fixture
def area() -> ControlArea:
    return ControlArea(MemoryStore("memory://control"), "memory://b/t")


def live_part(area: ControlArea, count: int = 50) -> Part:
    random = Random(count)
    columns = Columns(area, "scans/s/", "live", LIVE_SCHEMA)
    for number in range(count):
        columns.add(f"data-{uuid.UUID(int=random.getrandbits(128))}-0.parquet".encode(), number, number, 1)
    (part,) = columns.rest()
    return part


def test_no_byte_of_a_part_can_change_unnoticed(area: ControlArea) -> None:
    """A name that is lost from a live part would make its file look like an orphan."""
    part = live_part(area)
    body = area.read(part.name).data
    for place in range(len(body)):
        area.put(part.name, bytes([*body[:place], body[place] ^ 0x10, *body[place + 1 :]]))
        with pytest.raises(FormatError, match=part.name):
            read_part(area, part)
    area.put(part.name, body)
    assert read_part(area, part).num_rows == 50


@pytest.mark.parametrize("size", [0, 4, -1])
def test_a_part_that_is_cut_off(area: ControlArea, size: int) -> None:
    part = live_part(area)
    area.put(part.name, area.read(part.name).data[:size])
    with pytest.raises(FormatError, match=r"expected the part of the scan that was written.*begin another scan"):
        read_part(area, part)


def test_another_part_of_as_many_rows(area: ControlArea) -> None:
    part, other = live_part(area), live_part(area, 51)
    area.put(part.name, area.read(other.name).data)
    with pytest.raises(FormatError, match="damaged or other bytes"):
        read_part(area, part)


def test_an_executor_of_another_version_sorts_no_rows(tmp_path: Path) -> None:
    """Executors may come and go between stages. If one hashed names in another way, live names would meet no file."""
    control = LocalStore(str(tmp_path / "control"))
    table = str(tmp_path / "t")
    part = live_part(area_of(control, LocalStore(table), SCANS))
    access = Access(table, control.location)
    assert list(_chunks(access, 2, by_owner=False, groups=[[(LIVE, part)]]))
    with pytest.raises(UsageError, match=r"an executor has lakesweep .*; expected 0\.0\.1"):
        list(_chunks(replace(access, version="0.0.1"), 2, by_owner=False, groups=[[(LIVE, part)]]))
