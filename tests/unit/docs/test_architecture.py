"""`docs/architecture.md` names modules that there are."""

import re

from lakesweep.operations.registry import OPERATIONS
from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
PACKAGE = REPOSITORY / "shared" / "lakesweep"
_MODULE = re.compile(r"`((?:[a-z_]+/)*[a-z_]+\.py)`")


def test_modules_exist() -> None:
    """With a folder: there, in the package or in the repository. Without one: somewhere."""
    named = sorted(set(_MODULE.findall(PAGE)))
    somewhere = {path.name for folder in ("shared", "tests") for path in (REPOSITORY / folder).rglob("*.py")}
    missing = [
        name
        for name in named
        if not ((PACKAGE / name).exists() or (REPOSITORY / name).exists() if "/" in name else name in somewhere)
    ]
    assert len(named) > 100
    assert missing == []


def test_operations_have_a_row() -> None:
    """Each operation of the registry is in the table of operations."""
    table = PAGE.split("## Operations")[1].split("## Where code lives")[0]
    assert [name for name in OPERATIONS if f"`{name}`" not in table] == []
