"""Tables whose metadata lies, everything that can be done with them, and what of them must be left.

The table is one of `tests.bad_bytes.worlds`, built honestly. An attacker may write in it: roots, schemas, manifests and
all else of their own, under names that are free, or in the place of a root that the attacker owns. What the honest
roots need must be left, and nothing outside of the table may change.
"""

import json
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakesweep.errors import MaintenanceError
from lakesweep.model.report import RunReport
from tests.bad_bytes.worlds import World, built_world, empty
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.reader import all_roots

THOROUGH = os.environ.get("LAKESWEEP_BAD_BYTES") == "all"
"""Every operation on every table, not some of them."""

Changes = Mapping[str, bytes | None]
MAX_SECONDS = 20.0

OPERATIONS: dict[str, tuple[str, dict[str, object]]] = {
    "expire-snapshots": ("expire-snapshots", {"retain_max": 1, "retain_min": 1}),
    "maintain": ("maintain", {"all_branches": True}),
    "expire-changelogs": ("expire-changelogs", {"delete_all": True}),
    "remove-orphan-files": ("remove-orphan-files", {"older_than": "10000000000000", "no_writers": "none"}),
    "expire-tags": ("expire-tags", {"older_than": "10000000000000"}),
    "delete-tag": ("delete-tag", {"tag": "evil"}),
    "rename-tag": ("rename-tag", {"tag": "evil", "target_tag": "other"}),
    "create-tag": ("create-tag", {"tag": "made", "from_tag": "evil"}),
    "replace-tag": ("replace-tag", {"tag": "evil", "snapshot": 6}),
    "rollback": ("rollback", {"snapshot": 5}),
    "rollback to a tag": ("rollback", {"tag": "evil"}),
    "create-branch": ("create-branch", {"branch": "made", "tag": "evil"}),
    "delete-branch": ("delete-branch", {"branch": "evil"}),
    "fast-forward": ("fast-forward", {"branch": "evil"}),
    "clear-consumers": ("clear-consumers", {"including_consumers": "evil.*"}),
    "reset-consumer": ("reset-consumer", {"consumer_id": "evil", "next_snapshot_id": 5}),
}
"""What is called with which arguments. `evil` is the attacker's."""
MOVES = frozenset({"rollback", "rollback to a tag", "fast-forward"})
"""These take later roots of main, whoever made them, since the caller says so."""


@dataclass
class Outside:
    """Every place that is not the table: opened by any name, and never to change."""

    stores: dict[str, MemoryStore] = field(default_factory=dict)

    def open(self, location: str) -> MemoryStore:
        """Return a store in which a table and a secret lie."""
        if location not in self.stores:
            store = self.stores[location] = empty(location)
            for key in ("snapshot/snapshot-1", "schema/schema-0", "bucket-0/data-x-0.parquet", "authorized_keys"):
                store.put(key, b"{}")
        return self.stores[location]

    def check(self) -> None:
        """Fail where something changed."""
        for location, store in self.stores.items():
            fresh = Outside().open(location)
            assert store._objects.keys() == fresh._objects.keys(), f"outside, in {location}"


@dataclass(frozen=True)
class Attacked:
    """What became of one operation on one table."""

    code: str
    message: str
    deleted: frozenset[str]


def attack(world: World, changes: Changes, operation: str) -> Attacked:
    """Let an operation loose on a table whose metadata lies, and judge what is left.

    Raises:
        AssertionError: Something is gone that an honest root needs, or that lies elsewhere; or it is no clear answer.
    """
    store, _ = world.stores(changes)
    outside = Outside()
    before = dict(store._objects)
    maintainer = Maintainer(store, open_store=outside.open, control=empty("memory://control"))
    name, arguments = OPERATIONS[operation]
    started = time.process_time()
    code, message = _said(lambda: maintainer.run(name, **arguments))
    assert time.process_time() - started < MAX_SECONDS
    assert message.isprintable() and len(message) < 3000, f"{operation}: {message[:500]!r}"
    outside.check()
    lost = _lost(world, changes, store, operation)
    assert not lost, f"{operation}: {code} {message}: lost {sorted(lost)[:4]} of {len(lost)}"
    return Attacked(code, message, frozenset(before.keys() - store._objects.keys()))


def attack_all(world: World, changes: Changes, case: str, always: Sequence[str] = ("expire-snapshots",)) -> set[str]:
    """Let operations loose on a table, each on a fresh one, fail with all that is wrong, and return what was said.

    Args:
        world: The table.
        changes: What the attacker wrote.
        case: Draws the operations beside those that always take part.
        always: These take part.
    """
    others = [name for name in OPERATIONS if name not in always]
    chosen = others if THOROUGH else random.Random(case).sample(others, 3)
    problems, codes = [], set[str]()
    for operation in (*always, *chosen):
        try:
            codes.add(attack(world, changes, operation).code)
        except Exception as error:
            problems.append(f"{operation}: {type(error).__name__}: {str(error)[:400]}")
    assert not problems, "\n".join(problems)
    return codes


def _said(run: Callable[[], RunReport]) -> tuple[str, str]:
    try:
        report = run()
    except MaintenanceError as error:
        assert error.exit_code in range(1, 6)
        return error.code, str(error)
    refusals = [step.refusal for step in (report, *(report.steps or ())) if step.refusal is not None]
    if refusals:
        return refusals[0].code, refusals[0].message
    return report.status, ""


def _lost(world: World, changes: Changes, store: MemoryStore, operation: str) -> set[str]:
    there = frozenset(all_roots(store))
    honest = world.needs.keys() & world.objects.keys() - changes.keys()
    gone = {root for root in honest - there if root.startswith(("tag/", "branch/"))}
    if operation in MOVES or operation in ("expire-tags", "delete-branch"):
        gone = {root for root in gone if root.startswith("branch/")}
    if operation in ("maintain", "expire-tags"):
        gone = {root for root in gone if b"tagTimeRetained" not in world.body(root)}  # its time is over
    assert any(root.startswith("snapshot/") for root in there), "no snapshot is left"
    needed = set[str]().union(*(world.needs[root] for root in honest & there))
    return gone | {path for path in needed - changes.keys() if path not in store._objects and "://" not in path}


def document(world: World, root: str) -> dict[str, Any]:
    """Return the document of a root."""
    found: dict[str, Any] = json.loads(world.body(root))
    return found


def to_bytes(value: object) -> bytes:
    """Return a document as it is stored."""
    return json.dumps(value).encode()


__all__ = ["OPERATIONS", "Attacked", "attack", "built_world", "document", "to_bytes"]
