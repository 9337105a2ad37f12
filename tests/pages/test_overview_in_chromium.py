"""The page of the overview in Chromium: what a person sees, clicks, types, hears and prints."""

import re
import time
from functools import cache
from typing import Any

import pytest

from lakesweep.pages.overview import overview_page
from tests.pages.conftest import SCREENS, Open, Opened
from tests.pages.looking import faults, unfold
from tests.support.overviews import HOSTILE, overview


@cache
def document_of(count: int, *names: str) -> dict[str, Any]:
    return overview(count, names=names).to_json()


@cache
def page_of(count: int, *names: str) -> str:
    return overview_page(document_of(count, *names))


def toggle(opened: Opened, place: int) -> str:
    """Open or close the table in a row, and return its name."""
    button = opened.page.locator("#tables tr.row .name button").nth(place)
    button.click()
    return str(button.inner_text())


def test_500_tables(open_page: Open, record_property: Any) -> None:
    """They are all there, with few elements, before anything is opened."""
    page = page_of(500)
    open_page(page_of(20))  # the browser itself is warm
    started = time.perf_counter()
    opened = open_page(page, measured=True)
    seconds = time.perf_counter() - started
    assert opened.count("#tables tr.row") == 500
    assert opened.text("#shown").startswith("500 tables")
    elements = opened.page.evaluate("document.querySelectorAll('*').length")
    assert elements < 15_000
    assert opened.page.evaluate("lakesweep.views.size") == 2  # the treemap and the receipts
    assert 300 < opened.count("#treemap .leaves-marks path") < 1200
    figures = f"{len(page.encode()):,} bytes, {elements} elements, {opened.busy:.2f} s of CPU of its thread"
    record_property("pages", f"500 tables: opened in {seconds:.2f} s; {figures}")


def test_every_chart_has_its_data(open_page: Open) -> None:
    """As many marks as the document has figures, and the same figures as a table."""
    document = document_of(20)
    opened = open_page(page_of(20))
    read = [table for table in document["tables"] if table["problem"] is None]
    assert opened.count("#treemap .leaves-marks path") >= 3 * len(read)
    assert opened.count("#receipts .bars-marks path") == len(document["totals"]["receipts"]) == 3
    place = next(
        place for place, table in enumerate(document["tables"]) if len(table["pins"]) > 1 and len(table["receipts"]) > 1
    )
    table = document["tables"][place]
    toggle(opened, place)
    assert opened.count(".growth .points-marks path") == len(table["growth"]) > 20
    assert opened.count(".timeline .spans-marks path") == len(table["timeline"]) > 20
    for name in ("#treemap", ".growth", ".timeline", "#receipts"):
        box = opened.page.locator(f"{name} svg").bounding_box()
        assert box["width"] > 200
        assert box["height"] > 20
        assert opened.page.locator(name).get_attribute("aria-label")
    for summary in opened.page.locator("details.figures > summary").all():
        summary.click()
    opened.page.locator("details.figures tbody").nth(2).wait_for()
    rows = opened.page.locator("details.figures tbody").all()
    assert [each.locator("tr").count() for each in rows] == [len(read), len(table["growth"]), len(table["timeline"])]
    lanes = opened.page.locator(".timeline").text_content()
    named = [
        f"{span['kind']} {span['name']}" for span in table["timeline"] if span["kind"] not in ("snapshot", "changelog")
    ]
    assert named
    assert all(each in lanes for each in named)


