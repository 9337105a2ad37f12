"""Random histories in memory: after a rollback as latest the newest snapshot has the target's entries, each once."""

import io
from random import Random
from typing import Any

import fastavro
import pytest

from tests.unit.operations.branches.as_latest_world import AsLatestWorld, facts

Entry = tuple[bytes, int, int, str, tuple[str, ...]]
"""What a DELETE must match: partition, bucket, level, name, extra files."""


def entries_of(world: AsLatestWorld, snapshot: int) -> set[Entry]:
    """Return the live entries of a snapshot by the rule of Java's reader, and see that no manifest adds one twice."""
    document = (
        world.table.document(f"snapshot/snapshot-{snapshot}") if snapshot in world.table.ids("snapshot") else None
    )
    document = document or world.newest().document
    added: list[Entry] = []
    deleted: set[Entry] = set()
    for name in (document["baseManifestList"], document["deltaManifestList"]):
        for manifest in _records(world, name):
            for record in _records(world, manifest["_FILE_NAME"]):
                file = record["_FILE"]
                place = (record["_PARTITION"], record["_BUCKET"], file["_LEVEL"], file["_FILE_NAME"])
                entry = (*place, tuple(file["_EXTRA_FILES"]))
                (deleted.add if record["_KIND"] else added.append)(entry)
    live = [entry for entry in added if entry not in deleted]
    assert len(live) == len(set(live))
    return set(live)


def _records(world: AsLatestWorld, name: str) -> list[dict[str, Any]]:
    return list(fastavro.reader(io.BytesIO(world.store.read(f"manifest/{name}").data)))  # type: ignore[arg-type]


def play(random: Random) -> AsLatestWorld:
    """Let writers add, delete, move and merge."""
    world = AsLatestWorld(is_empty=True, primary_keys=["k"], partition_keys=["p"])
    levels: dict[str, int] = {}
    for number in range(random.randint(3, 9)):
        acts: list[str] = []
        added = [f"F{number}x{each}" for each in range(random.randint(0, 3))]
        for name in random.sample(sorted(levels), random.randint(0, min(3, len(levels)))):
            acts.append(f"-{name}@{levels[name]}")
            if random.random() < 0.5 and levels[name] < 5:
                levels[name] += random.randint(1, 5 - levels[name])
                acts.append(f"+{name}@{levels[name]}")
            else:
                del levels[name]
        acts += [f"+{name}" for name in added]
        levels |= dict.fromkeys(added, 0)
        places = {name: (random.choice("ab"),) for name in added}
        world.commit(*acts, partition=places, merge_base=random.random() < 0.3)
    return world


@pytest.mark.parametrize("seed", range(60))
def test_the_entries_are_those_of_the_target(seed: int) -> None:
    random = Random(seed)
    world = play(random)
    target = random.randint(1, world.ids()[-1])
    expected, newest = entries_of(world, target), world.ids()[-1]
    before = entries_of(world, newest)
    report = world.back(target)
    if expected == before:
        assert report.status == "nothing_to_do"
        return
    assert report.status == "done", report
    assert entries_of(world, newest + 1) == expected
    said, document = facts(report), world.newest().document
    names, former = ({entry[3] for entry in entries} for entries in (expected, before))
    assert (said.back.files, said.gone.files) == (len(names - former), len(former - names))
    assert document["totalRecordCount"] == 10 * len(expected)
    assert document["deltaRecordCount"] == 10 * (len(names) - len(former))
    assert len(said.kept_by) == (2 if names - former else 0)
    world.now_ms += 7_200_000
    assert world.run("expire-snapshots", retain_max=1, retain_min=1).status == "done"
    world.newest()
