"""How the engine and Lakesweep may differ where both do the same to a table, and what is a problem."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakesweep.storage.local.store import LocalStore
from tests.differential import ours
from tests.differential.commit_acts import COMPACTION, Act, State, due, gone
from tests.differential.commit_tables import DEFAULT_NAME, Kind, Partition
from tests.differential.engine import Engine
from tests.differential.ours import Answer
from tests.support.live_records import live_records

RULES: Mapping[str, str] = {
    "nothing to do": "no partition is meant: the engine commits a snapshot without changes, ours commits nothing",
    "comma": "a value holds a comma: the engine takes it for several values and drops others or fails",
    "timestamp keys": "the engine cannot drop what it finds expired where a key is a timestamp",
    "one small manifest": "the engine rewrites it though there is none to merge it with, ours commits nothing",
    "one manifest with deleted files": "the engine leaves it, ours rewrites it",
    "two defaults": "a string is spelt as null is: ours refuses to guess, the engine takes null",
}
"""Differences that are allowed."""


Manifests = tuple[tuple[str, int, int, int], ...]
"""Name, bytes, added and deleted files of each manifest of a snapshot."""


def manifests_of(engine: Engine, table: str, kind: Kind) -> Manifests:
    """Return the manifests of the newest snapshot, as the engine lists them."""
    return tuple((str(name), size, added, gone) for name, size, added, gone in engine("manifests", **kind.at(table)))


@dataclass(frozen=True, slots=True)
class Evidence:
    """One judged act."""

    kind: Kind
    act: Act
    before: State
    engines: State
    refusal: str | None
    """Why the engine would not."""
    ours: State
    answer: Answer
    documents: tuple[Mapping[str, Any], Mapping[str, Any]]
    """The newest snapshot of the engine's table, and of ours."""
    manifests: tuple[Manifests, Manifests, Manifests]
    """Before the act, of the engine's table after it, and of ours."""
    location: Path
    """Of our table."""

    @property
    def expected(self) -> frozenset[Partition]:
        """Return the partitions that must be gone."""
        return gone(self.kind, self.act, self.before)


def problems(evidence: Evidence) -> Iterator[str]:
    """Say everything that is wrong."""
    before, ours, expected = evidence.before, evidence.ours, evidence.expected
    rules = frozenset(explained(evidence))
    said = f"{evidence.answer.messages} {json.dumps(evidence.answer.document, ensure_ascii=False)[:1500]}"
    if "two defaults" in rules:
        if ours != before:
            yield "ours refused and committed all the same"
        return
    if evidence.refusal is not None and evidence.answer.messages == evidence.refusal:
        return  # the engine stands beside itself
    if evidence.answer.exit_code != 0:
        yield f"ours ended with {evidence.answer.exit_code}; the engine: {evidence.refusal} | {said}"
        return
    left = frozenset(file for file in before.files if file[0] not in expected)
    if ours.files != left:
        yield f"ours left other files: too many {sorted(ours.files - left, key=repr)[:5]}, lost " + (
            f"{sorted(left - ours.files, key=repr)[:5]}; to be gone: {sorted(expected, key=repr)}; {said}"
        )
    index = frozenset(file for file in before.index if file[0] not in expected)
    if ours.index != index:
        yield f"ours left other index files: {sorted(ours.index ^ index, key=repr)[:5]}"
    is_compaction = evidence.act.name == COMPACTION
    if not is_compaction and not expected and ours.snapshot != before.snapshot and evidence.answer.document:
        yield "ours committed though nothing is meant"
    yield from _said(evidence)
    if not rules & {"comma", "timestamp keys"}:
        if evidence.refusal is not None:
            yield f"the engine refused: {evidence.refusal}"
        elif (evidence.engines.files, evidence.engines.index) != (ours.files, ours.index):
            yield f"the engine left other files: {sorted(ours.files ^ evidence.engines.files, key=repr)[:6]}"
        elif not rules & {"nothing to do", "one small manifest", "one manifest with deleted files"}:
            yield from _documents(evidence)
    if is_compaction:
        yield from _compacted(evidence, rules)


