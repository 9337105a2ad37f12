"""The command lines on the pages are those that the parser takes."""

import re
import shlex
from collections.abc import Iterator

import pytest
import typer

from benchmarks.size import GENERATED
from lakesweep.cli.main import app
from tests.conftest import REPOSITORY

PAGES = ("README.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in (REPOSITORY / "docs").glob("*.md")))
_SPAN = re.compile(r"(?<!`)`(lakesweep [^`]+)`")
_LINE = re.compile(r"^(?: +|\$ |)(lakesweep [a-z].*?(?:\\\n.*?)*)$", re.MULTILINE)
_BLOCK = re.compile(r"^ *```(?:sh|console|)\n(.*?)^ *```|((?:^    .*\n)+)", re.DOTALL | re.MULTILINE)


def command_lines(text: str) -> Iterator[str]:
    """Yield what a page shows of the command line, in sentences and in blocks."""
    for fenced, indented in _BLOCK.findall(text):
        yield from (line.replace("\\\n", " ") for line in _LINE.findall(fenced or indented))
    yield from (" ".join(span.split()) for span in _SPAN.findall(text))


CASES = sorted(
    {
        (page, line)
        for page in PAGES
        for line in command_lines((REPOSITORY / page).read_text(encoding="utf-8"))
        if not (REPOSITORY / page).read_text(encoding="utf-8").startswith(GENERATED)
    }
)


@pytest.mark.parametrize(("page", "line"), CASES)
def test_the_parser_takes_the_line(page: str, line: str) -> None:
    """A command or an option that is gone or mistyped on a page fails here; a line may lack its arguments."""
    words = shlex.split(line.partition(" || ")[0], comments=True)[1:]
    parser = typer.main.get_command(app())
    context = parser.make_context("lakesweep", list(words), resilient_parsing=True)
    command = parser.get_command(context, words[0])  # type: ignore[attr-defined]
    assert command is not None, words[0]
    known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)} | {"--help"}
    if hasattr(command, "commands"):
        nested = command.commands[words[1]]
        known |= {name for each in nested.params for name in each.opts}
    assert {word.partition("=")[0] for word in words if word.startswith("--")} - known == set()
