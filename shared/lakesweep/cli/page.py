"""Write a page in HTML into a file, or to standard output."""

import os
import stat
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ParamSpec

from lakesweep.cli.options import option
from lakesweep.cli.terminal.output import say, write_text
from lakesweep.cli.text import human_bytes
from lakesweep.errors import MaintenanceError, UsageError

Document = Mapping[str, Any]
P = ParamSpec("P")
STREAM = "-"
"""The path of standard output."""
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
        return self.path == STREAM

    def check(self, *, as_json: bool) -> None:
        """Look for what would prevent the page, before the command does its work.

        Raises:
            UsageError: FILE is no place for a page, or a package of the extra `html` is missing.
        """
        from lakesweep.pages.vega import require_html

        require_html()
        if self.is_stream:
            if as_json:
                raise UsageError("--html -: expected a file, since --json goes to standard output", code="bad_argument")
            return
        target = self._target()
        with suppress(FileNotFoundError):
            mode = _asked(target, target.stat).st_mode
            if not stat.S_ISREG(mode):
                found = "a folder" if stat.S_ISDIR(mode) else "something else"
                raise UsageError(f"--html: expected a file, found {found}: {target}", code="bad_argument")
        if not target.parent.is_dir():
            raise UsageError(f"--html: expected an existing folder, found none: {target.parent}", code="bad_argument")

    def write(self, page: str) -> str:
        """Write the page, whole or not at all, and return a sentence about it.

        Raises:
            MaintenanceError: The file could not be written. What was there is there.
        """
        target, body = self._target(), page.encode("utf-8")
        try:
            handle, part = tempfile.mkstemp(prefix=".lakesweep-", suffix=".html", dir=target.parent)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(body)
                    file.flush()
                    os.fsync(file.fileno())
                Path(part).chmod(_mode_of(target))
                Path(part).replace(target)
            except BaseException:
                with suppress(OSError):
                    Path(part).unlink()
                raise
        except OSError as error:
            raise MaintenanceError(f"--html: cannot write {target}: {error.strerror}", code="page_unwritten") from error
        return f"{target}, {human_bytes(len(body))}"

    def _target(self) -> Path:
        """Return the file itself: where FILE is a link, the link stays."""
        if not self.path.strip() or "\0" in self.path:
            raise UsageError("--html: expected the path of a file, found none", code="bad_argument")
        return Path(os.path.realpath(self.path))


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


def _mode_of(target: Path) -> int:
    """Return the mode of the file that is there, else that of a new file."""
    try:
        return stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
