"""What a build is made of."""

import re

from tests.support.system.build import REPOSITORY

FOLDERS = {
    "OnSnapshotWritten": "on_snapshot_written",
    "Expire": "expire",
    "ExecuteBatch": "execute_batch",
    "Committer": "committer",
    "Sweep": "sweep",
    "TagSchedule": "tag_schedule",
    "OrphanScan": "orphan_scan",
    "OrphanWorker": "orphan_worker",
    "OnDemand": "on_demand",
    "SparkJobs": "spark_jobs",
}


def pins(path: str) -> set[str]:
    """Return the pins of a lock, such as `tzdata==2026.6`."""
    return set(re.findall(r"^[\w.-]+==\S+", (REPOSITORY / path).read_text(encoding="utf-8"), re.MULTILINE))
