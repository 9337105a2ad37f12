"""`lakesweep policy test`."""

from collections.abc import Iterator, Mapping
from typing import Any

from lakesweep.cli.command import reads
from lakesweep.cli.inspect.ruling import field_text, retention_line, ruling_lines
from lakesweep.cli.options import Place
from lakesweep.cli.text import fields


@reads(
    "lakesweep policy test s3://lake/sales.db/orders --policy s3://ops/policy.json",
    "lakesweep policy test /data/orders --policy s3://ops/policy.json --json",
    place=("branch", "policy"),
)
def test(place: Place) -> int:
    """Show what a fleet policy says about a table: each key, the rule that decided it, and what looks wrong.

    Rules inherit key by key: the rule of the longest folder that states a key decides it. Warns of rules that name
    folders where nothing lies, that weaken or contradict each other, or that decide nothing. Changes nothing. Exit code
    2: no policy is given, or it is invalid.
    """
    from lakesweep.cli.answer import answer_document
    from lakesweep.operations.inspect.policy import try_policy

    return answer_document(place, lambda opened: try_policy(opened).to_json(), _lines)


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    yield from fields(_pairs(document))


def _pairs(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "table", f"{document['table']}, branch {document['branch']}"
    yield from ruling_lines(document["policy"])
    for field, value in document["defaults"].items():
        yield "default", field_text(field, value)
    yield "means", document["means"]
    yield "retention", retention_line(document)
    for rule in document["rules"]:
        overridden = f"; overridden: {', '.join(map(_key, rule['overridden']))}" if rule["overridden"] else ""
        yield "rule", f"{rule['tables']} decides {', '.join(map(_key, rule['decides'])) or 'nothing'}{overridden}"


def _key(field: str) -> str:
    return field.removesuffix("_ms")
