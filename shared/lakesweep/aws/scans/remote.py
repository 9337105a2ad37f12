"""The backend of orphan scans that a deployment's functions run together. A caller requests a scan by queue and waits.

The scan does not depend on the caller: it continues if the caller stops waiting. Anyone who knows its id can wait for
it again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from lakesweep import __version__
from lakesweep.aws.emr import size_for
from lakesweep.aws.messages import OrphanScan
from lakesweep.aws.queues import Queues
from lakesweep.aws.scans.result import SCANS, ScanResult
from lakesweep.control.area import ControlArea
from lakesweep.control.plans import load_header, load_plan
from lakesweep.errors import MaintenanceError, RefusedError, UsageError
from lakesweep.model.plan import Plan, PlanHeader, content_hash
from lakesweep.model.report import RunReport
from lakesweep.model.safety import SCAN_BEGIN_WITHIN_S, SCAN_SILENT_FOR_S
from lakesweep.model.scans import OrphanArguments, SparkFacts, check_scan_id
from lakesweep.operations.orphans.costs import happened_by
from lakesweep.operations.orphans.scan import OPERATION
from lakesweep.runs.identifiers import new_id
from lakesweep.runs.parameters.times import say_time
from lakesweep.runs.session import Table

POLL_S = (2.0, 3.0, 5.0, 8.0, 13.0, 20.0)
"""Waiting times between two checks; the last one repeats."""
LOOKS_A_COUNT = 3
"""At every third check the scan's tasks are counted, which takes a listing."""
EMR_START_S = 120.0


def sqs_client(queue_url: str, region: str | None) -> object:
    """Return an SQS client for the region and the service in a queue's URL.

    Raises:
        UsageError: It is not a URL.
    """
    from botocore.config import Config

    from lakesweep.storage.aws_client import new_session

    place = urlsplit(queue_url)
    host = place.hostname or ""
    if place.scheme not in ("http", "https") or not host or not place.path.strip("/"):
        raise UsageError(
            f"scan queue: expected the URL of a queue, https://sqs.REGION.amazonaws.com/..., found {queue_url!r}",
            code="bad_argument",
        )
    is_aws = host.endswith((".amazonaws.com", ".amazonaws.com.cn"))
    parts = host.split(".")
    return new_session().create_client(
        "sqs",
        region_name=parts[1] if is_aws and parts[0] == "sqs" else region,
        endpoint_url=None if is_aws else f"{place.scheme}://{place.netloc}",
        config=Config(retries={"mode": "standard", "total_max_attempts": 3}, connect_timeout=4, read_timeout=10),
    )


def emr_facts(objects: int) -> SparkFacts:
    """Return the resources of a job on EMR Serverless for this many objects."""
    size = size_for(objects)
    return SparkFacts(size.max_executors, size.executor.cores, EMR_START_S)


