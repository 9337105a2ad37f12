"""Chromium, and pages in it."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY

SCREENS = REPOSITORY / "build" / "pages"
_ROOM = {"width": 1440, "height": 900}


@dataclass(slots=True)
class Opened:
    """A page that was opened, and what the browser had to say about it."""

    page: Any
    said: list[str] = field(default_factory=list)
    """Errors and warnings of the console, and errors of scripts."""
    requests: list[str] = field(default_factory=list)
    busy: float = 0
    """Seconds of CPU of the page's own thread, if they are measured. The time of the clock depends on the machine."""

    def text(self, selector: str) -> str:
        return str(self.page.locator(selector).first.inner_text())

    def count(self, selector: str) -> int:
        return int(self.page.locator(selector).count())

    def names(self) -> list[str]:
        """Return the names of the tables that are shown, in order."""
        names: list[str] = self.page.locator("#tables tr.row .name bdi").all_text_contents()
        return names


Open = Callable[..., Opened]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Debian's Chromium, started once by each process that runs tests."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("no Chromium: run `make chromium`")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Any, tmp_path: Path) -> Iterator[Open]:
    """Open a page from a file. At the end, no page may have said anything, or asked for anything but itself."""
    contexts, pages = [], []

    def opened(text: str, *, width: int = 1440, theme: str = "light", measured: bool = False, **options: Any) -> Opened:
        file = tmp_path / f"page-{len(contexts)}.html"
        file.write_text(text, encoding="utf-8")
        context = chromium.new_context(viewport={**_ROOM, "width": width}, color_scheme=theme, **options)
        contexts.append(context)
        found = Opened(context.new_page())
        pages.append(found)
        found.page.on("console", lambda message: found.said.append(f"{message.type}: {message.text}"))
        found.page.on("pageerror", lambda error: found.said.append(f"error: {error}"))
        found.page.on("request", lambda request: found.requests.append(request.url))
        session = context.new_cdp_session(found.page) if measured else None
        if session is not None:
            session.send("Performance.enable", {"timeDomain": "threadTicks"})
        found.page.goto(file.as_uri())
        if session is not None:
            metrics = session.send("Performance.getMetrics")["metrics"]
            found.busy = next(each["value"] for each in metrics if each["name"] == "TaskDuration")
        assert [url for url in found.requests if not url.startswith("data:")] == [file.as_uri()]
        return found

    yield opened
    said = [each for page in pages for each in page.said]
    requests = [url for page in pages for url in page.requests if not url.startswith(("file:", "data:"))]
    for context in contexts:
        context.close()
    assert said == []
    assert requests == []