def test_sorting(open_page: Open) -> None:
    """By each column, both ways; a table without figures is last both ways."""
    tables = document_of(20)["tables"]
    opened = open_page(page_of(20))
    names = [table["name"] for table in tables]
    assert opened.names() == names
    failed = [table["name"] for table in tables if table["problem"] is not None]
    head = opened.page.locator("#tables thead th", has_text="Stored")
    assert opened.page.locator("#tables th[aria-sort]").inner_text().startswith("#")
    head.locator("button").click()
    by_bytes = [table["name"] for table in sorted(tables, key=lambda each: -each["bytes"]) if table["problem"] is None]
    assert opened.names() == by_bytes + failed
    assert head.get_attribute("aria-sort") == "descending"
    assert opened.count("#tables th[aria-sort]") == 1
    head.locator("button").focus()
    opened.page.keyboard.press("Enter")
    assert opened.names() == by_bytes[::-1] + failed
    assert head.get_attribute("aria-sort") == "ascending"
    for button in opened.page.locator("#tables thead button").all():
        button.click()
        assert sorted(opened.names()) == sorted(names)


def test_filters(open_page: Open) -> None:
    """By words, findings and reasons; the number of tables is told to people who do not see it."""
    tables = document_of(20)["tables"]
    opened = open_page(page_of(20))
    assert opened.page.locator("#shown").get_attribute("role") == "status"
    opened.page.fill("#search", "RETENTION")
    wanted = [
        table["name"] for table in tables if any(each["code"] == "retention_not_stated" for each in table["findings"])
    ]
    assert 0 < len(wanted) < 20
    assert opened.names() == wanted
    assert opened.text("#shown").startswith(f"{len(wanted)} of 20 tables")
    opened.page.select_option("#by-reason", "tags")
    tagged = [table["name"] for table in tables if any(each["reason"] == "tags" for each in table["reasons"])]
    assert opened.names() == [name for name in wanted if name in tagged]
    opened.page.click("#clear")
    assert len(opened.names()) == 20
    opened.page.select_option("#by-finding", "failed")
    assert opened.names() == [table["name"] for table in tables if table["problem"] is not None]
    opened.page.select_option("#by-finding", "none")
    assert opened.names() == [table["name"] for table in tables if table["problem"] is None and not table["findings"]]
    opened.page.fill("#search", "no such table")
    assert opened.names() == []
    assert "No table matches" in opened.text("#tables tbody")
    assert opened.text("#shown").startswith("0 of 20 tables")


def test_the_treemap_and_the_findings_open_a_table(open_page: Open) -> None:
    """Even one that the filters hide."""
    document = document_of(20)
    opened = open_page(page_of(20))
    opened.page.fill("#search", "no such table")
    largest = max(document["tables"], key=lambda table: table["bytes"])["name"]
    opened.page.locator("#treemap .leaves-marks path").first.hover()
    assert opened.text("#tip b") == largest
    opened.page.locator("#treemap .leaves-marks path").first.click()
    assert opened.text(".detail .full-name").endswith(largest)
    assert opened.page.evaluate("document.activeElement.textContent") == largest
    opened.page.locator("#findings details", has_text="Small files").locator("summary").click()
    link = opened.page.locator("#findings .link").first
    name = link.inner_text()
    link.click()
    assert opened.page.evaluate("document.activeElement.textContent") == name
    assert opened.page.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"


def test_a_command_is_copied(open_page: Open) -> None:
    opened = open_page(page_of(20), permissions=["clipboard-read", "clipboard-write"])
    opened.page.locator("#findings summary", has_text="Retention").click()
    command = opened.text("#findings .command code")
    assert command.startswith("lakesweep maintain s3://lake/warehouse/")
    opened.page.locator("#findings .copy").first.click()
    opened.page.wait_for_function("document.getElementById('said').textContent !== ''")
    assert opened.text("#said") == "The command is copied."
    assert opened.page.evaluate("navigator.clipboard.readText()") == command


