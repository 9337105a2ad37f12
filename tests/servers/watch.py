"""A table in a bucket with versions, which several writers change, and which Lakesweep watches by events and sweeps."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.control.state import read_states
from lakesweep.model.commits.lost import LostCommit
from lakesweep.model.commits.seen import Announced
from lakesweep.operations.maintenance.maintain import MaintainArguments, maintain
from lakesweep.operations.maintenance.triage import lag_of, triage
from lakesweep.storage.open import open_store
from lakesweep.storage.store import HiddenState, Store
from lakesweep.storage.wrappers.wrapping import WrappingStore
from tests.differential.engine import Engine
from tests.support.lake import Lake
from tests.support.maintenance import Maintainer
from tests.support.s3_server import S3Server
from tests.support.sampling import is_sampled
from tests.support.unlocked_writer import COLUMNS, TABLE, opened

LEAST_REPLACED = 3 if is_sampled() else 20
LEAST_OF_EACH = 1 if is_sampled() else 2
"""So often Java replaces a snapshot of pypaimon, and pypaimon one of Java."""
SENT_AFTER_MS = 2000
"""S3 sends an event some time after the write, and the functions take the events of ten seconds together."""
RETAINED = {
    "snapshot.num-retained.min": "1000",
    "snapshot.num-retained.max": "2000",
    "bucket": "-1",
    "commit.user-prefix": "pypaimon",
}


class Unversioned(WrappingStore):
    """What lies below an object is not told."""

    def hidden(self, keys: Sequence[str]) -> Sequence[HiddenState]:
        return [HiddenState("unknown") for _ in keys]


class Watch:
    """Lakesweep, as events and sweeps call it."""

    def __init__(self, server: S3Server, *, versioned: bool = True, sees_versions: bool = False) -> None:
        from pypaimon import Schema

        self.server = server
        self.is_versioned = versioned
        self.bucket, control = server.bucket(versioned=versioned), server.bucket()
        self.lake = Lake(f"s3://{self.bucket}/warehouse/db.db/t", f"s3://{control}/c", server, self.bucket)
        catalog = opened(server.endpoint, server.region, server.access_key, server.secret_key, self.bucket)
        catalog.create_database("db", False)
        schema = Schema.from_pyarrow_schema(COLUMNS, partition_keys=["dt"], options=RETAINED)
        catalog.create_table(TABLE, schema, False)
        self.table: Any = catalog.get_table(TABLE)
        self.lost: list[LostCommit] = []
        self.doubts: list[str] = []
        self.looks = 0
        self._store: Store = self.lake.store if sees_versions else Unversioned(self.lake.store)
        self._random = Random(1)
        self._told: dict[str, Announced] = {}
        self._noted: dict[str, tuple[Announced, bool]] = {}
        self._control = open_store(self.lake.control, settings=server.settings)

    def maintainer(self) -> Maintainer:
        return Maintainer(self._store, control=self._control)

    def versions(self) -> dict[str, tuple[Announced, bool]]:
        """Return what the server keeps of snapshots: version -> the snapshot, and whether it is there now.

        While one replaces another, versitygw lists that one twice: it is still there, and kept as an older one already.
        """
        found: dict[str, tuple[Announced, bool]] = {}
        prefix = "warehouse/db.db/t/snapshot/snapshot-"
        if not self.is_versioned:
            return self._noted
        for page in self.server.client.get_paginator("list_object_versions").paginate(
            Bucket=self.bucket, Prefix=prefix
        ):
            for each in page.get("Versions", ()):
                number = each["Key"].removeprefix(prefix)
                if number.isdecimal():  # writers leave temporary files
                    time_ms = int(each["LastModified"].timestamp()) * 1000
                    event = Announced(int(number), each["ETag"].strip('"'), time_ms, each["Size"])
                    found.setdefault(each["VersionId"], (event, each["IsLatest"]))
        return found

    def note(self) -> None:
        """Note the snapshots of a bucket without versions, before something else happens to them."""
        for each in self.lake.store.list("snapshot/"):
            number = each.key.removeprefix("snapshot/snapshot-")
            if number.isdecimal():
                event = Announced(int(number), each.etag, each.modified_ms // 1000 * 1000, each.size_bytes)
                self._noted[f"{number} {each.etag} {each.modified_ms}"] = event, True

    def gone(self) -> set[tuple[int, int]]:
        """Return ids and numbers of the snapshots that were replaced."""
        return {event.seen.key for event, is_there in self.versions().values() if not is_there}

    def pairs(self) -> Counter[str]:
        """Return how often which writer has a snapshot where which other one had one, in words."""
        gone = [(version, event.id) for version, (event, is_there) in self.versions().items() if not is_there]
        now = {each: self._writer(each) for each in {snapshot_id for _, snapshot_id in gone}}
        return Counter(f"{self._writer(each, version)} by {now[each]}" for version, each in gone)

    def _writer(self, snapshot_id: int, version: str | None = None) -> str:
        which = {} if version is None else {"VersionId": version}
        key = f"warehouse/db.db/t/snapshot/snapshot-{snapshot_id}"
        body = self.server.client.get_object(Bucket=self.bucket, Key=key, **which)["Body"].read()
        return re.split("[-_]", json.loads(body)["commitUser"])[0]

    def has_enough(self, *, with_java: bool) -> bool:
        """Tell whether each kind of writer has replaced snapshots of the other."""
        pairs = self.pairs()
        between = ("pypaimon by java", "java by pypaimon") if with_java else ("pypaimon by pypaimon",)
        least = min(5, LEAST_REPLACED) if with_java else LEAST_REPLACED  # the JVM is slow where many share a machine
        return pairs.total() >= least and all(pairs[each] >= LEAST_OF_EACH for each in between)

    def deliver(self, *, is_last: bool = False, late: float = 0.0) -> None:
        """Let the events of new snapshots come, in any order, with some that had come before.

        Args:
            is_last: Also of those that were written just now.
            late: The share of those that come with a later call.
        """
        known = dict(self._told)
        sent_ms = self.lake.store.now_ms() - (0 if is_last else SENT_AFTER_MS)
        found = ((version, event) for version, (event, _) in self.versions().items())
        sent = {version: event for version, event in found if event.time_ms <= sent_ms}
        self._told |= {version: sent[version] for version in sent if self._random.random() >= late}
        new = [event for version, event in self._told.items() if version not in known]
        again = [event for event in known.values() if self._random.random() < 0.05]
        self._random.shuffle(new)
        half = len(new) // 2
        for batch in (new[:half], new[half:] + again):
            events = tuple(sorted(set(batch)))
            newest = events[-1:]
            for each in newest:
                if triage(self.maintainer().table, each.id, 0, each.etag, events).is_due:
                    self._look(events)

    def sweep(self) -> None:
        state = read_states(ControlArea(self._control, self.lake.table)).get("main")
        if lag_of(self.maintainer().table, state) is not None:
            self._look(())

    def _look(self, announced: tuple[Announced, ...]) -> None:
        self.looks += 1
        arguments = MaintainArguments(announced=announced, is_due=True)
        report = maintain(self.maintainer().table, arguments, execute=True)
        self.lost += report.all_lost()
        self.doubts += [each for each in report.warnings if "either somebody" in each]


def engine_of(request: pytest.FixtureRequest, folder: Path, watch: Watch, endpoint: str) -> Engine:
    """Start a JVM that reaches the server at an endpoint."""
    server = watch.server
    engine = Engine(folder / "jvm", request.getfixturevalue("engine_classpath"), heap="512m")
    request.addfinalizer(engine.close)
    options = {
        "s3.endpoint": endpoint,
        "s3.access-key": server.access_key,
        "s3.secret-key": server.secret_key,
        "s3.path.style.access": "true",
        "s3.endpoint.region": server.region,
        "s3.connection.ssl.enabled": "false",
    }
    engine("open", warehouse=f"s3://{watch.bucket}/warehouse", options=options, tmp=str(folder / "spill"))
    return engine
