"""A table that cannot be read completely is not summed up."""

from collections import Counter
from random import Random

import pytest

from lakesweep.errors import MaintenanceError, RefusedError
from lakesweep.operations.simulation.many import simulate
from lakesweep.operations.simulation.policies import Policy
from lakesweep.storage.store import DeleteRequest
from tests.support.faulty_store import Switch
from tests.support.sampling import is_sampled
from tests.support.simulated_tables import SimulatedWorld, random_table

PRESENT = Policy("present policy")
NEWEST = Policy("the newest", retain_max=1, retain_min=1)
_READ = ("snapshot/", "tag/", "changelog/", "consumer/", "schema/", "branch/", "manifest/")


def documents(world: SimulatedWorld) -> list[str]:
    """Return the documents that a simulation reads; some of them in a sampled run. A hint decides nothing."""
    found = sorted(key for key in world.keys("") if key.startswith(_READ) and not key.endswith(("EARLIEST", "LATEST")))
    return Random(len(found)).sample(found, min(len(found), 12)) if is_sampled() else found


@pytest.mark.parametrize("seed", range(12))
def test_damaged_documents(seed: int) -> None:
    """One sentence, never a sum: of each document that is damaged, and read."""
    world = random_table(seed)
    sound = world.simulate(PRESENT, NEWEST)
    for key in documents(world):
        copy = world.copy()
        copy.store.put(key, b"\0damaged")
        try:
            found = copy.simulate(PRESENT, NEWEST)
        except MaintenanceError as error:
            assert error.code in ("unreadable_root", "unreadable_consumer", "unreadable_schema", "bad_option"), key
            assert "\n" not in str(error) and len(str(error)) < 1000
        else:
            assert key.startswith(("schema/", "branch/")) or "index-manifest" in key, key  # nobody asks for it
            assert found.now.data_files == sound.now.data_files, key


@pytest.mark.parametrize("seed", range(12))
def test_missing_metadata(seed: int) -> None:
    """The same if a manifest, list or index manifest is gone that a root still needs."""
    world = random_table(seed)
    sound = world.simulate(PRESENT)
    refused = 0
    for key in documents(world):
        if not key.startswith("manifest/"):
            continue
        copy = world.copy()
        copy.store.delete([DeleteRequest(key)])
        try:
            found = copy.simulate(PRESENT)
        except MaintenanceError as error:
            assert error.code == "unreadable_root" and "does not exist" in str(error)
            refused += 1
        else:
            assert found.now.data_files <= sound.now.data_files
            assert found.now.metadata_files < sound.now.metadata_files, key
    assert refused or is_sampled()


@pytest.mark.parametrize("is_cut", [False, True])
def test_what_a_cache_still_has(is_cut: bool) -> None:
    """An expiry has remembered lists and manifests. What is lost in the store since does not look complete."""
    world = SimulatedWorld()
    for number in range(1, 6):
        world.table.commit(f"+F{number}")
    world.expire(3)
    maintainer = world.maintainer()
    simulate(maintainer.table, [PRESENT])
    for key in sorted(world.keys("manifest/")):
        copy = world.copy()
        body = copy.store.read(key).data
        copy.store.delete([DeleteRequest(key)])
        if is_cut:
            copy.store.put(key, body[:-1])
        with pytest.raises(RefusedError) as found:
            simulate(copy.maintainer().table, [PRESENT])
        assert found.value.code == "unreadable_root" and key in str(found.value)


def test_missing_index_and_statistics_files_are_said() -> None:
    """They are not counted."""
    world = SimulatedWorld()
    world.table.commit("+A", index={"i": {"A": (1,)}}, statistics="s")
    sound = world.simulate(PRESENT)
    assert not any("not there" in warning for warning in sound.warnings)
    gone = [key for key in world.keys("") if key.startswith(("index/", "statistics/"))]
    world.store.delete([DeleteRequest(key) for key in gone])
    found = world.simulate(PRESENT)
    assert found.now.metadata_files == sound.now.metadata_files - 2
    assert any(warning.startswith("2 index or statistics files are not there") for warning in found.warnings)


def test_a_failed_request_is_never_an_empty_sum() -> None:
    """Whichever request fails."""
    world = random_table(3)
    counting = Switch()
    simulate(world.maintainer(counting).table, [PRESENT, NEWEST])
    assert len(counting.calls) > 20
    for number in range(1, len(counting.calls) + 1):
        switch = Switch(number)
        with pytest.raises(MaintenanceError):
            simulate(world.maintainer(switch).table, [PRESENT, NEWEST])


def test_each_document_is_read_once() -> None:
    """However many policies ask, and roots name it."""
    world = random_table(5)
    switch = Switch()
    maintainer = world.maintainer(switch, control=world.new_control())
    simulate(
        maintainer.table, [PRESENT, *(Policy(str(number), retain_max=number, retain_min=1) for number in range(1, 9))]
    )
    reads = Counter(call for call in switch.calls if call.startswith("table read "))
    assert sum(reads.values()) > 50 and {call for call, count in reads.items() if count > 1} == set()


def test_nothing_is_written() -> None:
    """Neither in the table nor in the control location."""
    world = random_table(4)
    before, control = world.etags(), {each.key for each in world.control.list("")}
    world.simulate(PRESENT, NEWEST, days=30)
    assert world.etags() == before and {each.key for each in world.control.list("")} == control
