"""What scans for orphan files cost: requests by step and kind as the door sees them, and what all amounts to.

Prices are those of docs/prices.json. Functions run for as long as they do on this machine.
"""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from tests.support.stack import TEMPLATE
from tests.support.system.deployed import System
from tests.support.system.embedded_aws import SENDS, Request
from tests.support.system.function import Invocation
from tests.support.system.scans import SCAN, WORKER

KINDS = ("LIST", "GET", "PUT", "DELETE", "SEND")
STEPS = ("list", "roots", "lists", "manifests", "names", "tasks", "plan", "execute", "messages")
_KIND_OF = {
    "ListObjectsV2": "LIST",
    "GetObject": "GET",
    "HeadObject": "GET",
    "PutObject": "PUT",
    "DeleteObject": "DELETE",
    "DeleteObjects": "DELETE",
}
_ROOTS = ("snapshot/", "changelog/", "tag/", "branch/", "schema/", "consumer/")
_SQS_REQUESTS = 2
"""Of a message beside the one that sends it: it is received and deleted."""


@dataclass(slots=True)
class Bill:
    """What was counted."""

    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Step and kind -> how many, with those that execute plans."""
    invocations: Counter[str] = field(default_factory=Counter)
    gb_seconds: Counter[str] = field(default_factory=Counter)

    def total(self, *kinds: str, steps: tuple[str, ...] = STEPS) -> int:
        """Return how many requests of some kinds there were, all if none are named."""
        chosen = kinds or KINDS
        return sum(count for (step, kind), count in self.requests.items() if kind in chosen and step in steps)

    @property
    def of_scan(self) -> int:
        """Return how many requests to S3 there were until the plan stood."""
        return self.total("LIST", "GET", "PUT", "DELETE", steps=tuple(step for step in STEPS if step != "execute"))

    def dollars(self) -> dict[str, float]:
        """Return what it costs, by service."""
        price = prices()
        messages = self.total("SEND") + _SQS_REQUESTS * sum(self.invocations.values())
        return {
            "S3": self.total("LIST", "PUT") * price["s3_put_list"] + self.total("GET") * price["s3_get"],
            "Lambda": sum(self.gb_seconds.values()) * price["lambda_gb_second"]
            + sum(self.invocations.values()) * price["lambda_request"],
            "SQS": messages * price["sqs_standard"],
        }

    def lines(self) -> Iterator[str]:
        """Yield a table of it."""
        yield f"  {'step':<12}" + "".join(f"{kind:>9}" for kind in KINDS)
        for step in STEPS:
            counts = [self.requests[step, kind] for kind in KINDS]
            if any(counts):
                yield f"  {step:<12}" + "".join(f"{count or '':>9}" for count in counts)
        yield f"  {'in all':<12}" + "".join(f"{self.total(kind):>9}" for kind in KINDS)
        ran = (f"{name} {count} times, {self.gb_seconds[name]:.1f} GB-s" for name, count in self.invocations.items())
        yield f"  ran: {'; '.join(ran)}"
        amounts = self.dollars()
        told = ", ".join(f"{service} {amount:.6f}" for service, amount in amounts.items())
        yield f"  cost: {sum(amounts.values()):.6f} USD ({told})"


class BillWatch:
    """Counts from now on, all tables together. What executes plans counts as such whatever the plan is of."""

    def __init__(self, system: System) -> None:
        """Begin."""
        self.bill = Bill()
        self._system = system
        self._lock = threading.Lock()
        system.aws.after.append(self._note)
        system.listeners.append(self._ended)

    def restart(self) -> Bill:
        """Begin anew, and return what was counted until now."""
        with self._lock:
            bill, self.bill = self.bill, Bill()
        return bill

    def _note(self, request: Request) -> None:
        if request.function in (SCAN, WORKER, "ExecuteBatch"):
            with self._lock:
                self.bill.requests[self._step(request), _KIND_OF.get(request.operation, "SEND")] += 1

    def _ended(self, done: Invocation) -> None:
        if done.function in (SCAN, WORKER, "ExecuteBatch"):
            memory_gb = int(self._system.stack.function(done.function)["MemorySize"]) / 1024
            with self._lock:
                self.bill.invocations[done.function] += 1
                self.bill.gb_seconds[done.function] += done.seconds * memory_gb

    def _step(self, request: Request) -> str:
        if request.operation in SENDS:
            return "messages"
        if request.function == "ExecuteBatch":
            return "execute"
        if request.bucket != self._system.bucket:
            prefix = self._system.stack.parameters["ControlPrefix"]
            key = request.key or str(request.asked.get("Prefix", ""))
            folder = key.removeprefix(f"{prefix}/").partition("/")[0]
            return {"names": "names", "scans": "tasks"}.get(folder, "plan")
        if request.operation == "ListObjectsV2":
            asked = request.asked
            if asked.get("Prefix", "").endswith("/manifest/"):
                return "lists"
            is_of_roots = (
                asked.get("Prefix", "").endswith(_ROOTS) or "Delimiter" in asked or asked.get("MaxKeys") == "1"
            )
            return "roots" if is_of_roots else "list"
        folder, _, name = request.key.rpartition("/")
        if not folder.endswith("/manifest"):
            return "roots"
        return "lists" if name.startswith(("manifest-list-", "index-manifest-")) else "manifests"


@cache
def prices() -> dict[str, float]:
    """Return dollars for one of each, by the names of docs/prices.json."""
    document = json.loads((TEMPLATE.parent / "docs" / "prices.json").read_text(encoding="utf-8"))
    return {name: price["usd"] / price["per"] for name, price in document["prices"].items()}
