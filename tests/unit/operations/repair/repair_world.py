"""A table in memory that loses objects, and an independent look at what its newest snapshot has."""

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import fastavro

from lakesweep.model.commits.repair import RepairReport
from lakesweep.model.report import RunReport
from lakesweep.operations.repair.arguments import RepairArguments
from lakesweep.operations.repair.clean_deletion_vectors import clean_deletion_vectors
from lakesweep.operations.repair.remove_unexisting_files import remove_unexisting_files
from lakesweep.operations.repair.remove_unexisting_manifests import remove_unexisting_manifests
from lakesweep.runs.committing.catalog import Catalog
from lakesweep.storage.store import delete_all
from tests.support.faulty_store import Switch
from tests.support.reader import RootNeeds, TableReader
from tests.support.world import World

FILES = Catalog("filesystem", has_lock=True)


class RepairWorld(World):
    """A table with the partition key `dt`, unless a test says otherwise."""

    def __init__(self, **table: Any) -> None:
        super().__init__(**{"partition_keys": ["dt"], **table})

    def fill(self, *names: str) -> None:
        """Commit one file for each name, in a partition of its own; an hour passes."""
        for name in names:
            self.table.commit(f"+{name}", partition=(f"d{name}",))
        self.now_ms += 3_600_000

    def lose(self, path: str) -> str:
        """Delete an object, by path or symbol, behind everybody's back; return its path."""
        self.table.remove(path)
        return path

    def files(self, switch: Switch | None = None, *, execute: bool = True, **arguments: Any) -> RunReport:
        """Run `remove-unexisting-files`; see `_repair`."""
        return self._repair(remove_unexisting_files, switch, execute, arguments)

    def manifests(self, switch: Switch | None = None, *, execute: bool = True, **arguments: Any) -> RunReport:
        """Run `remove-unexisting-manifests`; see `_repair`."""
        return self._repair(remove_unexisting_manifests, switch, execute, arguments)

    def _repair(
        self, run: Callable[..., RunReport], switch: Switch | None, execute: bool, arguments: dict[str, Any]
    ) -> RunReport:
        """Run a repair. An execution accepts what a dry run shows right before, unless `accept_loss` is given."""
        if execute and "accept_loss" not in arguments:
            shown = run(self.maintainer(Switch()).table, RepairArguments(FILES), execute=False)
            arguments["accept_loss"] = None if shown.commits is None else repair_of(shown).loss_id
        given = RepairArguments(**{"catalog": FILES, **arguments})
        return run(self.maintainer(switch).table, given, execute=execute)

    def clean(
        self, switch: Switch | None = None, *, execute: bool = True, most: int | None = None, **arguments: Any
    ) -> RunReport:
        """Run `clean-deletion-vectors`."""
        given = RepairArguments(**{"catalog": FILES, **arguments})
        table = replace(self.maintainer(switch).table, most_entries=most)
        return clean_deletion_vectors(table, given, execute=execute)

    def newest(self) -> RootNeeds:
        """Read the newest snapshot with everything that it needs."""
        folder = "" if self.branch == "main" else f"branch/branch-{self.branch}/"
        newest = self.ids(f"{folder}snapshot")[-1]
        return TableReader(self.store, self.table.externals).read(f"{folder}snapshot/snapshot-{newest}")

    def newest_document(self) -> dict[str, Any]:
        """Return the newest snapshot as it is written."""
        document: dict[str, Any] = json.loads(self.store.read(f"snapshot/snapshot-{self.ids()[-1]}").data)
        return document

    def live(self) -> set[str]:
        """Return the symbols of the live files of the newest snapshot."""
        return self.table.symbols(self.newest().live)

    def records(self, name: str) -> list[dict[str, Any]]:
        """Return the records of a manifest or list."""
        body = self.store.read(f"manifest/{name}").data
        return [record for record in fastavro.reader(io.BytesIO(body)) if isinstance(record, dict)]

    def everywhere(self) -> dict[str, bytes]:
        """Return every object, also outside the table."""
        found = self.bodies()
        for location, store in self.table.externals.items():
            found |= {f"{location}/{each.key}": store.read(each.key).data for each in store.list("")}
        return found


def repair_of(report: RunReport) -> RepairReport:
    """Return what a report says of a repair."""
    assert isinstance(report.commits, RepairReport), report
    return report.commits


def refusal_of(report: RunReport) -> str:
    """Return the code of a refusal."""
    assert report.refusal is not None, report
    return report.refusal.code


def vanish(world: RepairWorld, *paths: str) -> None:
    """Delete objects that no test asks the builder about."""
    world.store.delete(delete_all(paths))


def same_but(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> set[str]:
    """Fail unless every object is as it was, hints aside; return the new ones."""
    hints = {"snapshot/LATEST"}
    changed = {path for path, body in before.items() if after.get(path) != body}
    assert changed <= hints, changed
    return set(after) - set(before)


def index_rows(world: RepairWorld, snapshot_id: int | None = None) -> list[dict[str, Any]]:
    """Return the rows of a snapshot's index manifest, by default the newest snapshot's."""
    document = world.newest_document()
    if snapshot_id is not None:
        document = json.loads(world.store.read(f"snapshot/snapshot-{snapshot_id}").data)
    return world.records(document["indexManifest"])


def vectors_of(world: RepairWorld, snapshot_id: int | None = None) -> dict[str, bytes]:
    """Return data file -> its vector, as bytes, by what an index manifest says of places."""
    found = {}
    for row in index_rows(world, snapshot_id):
        if row["_INDEX_TYPE"] != "DELETION_VECTORS":
            continue
        body = world.store.read(index_path(world, row)).data
        assert (row["_FILE_SIZE"], row["_ROW_COUNT"]) == (len(body), len(row["_DELETIONS_VECTORS_RANGES"]))
        end = 1
        for each in row["_DELETIONS_VECTORS_RANGES"]:
            assert each["f1"] == end, "vectors lie without gaps, in their order"
            end += 8 + int.from_bytes(body[end : end + 4], "big")
            found[each["f0"]] = body[each["f1"] : end]
        assert end == len(body)
    return found


def index_path(world: RepairWorld, row: dict[str, Any]) -> str:
    """Return where an index file lies."""
    (path,) = (key for key in world.etags() if key.endswith(f"/{row['_FILE_NAME']}"))
    return path


def manifest_of(world: RepairWorld, root: str, place: int = 0, which: str = "delta") -> str:
    """Return the path of a manifest of a snapshot or tag."""
    model = world.table.model(root)
    return f"manifest/{(model.delta if which == 'delta' else model.base)[place].name}"


def calls_of_a_repair() -> list[str]:
    """Return the storage calls of a repair of `lossy`."""
    world = lossy()
    switch = Switch()
    world.files(switch)
    return switch.calls


def lossy() -> RepairWorld:
    """Return a table with vectors and a side file that has lost a data file."""
    world = RepairWorld()
    world.table.commit("+A", "+B", "+C", partition=("d",), index={"I": {"A": [1], "B": [2, 3]}}, extra={"A": ["index"]})
    world.fill("D")
    world.lose(world.table.path("B"))
    return world
