"""A table of the running system, and the same table written a second time in memory, where nothing goes wrong.

The twin says what has to be left in the end: it is maintained in this process, by nobody else and without troubles.
"""

from collections.abc import Mapping
from typing import Any

from lakesweep.storage.store import Store
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.system.deployed import System
from tests.support.system.planting import OLD_S, Planted, plant
from tests.support.table_builder import TableBuilder

_ROUNDS = 50
PLAIN = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3", "snapshot.time-retained": "1 h"}
"""Of tables whose commits are long ago: two snapshots stay."""


class WrittenTable:
    """Writes both."""

    def __init__(self, system: System, name: str, options: Mapping[str, str] = PLAIN, **words: Any) -> None:
        """Begin with a schema.

        Args:
            system: Where it lies.
            name: Its path below the warehouse.
            options: Of the table.
            words: For the builder.
        """
        self.name = name
        self.location = system.location(name)
        self.store: Store = system.store(name)
        self._twin = MemoryStore(f"memory://twin/{name}")
        self._builders = [TableBuilder(store, options=options, **words) for store in (self.store, self._twin)]
        self._branches: dict[str, list[TableBuilder]] = {"main": self._builders}
        self.commits = 0
        self._backdoor = system.backdoor(name)
        self.planted: list[Planted] = []
        self._newest: dict[str, str] = {}
        """Branch -> the file that the next commit replaces."""

    @property
    def branches(self) -> tuple[str, ...]:
        """Return the names of all branches."""
        return tuple(self._branches)

    def commit(self, times: int = 1, branch: str = "main") -> None:
        """Write snapshots, each with a file in place of the one before; each is an event."""
        for _ in range(times):
            self.commits += 1
            before, self._newest[branch] = self._newest.get(branch), f"{branch}{self.commits}"
            entries = [f"+{self._newest[branch]}", *([f"-{before}"] if before else [])]
            for builder in self._branches[branch]:
                builder.hint("LATEST", builder.commit(*entries))

    def tag(self, name: str, snapshot: int | None = None) -> None:
        """Tag a snapshot, the newest one if none is named."""
        for builder in self._builders:
            builder.tag(name, snapshot)

    def branch(self, name: str, tag: str) -> None:
        """Make a branch from a tag."""
        self._branches[name] = [builder.branch(name, from_tag=tag) for builder in self._builders]

    def consumer(self, name: str, next_snapshot: int) -> None:
        """Let a consumer hold a snapshot, and what comes after it."""
        for builder in self._builders:
            builder.consumer(name, next_snapshot)

    def plant(self, seed: str, copies: int = 1) -> Planted:
        """Plant orphans. What of them is to stay is in the twin too, so what is to go has to go.

        All else of the table is made to look old with them: it stays because it is referred to, and not for its age.
        """
        planted = plant(self._backdoor, f"{self.name} {seed}", copies, with_young=False)
        self._backdoor.age(OLD_S, {each.key for each in self._backdoor.list("")} - planted.stays - planted.goes.keys())
        for key in planted.stays:
            self._twin.put(key, self._backdoor.read(key).data)
        self.planted.append(planted)
        return planted

    @property
    def has_orphans(self) -> bool:
        """Tell whether something is still there that was planted and is to go."""
        there = {each.key for each in self._backdoor.list("")}
        return any(planted.goes.keys() & there for planted in self.planted)

    def left(self) -> dict[str, bytes]:
        """Return what is left of the table."""
        return _contents(self.store)

    def expected(self) -> dict[str, bytes]:
        """Return what is left of the twin when there is nothing to do any more."""
        for branch in self._branches:
            maintainer = Maintainer(self._twin, branch=branch)
            done = any(maintainer.maintain().status == "nothing_to_do" for _ in range(_ROUNDS))
            assert done, f"the twin of {self.name} comes to no end"
        return _contents(self._twin)

    def differences(self) -> list[str]:
        """Say what is there and should not be, and the other way round, and which document is another one."""
        left, expected = self.left(), self.expected()
        others = sorted(key for key in left.keys() & expected.keys() if left[key] != expected[key])
        return [
            *(f"{self.name}: {key} is still there" for key in sorted(left.keys() - expected.keys())),
            *(f"{self.name}: {key} is gone" for key in sorted(expected.keys() - left.keys())),
            *(f"{self.name}: {key} is not what it should be" for key in others),
        ]


def _contents(store: Store) -> dict[str, bytes]:
    return {found.key: store.read(found.key).data for found in store.list("")}