def test_by_keyboard_alone(open_page: Open) -> None:
    """Skip to the content, filter, sort, open and close a table, fold a finding, switch the theme."""
    opened = open_page(page_of(20))
    keys = opened.page.keyboard

    def focused(expression: str) -> Any:
        return opened.page.evaluate(f"document.activeElement.{expression}")

    def tab_to(test: str) -> None:
        for _ in range(60):
            keys.press("Tab")
            if focused(test):
                return
        raise AssertionError(f"Tab does not reach {test}")

    keys.press("Tab")
    assert focused("className") == "skip"
    keys.press("Enter")
    assert focused("id") == "main"
    tab_to("matches('#findings summary')")
    keys.press("Enter")
    assert opened.count("#findings details[open]") == 1
    tab_to("id === 'search'")
    keys.type("orders")
    assert 0 < len(opened.names()) < 20
    tab_to("matches('#tables thead .name button')")
    keys.press("Space")
    assert opened.page.locator("#tables thead .name").get_attribute("aria-sort") == "ascending"
    tab_to("matches('#tables tbody .name button')")
    keys.press("Enter")
    assert focused("getAttribute('aria-expanded')") == "true"
    assert opened.count(".detail .timeline svg") == 1
    keys.press("Enter")
    assert focused("getAttribute('aria-expanded')") == "false"
    assert opened.count(".detail") == 0
    opened.page.locator(".skip").focus()
    tab_to("id === 'theme'")
    keys.press("Enter")
    assert opened.page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert focused("getAttribute('aria-pressed')") == "true"


def test_the_theme_is_remembered(open_page: Open) -> None:
    """The system's counts first, then the person's. Charts have the colours of both."""
    opened = open_page(page_of(20), theme="dark")

    def colours() -> list[str]:
        script = "each => getComputedStyle(each).getPropertyValue('{}')"
        return [
            opened.page.eval_on_selector("body", script.format("background-color")),
            opened.page.eval_on_selector("#receipts .role-axis-label text", script.format("fill")),
        ]

    assert opened.page.locator("#theme").get_attribute("aria-pressed") == "true"
    dark = colours()
    opened.page.click("#theme")
    light = colours()
    assert light[0] != dark[0]
    assert light[1] != dark[1]
    opened.page.reload()
    assert colours() == light
    assert opened.page.locator("#theme").get_attribute("aria-pressed") == "false"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_serious_fault_for_people_with_a_screen_reader(open_page: Open, theme: str) -> None:
    """By axe, with findings, a table and all figures open. axe itself needs more than the policy allows."""
    opened = open_page(overview_page(overview(4, points=8).to_json()), theme=theme, bypass_csp=True)
    unfold(opened)
    assert faults(opened) == []


@pytest.mark.parametrize(
    ("width", "theme"),
    [
        *((360, "light"), (800, "dark"), (1440, "light")),
        *(pytest.param(*each, marks=pytest.mark.long) for each in ((360, "dark"), (800, "light"), (1440, "dark"))),
    ],
)
def test_widths(open_page: Open, width: int, theme: str) -> None:
    """Nothing is wider than the screen, and pictures for people are in build/pages."""
    opened = open_page(page_of(20), width=width, theme=theme)
    opened.page.locator("#findings summary").first.click()
    toggle(opened, 2)
    assert opened.page.evaluate("document.documentElement.scrollWidth") == width
    cut = opened.page.evaluate("""Array.from(document.querySelectorAll("#tables > * > tr > *"))
        .filter(each => each.getBoundingClientRect().right > innerWidth).length""")
    assert cut == 0
    SCREENS.mkdir(parents=True, exist_ok=True)
    opened.page.screenshot(path=SCREENS / f"overview-{width}-{theme}.png", full_page=True)


def test_hostile_names_are_text(open_page: Open) -> None:
    """In the list, the treemap, its tip, findings, details and figures. No element comes of them, no script runs."""
    opened = open_page(page_of(len(HOSTILE) + 1, *HOSTILE), width=800)
    shown = opened.names()
    for name in HOSTILE:
        if name.isprintable():
            assert any(each.endswith(name) for each in shown), name[:40]
    text = "\n".join(shown)
    for escape in ("\\u202e", "\\u200f", "\\u2028", "\\x00", "\\x0a", "\\udc80"):
        assert escape in text
    assert not re.search("[\u202e\u200f\u2028\0\t]", text)
    unfold(opened)
    assert opened.count(".detail") == len(shown)
    opened.page.locator("#treemap .leaves-marks path").first.hover()
    assert opened.page.evaluate("window.hacked") is None
    assert opened.count("img, iframe, object, embed, a:not(.skip), script:not([type])") == 6
    assert opened.page.evaluate("document.documentElement.scrollWidth") == 800
    assert not re.search("[\u202e\u200f\u2028]", opened.page.evaluate("document.body.innerText"))


