"""A table and a control location in one place, and the command line on them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lakesweep.storage.open import DEFAULT_SETTINGS, StoreSettings, open_store
from lakesweep.storage.store import Store
from tests.support.s3_server import S3Server
from tests.unit.cli.command_line import Answer, call

PREFIX = "db.db/orders"


@dataclass(frozen=True)
class Lake:
    """Where one table and the documents about it lie."""

    table: str
    control: str
    server: S3Server | None = None
    bucket: str = ""

    @property
    def settings(self) -> StoreSettings:
        """Return what opens the stores."""
        return self.server.settings if self.server else DEFAULT_SETTINGS

    @property
    def store(self) -> Store:
        """Return the table's store."""
        return open_store(self.table, settings=self.settings)

    def words(self, command: str, *words: str) -> list[str]:
        """Return a command line for this table."""
        places = ["--control", self.control]
        if self.server:
            places += ["--endpoint-url", self.server.endpoint, "--region", self.server.region]
        return [command, self.table, *words, *places, "--json"]

    def call(self, command: str, *words: str) -> Answer:
        """Run one command in this process."""
        return call(*self.words(command, *words))

    def bodies(self) -> dict[str, bytes]:
        """Return every object of the table."""
        store = self.store
        return {entry.key: store.read(entry.key).data for entry in store.list("")}

    def keys(self) -> set[str]:
        """Return the key of every object of the table."""
        return {entry.key for entry in self.store.list("")}

    def versions(self) -> "Versions":
        """Return what a versioned bucket holds of the table, asked of the server itself."""
        assert self.server is not None
        found = Versions()
        pages = self.server.client.get_paginator("list_object_versions")
        for page in pages.paginate(Bucket=self.bucket, Prefix=f"{PREFIX}/"):
            for field_name, counts in (("Versions", found.objects), ("DeleteMarkers", found.markers)):
                for entry in page.get(field_name, ()):
                    key = entry["Key"].removeprefix(f"{PREFIX}/")
                    counts[key] = counts.get(key, 0) + 1
        return found


@dataclass(frozen=True)
class Versions:
    """Key -> how many."""

    objects: dict[str, int] = field(default_factory=dict)
    markers: dict[str, int] = field(default_factory=dict)


def lake_on(server: S3Server, objects: Mapping[str, bytes], *, versioned: bool = False) -> Lake:
    """Put a table into a bucket of a server; its control location is another."""
    bucket, control = server.bucket(versioned=versioned), server.bucket()
    server.seed(bucket, {f"{PREFIX}/{key}": data for key, data in objects.items()})
    return Lake(f"s3://{bucket}/{PREFIX}", f"s3://{control}/c", server, bucket)


def lake_in(folder: Path, objects: Mapping[str, bytes]) -> Lake:
    """Put a table into a local folder; its control location is beside it."""
    for key, data in objects.items():
        path = folder / "table" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return Lake(str(folder / "table"), str(folder / "control"))
