"""`docs/safety.md` names modules and tests that exist."""

import re

from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs" / "safety.md").read_text(encoding="utf-8")
PACKAGE = REPOSITORY / "shared" / "lakesweep"


def test_modules_exist() -> None:
    """A test without a folder lies in the folder that the page names last before it."""
    missing, count, folder = [], 0, ""
    for name in re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.py)`", PAGE):
        count += 1
        if name.startswith("tests/"):
            folder = name.rpartition("/")[0]
        path = REPOSITORY / folder / name if name.startswith("test_") else PACKAGE / name
        if not path.is_file() and not (REPOSITORY / name).is_file():
            missing.append(name)
    assert count > 80
    assert missing == []
