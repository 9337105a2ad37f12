"""`docs/architecture.md` names modules that there are."""

import re

from benchmarks.size import LONG
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


def test_long_modules_are_named() -> None:
    """Each module above 300 lines is in the list that says why it is not split, and no other."""
    listed = PAGE.split(f"Modules above {LONG} lines", 1)[1].split("## ", 1)[0]
    long = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if path.read_text(encoding="utf-8").count("\n") > LONG
    }
    folder, named = "", set()
    for name in _MODULE.findall(listed):  # a module without a folder is in the folder named before it
        folder = name.rpartition("/")[0] or folder
        named.add(f"{folder}/{name.rpartition('/')[2]}")
    assert named == long
