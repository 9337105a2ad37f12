"""EMR Serverless: start a job run, and read its state."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from lakesweep.errors import MaintenanceError, StorageError

_EXIT_CODE = re.compile(r"ExitCode: ?([0-9]{1,3})\b")
_OVER = frozenset({"SUCCESS", "FAILED", "CANCELLED"})


_UNKNOWN = "emr_unknown"


class JobRefusedError(MaintenanceError):
    """EMR Serverless understood a request and refused it."""

    code = "emr_refused"


@dataclass(frozen=True, slots=True)
class JobRun:
    """A job run, as EMR shows it."""

    job_run_id: str
    state: str
    details: str = ""
    seconds: int = 0
    """How long it has run."""
    timeout_min: int = 0

    @property
    def is_over(self) -> bool:
        """Tell whether it has ended."""
        return self.state in _OVER

    @property
    def exit_code(self) -> int | None:
        """Return the exit code of the job's process, if EMR tells it."""
        found = _EXIT_CODE.search(self.details)
        return None if found is None else int(found[1])

    @property
    def is_out_of_time(self) -> bool:
        """Tell whether EMR cancelled it because of its timeout, not at a person's request."""
        return self.state == "CANCELLED" and 0 < self.timeout_min * 60 <= self.seconds + 60


class Jobs(Protocol):
    """A service that runs jobs."""

    def start(self, arguments: dict[str, object]) -> str:
        """Start a job run and return its id; the same token gives the same run.

        Raises:
            JobRefusedError: It does not run, and would not on another attempt.
            StorageError: It is unknown whether it runs.
        """

    def look(self, application_id: str, job_run_id: str) -> JobRun:
        """Return the state of a job run."""


class EmrServerless:
    """The service EMR Serverless."""

    def __init__(self, client: Any = None) -> None:
        """Create it. The first call creates the client, unless one is given."""
        self._given = client

    @cached_property
    def _client(self) -> Any:
        if self._given is not None:
            return self._given
        from botocore.config import Config

        from lakesweep.storage.aws_client import new_session

        return new_session().create_client(
            "emr-serverless",
            config=Config(retries={"mode": "standard", "total_max_attempts": 3}, connect_timeout=4, read_timeout=15),
        )

    def start(self, arguments: dict[str, object]) -> str:
        """Start a job run and return its id."""
        answer = self._asked("start_job_run", **arguments)
        return str(answer["jobRunId"])

    def look(self, application_id: str, job_run_id: str) -> JobRun:
        """Return the state of a job run; failed if EMR does not know the run because its application is gone."""
        try:
            found = self._asked("get_job_run", applicationId=application_id, jobRunId=job_run_id)["jobRun"]
        except JobRefusedError as error:
            if error.code != _UNKNOWN:
                raise
            return JobRun(job_run_id, "FAILED", str(error))
        return JobRun(
            job_run_id=job_run_id,
            state=str(found["state"]),
            details=str(found.get("stateDetails") or ""),
            seconds=int(found.get("totalExecutionDurationSeconds") or 0),
            timeout_min=int(found.get("executionTimeoutMinutes") or 0),
        )

    def _asked(self, operation: str, **words: object) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return getattr(self._client, operation)(**words)
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            if code == "ResourceNotFoundException":
                raise JobRefusedError(f"EMR Serverless refused {operation}: {error}", code=_UNKNOWN) from error
            if code in ("ValidationException", "ConflictException"):
                raise JobRefusedError(f"EMR Serverless refused {operation}: {error}") from error
            raise StorageError(f"EMR Serverless did not answer {operation}: {error}", code="emr") from error
        except BotoCoreError as error:
            raise StorageError(f"EMR Serverless did not answer {operation}: {error}", code="emr") from error
