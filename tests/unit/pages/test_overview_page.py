"""The page of the overview, without a browser: its size, what is embedded, and that nothing in it is more than text."""

import hashlib
import json
import re
from base64 import b64encode
from typing import Any

import pytest

from lakesweep.model.overview import GrowthPoint
from lakesweep.operations.inspect.explain.counting import REASONS
from lakesweep.pages.compact import Strings, deltas, unit_of
from lakesweep.pages.figures import age, human_bytes, human_count, human_time, human_usd, visible
from lakesweep.pages.overview import FIELDS, KINDS, compact, overview_page
from lakesweep.pages.page import embedded
from lakesweep.pages.reasons import FAMILIES, SAYS, family_of
from tests.support.overviews import HOSTILE, NOW_MS, PLACE, overview
from tests.unit.pages.elements import Elements

_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def points_of(text: str, width: int) -> list[list[int | None]]:
    """Read a text of `deltas`, as the scripts of the page do."""
    last, numbers, value, weight = [0] * width, [], 0, 1
    for digit in text:
        if digit == ".":
            numbers.append(None)
            continue
        value += _DIGITS.index(digit) % 32 * weight
        weight *= 32
        if _DIGITS.index(digit) >= 32:
            continue
        place = len(numbers) % width
        last[place] += -(value // 2) if value % 2 else value // 2
        numbers.append(last[place])
        value, weight = 0, 1
    return [numbers[start : start + width] for start in range(0, len(numbers), width)]


def test_a_page_of_500_tables_is_below_2_mb() -> None:
    """With 60 points of growth and 60 roots each."""
    document = overview(500).to_json()
    assert sum(len(table["growth"]) == 60 for table in document["tables"]) > 250
    assert len(overview_page(document).encode()) < 2_000_000


def test_500_tables_with_the_most_of_everything() -> None:
    """Every table has 60 points, 60 roots and a name of 100 letters."""
    document: dict[str, Any] = overview(500, failed=0).to_json()
    fullest = max(document["tables"], key=lambda table: len(json.dumps(table)))
    names = [f"database_{number:03}.db/{'n' * 85}" for number in range(500)]
    tables = [{**fullest, "name": name, "table": f"{PLACE}/{name}"} for name in names]
    assert len(overview_page({**document, "tables": tables}).encode()) < 2_000_000


def test_the_figures_of_the_page_are_those_of_the_document() -> None:
    """What is embedded can be read back: growth and timeline exactly, sizes of the growth to a millionth."""
    document: dict[str, Any] = overview(30, names=HOSTILE).to_json()
    data = json.loads(embedded(compact(document)))
    assert data["now"] == NOW_MS
    for table, row in zip(document["tables"], data["tables"], strict=True):
        found = dict(zip(FIELDS, row, strict=True))
        assert found["name"] == table["name"]
        assert (found["bytes"], found["objects"], found["rows"]) == (table["bytes"], table["objects"], table["rows"])
        assert found["problem"] == table["problem"]
        reasons = [
            {"reason": data["reasons"][number][0], "count": count, "bytes": size}
            for number, count, size in zip(*(found["reasons"][start::3] for start in range(3)), strict=True)
        ]
        assert reasons == list(table["reasons"])
        growth = points_of(found["growth"], 4)
        assert [(point[0], point[1], point[2]) for point in growth] == [
            (point["snapshot_id"], point["time_ms"], point["rows"]) for point in table["growth"]
        ]
        top = max((point["bytes"] for point in table["growth"]), default=0)
        for point, original in zip(growth, table["growth"], strict=True):
            assert abs(point[3] * found["unit"] - original["bytes"]) <= max(0.5, top / 1_000_000)
        spans = points_of(found["spans"], 4)
        for number, (span, original) in enumerate(zip(spans, table["timeline"], strict=True)):
            assert KINDS[span[0]] == original["kind"]
            assert (span[1], span[2]) == (original["snapshot_id"], original["time_ms"])
            assert found["spanNames"].get(str(number), str(span[1])) == original["name"]
            assert (span[3] and span[2] + span[3]) == original["until_ms"]
        for short, original in zip(found["findings"], table["findings"], strict=True):
            assert data["texts"][short[0]] == original["code"]
            assert data["texts"][short[2]] == original["says"]
            assert data["texts"][short[3]].replace("\1", table["table"]) == original["command"]


def test_names_become_no_element_and_no_script() -> None:
    """A page of hostile names has the same elements as one of usual names: only JSON contains them."""
    hostile = overview(len(HOSTILE), names=HOSTILE, failed=0)
    page = overview_page(hostile.to_json())
    usual = overview_page(overview(len(HOSTILE), failed=0).to_json())
    assert [tag for tag, _ in Elements(page).tags] == [tag for tag, _ in Elements(usual).tags]
    assert "window.hacked" in page
    assert "<script>window" not in page
    data = json.loads(Elements(page).texts["script"][1])
    assert {table[0].partition("/")[2] for table in data["tables"]} == set(HOSTILE)


@pytest.mark.parametrize("name", HOSTILE)
def test_the_place_is_text(name: str) -> None:
    """It stands in the title and the head of the page."""
    document = {**overview(1).to_json(), "place": name, "warnings": [name]}
    page = overview_page(document)
    assert [tag for tag, _ in Elements(page).tags].count("script") == 7
    assert "<img" not in page
    page.encode()
    for mark in "\u202e\u200f\u2028\udc80\0":
        assert mark not in page


def test_the_policy_allows_what_the_page_has_and_nothing_else() -> None:
    """Each script and the style by their hashes; no request, no text that becomes code."""
    elements = Elements(overview_page(overview(3).to_json()))
    [policy] = [
        attributes["content"]
        for tag, attributes in elements.tags
        if attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    parts = {part.split()[0]: part.split()[1:] for part in policy.split("; ")}
    assert parts["default-src"] == ["'none'"]
    assert "unsafe" not in policy
    scripts = [
        text
        for (_, attributes), text in zip(
            ((tag, attributes) for tag, attributes in elements.tags if tag == "script"),
            elements.texts["script"],
            strict=True,
        )
        if attributes.get("type") != "application/json"
    ]
    assert parts["script-src"] == [_hash(script) for script in scripts]
    assert parts["style-src"] == [_hash(style) for style in elements.texts["style"]]
    assert not any(
        tag != "link" and ({"src", "href"} & attributes.keys()) - {"href"} for tag, attributes in elements.tags
    )
    assert not any(name.startswith("on") or name == "style" for _, attributes in elements.tags for name in attributes)


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_embedded_json_ends_no_element() -> None:
    """Signs that HTML or JavaScript read are escaped."""
    text = embedded({"</script>": "<!-- & \u2028\u2029 \udc80"})
    assert re.search("[<>&\u2028\u2029\udc80]", text) is None
    assert json.loads(text) == {"</script>": "<!-- & \u2028\u2029 \udc80"}


def test_every_reason_has_words_and_a_colour() -> None:
    """The reasons are those of `explain`."""
    assert set(SAYS) == set(REASONS)
    assert {reason for family in FAMILIES for reason in family.reasons} <= set(REASONS)
    assert family_of("current") == "current"
    assert family_of("shared") == "snapshots"
    assert family_of("what a later version says") == "other"


def test_deltas() -> None:
    """Numbers of any size and sign come back, and unknown ones stay unknown."""
    points = [[0, None, 5], [31, 7, -5], [1 << 62, None, 16], [15, 8, -(1 << 70)], [16, 0, 0]]
    assert points_of(deltas(points), 3) == points
    assert deltas([]) == ""


def test_unit_of() -> None:
    """Small sizes are exact; large ones have at least a million steps."""
    assert unit_of([]) == unit_of([None]) == unit_of([1024 * 1_000_000 - 1]) == 1
    assert unit_of([5, 1024 * 1_000_000]) == 1024
    assert unit_of([1024**2 * 1_000_000]) == 1024**2


def test_texts_have_one_number_each() -> None:
    texts = Strings()
    assert [texts.number(text) for text in "abac"] == [0, 1, 0, 2]
    assert texts.all() == ["a", "b", "c"]


def test_unknown_figures_are_called_unknown() -> None:
    assert (human_bytes(None), human_count(None), human_usd(None), human_time(None)) == ("unknown",) * 4
    assert (human_bytes(1023), human_bytes(1536), human_bytes(1024**6)) == ("1023 B", "1.5 KiB", "1024.0 PiB")
    assert (human_count(1234567), human_count(0)) == ("1\u202f234\u202f567", "0")
    assert (human_usd(0), human_usd(0.001), human_usd(12.345), human_usd(12345.6)) == (
        "$0.00",
        "< $0.01",
        "$12.35",
        "$12,346",
    )
    assert (human_time(NOW_MS), human_time(1 << 70)) == ("2026-11-29 11:00 UTC", f"{1 << 70} ms")
    assert (age(0), age(59_999), age(3_600_000), age(90_000_000)) == ("0 s", "59 s", "1 h", "1 d")
    assert visible("a\u202eb\n\udc80\u00e9") == "a\\u202eb\\n\\udc80\u00e9"


def test_what_was_not_measured_stays_unknown() -> None:
    """A point without bytes has none in the page either, instead of 0."""
    document = overview(1, failed=0).to_json()
    table = document["tables"][0]
    point = {"snapshot_id": 7, "time_ms": NOW_MS, "rows": None, "bytes": None}
    assert set(point) == set(GrowthPoint.__slots__)
    row = compact({**document, "tables": [{**table, "growth": [point]}]})["tables"][0]
    assert points_of(row[FIELDS.index("growth")], 4) == [[7, NOW_MS, None, None]]
