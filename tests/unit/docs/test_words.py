"""A page explains Lakesweep's own words, or links to what explains them, where it first uses them."""

import re
from pathlib import Path

import pytest

from benchmarks.size import GENERATED
from tests.conftest import REPOSITORY

PAGES = sorted(
    path
    for path in (REPOSITORY / "README.md", *(REPOSITORY / "docs").glob("*.md"))
    if not path.read_text(encoding="utf-8").startswith(GENERATED) and path.name != "glossary.md"
)
_BLOCK = re.compile(r"^ *```.*?^ *```$|^#.*?$", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("word", ["control location", "fleet policy"])
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_first_use_is_explained(page: Path, word: str) -> None:
    """The first use is a link, or the emphasised word of its definition."""
    text = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    words = r"\s".join(word.split())
    found = re.search(rf"(.){words}(.)", text, re.IGNORECASE | re.DOTALL)
    assert found is None or found.groups() in {("[", "]"), ("*", "*")}, f"{page.name}: {found[0]}"