def _compacted(evidence: Evidence, rules: frozenset[str]) -> Iterator[str]:
    """The live entries are the same byte by byte, none is a DELETE, and there are as many manifests as the engine's."""
    _, theirs, own = evidence.manifests
    before, after = evidence.before.snapshot, evidence.ours.snapshot
    if any(gone for *_, gone in own):
        yield f"ours left DELETEs: {own}"
    if not rules & {"one small manifest", "one manifest with deleted files"}:
        if (before == after) != (before == evidence.engines.snapshot):
            yield f"only one of both committed: ours {after}, the engine {evidence.engines.snapshot}, before {before}"
        if abs(len(own) - len(theirs)) > 1:
            yield f"ours left {len(own)} manifests, the engine {len(theirs)}"
    if sum(size for _, size, *_ in own) > 1.1 * sum(size for _, size, *_ in theirs) + 1000 * len(own):
        yield f"ours are larger: {own}, the engine's: {theirs}"
    if before is not None and after is not None:
        store = LocalStore(evidence.location)
        branch = evidence.kind.branch
        if live_records(store, before, branch) != live_records(store, after, branch):
            yield "the live entries are not the same, byte by byte"


def _said(evidence: Evidence) -> Iterator[str]:
    """What ours says that it dropped is what is gone, and nobody has replaced a snapshot of ours."""
    commits = evidence.answer.document.get("commits")
    if not commits:
        return
    if evidence.act.name == COMPACTION:
        own = evidence.manifests[2]
        said = (commits["after"]["manifests"], commits["after"]["bytes"])
        if said != (len(own), sum(size for _, size, *_ in own)):
            yield f"ours says that {said} manifests and bytes are left, and it is {own}"
        return
    gone_files = evidence.before.files - evidence.ours.files
    counts = {
        "partitions": len({file[0] for file in gone_files}),
        "files": len(gone_files),
        "rows": sum(file[-1] for file in gone_files),
        "replaced": 0,
    }
    for name, count in counts.items():
        said = sum(made[name] for made in commits["made"])
        if said != count:
            yield f"ours says {said} {name}, and it is {count}: {json.dumps(commits)[:1000]}"
    named = {tuple(each["values"].values()) for each in commits["partitions"]}
    if len(named) != counts["partitions"]:
        yield f"ours names {sorted(named, key=repr)}, and these are gone: {sorted(evidence.expected, key=repr)}"


_SAME = ("version", "schemaId", "commitIdentifier", "commitKind", "totalRecordCount", "deltaRecordCount", "watermark")
_SAME += ("statistics", "nextRowId", "changelogManifestList", "changelogRecordCount", "properties", "id")


def _documents(evidence: Evidence) -> Iterator[str]:
    """Both snapshots say the same of what they have in common."""
    theirs, own = evidence.documents
    for key in _SAME:
        if theirs.get(key) != own.get(key):
            yield f"the snapshot's {key} is {own.get(key)}, the engine's is {theirs.get(key)}"
    if ("indexManifest" in theirs) != ("indexManifest" in own):
        yield f"only one snapshot has an index manifest: {theirs.get('indexManifest')} {own.get('indexManifest')}"


def explained(evidence: Evidence) -> Iterator[str]:
    """Yield the rules by which the engine or ours may differ here."""
    act, kind, expected = evidence.act, evidence.kind, evidence.expected
    if act.name == COMPACTION:
        yield from _only_one(evidence)
        return
    theirs = evidence.before.partitions - evidence.engines.partitions
    if not expected and evidence.ours.snapshot == evidence.before.snapshot != evidence.engines.snapshot:
        yield "nothing to do"
    if _asks_for_two(kind, act, evidence.before) and evidence.answer.exit_code in ours.REFUSED:
        yield "two defaults"
    if act.name != "expire-partitions" or (theirs == expected and evidence.refusal is None):
        return
    if any("," in (value or "") for partition in due(kind, act, evidence.before) for value in partition):
        yield "comma"
    elif evidence.refusal and any("TIMESTAMP" in type for _, type in kind.keys):
        yield "timestamp keys"


def _only_one(evidence: Evidence) -> Iterator[str]:
    before, engines, own = evidence.before.snapshot, evidence.engines.snapshot, evidence.ours.snapshot
    target = 1024 if evidence.kind.options.get("manifest.target-file-size") == "1 kb" else 8 << 20
    small = sum(size < target for _, size, *_ in evidence.manifests[0])
    with_deletes = sum(gone > 0 for *_, gone in evidence.manifests[0])
    if engines != before == own and small == 1 and not with_deletes:
        yield "one small manifest"
    if engines == before != own and with_deletes == 1:
        yield "one manifest with deleted files"


def _asks_for_two(kind: Kind, act: Act, before: State) -> bool:
    """Tell whether a spec names null, and a string of the same spelling is there too."""
    name = kind.options.get("partition.default-name", DEFAULT_NAME)
    for spec in act.specs:
        for position, key in enumerate(kind.names):
            there = {partition[position] for partition in before.partitions}
            if spec.get(key, "") in (None, name) and {None, name} <= there:
                return True
    return False
