"""A deployment whose function for commits has something to do."""

import json
from typing import Any

from tests.functions.deployment import Answer, Deployment
from tests.support.s3_server import moto_store

LOCKED = {"catalog_type": "filesystem", "catalog_lock": True}
"""Nobody can replace a snapshot, so a commit does not look again after some seconds."""
COMMIT = {
    "format_version": 1,
    "kind": "commit",
    "hop": 0,
    "operation": "expire-partitions",
    "branch": "main",
    "arguments": {},
    "manual": False,
    "run_id": None,
}


class Committing(Deployment):
    """A deployment whose policy declares the catalog of its tables."""

    def __init__(self, rule: dict[str, Any] | None = None, **words: Any) -> None:
        super().__init__(**words)
        self.extra = {**self.extra, "LAKESWEEP_POLICY": f"s3://{self.control_bucket}/policy.json"}
        self.rule(**{"mode": "delete", "time_zone": "UTC", **LOCKED, **(rule or {})})

    def rule(self, **words: Any) -> None:
        document = {"version": 1, "rules": [{"tables": f"s3://{self.bucket}/", **words}]}
        moto_store("", bucket=self.control_bucket).put("policy.json", json.dumps(document).encode())

    def commit(self, **words: Any) -> dict[str, Any]:
        return {**COMMIT, "table": self.location(), **words}


def by_function(answers: list[Answer], metric: str) -> float:
    return sum(answer.metrics.get(metric, 0) for answer in answers)
