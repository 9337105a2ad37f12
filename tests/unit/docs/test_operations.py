"""The pages about the deployed system name what the template has."""

import re

import pytest

from tests.conftest import REPOSITORY

DOCS = REPOSITORY / "docs"
TEMPLATE = REPOSITORY / "template.yaml"
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def template() -> str:
    if not TEMPLATE.is_file():
        pytest.skip("no template.yaml")
    return TEMPLATE.read_text(encoding="utf-8")


def test_every_alarm_says_what_to_do() -> None:
    """A row for each alarm, and no row for one that is gone."""
    alarms = set(re.findall(r"AlarmName: !Sub \$\{AWS::StackName\}-([a-z-]+)", template()))
    rows = page("operations.md").split("### Alarms", 1)[1].split("###", 1)[0]
    documented = {
        name for row in re.findall(r"^\| (`[^|]+) \|", rows, re.MULTILINE) for name in re.findall(r"`([a-z-]+)`", row)
    }
    assert documented == alarms


def test_parameters_and_outputs_exist() -> None:
    """Names in the form of the template's that the pages mention."""
    known = set(re.findall(r"^  ([A-Z]\w+):$", template(), re.MULTILINE))
    mentioned = {
        name
        for text in (page("deploy.md"), page("operations.md").split("## The deployed system")[1])
        for name in re.findall(
            r"`((?:[A-Z][a-z]+){1,4}(?:Arns?|Buckets?|Prefix(?:es)?|Role|Schedule|Location|Url|Ids|Accounts|Seconds|Concurrency|Interval))[`=]",
            text,
        )
    }
    assert {"TableBuckets", "TablePrefixes", "DashboardUrl", "AllowedAccounts"} <= mentioned
    assert mentioned - known == set()


@pytest.mark.parametrize("name", sorted(path.name for path in DOCS.glob("*.md")))
def test_links_lead_somewhere(name: str) -> None:
    """To files that exist, and to headings in them."""
    for target, heading in LINK.findall(page(name)):
        path = (DOCS / target).resolve() if target else DOCS / name
        assert path.exists(), (name, target)
        if heading:
            headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
            anchors = {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}
            assert heading in anchors, (name, target, heading)
