"""Troubles of the functions: processes that die, time that is short, services that refuse, leases that end."""

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from werkzeug.wrappers import Response

from lakesweep.control.area import table_key
from lakesweep.errors import MaintenanceError
from lakesweep.model.safety import DELETE_MARGIN_MS, LEASE_MS
from tests.support.system.deployed import System
from tests.support.system.embedded_aws import SENDS, Request, refusal
from tests.support.system.function import DeployedFunction, Invocation
from tests.support.system.hand import Hand
from tests.support.system.troubles import COMMITTER, DELETIONS, MAINTAINERS, Trouble, Waiting

MOST_RECEPTIONS = 4
"""A message that was received so often is let succeed: else it would be a dead letter, and not for its own fault."""
EXPIRED_S = LEASE_MS / 1000 + 60
"""A lease is over by then, and nobody else may take it yet."""
STOLEN_S = (LEASE_MS + DELETE_MARGIN_MS) / 1000 + 60


class TroubledRequests:
    """Lets troubles happen to invocations and to what they ask of AWS."""

    def __init__(self, system: System, waiting: Waiting) -> None:
        """Begin at once."""
        self.errors: list[Exception] = []
        """What a maintainer or writer beside the functions met that it should not."""
        self.writers: dict[str, Callable[[], object]] = {}
        """Location -> commits to this table."""
        self._system, self._waiting = system, waiting
        self._locations: dict[str, str] = {}
        """By folder in the control location."""
        self._dying: dict[int, str] = {}
        """Request -> caller that dies once it is carried out."""
        self._refused: dict[str, tuple[int, int, str]] = {}
        """Function -> how many of its requests are refused from now on, with which status and code."""
        self._at_risk: Counter[str] = Counter()
        """Function -> invocations under way with a message that must not fail again."""
        self._hands = 0
        self._hands_at_work = 0
        self._lock = threading.Lock()
        system.aws.before.append(self._before)
        system.aws.after.append(self._after)
        for function in system.functions.values():
            self._watch(function)

    def know(self, location: str) -> None:
        """Take notice of a table."""
        self._locations[table_key(location)] = location

    # --- invocations ---

    def _watch(self, function: DeployedFunction) -> None:
        invoke = function.invoke
        kinds = ("killed at a moment", "short of time", "no time to delete")

        def watched(event: Any, *, timeout_s: float | None = None, trace: str = "") -> Invocation:
            records = event.get("Records", ())
            risky = any(int(each["attributes"]["ApproximateReceiveCount"]) >= MOST_RECEPTIONS for each in records)
            with self._lock:
                self._at_risk[function.name] += risky
            try:
                trouble = self._waiting.next(function.name, kinds, may=not risky)
                if trouble is not None and trouble.kind == "killed at a moment":
                    threading.Thread(target=self._kill_one_of, args=(function, trouble.amount)).start()
                elif trouble is not None:
                    timeout_s = trouble.amount
                return invoke(event, timeout_s=timeout_s, trace=trace)
            finally:
                with self._lock:
                    self._at_risk[function.name] -= risky

        function.invoke = watched  # type: ignore[method-assign]

    def _kill_one_of(self, function: DeployedFunction, after_s: float) -> None:
        self._system.clock.work.sleep(after_s)
        for caller in function.callers[:1] if not self._at_risk[function.name] else ():
            function.kill(caller)

    # --- requests ---

    def _before(self, request: Request) -> Response | None:
        function = request.function
        if function not in self._system.functions:
            return None
        if (refused := self._refused_next(function)) is not None:
            return refusal(request, *refused)
        may = not self._at_risk[function]
        if request.operation in SENDS and self._waiting.next(function, ("denied to send",), may=may):
            return refusal(request, 403, "AccessDenied")
        if request.key.endswith("-intent.ndjson.gz"):
            self._end_the_lease(request)
        if function in (*MAINTAINERS, COMMITTER) and self._waiting.next(function, ("beside another maintainer",)):
            self._maintain(request)
        if function == COMMITTER and self._waiting.next(function, ("beside a writer",)):
            self._write(request)
        kinds = ("killed before a request", "killed after a request", "throttled", "internal error")
        trouble = self._waiting.next(function, kinds, may=may)
        return None if trouble is None else self._fail(request, trouble)

    def _refused_next(self, function: str) -> tuple[int, str] | None:
        with self._lock:
            count, status, code = self._refused.pop(function, (0, 0, ""))
            if count > 1:
                self._refused[function] = (count - 1, status, code)
        return (status, code) if count and not self._waiting.is_over else None

    def _fail(self, request: Request, trouble: Trouble) -> Response | None:
        function = self._system.functions[request.function]
        if trouble.kind == "killed after a request":
            self._dying[request.number] = request.caller
            return None
        if trouble.kind == "killed before a request":
            function.kill(request.caller)
            return refusal(request, 500, "InternalError")
        status, code = (503, "SlowDown") if trouble.kind == "throttled" else (500, "InternalError")
        with self._lock:
            self._refused[function.name] = (int(trouble.amount) - 1, status, code)
        return refusal(request, status, code)

    def _after(self, request: Request) -> None:
        caller = self._dying.pop(request.number, None)
        if caller is not None:
            self._system.functions[request.function].kill(caller)

    # --- the lease, and others who want it ---

    def _end_the_lease(self, request: Request) -> None:
        """Let the time of a worker's lease be over, which has just written down what it is about to delete.

        The lease is the next thing that it looks at. Others that are at work may be between such a look and what they
        delete after it, and would be seen to delete without a lease though they could not know. So nobody is.
        Messages in flight count as received in vain once more.
        """
        alone = sum(self._system.functions[name].running for name in MAINTAINERS) + self._hands_at_work == 1
        messages = [message for queue in self._system.queues.values() for message in queue.messages()]
        may = alone and all(message.receive_count < MOST_RECEPTIONS for message in messages)
        trouble = self._waiting.next(DELETIONS, ("lease expired", "lease stolen"), may=may)
        if trouble is None:
            return
        passing_s = EXPIRED_S if trouble.kind == "lease expired" else STOLEN_S
        self._system.clock.skip_to(self._system.clock.now() + passing_s)
        if trouble.kind == "lease stolen":
            self._maintain(request)

    def _maintain(self, request: Request) -> None:
        """Maintain the table that a request is about, while whoever made it waits for the answer."""
        location = self._location(request)
        if location is None:
            return
        with self._lock:
            self._hands += 1
            hand = Hand(self._system, self._hands)
            self._hands_at_work += 1
        try:
            hand.run(location, all_branches=True)
        except MaintenanceError:
            pass  # the worker has the lease
        except Exception as error:
            self.errors.append(error)
        finally:
            with self._lock:
                self._hands_at_work -= 1

    def _write(self, request: Request) -> None:
        """Commit to the table that a request is about, while whoever made it waits for the answer."""
        try:
            self.writers.get(self._location(request) or "", lambda: None)()
        except Exception as error:
            self.errors.append(error)

    def _location(self, request: Request) -> str | None:
        """Return where the table lies that a request is about."""
        parts = request.key.split("/")
        if len(parts) < 4:
            return None
        return self._locations.get(parts[2]) or f"s3://{request.bucket}/{'/'.join(parts[:3])}"
