"""What the storage tests share."""

from types import SimpleNamespace

import pytest


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long botocore would have waited between attempts; it does not."""
    found: list[float] = []
    monkeypatch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=found.append))
    monkeypatch.setattr("lakesweep.storage.s3.deleting._PAUSE_S", 0)
    return found
