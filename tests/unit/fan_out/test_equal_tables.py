"""Tables in folders and on S3, written by real engines: the fan-out says what the local engine says."""

import dataclasses
from pathlib import Path

import pytest

from lakesweep.model.scans import OrphanArguments
from lakesweep.operations.orphans.local import plan_remove_orphan_files
from lakesweep.runs.execution import require_area
from lakesweep.storage.open import StoreSettings, open_store
from tests.support import compared_tables as tables
from tests.support.compared_tables import SETTINGS, Compare, long_ago, table_at
from tests.support.engines_compared import Answer, ask, differences
from tests.support.fan_out import fan_out_plan, small_limits
from tests.support.fixture_tables import TABLE_NAMES
from tests.support.memory_store import MemoryStore
from tests.support.walk import referenced_names


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch) -> Compare:
    small_limits(monkeypatch)

    def compared(
        location: str, arguments: OrphanArguments, settings: StoreSettings = SETTINGS, control: str | None = None
    ) -> Answer:
        """Plan with both; twice with the fan-out, the second time from the segments of the first."""
        arguments = dataclasses.replace(arguments, older_than_ms=long_ago())
        # In memory, since a folder makes sure of each document that it outlives a power cut.
        place = MemoryStore("memory://control") if control is None else open_store(control, settings=settings)
        table = table_at(location, place, settings)
        area = require_area(table)
        local = ask(lambda: plan_remove_orphan_files(table, arguments), area)
        for scan_id in ("first", "second"):
            found = ask(lambda: fan_out_plan(table, arguments, scan_id=scan_id), area)  # noqa: B023
            assert differences(local, found) == {}, (location, scan_id)
        if found.plan is not None:
            needed = referenced_names(table.store)
            assert not {path for path in found.paths if path.rpartition("/")[2] in needed}
        return found

    return compared


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_tables_of_real_engines(name: str, compare: Compare, fixtures_dir: Path, tmp_path: Path) -> None:
    tables.fixture_table(name, compare, fixtures_dir, tmp_path)


@pytest.mark.parametrize("seed", range(1000, 1004))
def test_random_tables_in_folders(seed: int, compare: Compare, tmp_path: Path) -> None:
    tables.random_table(seed, compare, tmp_path)


def test_names_that_are_hostile(compare: Compare, tmp_path: Path) -> None:
    tables.hostile_names(compare, tmp_path)


def test_one_name_in_many_folders_and_in_many_manifests(compare: Compare, tmp_path: Path) -> None:
    tables.one_name(200, compare, tmp_path)


def test_tables_on_s3(compare: Compare) -> None:
    tables.tables_on_s3(compare)


@pytest.mark.slow
def test_tables_that_pypaimon_wrote(compare: Compare, tmp_path: Path) -> None:
    tables.pypaimon_tables(compare, tmp_path)
