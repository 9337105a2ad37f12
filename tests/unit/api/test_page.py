"""The examples of docs/python.md run, one after the other, on a table."""

import re
from pathlib import Path

import pytest

from tests.unit.api.calls import Lake

PAGE = Path(__file__).parents[3] / "docs" / "python.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_the_examples_run(lake: Lake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    places = {
        "s3://lake/sales.db/orders": str(lake.table),
        "s3://lake": str(lake.table.parent),
        "s3://ops/lakesweep": str(lake.control),
    }
    monkeypatch.setenv("LAKESWEEP_CONTROL", str(lake.control))
    names: dict[str, object] = {}
    for example in EXAMPLES:
        local = re.sub("|".join(places), lambda found: places[found[0]], example)
        exec(compile(local, str(PAGE), "exec"), names)
    printed = capsys.readouterr().out
    assert printed.startswith("done ")
    assert "expire-snapshots of" in printed
    assert names["rows"].num_rows > 0  # type: ignore[attr-defined]
