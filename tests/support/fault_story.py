"""What has to be true after a run was broken, and the bookkeeping of what was broken.

After a break every root that stays reads completely. When the lease of the dead run has ended, a rerun ends where the
undisturbed run ended: the same files, the same rows in the ledger. A rerun depends on nothing but what the stores hold
and the clock, so breaks that leave the same behind (`Found.digest`) share one; the runs that break share nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from lakesweep.model.safety import DELETE_MARGIN_MS, LEASE_MS
from tests.support.fault_history import ROOTS_LEFT, build
from tests.support.fault_places import NOW_MS, Found
from tests.support.memory_store import MemoryStore
from tests.support.reader import all_roots, assert_all_readable
from tests.support.table_builder import TableBuilder

LATER_MS = NOW_MS + LEASE_MS + DELETE_MARGIN_MS
"""When the lease of a run that died at `NOW_MS` has ended."""


class Story:
    """One table, how it ends undisturbed, and what broken runs left of it."""

    def __init__(self, producer: str = "lookup") -> None:
        store = MemoryStore("memory://bucket/t", clock=lambda: NOW_MS)
        self.builder: TableBuilder = build(store, NOW_MS, producer)
        self.objects = {entry.key: store.read(entry.key).data for entry in store.list("")}
        self._roots = ROOTS_LEFT & self.objects.keys()
        self._read: set[str] = set()
        """Digests of tables that were read completely: the same objects need not be read twice."""

    def check_roots(self, found: Found) -> None:
        """Fail unless every root that stays is there, and every root that is there reads completely as it was built."""
        digest = Found(found.table, {}).digest()
        if digest in self._read:
            return
        store = MemoryStore("memory://bucket/copy")
        for key, data in found.table.items():
            store.put(key, data)
        lost = self._roots - set(all_roots(store))
        assert not lost, f"roots lost: {sorted(lost)}"
        assert_all_readable(self.builder, store)
        self._read.add(digest)


@dataclass
class Reruns:
    """Checks what broken runs left, each state once."""

    story: Story
    end: Found
    """Where the undisturbed run ended."""
    rerun: Callable[[], Found]
    """Runs again on what is there, undisturbed and after the lease of the broken run, and returns how that ends."""
    seen: dict[str, str] = field(default_factory=dict)
    """Digest -> what is wrong about it; nothing where all is well."""

    def check(self, found: Found, where: str) -> None:
        """Fail unless the roots read now, and a rerun ends where the undisturbed run did."""
        digest = found.digest()
        if digest not in self.seen:
            self.seen[digest] = self._verdict(found)
        assert not self.seen[digest], f"{where}: {self.seen[digest]}"

    def check_end(self, found: Found) -> None:
        """Fail unless this is where the undisturbed run ended."""
        self.story.check_roots(found)
        mine, normal = found.table.keys(), self.end.table.keys()
        assert mine == normal, f"left {sorted(mine - normal)}, missing {sorted(normal - mine)}"
        rows, expected = found.gone().items(), self.end.gone().items()
        assert rows == expected, f"ledger rows: {sorted(rows ^ expected)}"

    def _verdict(self, found: Found) -> str:
        try:
            self.story.check_roots(found)
            self.check_end(self.rerun())
        except AssertionError as error:
            return str(error) or repr(error)
        return ""


class Tally:
    """Counts calls by kind: those of the undisturbed run, and those that were broken."""

    def __init__(self, calls: Iterable[str]) -> None:
        self.made = Counter(kind_of(call) for call in calls)
        self.broken: Counter[str] = Counter()

    def add(self, call: str) -> None:
        """Note that a call was broken."""
        self.broken[kind_of(call)] += 1

    def assert_complete(self) -> None:
        """Fail unless every call was broken, of every kind."""
        assert self.broken == self.made

    def line(self) -> str:
        """Say it in one line."""
        kinds = ", ".join(f"{kind} {self.broken[kind]}/{count}" for kind, count in sorted(self.made.items()))
        return f"{self.broken.total()}/{self.made.total()} calls broken: {kinds}"


def kind_of(call: str) -> str:
    """Return the leading two words of a call: whose it is and what it does."""
    return " ".join(call.split()[:2])
