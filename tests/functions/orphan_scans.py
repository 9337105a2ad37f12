"""Deployments with an orphan file, and what is said of their scans."""

import json
from datetime import timedelta

from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends

from tests.functions.deployment import PREFIX, Answer, Deployment

ORPHAN = "bucket-0/data-5b0c1d2e-0000-4000-8000-000000000001-0.parquet"


def made(mode: str = "delete", **extra: str) -> Deployment:
    """Return a deployment with one table, all of whose files are ten days old, and one of them an orphan."""
    deployed = Deployment(mode=mode, extra=extra)
    deployed.table()
    deployed.store().put(ORPHAN, b"lost")
    age(deployed, 10)
    return deployed


def metric(answers: list[Answer], name: str) -> float:
    return sum(answer.metrics.get(name, 0) for answer in answers)


def write_policy(deployed: Deployment, rule: dict[str, object]) -> None:
    rules = [{"tables": f"s3://{deployed.bucket}/{PREFIX}", **rule}]
    deployed.control().put("policy.json", json.dumps({"version": 1, "rules": rules}).encode())
    deployed.extra = {**deployed.extra, "LAKESWEEP_POLICY": f"{deployed.control().location}/policy.json"}
    deployed._modules.clear()  # a function reads its settings when it starts


def age(deployed: Deployment, days: int) -> None:
    for key in s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[deployed.bucket].keys.values():
        key.last_modified -= timedelta(days=days)
