"""`lakesweep remove-orphan-files`."""

from dataclasses import replace

from lakesweep.cli.command import Typed, command
from lakesweep.runs.parameters.parameter import text
from lakesweep.runs.parameters.signatures import REMOVE_ORPHAN_FILES

_SCAN_ID = text(
    "scan_id",
    "Continue this interrupted scan on Spark, or wait again for this scan of one table by functions.",
    "ID",
)
_SCAN_QUEUE = text(
    "scan_queue",
    "Queue at which a deployment takes scans: the output ScanQueueUrl of its stack. By default $LAKESWEEP_SCAN_QUEUE.",
    "URL",
)


@command(
    REMOVE_ORPHAN_FILES,
    "lakesweep remove-orphan-files s3://lake/sales.db/orders --control s3://ops/lakesweep",
    "lakesweep remove-orphan-files s3://lake/sales.db --control s3://ops/lakesweep --execute",
    "lakesweep remove-orphan-files /data/orders --older-than 2026-01-31T00:00:00Z --execute",
    "lakesweep remove-orphan-files s3://lake/sales.db/orders --engine auto --control s3://ops/lakesweep",
    "lakesweep remove-orphan-files s3://lake/sales.db/orders --engine spark --control s3://ops/lakesweep",
    "lakesweep remove-orphan-files s3://lake/sales.db/orders --engine lambda --control s3://ops/lakesweep "
    "--scan-queue https://sqs.eu-central-1.amazonaws.com/111122223333/lakesweep-scan",
    "lakesweep remove-orphan-files s3://lake/sales.db/orders --quarantine '1 d' --control s3://ops/lakesweep --execute",
    place=("control", "external_root"),
    last=(_SCAN_ID, _SCAN_QUEUE),
)
def remove_orphan_files(typed: Typed) -> int:
    """Delete files that no snapshot, tag or changelog of any branch refers to. TABLE may also be a database.

    Lakesweep deletes only files older than a day, unless --older-than says otherwise. It deletes a file only if
    Paimon writes files of such a name at such a place. Prints the plan, and changes nothing without --execute.
    """
    values = typed.values
    of_one_table = [name for name in ("owned_external",) if name in values]
    if "scan_id" in values and values.get("engine") in ("lambda", "auto"):
        # a scan by functions is waited for by its id, and other tables have no such scan
        of_one_table.append("scan_id")
    engine = values.get("engine") or values.get("mode")
    place = replace(typed.place, scan_id=values.get("scan_id"), engine=engine, scan_queue=values.get("scan_queue"))
    return typed.run(place, may_be_database=True, of_one_table=of_one_table)
