"""Write a page in HTML into a file, or to standard output."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR
from typing import Annotated, Any, ParamSpec

from lakesweep.cli.options import option
from lakesweep.cli.terminal.output import say, write_text
from lakesweep.cli.text import human_bytes
from lakesweep.errors import MaintenanceError, UsageError

Document = Mapping[str, Any]
P = ParamSpec("P")
Html = Annotated[
    str | None,
    option("--html", "Also write a page for a browser into this file.", "FILE"),
]


@dataclass(frozen=True, slots=True)
class PageFile:
    """Where a page goes, and how it is made of the document and the text of a command."""

    path: str
    make: Callable[[Document, Sequence[str]], str]

    @property
    def is_stream(self) -> bool:
        """Tell whether the page goes to standard output."""
        from lakesweep.storage.local.output import is_stdout

        return is_stdout(self.path)

    def check(self, *, as_json: bool) -> None:
        """Look for what would prevent the page, before the command does its work.

        Raises:
            UsageError: FILE is no place for a page, or a package of the extra `html` is missing.
        """
        from lakesweep.pages.vega import require_html
        from lakesweep.storage.local.output import is_direct

        require_html()
        if self.is_stream:
            if as_json:
                raise UsageError(
                    f"--html {self.path}: expected a file, since --json goes to standard output", code="bad_argument"
                )
            return
        target = self._target()
        if is_direct(self.path):
            return
        with suppress(FileNotFoundError):
            if S_ISDIR(_asked(target, target.stat).st_mode):
                raise UsageError(f"--html: expected a file, found a folder: {target}", code="bad_argument")
        if not target.parent.is_dir():
            raise UsageError(f"--html: expected an existing folder, found none: {target.parent}", code="bad_argument")

    def write(self, page: str) -> str:
        """Write the page, and return a sentence about it. A file is written whole or not at all.

        Raises:
            MaintenanceError: The file could not be written. What was there is there.
        """
        from lakesweep.storage.local.output import replaced

        target, body = self._target(), page.encode("utf-8")
        try:
            with replaced(self.path) as file:
                file.write(body)
        except OSError as error:
            raise MaintenanceError(f"--html: cannot write {target}: {error.strerror}", code="page_unwritten") from error
        return f"{target}, {human_bytes(len(body))}"

    def _target(self) -> Path:
        """Return the file itself, where FILE is a link to one."""
        from lakesweep.storage.local.output import is_direct

        if not self.path.strip() or "\0" in self.path:
            raise UsageError("--html: expected the path of a file, found none", code="bad_argument")
        return Path(self.path if is_direct(self.path) else os.path.realpath(self.path))


def page_file(path: str | None, make: Callable[[Document, Sequence[str]], str]) -> PageFile | None:
    """Return where a page goes; `None` if no page is asked for."""
    return None if path is None else PageFile(path, make)


def paged(
    page: PageFile | None, read: Callable[P, Document], lines: Callable[[Document], Iterable[str]], *, as_json: bool
) -> tuple[Callable[P, Document], Callable[[Document], Iterable[str]]]:
    """Return `read` and `lines` of a command, extended by its page.

    `read` also writes the page, and `lines` names it. If the page goes to standard output, it replaces the text.
    """
    if page is None:
        return read, lines
    told: list[str] = []

    def read_and_write(*arguments: P.args, **words: P.kwargs) -> Document:
        page.check(as_json=as_json)
        document = read(*arguments, **words)
        text = list(lines(document))
        made = page.make(document, text)
        if page.is_stream:
            told.append(made)
            return document
        written = page.write(made)
        if as_json:
            say(f"page {written}")
        told.extend((*text, f"{'page':<10} {written}"))
        return document

    def named(document: Document) -> Iterable[str]:
        if not page.is_stream:
            return told
        write_text(told[0])
        return ()

    return read_and_write, named


def _asked(target: Path, call: Callable[[], os.stat_result]) -> os.stat_result:
    try:
        return call()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UsageError(f"--html: cannot use {target}: {error.strerror}", code="bad_argument") from error
