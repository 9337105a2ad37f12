"""What tests of several pages ask of a page in Chromium."""

from axe_playwright_python.sync_playwright import Axe

from tests.pages.conftest import Opened


def faults(opened: Opened) -> list[str]:
    """Return the serious and critical faults that axe finds."""
    options = {"resultTypes": ["violations"], "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
    found = Axe().run(opened.page, options=options).response["violations"]
    return [
        f"{each['id']}: {node['target']} {node.get('failureSummary')}"
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


def unfold(opened: Opened) -> None:
    """Open every table, and everything else that is folded away."""
    opened.page.evaluate("""() => {
        document.querySelectorAll("#tables .name button[aria-expanded]").forEach(each => each.click());
        document.querySelectorAll("details").forEach(each => { each.open = true; });
        return new Promise(done => setTimeout(done, 200));
    }""")
