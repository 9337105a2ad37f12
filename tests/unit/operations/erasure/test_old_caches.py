"""Old versions of the metadata cache, which has manifests with values of rows, in a bucket that keeps versions."""

from collections.abc import Callable

from lakesweep.errors import StorageError
from lakesweep.storage.store import delete_all
from tests.support.faulty_store import Switch
from tests.support.memory_store import MemoryStore
from tests.unit.operations.erasure.erasing import Erasing, erasure_of, found

OLD = "old versions of the metadata cache"


class Denied(Switch):
    """Refuses to list versions of the control location."""

    def _run(self, name: str, call: Callable[[], object]) -> object:
        if name == "control list versions":
            raise StorageError(name)
        return super()._run(name, call)


class Cached(Erasing):
    """Passes write the cache."""

    def cache(self) -> None:
        """Write the cache, and delete it: a version stays."""
        self.area.put("cache.bin", b"values")
        self.control.delete(delete_all([self.area.prefix + "cache.bin"]))

    def unclean(self, erasure: str) -> list[tuple[str, int]]:
        """Finish, and return the places of the control location that are not gone."""
        places = found(self.finish(erasure)).places
        return [(each.words, each.count) for each in places if each.kind == "control" and each.state != "gone"]


def test_old_versions_of_the_cache() -> None:
    """Those from before a look that saw nothing else may have values; once they are gone, the erasure is done."""
    world = Cached()
    world.control = MemoryStore("memory://control", clock=world.clock, versioned=True)
    world.cache()
    erasure = erasure_of(world.erase())
    world.later()
    assert world.unclean(erasure) == [(OLD, 1)]
    proof = world.proof(erasure)
    assert (proof["state"], proof["unknown"][0]["words"]) == ("rows_unknown", OLD)
    world.now_ms += 2000
    world.cache()
    assert world.unclean(erasure) == [(OLD, 2)], "the one of that run, too; one from after its look has no such value"
    del world.control._versions[world.area.prefix + "cache.bin"][:3]
    report = world.finish(erasure)
    assert report.status == "done", found(report).places


def test_versions_that_cannot_be_listed() -> None:
    """The cache may have any then."""
    world = Cached()
    erasure = erasure_of(world.erase())
    world.later()
    report = world.erase(Denied(), finish=erasure, where=None)
    assert report.status == "partial" and (OLD, 0) in [(each.words, each.count) for each in found(report).places]
