"""Generated pages are what the declarations make them."""

import json
from dataclasses import fields
from typing import get_args

from benchmarks import reference
from lakesweep.format.codec import from_json, to_json
from lakesweep.model.overview import Overview, TableOverview
from lakesweep.model.simulation import Case, Outcome, Simulation, TableSimulation
from lakesweep.operations.inspect.explain.explanation import Explanation
from lakesweep.operations.inspect.explain.table import TableShares
from lakesweep.operations.inspect.table_summary import TableSummary
from lakesweep.operations.overview.findings import SEVERITIES
from lakesweep.runs.parameters.signatures import SIGNATURES

WORDS = reference.words()


def described(table: str) -> set[str]:
    """Return the single keys that a table describes."""
    return {key for keys in WORDS[table]["rows"] for key in keys.split(", ")}


def test_the_pages_are_up_to_date() -> None:
    """A change of a parameter, a help text or a stable word needs `make docs`."""
    for name, page in reference.pages().items():
        assert (reference.DOCS / name).read_text(encoding="utf-8") == page, f"run make docs to write docs/{name}"


def test_the_template_shows_every_table_once() -> None:
    """A table that no page shows would be forgotten."""
    template = (reference.TEMPLATES / "cli_json.md").read_text(encoding="utf-8")
    assert [name for name in WORDS if template.count(f"{{{{{name}}}}}") != 1] == []
    examples = [path.name for path in reference.TEMPLATES.glob("*.json")]
    assert [name for name in examples if template.count(f"{{{{{name}}}}}") != 1] == []


def test_a_row_has_a_text_for_each_column() -> None:
    """The first column is the word itself."""
    for name, table in WORDS.items():
        for key, texts in table["rows"].items():
            assert len(table["columns"]) == 1 + (1 if isinstance(texts, str) else len(texts)), (name, key)


def test_described_keys_are_those_of_the_documents() -> None:
    """No key is described that a document does not have."""
    summary = {each.name for each in fields(TableSummary)}
    assert described("show") <= summary
    assert described("explain_file") <= {each.name for each in fields(Explanation)}
    shares = set(TableShares("", 0, 0, 0, (), None).to_json())
    assert described("explain_table") <= shares
    assert described("simulate") <= {each.name for each in fields(Simulation)}
    of_case = {each.name for kind in (Case, TableSimulation) for each in fields(kind)}
    assert described("simulate_table") <= of_case
    assert described("reader_outcomes") == set(get_args(Outcome))
    assert described("overview") == {each.name for each in fields(Overview)}
    assert described("overview_table") == {each.name for each in fields(TableOverview)}
    findings = {code: severity for code, (severity, _) in WORDS["overview_findings"]["rows"].items()}
    assert findings == SEVERITIES


def test_the_example_of_an_overview_is_one() -> None:
    """With every key of the document."""
    example = json.loads((reference.TEMPLATES / "overview.json").read_text(encoding="utf-8"))
    assert to_json(from_json(Overview, example, "overview.json")) == example


def test_every_parameter_of_an_operation_is_on_the_page() -> None:
    """With its option, or as a parameter that only JSON has."""
    page = reference.pages()["commands.md"]
    for signature in SIGNATURES.values():
        (part,) = [part for part in page.split("\n## ") if f"Operation `{signature.name}`:" in part]
        for parameter in signature.parameters:
            assert f"| `{parameter.name}` | {parameter.kind.says} |" in part
            assert parameter.typed is None or f"| `{parameter.typed}" in part
