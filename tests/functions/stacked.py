"""A deployment whose functions get settings and roles from the template."""

import json

from tests.functions.deployment import PREFIX, Deployment
from tests.support.iam import Role, role_of
from tests.support.s3_server import fresh_bucket, moto_store
from tests.support.stack import Stack, render

FUNCTIONS = {
    "on_snapshot_written": "OnSnapshotWritten",
    "expire": "Expire",
    "execute_batch": "ExecuteBatch",
    "committer": "Committer",
    "sweep": "Sweep",
    "tag_schedule": "TagSchedule",
    "orphan_scan": "OrphanScan",
    "orphan_worker": "OrphanWorker",
    "on_demand": "OnDemand",
    "spark_jobs": "SparkJobs",
}
CATALOG = '"catalog_type": "filesystem", "catalog_lock": true'
"""What the policy declares, so that partitions go, and a commit needs not look again after some seconds."""


class Stacked(Deployment):
    """A deployment whose functions get their settings from the template."""

    stack: Stack

    def environment_of(self, function: str) -> dict[str, str]:
        stated = self.stack.environment(FUNCTIONS[function])
        urls = {name: url for name, url in super().environment_of(function).items() if name in stated}
        own = {name: value for name, value in stated.items() if not name.endswith("_QUEUE")}
        queues = {name: url for name, url in urls.items() if name.endswith("_QUEUE")}
        extra = {"AWS_ENDPOINT_URL": super().environment_of(function)["AWS_ENDPOINT_URL"], "AWS_REGION": "us-east-1"}
        return {**own, **queues, **extra, "LAKESWEEP_ACCOUNTS": "111122223333"}

    def rule(self, *, control: object = None, **words: object) -> None:
        """Let the fleet policy have one rule, for all tables, and say how long own documents are kept."""
        place = self.stack.environment("Expire")["LAKESWEEP_POLICY"].removeprefix("s3://")
        declared = {"mode": "delete", "time_zone": "UTC", "catalog_type": "filesystem", "catalog_lock": True}
        document = {"version": 1, "rules": [{"tables": f"s3://{self.bucket}/{PREFIX}", **declared, **words}]}
        document |= {} if control is None else {"control": control}
        bucket, _, name = place.partition("/")
        moto_store("", bucket=bucket).put(name, json.dumps(document).encode())


def stacked() -> Stacked:
    bucket, control, policies = fresh_bucket(), fresh_bucket(), fresh_bucket()
    parameters = {
        "TableBuckets": bucket,
        "TablePrefixes": f"{bucket}/{PREFIX}",
        "ControlBucket": control,
        "Mode": "delete",
        "PolicyLocation": f"s3://{policies}/policy.json",
        "SparkArtifacts": "s3://artifacts/lakesweep/1",
    }
    stack = render(parameters)
    names = {
        name: stack.environment(function)[f"LAKESWEEP_{name.upper()}_QUEUE"].rsplit("/", 1)[-1]
        for name, function in (
            *(("commits", "Expire"), ("expire", "Sweep"), ("execute", "Expire"), ("sweep", "Sweep")),
            *(("tags", "TagSchedule"), ("committer", "Expire")),
            *(("spark", "OnDemand"), ("scan", "OnDemand"), ("orphan", "OrphanScan")),
        )
    }
    made = Stacked(bucket=bucket, control_bucket=control, queue_names=names)
    made.stack = stack
    for queue in made.queues:
        made.waiting(queue)
    rule = f'{{"tables": "s3://{bucket}/{PREFIX}", "mode": "delete", "time_zone": "UTC", {CATALOG}}}'
    policy_store = made.store().__class__(policies, "", made.store()._s3.client())
    policy_store.put("policy.json", f'{{"version": 1, "rules": [{rule}]}}'.encode())
    return made


def role(deployed: Stacked, function: str) -> Role:
    return role_of(deployed.stack, FUNCTIONS[function])
