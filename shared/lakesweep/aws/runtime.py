"""The state of a function's process: settings, clients, logger, metrics."""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from lakesweep.aws.queues import Queues
from lakesweep.aws.settings import Settings, load_settings
from lakesweep.aws.telemetry import Telemetry
from lakesweep.control.area import ControlArea
from lakesweep.control.month_sums import Meter
from lakesweep.control.seal import Sealer
from lakesweep.model.paths.stays import Allowance
from lakesweep.model.receipt import function_usd_per_second
from lakesweep.model.roots import MAIN, TableRef
from lakesweep.model.safety import BATCH_RESERVE_MS
from lakesweep.model.who import Who
from lakesweep.runs.session import Table
from lakesweep.storage.location import parse_location
from lakesweep.storage.open import open_store
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.wrappers.deadline import Deadline, DeadlineStore

MAX_ENTRIES = 10_000_000
"""A function rewrites manifests with at most so many entries together: 11 s a million on the benchmark machine, where a
core is up to twice as fast as Lambda's, and 17 bytes for each file that is deleted."""


class Context(Protocol):
    """The part of Lambda's context that Lakesweep uses."""

    memory_limit_in_mb: int | str
    """MiB; Lambda's own client passes digits."""

    def get_remaining_time_in_millis(self) -> int:
        """Return how much time is left for this invocation."""


@dataclass(frozen=True)
class Runtime:
    """One function's process."""

    settings: Settings
    queues: Queues
    telemetry: Telemetry

    @classmethod
    def load(cls) -> "Runtime":
        """Create it from the environment, without a request to AWS.

        Raises:
            UsageError: A setting is missing or not valid.
        """
        settings = load_settings()
        return cls(settings, Queues(dict(settings.queues)), Telemetry())

    @cached_property
    def _sealer(self) -> Sealer | None:
        """Return the sealer of plans. It sends requests to KMS only when there is a plan."""
        if self.settings.plan_key is None:
            return None
        from lakesweep.aws.plan_key import kms_keys  # a process without a key starts without botocore

        return kms_keys(self.settings.plan_key, "LAKESWEEP_PLAN_KEY")

    def is_ours(self, table: str, name: str) -> bool:
        """Tell whether a table belongs to this deployment. Count and log a table that does not.

        Args:
            table: Location of the table, as given in a message.
            name: Name of the message in log lines.
        """
        if self.settings.allows(table):
            return True
        self.telemetry.count("EventsRejected")
        self.telemetry.warn(f"{name}: a table that does not belong to this deployment", table=table[:200])
        return False

    def open_table(
        self,
        location: str,
        branch: str,
        context: Context,
        counter: RequestCounter | None = None,
        *,
        may_commit: bool = False,
    ) -> Table:
        """Open a table for one piece of work.

        Args:
            location: A location that the settings allow.
            branch: Name of the branch.
            context: The context of this invocation. When its time runs out, reading stops and no batch of deletions
                begins.
            counter: Counts the requests; a new counter by default.
            may_commit: This function may write manifests and new snapshots, and delete nothing.

        Raises:
            UsageError: The location is not valid.
            RefusedError: The control location is inside the table.
        """
        counter = counter or RequestCounter()
        deadline = Deadline(context.get_remaining_time_in_millis)
        table = str(parse_location(location))
        usd_per_second = function_usd_per_second(int(context.memory_limit_in_mb))
        return Table(
            ref=TableRef(table, branch or MAIN),
            store=DeadlineStore(open_store(table, counter=counter, control=self.settings.control), deadline),
            area=ControlArea(
                open_store(self.settings.control, counter=counter),
                table,
                sealer=self._sealer,
                remembers=not self.settings.no_cache,
                who=lambda: _who_of(context),
                meter=Meter(counter, usd_per_second),
            ),
            open_store=lambda each: DeadlineStore(open_store(each, counter=counter), deadline),
            counter=counter,
            check_time=lambda what: deadline.check(what, BATCH_RESERVE_MS),
            policy=self.settings.policy,
            allowance=Allowance(bound=self.settings.external_roots),
            writes_schemas=False,
            may_commit=may_commit,
            may_delete=not may_commit,
            most_entries=MAX_ENTRIES,
            usd_per_second=usd_per_second,
        )


def _who_of(context: object) -> Who:
    """Return which function runs, without a request."""
    return Who(str(getattr(context, "invoked_function_arn", "unknown")), "AWS Lambda")
