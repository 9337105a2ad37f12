"""Tests have the same names in every process, at any time: what shares them among processes goes by their names."""

import os
import re
import subprocess
import sys

import pytest

from tests.conftest import REPOSITORY
from tests.support.seeds import draw_seeds, first_seed


@pytest.mark.long
def test_another_process_finds_the_same_tests(request: pytest.FixtureRequest) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "", "-p", "no:cacheprovider", "tests"],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    names = set(found.stdout.splitlines())
    here = {item.nodeid for item in request.session.items}
    assert here <= names, (sorted(here - names)[:5], found.stdout[-500:], found.stderr[-500:])


def test_a_seed_is_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """By whoever starts the others: each of them would find tests of its own."""
    monkeypatch.setenv("LAKESWEEP_DIFFERENTIAL_SEED", "random")
    monkeypatch.setenv("LAKESWEEP_SCHEDULE_SEED", "17")
    draw_seeds()
    drawn = first_seed("LAKESWEEP_DIFFERENTIAL_SEED")
    draw_seeds()
    assert first_seed("LAKESWEEP_DIFFERENTIAL_SEED") == drawn
    assert first_seed("LAKESWEEP_SCHEDULE_SEED") == 17
    monkeypatch.delenv("LAKESWEEP_SCHEDULE_SEED")
    assert first_seed("LAKESWEEP_SCHEDULE_SEED", 5) == 5


def test_no_module_imports_from_a_module_of_tests() -> None:
    """What two modules of tests use lies in tests/support, or in a module beside them that has no tests.

    One module plays the tests of one engine once more with other engines: there the tests themselves are what it needs.
    """
    imports = re.compile(r"^\s*(?:import|from) +[^#\n]*\btest_|^\s*from +\S+ +import +\([^)]*\btest_", re.MULTILINE)
    found = [
        str(path.relative_to(REPOSITORY))
        for path in (REPOSITORY / "tests").rglob("*.py")
        if path.name != "scans_by_engine.py" and imports.search(path.read_text(encoding="utf-8"))
    ]
    assert not found
