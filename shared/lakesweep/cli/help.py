"""The help of commands: its first sentence, its examples, and how it fits a narrow terminal."""

import re
import shutil
from collections.abc import Sequence
from typing import Any

import typer

_NARROW = 52
"""With fewer columns, the parser's two columns of options and meanings are too narrow to read."""
_LEAST = 20
_Formatter: Any = typer.Context.formatter_class


class _NarrowFormatter(_Formatter):  # type: ignore[misc]
    def write_dl(self, rows: Sequence[tuple[str, str]], col_max: int = 4, col_spacing: int = 2) -> None:
        """Write what an option means below the option."""
        super().write_dl(rows, col_max, col_spacing)


class _NarrowContext(typer.Context):
    formatter_class = _NarrowFormatter


def fitted(parser: Any) -> Any:
    """Return a parser whose help fits the terminal."""
    columns = shutil.get_terminal_size().columns
    if columns < _NARROW:
        parser.context_class = _NarrowContext
        parser.context_settings["terminal_width"] = max(columns, _LEAST) - 2
        for command in getattr(parser, "commands", {}).values():
            fitted(command)
    return parser


def summary(function: Any) -> str:
    """Return the first sentence of a command's help. The parser would cut off a long one."""
    return " ".join(re.split(r"(?<=\.)\s", str(function.__doc__))[0].split())


def shown(examples: Sequence[str]) -> str:
    """Return the end of a command's help: a paragraph that the parser does not wrap again."""
    return "\n".join(["\b", "Examples:", *(f"  {example}" for example in examples)])
