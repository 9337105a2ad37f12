"""Who maintains a table: each change below a table's root is held against the table's lease, as the door sees both.

    maintainers = Maintainers(system.clock, system.bucket, system.control_bucket)
    maintainers.watch(system.aws)
    ...
    assert not maintainers.problems and maintainers.most_at_once <= 1

The lease is read from the requests that write it and from nothing that Lakesweep says of it.
"""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from werkzeug.wrappers import Response

from lakesweep.control.area import table_key
from tests.support.system.clock import Clock
from tests.support.system.embedded_aws import OUTSIDE, EmbeddedAws, Request

_TABLE_PARTS = 3
"""`warehouse/sales.db/orders`: so many parts of a key name a table."""
_CHANGES = ("PutObject", "DeleteObject", "DeleteObjects")


@dataclass(frozen=True, slots=True)
class Held:
    """A lease as it was written last."""

    caller: str
    run_id: str
    token: int
    expires_ms: int


class Maintainers:
    """What was seen of all tables."""

    def __init__(self, clock: Clock, bucket: str, control_bucket: str) -> None:
        """Begin with no lease.

        Args:
            clock: By which leases expire.
            bucket: Where the tables are.
            control_bucket: Where the leases are.
        """
        self.problems: list[str] = []
        self.most_at_once = 0
        """Callers that held one table's lease at one time, as each of them could believe."""
        self.changes = 0
        """Objects written or deleted below tables, by who has a role."""
        self.outside: dict[str, str] = {}
        """Prefix of an external root in the bucket -> location of its table. A change there needs the table's lease."""
        self._clock, self._bucket, self._control_bucket = clock, bucket, control_bucket
        self._leases: dict[str, Held] = {}
        """By the name of the table's folder in the control location."""
        self._tags: dict[str, str] = {}
        """Tag -> who wrote it last."""
        self._believed: dict[str, dict[str, int]] = {}
        """Folder -> caller -> until when it may think that it holds the lease."""
        self._lock = threading.Lock()

    def watch(self, aws: EmbeddedAws) -> None:
        """Look at every request from now on."""
        aws.before.append(self.before)
        aws.after.append(self.after)

    def holder(self, location: str) -> Held | None:
        """Return the lease of a table as it was written last."""
        return self._leases.get(table_key(location))

    def before(self, request: Request) -> Response | None:
        """Hold a change against the lease, before it is carried out; a writer's own changes need none."""
        if request.bucket == self._bucket and request.operation in _CHANGES and request.caller != OUTSIDE:
            now_ms = int(self._clock.now() * 1000)
            with self._lock:
                for key in _keys(request):
                    self.changes += 1
                    self._check(request, key, now_ms)
        return None

    def after(self, request: Request) -> None:
        """Note a lease that was written."""
        folder, _, name = request.key.rpartition("/")
        if request.bucket != self._control_bucket or request.operation != "PutObject" or name != "lease.json":
            return
        folder = folder.rpartition("/")[2]
        with self._lock:
            believed = self._believed.setdefault(folder, {})
            if request.status != 200:
                believed.pop(request.caller, None)  # it was told that another one has it
                return
            document = json.loads(request.body)
            written = Held(request.caller, document["run_id"], document["token"], document["expires_at_ms"])
            known = self._leases.get(folder)
            if known is not None and written.token == known.token:
                self.problems.append(f"{folder}: token {known.token} was written twice: {known} and {written}")
            if known is None or written.token > known.token:  # else the answers overtook each other
                self._leases[folder] = written
            believed[request.caller] = written.expires_ms
            now_ms = int(self._clock.now() * 1000)
            at_once = sum(until_ms > now_ms for until_ms in believed.values())
            self.most_at_once = max(self.most_at_once, at_once)

    def _check(self, request: Request, key: str, now_ms: int) -> None:
        what = f"request {request.number}: {request.caller} {request.operation} {key}"
        parts = key.split("/")
        if len(parts) <= _TABLE_PARTS:
            self.problems.append(f"{what}: this lies in no table")
            return
        location = f"s3://{self._bucket}/{'/'.join(parts[:_TABLE_PARTS])}"
        location = next((its for prefix, its in self.outside.items() if key.startswith(f"{prefix}/")), location)
        if self._writes_tag(request, key) or _is_new_metadata(request, key):
            return
        held = self._leases.get(table_key(location))
        if held is None or held.caller != request.caller:
            self.problems.append(f"{what}: the lease is {held}")
        elif held.expires_ms <= now_ms:
            self.problems.append(f"{what}: the lease was over for {now_ms - held.expires_ms} ms: {held}")

    def _writes_tag(self, request: Request, key: str) -> bool:
        """Tell whether a change makes a tag or withdraws one, which needs no lease: it takes nothing from anybody."""
        if "/tag/tag-" not in key:
            return False
        if request.operation == "PutObject":
            self._tags[key] = request.caller
            return True
        return request.operation == "DeleteObject" and self._tags.get(key) == request.caller


def _is_new_metadata(request: Request, key: str) -> bool:
    """Tell whether a change can only add a manifest or list. Nothing names it until a snapshot does."""
    return "/manifest/" in key and request.operation == "PutObject" and request.asked.get("IfNoneMatch") == "*"


def _keys(request: Request) -> Iterator[str]:
    if request.operation == "DeleteObjects":
        yield from (each["Key"] for each in request.asked["Delete"]["Objects"])
    else:
        yield request.key
