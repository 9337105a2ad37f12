"""What a case held, so that a summary shows whether the draw reaches what it should."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from tests.differential.compare import Evidence
from tests.differential.history import Step
from tests.differential.truth import Root


def facts_of(evidence: Evidence, steps: Sequence[Step]) -> Counter[str]:
    """Count the files of a case, and 1 for everything that it had."""
    before, engines, ours = evidence.before, evidence.engines, evidence.ours
    snapshots = [root for root in evidence.roots if root.branch == "main" and root.kind == "snapshot"]
    counts = Counter(
        {
            "histories": 1,
            "files": len(before.files),
            "deleted by the engine": len(before.paths - engines.paths),
            "deleted by ours": len(before.paths - ours.paths),
            "snapshots": len(snapshots),
            "snapshots expired": sum(root.path not in ours.files for root in snapshots),
        }
    )
    features = {**_of_the_expiry(evidence, snapshots), **_of_the_roots(evidence, snapshots), **_of_the_steps(steps)}
    return counts + Counter({name: 1 for name, seen in features.items() if seen})


def _of_the_expiry(evidence: Evidence, snapshots: Sequence[Root]) -> dict[str, Any]:
    stay = [root for root in snapshots if root.path in evidence.ours.files]
    tags = [root for root in evidence.surviving if root.kind == "tag"]
    live = frozenset[str]().union(*(root.files for root in stay))
    tagged = frozenset[str]().union(*(root.files for root in tags)) & evidence.ours.paths
    return {
        "something expired": len(stay) < len(snapshots),
        "nothing expired": len(stay) == len(snapshots),
        "changelogs expired": {path for path in evidence.before.paths if path.startswith("changelog/")}
        - evidence.ours.paths,
        "snapshots that became changelogs": [
            root for root in evidence.after if root.kind == "changelog" and root.path not in evidence.before.paths
        ],
        "all but the latest expired": len(stay) == 1 < len(snapshots),
        "both refused": evidence.engine_refusal,
        "tags that protect data files": [path for path in tagged - live if "bucket-" in path],
        "tags of expired snapshots": {tag.facts["snapshot_id"] for tag in tags} - {_id(root) for root in stay},
        "roots that the engine broke": [
            root for root in evidence.roots if root.path in evidence.engines.files and _broken(root, evidence)
        ],
    }


def _of_the_roots(evidence: Evidence, snapshots: Sequence[Root]) -> dict[str, Any]:
    manifests = [set(root.facts.get("base_manifests", ())) for root in snapshots]
    return {
        "tags": any(root.kind == "tag" for root in evidence.roots),
        "branches": any(root.branch != "main" for root in evidence.roots),
        "changelog documents": any(root.kind == "changelog" for root in evidence.roots),
        "compactions": any(root.facts["commit_kind"] == "COMPACT" for root in snapshots),
        "upgrades": any(root.facts.get("upgraded") for root in snapshots),
        "merges of manifests": any(older - newer for older, newer in pairwise(manifests)),
        "index files": any(root.facts.get("index_manifest") for root in snapshots),
        "statistics files": any(root.facts.get("statistics") for root in snapshots),
        "changelog files": any(root.facts.get("changelog") for root in snapshots),
        "external files": any(path.startswith("/") for path in evidence.before.files),
    }


def _of_the_steps(steps: Sequence[Step]) -> dict[str, Any]:
    table, commands = steps[0].arguments, Counter(step.command for step in steps)
    options = table["options"]
    return {
        "primary keys": table["primary_keys"],
        "partitions": table["partition_keys"],
        "fixed buckets": options["bucket"] != "-1",
        "dynamic buckets": options["bucket"] == "-1" and table["primary_keys"],
        f"format {options['file.format']}": True,
        "file indexes": "file-index.bloom-filter.columns" in options,
        "deletion vectors": "deletion-vectors.enabled" in options,
        "overwrites": any("overwrite" in step.arguments for step in steps),
        "dropped partitions": commands["drop_partitions"],
        "schema changes": any("add_columns" in step.arguments for step in steps),
        "an expiry in between": commands["expire"],
        "consumers": commands["consumer"],
        "rollbacks": commands["rollback"],
        "wrong hints": commands["hint"],
        "changelogs that outlive snapshots": "changelog.time-retained" in options,
    }


def _id(root: Root) -> int:
    return int(root.facts["snapshot_id"])


def _broken(root: Root, evidence: Evidence) -> frozenset[str]:
    return (root.files & evidence.before.paths) - evidence.engines.paths
