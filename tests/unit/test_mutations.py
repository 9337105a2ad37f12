"""The list of mutations fits the code that it changes: a change that stands nowhere proves nothing."""

import ast
from pathlib import Path

import pytest

from tests.mutations.mutations import MUTATIONS, Mutation

REPOSITORY = Path(__file__).resolve().parent.parent.parent


def test_there_are_enough_mutations_and_each_has_a_name_of_its_own() -> None:
    assert len({each.name for each in MUTATIONS}) == len(MUTATIONS) >= 42


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.name.replace(" ", "-"))
def test_a_mutation_changes_one_place_of_code_that_still_parses(mutation: Mutation) -> None:
    source = (REPOSITORY / "shared" / "lakesweep" / f"{mutation.module}.py").read_text(encoding="utf-8")
    assert source.count(mutation.before) == 1
    changed = ast.parse(source.replace(mutation.before, mutation.after))
    assert ast.dump(changed) != ast.dump(ast.parse(source))
    module = REPOSITORY / "tests" / mutation.test.partition("::")[0]
    assert module.is_file()
    assert f"def {mutation.test.partition('::')[2].partition('[')[0]}(" in module.read_text(encoding="utf-8")