@dataclass(slots=True)
class LambdaScan:
    """The backend that uses a deployment's functions; see `lakesweep.runs.session.RemoteBackend`."""

    queue_url: str
    region: str | None = None
    scan_id: str | None = None
    """Id of an earlier scan. Lakesweep then waits for it instead of requesting a new one."""
    queues: Queues | None = None
    """Queues to use instead of the queue at the URL."""
    estimate: Mapping[str, object] | None = None
    """The deployment's estimate of the scan's cost."""
    happened: Mapping[str, object] | None = None
    """The actual cost of the scan."""
    _tasks_seen: int = field(default=-1, init=False)

    def plan(self, table: Table, arguments: OrphanArguments) -> Plan:
        """Request a scan, wait for its end, and return its plan, which is stored.

        Raises:
            UsageError: There is no control location, the table is not on S3, or an argument is not valid for functions.
            RefusedError: The scan was refused.
            MaintenanceError: The scan failed, or no function begins it.
            StorageError: A request failed; the scan continues.
        """
        if not table.ref.location.startswith("s3://"):
            raise UsageError(f"table {table.ref}: functions can only reach tables on S3", code="bad_argument")
        if table.area is None:
            raise UsageError(
                f"table {table.ref}: functions store their results in the control location of their deployment; "
                "expected --control or $LAKESWEEP_CONTROL to name it",
                code="control_missing",
            )
        area = table.area
        if arguments.inventory is not None:
            raise UsageError(
                "inventory: functions list the table themselves; expected --engine local or spark", code="bad_argument"
            )
        scan_id = self.scan_id
        if scan_id is None:
            scan_id = new_id(area.store.now_ms())
            self._ask(table, scan_id, arguments)
            table.say(f"scan {scan_id} is requested; --scan-id {scan_id} waits for it again")
        check_scan_id(scan_id)
        try:
            result = self._wait(table, area, scan_id)
        except KeyboardInterrupt:
            table.say(f"scan {scan_id} continues; --scan-id {scan_id} waits for it again")
            raise
        return self._plan_of(table, area, scan_id, result)

    def finished(self, table: Table, report: RunReport) -> None:
        """Do nothing: the scan itself has stored how it ended."""

    def _ask(self, table: Table, scan_id: str, arguments: OrphanArguments) -> None:
        queues = self.queues or Queues({"scan": self.queue_url}, sqs_client(self.queue_url, self.region))
        words = {"engine": "lambda", **_words_of(arguments)}
        queues.ask_for_orphan_scan(
            OrphanScan(table.ref.location, scan_id, table.ref.branch, arguments=words, manual=True)
        )

    def _wait(self, table: Table, area: ControlArea, scan_id: str) -> Mapping[str, object]:
        """Return the scan's result once it exists."""
        result = ScanResult(area, scan_id)
        look, silent_s = 0, 0.0
        while (document := result.document()) is None:
            if look % LOOKS_A_COUNT == 0 and self._has_moved(table, replace(area, root=SCANS), scan_id):
                silent_s = 0.0
            begun = self._tasks_seen > 0
            if silent_s > (SCAN_SILENT_FOR_S if begun else SCAN_BEGIN_WITHIN_S):
                raise MaintenanceError(
                    f"table {table.ref}: scan {scan_id} "
                    + (
                        f"wrote nothing new for {SCAN_SILENT_FOR_S / 60:.0f} min; see the deployment's dead-letter "
                        "queues"
                        if begun
                        else f"did not begin within {SCAN_BEGIN_WITHIN_S / 60:.0f} min; expected a deployment behind "
                        f"the queue that works in {area.store.location}"
                    ),
                    code="scan_silent",
                )
            wait_s = POLL_S[min(look, len(POLL_S) - 1)]
            table.sleep(wait_s)
            silent_s += wait_s
            look += 1
        return document

    def _has_moved(self, table: Table, scans: ControlArea, scan_id: str) -> bool:
        """Tell whether the scan has written anything since the last check."""
        there = scans.names(f"{scan_id}/")
        done = sum(name.startswith(f"{scan_id}/tasks/") for name in there)
        table.progress("tasks done", done, None)
        before, self._tasks_seen = self._tasks_seen, len(there)
        return len(there) > max(before, 0)

    def _plan_of(self, table: Table, area: ControlArea, scan_id: str, result: Mapping[str, object]) -> Plan:
        estimate = result.get("estimate")
        self.estimate = estimate if isinstance(estimate, dict) else None
        self.happened = happened_by(result)
        status, plan_id, refusal = result.get("status"), result.get("plan_id"), result.get("refusal")
        is_empty = status == "nothing_to_do" or (status == "damaged" and not result.get("action_count"))
        if status in ("planned", "damaged") and not is_empty and isinstance(plan_id, str):
            header = load_header(area, plan_id)
            return Plan(header) if header.parts else load_plan(area, plan_id)
        if is_empty:  # an empty plan is stored with the scan, if at all
            if isinstance(plan_id, str):
                return Plan(load_header(replace(area, root=SCANS), plan_id))
            return _empty(table, scan_id, result)
        code, message = "scan_failed", f"it ended as {status}"
        if isinstance(refusal, dict):
            code, message = str(refusal.get("code")), str(refusal.get("message"))
        if table.ref.location not in message:
            message = f"table {table.ref}: scan {scan_id}: {message}"
        raise (MaintenanceError if status == "failed" else RefusedError)(message, code=code)


def _words_of(arguments: OrphanArguments) -> dict[str, object]:
    """Return the arguments as they are written in a message; parallelism has no meaning there."""
    quarantine_ms, age_ms, older_than_ms = arguments.quarantine_ms, arguments.age_ms, arguments.older_than_ms
    older_than = None if older_than_ms is None else say_time(older_than_ms)
    words: dict[str, object] = {
        "older_than": older_than if age_ms is None else f"{age_ms} ms",
        "quarantine": None if quarantine_ms is None else f"{quarantine_ms} ms",
        "no_writers": arguments.no_writers,
        "no_history": arguments.no_history,
        "owned_external": list(arguments.owned_external) or None,
    }
    return {name: value for name, value in words.items() if value is not None}


def _empty(table: Table, scan_id: str, result: Mapping[str, object]) -> Plan:
    """Return the plan of a scan that found nothing. It is not stored."""
    began, objects = result.get("began_ms"), result.get("objects")
    created_ms = began if isinstance(began, int) else 0
    return Plan(
        PlanHeader(
            plan_id=scan_id,
            operation=OPERATION,
            table=table.ref.location,
            branch=table.ref.branch,
            created_ms=created_ms,
            expires_ms=created_ms,
            code_version=__version__,
            arguments={},
            policy={},
            roots_seen={},
            end_id=None,
            snapshots={"earliest": None, "latest": None, "expired": []},
            kept={},
            findings={"listed": {"objects": objects}} if isinstance(objects, int) else {},
            content_hash=content_hash(()),
        )
    )
