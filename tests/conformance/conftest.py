"""The stores that one suite holds to the guarantees of `Store`.

Where a server is known to do something else than AWS, the test says what it does instead: the day that it changes, the
test fails and says so.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.store import Store
from tests.support.memory_store import MemoryStore
from tests.support.s3_server import OTHER_ENDPOINT, S3Server, moto_server, other_server
from tests.support.versitygw import shared_versitygw

SERVERS: dict[str, Callable[[], S3Server]] = {
    "moto": moto_server,
    "versitygw": shared_versitygw,
    **({"other S3": other_server} if OTHER_ENDPOINT else {}),
}
WHOLE_BUCKET = "whole bucket"
ON_SERVERS = [f"{name}{whole}" for name in SERVERS for whole in ("", f", {WHOLE_BUCKET}")]


def server_of(param: str) -> S3Server | None:
    """Return the server that a parameter names, `None` for a store without one."""
    name = param.partition(",")[0]
    return SERVERS[name]() if name in SERVERS else None


@pytest.fixture(params=["memory", "local", *ON_SERVERS])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty store of each kind."""
    server = server_of(request.param)
    if server is not None:
        yield server.store(_prefix(request.param), reader=_reader(request.param))
    else:
        yield LocalStore(str(tmp_path / "root")) if request.param == "local" else MemoryStore("memory://conformance")


@pytest.fixture(params=["memory", *ON_SERVERS])
def versioned(request: pytest.FixtureRequest) -> Iterator[Store]:
    """An empty store of each kind that keeps versions."""
    server = server_of(request.param)
    if server is not None:
        yield server.store(_prefix(request.param), bucket=server.bucket(versioned=True), reader=_reader(request.param))
    else:
        yield MemoryStore("memory://conformance", versioned=True)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> S3Server | None:
    """The server of the store under test."""
    used = "store" if "store" in request.fixturenames else "versioned"
    return server_of(request.node.callspec.params[used])


def _prefix(param: str) -> str:
    return "" if param.endswith(WHOLE_BUCKET) else "some/prefix"


def _reader(param: str) -> str:
    """Return the reader of a store: what it reads does not depend on its prefix, so each has one of the two."""
    return "botocore" if param.endswith(WHOLE_BUCKET) else "obstore"
