"""The stores that one suite holds to the guarantees of `Store`."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakesweep.storage.local import LocalStore
from lakesweep.storage.memory import MemoryStore
from lakesweep.storage.store import Store
from tests.support.s3_server import OTHER_ENDPOINT, moto_store, other_store, versioned_bucket

STORES: dict[str, Callable[[Path], Store]] = {
    "memory": lambda folder: MemoryStore(f"memory://{folder.name}"),
    "local": lambda folder: LocalStore(str(folder / "root")),
    "moto": lambda _: moto_store("some/prefix"),
    "moto, whole bucket": lambda _: moto_store(""),
    **({"other S3": lambda _: other_store()} if OTHER_ENDPOINT else {}),
}

VERSIONED: dict[str, Callable[[Path], Store]] = {
    "memory": lambda folder: MemoryStore(f"memory://{folder.name}", versioned=True),
    "moto": lambda _: moto_store("some/prefix", bucket=versioned_bucket()),
    "moto, whole bucket": lambda _: moto_store("", bucket=versioned_bucket()),
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty store of each kind."""
    yield STORES[request.param](tmp_path)


@pytest.fixture(params=VERSIONED)
def versioned(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty store of each kind that keeps versions."""
    yield VERSIONED[request.param](tmp_path)
