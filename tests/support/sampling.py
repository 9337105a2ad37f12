"""Which cases of a test that tries very many a run takes.

`make test` takes some of each test, the same ones in every run. `make test-all` takes all of them, and so does pytest
without `make`.
"""

import os
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from tests.mutations.mutations import MUTATIONS

VARIABLE = "LAKESWEEP_SAMPLED"
"""Says that a run takes a sample; see `make test`."""
TESTS = Path(__file__).resolve().parent.parent
CASES: Mapping[str, int] = {
    "attack": 3,
    "bad_bytes": 3,
    "conformance": 4,
    "deploy": 8,
    "differential": 4,
    "e2e": 6,
    "fault": 2,
    "functions": 4,
    "spark": 2,
    "system": 4,
    "unit": 8,
}
"""Folder below `tests/` -> how many cases of one test are taken there."""
FEWER: Mapping[str, int] = {
    "tests/differential/test_branches.py::test_the_same_branches_survive": 2,
    "tests/differential/test_tags.py::test_the_same_tags_survive": 1,
    "tests/differential/test_tags.py::test_harm_is_noticed": 2,
    "tests/differential/test_comparison.py::test_the_engine_agrees_with_itself": 1,
    "tests/unit/test_mutations.py::test_a_mutation_changes_one_place_of_code_that_still_parses": 1000,
}
"""How many cases are taken of tests that take very long, or hardly any time."""
_NOTICING = frozenset(f"tests/{each.test}" for each in MUTATIONS)
"""They show that a rule of the safety code still has a test, so each is taken."""


def is_sampled() -> bool:
    """Tell whether this run takes a sample."""
    return bool(os.environ.get(VARIABLE))


def chosen(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return what is run of the tests that were found, in their order."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    taken = {item.nodeid for test, found in cases.items() for item in _some(test, found)}
    return [item for item in items if item.nodeid in taken]


def _some(test: str, cases: Sequence[pytest.Item]) -> Iterable[pytest.Item]:
    most = FEWER.get(test) or CASES.get(test.split("/")[1], len(cases))
    in_order = sorted(cases, key=lambda item: (item.nodeid not in _NOTICING, zlib.crc32(item.nodeid.encode())))
    return in_order[: max(most, sum(item.nodeid in _NOTICING for item in cases))]
