"""Whole runs against real servers, in processes of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.s3_server import S3Server
from tests.support.versitygw import Versitygw, require_versitygw, shared_versitygw


@pytest.fixture(autouse=True)
def _no_session_token(monkeypatch: pytest.MonkeyPatch) -> None:
    # moto takes any; versitygw refuses one that it has not given out.
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)


@pytest.fixture
def versitygw() -> S3Server:
    """A server that other tests use too."""
    return shared_versitygw()


@pytest.fixture
def own_versitygw(tmp_path: Path) -> Iterator[Versitygw]:
    """A server of this test alone, which may kill it."""
    gateway = Versitygw(require_versitygw(), tmp_path / "versitygw").start()
    yield gateway
    gateway.kill()
