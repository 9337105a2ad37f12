"""The Spark backend of orphan scans, for command lines that ask for it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakesweep.errors import UsageError
from lakesweep.model.plan import Plan
from lakesweep.model.report import RunReport
from lakesweep.model.scan_arguments import OrphanArguments
from lakesweep.runs.session import Table
from lakesweep.storage.open import StoreSettings

if TYPE_CHECKING:
    from lakesweep.spark.scan import SparkScan


@dataclass(slots=True)
class SparkOnDemand:
    """Opens a session only when a plan is requested."""

    settings: StoreSettings
    scan_id: str | None = None
    _opened: "SparkScan | None" = None

    def plan(self, table: Table, arguments: OrphanArguments) -> Plan:
        """Plan on Spark; see `SparkScan.plan`."""
        return self._scan().plan(table, arguments)

    def finished(self, table: Table, report: RunReport) -> None:
        """Store how the scan ended."""
        self._scan().finished(table, report)

    def _scan(self) -> "SparkScan":
        if self._opened is not None:
            return self._opened
        from lakesweep.spark.session import open_session

        session = open_session()
        try:
            from lakesweep.spark.scan import SparkScan
        except ImportError as error:
            raise UsageError(
                f"engine spark: {error}; expected `pip install 'lakesweep[spark]'`", code="no_spark"
            ) from error
        self._opened = SparkScan(session, self.settings, self.scan_id)
        return self._opened