def test_the_policy_stops_scripts_and_requests(chromium: Any, open_page: Open) -> None:
    """Whatever got into the page: code from text, an inline script, a handler, a picture from elsewhere."""
    opened = open_page(page_of(3))
    # Later, since the browser lets what a test evaluates make code from text.
    refused = opened.page.evaluate("""() => new Promise(done => setTimeout(() => {
        const found = [];
        addEventListener("securitypolicyviolation", event => found.push(event.effectiveDirective));
        function attempt(make) { try { make(); } catch (error) { found.push(error.name); } }
        attempt(() => eval("window.hacked = 1"));
        attempt(() => new Function("window.hacked = 1")());
        attempt(() => { document.body.innerHTML += "<img src=x onerror='window.hacked=1'>"; });
        const script = document.createElement("script");
        attempt(() => { script.text = "window.hacked = 1"; document.body.append(script); });
        attempt(() => { document.body.setAttribute("onclick", "window.hacked = 1"); document.body.click(); });
        document.body.append(Object.assign(new Image(), {src: "https://127.0.0.1:9/x.png"}));
        setTimeout(() => done(found), 100);
    }, 0))""")
    assert opened.page.evaluate("window.hacked") is None
    assert len([each for each in refused if each in ("EvalError", "TypeError")]) >= 4, refused
    assert "img-src" in refused
    opened.said.clear()
    opened.requests.clear()


def test_printing(open_page: Open) -> None:
    """Light, without controls, with all findings and every row."""
    opened = open_page(page_of(20), theme="dark")
    toggle(opened, 2)
    opened.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    opened.page.emulate_media(media="print")
    hidden = ("#filters", "#theme", ".copy", ".skip")
    assert [opened.page.locator(each).first.is_visible() for each in hidden] == [False] * len(hidden)
    assert opened.count("#findings details[open]") == opened.count("#findings details")
    listed = sum(len(table["findings"]) or int(table["problem"] is not None) for table in document_of(20)["tables"])
    assert opened.count("#findings .finding-list > li") == listed
    script = "each => getComputedStyle(each).backgroundColor"
    assert opened.page.eval_on_selector("body", script) == "rgb(255, 255, 255)"
    assert opened.page.eval_on_selector("#tables", script) == "rgb(255, 255, 255)"
    SCREENS.mkdir(parents=True, exist_ok=True)
    printed = opened.page.pdf(path=SCREENS / "overview.pdf", format="A4", print_background=True)
    assert 2 <= printed.count(b"/Type /Page\n") + printed.count(b"/Type /Page/") <= 12 or b"/Count" in printed
    opened.page.emulate_media(media="screen")
    opened.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert opened.count("#findings details[open]") == 0


def test_an_empty_warehouse(open_page: Open) -> None:
    opened = open_page(page_of(0))
    assert "no table has a finding" in opened.text("#findings")
    assert opened.text("#shown").startswith("0 tables")


def test_unknown_figures(open_page: Open) -> None:
    """A table without growth opens, and says what is not known."""
    document = document_of(3)
    tables = [{**table, "growth": [], "timeline": [], "rows": None, "reasons": []} for table in document["tables"]]
    opened = open_page(overview_page({**document, "tables": tables}))
    toggle(opened, 1)
    assert "growth is not known" in opened.text(".detail")
    assert "unknown" in opened.text(".detail .facts")
