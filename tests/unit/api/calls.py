"""One operation after another on a real table: the arguments of each, for a program and for a command line."""

import random
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from os import utime
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

from lakesweep import Table
from lakesweep.operations.registry import OPERATIONS
from lakesweep.runs.parameters.parameter import flag

_COMMIT = {"catalog_type": "filesystem"}
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "expire-snapshots": {"retain_max": 2, "retain_min": 1, "options": {"snapshot.expire.limit": "50"}},
    "expire-changelogs": {"retain_max": 1},
    "clear-consumers": {"including_consumers": "se.*"},
    "reset-consumer": {"consumer_id": "search", "next_snapshot_id": 3},
    "remove-orphan-files": {"older_than": "1 d"},
    "create-tag": {"tag": "fresh", "snapshot": 3},
    "replace-tag": {"tag": "kept", "snapshot": 4},
    "rename-tag": {"tag": "kept", "target_tag": "renamed"},
    "delete-tag": {"tag": ["kept", "absent"]},
    "expire-tags": {"pattern": "k*", "keep_last": 1},
    "tag-schedule": {"options": {"tag.automatic-creation": "process-time", "sink.process-time-zone": "UTC"}},
    "drop-partition": {"partition": "day=2", **_COMMIT},
    "truncate": _COMMIT,
    "expire-partitions": {"options": {"partition.expiration-time": "1 d"}, **_COMMIT},
    "delete-rows": {"where": "id < 4", **_COMMIT},
    "erase": {"where": "id = 5", **_COMMIT},
    "compact": {"full": True, **_COMMIT},
    "compact-manifest": _COMMIT,
    "remove-unexisting-files": _COMMIT,
    "remove-unexisting-manifests": _COMMIT,
    "clean-deletion-vectors": _COMMIT,
    "repair-hints": {},
    "rollback": {"snapshot": 4},
    "create-branch": {"branch": "fresh", "snapshot": 5},
    "delete-branch": {"branch": "trial"},
    "fast-forward": {"branch": "trial"},
    "undo": {"run_id": "RUN"},
    "maintain": {},
}
"""An example of each operation. `RUN` stands for the run that deleted a tag."""


@dataclass(frozen=True, slots=True)
class Lake:
    """A table and its control location, of which a copy is put back before each call."""

    folder: Path
    run_id: str

    @property
    def table(self) -> Path:
        return self.folder / "lake" / "orders"

    @property
    def control(self) -> Path:
        return self.folder / "control"

    def reset(self) -> None:
        """Put everything back as it was."""
        for name in ("lake", "control"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
            shutil.copytree(self.folder / "first" / name, self.folder / name)

    def arguments(self, operation: str) -> dict[str, Any]:
        return {key: self.run_id if value == "RUN" else value for key, value in ARGUMENTS[operation].items()}


def write_lake(folder: Path, seed: int) -> Lake:
    """Write a table at random: partitions, rewritten rows, tags, a branch, a consumer, an orphan file."""
    dice = random.Random(seed)
    fields = pa.schema([("id", pa.int64()), ("day", pa.string()), ("price", pa.float64())])
    options = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "4"}
    catalog = CatalogFactory.create({"warehouse": str(folder / "warehouse")})
    catalog.create_database("sales", True)
    schema = Schema.from_pyarrow_schema(fields, partition_keys=["day"], options=options)
    catalog.create_table("sales.orders", schema, True)
    for _ in range(dice.randint(6, 9)):
        count = dice.randint(3, 12)
        rows = {
            "id": [dice.randint(1, 9) for _ in range(count)],
            "day": [str(dice.randint(1, 3)) for _ in range(count)],
            "price": [dice.random() for _ in range(count)],
        }
        builder = catalog.get_table("sales.orders").new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        write.write_arrow(pa.table(rows, schema=fields))
        commit.commit(write.prepare_commit())
        write.close()
        commit.close()
    (folder / "lake").mkdir()
    (folder / "warehouse" / "sales.db" / "orders").rename(folder / "lake" / "orders")
    here = Table(folder / "lake" / "orders", control=folder / "control")
    consumer = folder / "lake" / "orders" / "consumer" / "consumer-search"
    consumer.parent.mkdir()
    consumer.write_text('{"nextSnapshot": 5}')
    for name in ("kept", "gone"):
        here.run("create-tag", tag=name, snapshot=2)
    here.run("create-branch", branch="trial", tag="kept")
    run = here.run("delete-tag", tag="gone")
    orphan = folder / "lake" / "orders" / "day=1" / "bucket-0" / f"data-{UUID(int=dice.getrandbits(128))}-0.parquet"
    orphan.write_bytes(b"left over")
    utime(orphan, (1_700_000_000, 1_700_000_000))
    (folder / "first").mkdir()
    for name in ("lake", "control"):
        shutil.copytree(folder / name, folder / "first" / name)
    assert run.run_id is not None
    return Lake(folder, run.run_id)


def words_of(operation: str, arguments: Mapping[str, Any]) -> Iterator[str]:
    """Yield the words of a command line for arguments of a program."""
    for parameter in OPERATIONS[operation].signature.parameters:
        value = arguments.get(parameter.name)
        if value is None:
            continue
        if isinstance(value, Mapping):
            value = [f"{key}={each}" for key, each in value.items()]
        for each in value if isinstance(value, list) else [value]:
            if not parameter.is_positional:
                yield str(parameter.typed)
            if parameter.kind is not flag:
                yield str(each)


_RANDOM = (
    (re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.+]+Z?"), "TIME"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UUID"),
)

_COMPRESSION = 16
"""Two documents that differ in an id or a time differ by so many bytes at most once they are compressed."""


def comparable(value: Any, name: str = "") -> Any:
    """Return a document without what differs from call to call: ids, times, and the words for arguments."""
    if isinstance(value, dict):
        return {key: comparable(each, key) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [comparable(each, name) for each in value]
    if (name == "seconds" and isinstance(value, float)) or name == "age_ms":
        return "time"
    if isinstance(value, int) and not isinstance(value, bool) and value > 1_600_000_000_000:
        return "time"
    if name == "seconds":
        return "seconds"
    if isinstance(value, str):
        for pattern, word in _RANDOM:
            value = pattern.sub(word, value)
        if name in ("message", "warnings"):
            value = value.replace("--execute", "execute=True")
            value = re.sub(r"--([a-z-]+)", lambda found: found[1].replace("-", "_"), value)
    return value


def differences(one: Any, other: Any, at: str = "") -> Iterator[str]:
    """Yield the places where two documents differ, apart from ids and times."""
    one, other = comparable(one, at.rpartition(".")[2]), comparable(other, at.rpartition(".")[2])
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for key in one:
            yield from differences(one[key], other[key], f"{at}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, each in enumerate(one):
            yield from differences(each, other[number], f"{at}.{number}")
    elif at.endswith("bytes") and isinstance(one, int) and isinstance(other, int):
        if abs(one - other) > _COMPRESSION:
            yield f"{at}: {one} and {other}"
    elif one != other:
        yield f"{at}: {one!r} and {other!r}"


@contextmanager
def silence(capfd: Any) -> Iterator[None]:
    """Check that the block prints nothing."""
    capfd.readouterr()
    yield
    assert tuple(capfd.readouterr()) == ("", "")
