"""Opening stores by location, and what that costs."""

import subprocess
import sys
from pathlib import Path

import pytest

from lakesweep.errors import UsageError
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.open import MEMORY_STORES, open_store
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.s3.store import S3Store
from tests.support.memory_store import MemoryStore
from tests.support.s3_server import fresh_bucket, moto_settings

EXPENSIVE = ("boto3", "botocore", "urllib3", "pyarrow", "fastavro")


def test_import_is_cheap() -> None:
    """A local table never waits for the AWS library."""
    code = (
        "import sys, lakesweep.storage.open as o; o.open_store('/tmp');"
        f"print([name for name in {EXPENSIVE!r} if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_local(tmp_path: Path) -> None:
    counter = RequestCounter()
    store = open_store(f"file://{tmp_path}/t/", counter=counter)
    assert isinstance(store, LocalStore)
    assert store.location == f"{tmp_path}/t"
    list(store.list(""))
    assert counter.snapshot()["list"] == 1
    assert not (tmp_path / "t").exists(), "opening and listing make nothing"


def test_s3() -> None:
    bucket, counter = fresh_bucket(), RequestCounter()
    store = open_store(f"s3a://{bucket}//a/b/", counter=counter, settings=moto_settings())
    assert isinstance(store, S3Store)
    assert store.location == f"s3://{bucket}/a/b"
    assert counter.snapshot()["list"] == 0, "opening asks nothing"
    store.put("k", b"x")
    assert counter.snapshot()["put"] == 1


def test_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore("memory://here/t")
    monkeypatch.setitem(MEMORY_STORES, "memory://here/t", lambda: store)
    assert open_store("memory://here/t/") is store
    with pytest.raises(UsageError):
        open_store("memory://there")


@pytest.mark.parametrize("text", ["", "hdfs://host/t", "https://host/t", "s3:/b/t"])
def test_unknown(text: str) -> None:
    with pytest.raises(UsageError):
        open_store(text)
