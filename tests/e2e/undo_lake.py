"""A table in moto whose expiry can be undone."""

from dataclasses import dataclass
from typing import Any

from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import FakeDeleteMarker, s3_backends

from lakesweep.storage.open import open_store
from lakesweep.storage.store import Store
from tests.support.memory_store import MemoryStore
from tests.support.s3_server import (
    fresh_bucket,
    moto_endpoint,
    moto_settings,
    seed_moto,
)
from tests.support.table_builder import TableBuilder
from tests.unit.cli.command_line import Answer, call

PREFIX = "db.db/orders"


OPTIONS = {"snapshot.num-retained.min": "3", "snapshot.num-retained.max": "3"}


@dataclass(frozen=True)
class Lake:
    """A table and a control location in moto."""

    bucket: str
    control: str

    @property
    def table(self) -> str:
        return f"s3://{self.bucket}/{PREFIX}"

    @property
    def store(self) -> Store:
        return open_store(self.table, settings=moto_settings())

    def call(self, command: str, *words: str) -> Answer:
        places = ("--control", f"s3://{self.control}/c", "--endpoint-url", moto_endpoint(), "--region", "us-east-1")
        return call(command, self.table, *words, *places)

    def expire(self) -> str:
        answer = self.call("expire-snapshots", "--execute", "--json")
        assert (answer.exit_code, answer.document["status"]) == (0, "done"), answer.messages
        return str(answer.document["run_id"])

    def bodies(self) -> dict[str, bytes]:
        """Return what the table holds, past HTTP."""
        found = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[self.bucket].keys.items()
        there = [(key, each) for key, each in found if not isinstance(each, FakeDeleteMarker)]
        return {key.removeprefix(f"{PREFIX}/"): each.value for key, each in there}

    def run(self) -> dict[str, Any]:
        return dict(self.call("runs", "--json").document["runs"][0])


def make(bucket: str) -> Lake:
    memory = MemoryStore()
    table = TableBuilder(memory, partition_keys=("dt",), options=OPTIONS)
    table.commit("+A", "+B", partition=("d 1",), extra={"A": ["index"]}, statistics="s1")
    table.tag("kept", snapshot=1)
    for number in range(2, 9):
        table.commit(
            f"-{'A' if number == 2 else f'F{number - 1}'}",
            f"+F{number}",
            partition=(f"d {number % 3}",),
            changelog=[f"+L{number}"],
            index={f"i{number}": {f"F{number}": (1,)}},
            merge_base=number % 5 == 0,
        )
    table.hint("EARLIEST", 1)
    table.hint("LATEST", 8)
    for entry in memory.list(""):
        seed_moto(bucket, [f"{PREFIX}/{entry.key}"], memory.read(entry.key).data)
    return Lake(bucket, fresh_bucket())
