"""Manifests are merged by commits: a pass or a person asks for one, and one function makes it."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from lakesweep.aws import runtime
from tests.functions.committing import COMMIT, LOCKED, Committing, by_function
from tests.functions.deployment import keys_of
from tests.support.iam import recorded
from tests.support.reader import read_root
from tests.support.table_builder import TableBuilder

MOST = 3
KEEP = {"snapshot.num-retained.min": "100", "snapshot.num-retained.max": "100"}
"""No snapshot expires."""
DUE = MOST + 2
"""The first snapshot whose base list has too many manifests."""
COMPACT = {**COMMIT, "operation": "compact-manifest"}


class Fragmented(Committing):
    """A deployment with a table whose writer merges no manifests."""

    def fragmented(self, commits: int = DUE, **options: str) -> TableBuilder:
        table = self.table(commits=0, options={**KEEP, "bucket": "1", "manifest.merge-min-count": str(MOST), **options})
        for number in range(1, commits + 1):
            table.hint("LATEST", table.commit(f"+F{number}"))
        return table

    def newest(self) -> tuple[str, int, frozenset[str]]:
        """Return the kind of the newest snapshot, the number of its manifests, and its files."""
        path, store = f"snapshot/snapshot-{self.snapshots()[-1]}", self.store()
        found, kind = read_root(store, path), json.loads(store.read(path).data)["commitKind"]
        return kind, len(_manifests(found.paths)), frozenset(found.live)


def _manifests(paths: Iterable[str]) -> list[str]:
    return [path for path in paths if "/manifest-" in path and "/manifest-list-" not in path]


def test_a_commit_makes_a_list_too_long() -> None:
    """The pass says so, the other function merges, and the event of its snapshot leads to nothing."""
    deployed = Fragmented()
    deployed.fragmented()
    _, before, files = deployed.newest()
    answers = deployed.run(deployed.commit_event(DUE))
    assert deployed.newest() == ("COMPACT", 1, files) and before == DUE
    assert (by_function(answers, "CommitsMade"), by_function(answers, "ManifestsMerged")) == (1, DUE - 1)
    assert by_function(answers, "RunsRefused") == by_function(answers, "RunsFailed") == 0
    made = deployed.snapshots()
    answers = deployed.run(deployed.commit_event(DUE + 1))
    assert by_function(answers, "CommitsMade") == by_function(answers, "Continuations") == 0
    assert deployed.snapshots() == made


def test_a_pass_reads_no_manifest() -> None:
    """It asks by the list alone, for nothing but a look by the rules of that time."""
    deployed = Fragmented()
    deployed.fragmented()
    deployed.send("on_snapshot_written", deployed.commit_event(DUE))
    (hint,) = deployed.waiting("expire")
    with recorded() as calls:
        deployed.send("expire", hint)
    assert deployed.waiting("committer") == [deployed.commit(**COMPACT)]
    assert not _manifests(call.resource for call in calls if call.action == "s3:GetObject")


def test_a_request_that_is_not_due_any_more() -> None:
    """Somebody merged meanwhile, the message came twice, or the policy says to leave manifests alone."""
    deployed = Fragmented()
    deployed.fragmented(DUE - 1)
    answer = deployed.send("committer", deployed.commit(**COMPACT))
    assert answer.metrics.get("CommitsMade", 0) == 0 and answer.failed == []
    deployed = Fragmented()
    deployed.fragmented()
    deployed.rule(mode="delete", manifests=False, **LOCKED)
    answer = deployed.send("committer", deployed.commit(**COMPACT))
    assert answer.metrics.get("CommitsMade", 0) == 0 and answer.failed == []
    deployed.rule(mode="delete", **LOCKED)
    made = [deployed.send("committer", deployed.commit(**COMPACT)).metrics.get("CommitsMade", 0) for _ in range(2)]
    assert made == [1, 0]


def test_by_hand() -> None:
    """A person need not wait until it is due."""
    deployed = Fragmented()
    deployed.fragmented(2)
    event = {"operation": "compact-manifest", "table": deployed.location(), "arguments": {}}
    planned = deployed.invoke("on_demand", event).value
    assert (planned["status"], planned["queued"]) == ("planned", False)
    assert planned["commits"]["after"]["manifests"] == 1
    queued = deployed.invoke("on_demand", {**event, "execute": True}).value
    assert (queued["status"], queued["queued"], queued["plan_id"]) == ("planned", True, None)
    deployed.run()
    assert deployed.newest()[:2] == ("COMPACT", 1)


def test_nothing_is_deleted() -> None:
    """Only manifests, lists and the snapshot are put, and all of them are new."""
    deployed = Fragmented()
    deployed.fragmented()
    before = keys_of(deployed.store())
    with recorded() as calls:
        deployed.send("committer", deployed.commit(**COMPACT))
    assert not [call for call in calls if call.action.startswith("s3:Delete")]
    assert set(keys_of(deployed.store())) > set(before)


@pytest.mark.parametrize("way", ["pass", "person"])
def test_a_list_that_is_too_large(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function does not begin what it has no time for, and names the command line."""
    monkeypatch.setattr(runtime, "MAX_ENTRIES", DUE - 1)
    deployed = Fragmented()
    deployed.fragmented()
    if way == "pass":
        deployed.send("on_snapshot_written", deployed.commit_event(DUE))
        (hint,) = deployed.waiting("expire")
        answer = deployed.send("expire", hint)
        assert answer.metrics.get("RunsRefused", 0) == 0
        said = answer.text
    else:
        event: dict[str, Any] = {"operation": "compact-manifest", "table": deployed.location(), "arguments": {}}
        refused = deployed.invoke("on_demand", {**event, "execute": True}).value
        assert refused["refusal"]["code"] == "too_large_for_function", refused
        said = refused["refusal"]["message"]
    assert "`lakesweep compact-manifest TABLE --execute` on a machine without a time limit" in said
    assert not deployed.waiting("committer")
