"""What differential tests share."""

from __future__ import annotations

import pytest

from lakesweep.operations.writing import options


@pytest.fixture(autouse=True)
def _few_rows_make_several_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target of a few bytes is one, so that small tables show what happens with many files."""
    monkeypatch.setattr(options, "LEAST_TARGET_BYTES", 1)
