"""Count what makes the house large: lines, files in a folder, long modules, words of the documentation.

Each row has its bar. A row above its bar is marked, and nothing fails: this is a ruler, not a test.
"""

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGE = REPOSITORY / "shared" / "lakesweep"
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.ENCODING,
}
_SHOWN = 12
GENERATED = "<!-- Generated "
"""How a page begins that a program writes. Its words are not counted, those of its template are."""
_TABLE = re.compile(r"<!-- table .*?<!-- end -->", re.DOTALL)
"""A table that a program writes into a page."""
LONG = 300
"""Lines of a module that is long, all of them counted."""


def main() -> None:
    """Print the rows."""
    modules = {path: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
    folders = Counter(path.parent.relative_to(PACKAGE).as_posix() for path in modules)
    long = {path: text.count("\n") for path, text in modules.items() if text.count("\n") > LONG}
    pages = {path: path.read_text(encoding="utf-8") for path in (REPOSITORY / "docs").rglob("*.md")}
    words = {path: len(_TABLE.sub("", text).split()) for path, text in pages.items() if not text.startswith(GENERATED)}
    readme = len((REPOSITORY / "README.md").read_text(encoding="utf-8").split())
    print(f"{'what':48} {'found':>8} {'bar':>8}")
    _row("modules of shared/lakesweep", len(modules))
    _row("lines of code, no comments, docstrings, blanks", sum(map(code_lines, modules.values())), 27_500)
    for folder, count in folders.most_common(_SHOWN):
        if count > 20:
            _row(f"files in {folder}", count, 20)
    _row(f"modules above {LONG} lines", len(long), 0)
    for path, count in sorted(long.items(), key=lambda each: -each[1])[:_SHOWN]:
        _row(f"  {path.relative_to(PACKAGE)}", count)
    _row("words in docs, what is generated aside", sum(words.values()), 28_000)
    for path, count in sorted(words.items(), key=lambda each: -each[1])[:_SHOWN]:
        _row(f"  {path.relative_to(REPOSITORY / 'docs')}", count)
    _row("words in README.md", readme)


def code_lines(source: str) -> int:
    """Return how many lines of a module hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for first, last in _docstrings(ast.parse(source)):
        lines.difference_update(range(first, last + 1))
    return len(lines)


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, int]]:
    """Yield the first and last line of each string that is a statement of its own."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.end_lineno or node.lineno


def _row(what: str, found: int, bar: int | None = None) -> None:
    mark = "  above" if bar is not None and found > bar else ""
    print(f"{what:48} {found:8} {'' if bar is None else bar:>8}{mark}")


if __name__ == "__main__":
    main()
