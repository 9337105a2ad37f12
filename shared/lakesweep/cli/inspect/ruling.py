"""The fleet policy and a retention as text."""

from collections.abc import Iterator, Mapping
from typing import Any

from lakesweep.cli.text import counted, human_span

NO_POLICY = "none (--policy, $LAKESWEEP_POLICY)"


def ruling_lines(policy: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    """Render the `policy` of a document: what it says about the table, and each field with the rule that decided it."""
    if policy is None:
        yield "policy", NO_POLICY
        return
    yield "policy", policy["says"].removeprefix("policy ")
    for each in policy["fields"]:
        yield "policy", f"{field_text(each['field'], each['value'])} (rule for {each['rule']})"


def field_text(field: str, value: Any) -> str:
    """Render a field of a rule, by its key in the policy."""
    return f"{field.removesuffix('_ms')} {_value(field, value)}"


def retention_line(document: Mapping[str, Any]) -> str:
    """Render the retention of a document, and who states it."""
    fields = [] if document["policy"] is None else document["policy"]["fields"]
    folder = next((each["rule"] for each in fields if each["field"] == "retention"), None)
    stated = {
        "schema": "stated by the schema",
        "policy": f"stated by the policy for {folder}",
        "defaults": "defaults; a pass expires none",
    }
    has_floor = any(each["field"].startswith("min_") for each in fields)
    least = ", and at least the policy's minimums" if has_floor else ""
    return f"{retention_text(document['retention'], 'snapshot')} ({stated[document['retention_from']]}){least}"


def _value(field: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if field == "pause":
        from lakesweep.model.pause import Pause

        return str(Pause(**value))
    if isinstance(value, Mapping) and value and field != "retention":
        return ", ".join(f"{key} {text}" for key, text in value.items())
    if field == "retention" and value:
        return retention_text(value, "snapshot")
    if isinstance(value, list):
        return ", ".join(each if isinstance(each, str) else _calendar(each) for each in value) or "none"
    return human_span(value) if field.endswith("_ms") else str(value or "none")


def _calendar(rule: Mapping[str, Any]) -> str:
    """Render a calendar rule of tags, such as `20* (keep_daily 30)`."""
    words = [f"{key.removesuffix('_ms')} {_value(key, value)}" for key, value in rule.items() if key != "pattern"]
    return f"{rule['pattern']} ({', '.join(words)})"


def retention_text(rules: Mapping[str, Any] | None, what: str) -> str:
    """Render a retention."""
    if rules is None:
        return "none that can be read"
    most = "no limit" if rules["retain_max"] >= 2_147_483_647 else f"at most {rules['retain_max']}"
    life = "of any age" if rules["time_retained_ms"] is None else f"for {human_span(rules['time_retained_ms'])}"
    return f"at least {counted(rules['retain_min'], what)}, {most}, {life}, {rules['max_deletes']} a run"
