"""Pages whose commands are run: what is in their blocks, and whether a command printed what the page shows.

A block is fenced as `console` (commands after `$ `, each with what it prints) or `python`. Where a page shows `...` on
a line of its own, any lines may stand. Times, ids of runs, sizes and random names differ from run to run; everything
else must be the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

RUN_ID = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}|(?<=--accept-loss )[0-9a-f]{12}")
"""The id of a run, a plan or a loss."""
_CHANGING = (
    (RUN_ID, "<run>"),
    (re.compile(r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?"), "<time>"),
    (re.compile(r"\d+(\.\d+)? (B|KiB|MiB)\b"), "<size>"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(-\d+)?"), "<uuid>"),
)


@dataclass(frozen=True, slots=True)
class Shown:
    """A command of a page, with what the page says that it prints; or the text of a program."""

    text: str
    printed: tuple[str, ...] = ()
    is_program: bool = False


def recipes(page: Path) -> Mapping[str, tuple[Shown, ...]]:
    """Return the blocks of a page, by the heading that they stand under."""
    found: dict[str, list[Shown]] = {}
    heading, fence, block = "", "", list[str]()
    for line in page.read_text(encoding="utf-8").splitlines():
        if fence:
            if line == "```":
                found.setdefault(heading, []).extend(_shown(fence, block))
                fence = ""
            else:
                block.append(line)
        elif line.startswith("```") and line != "```":
            fence, block = line[3:], []
        elif line.startswith("#"):
            heading = line.lstrip("# ")
    return {heading: tuple(shown) for heading, shown in found.items() if shown}


def _shown(fence: str, block: Sequence[str]) -> Iterator[Shown]:
    if fence == "python":
        yield Shown("\n".join(block), is_program=True)
    if fence != "console":
        return
    starts = [number for number, line in enumerate(block) if line.startswith("$ ")]
    for start, end in zip(starts, [*starts[1:], len(block)], strict=True):
        yield Shown(block[start][2:], tuple(line for line in block[start + 1 : end] if line))


def difference(shown: Sequence[str], printed: Sequence[str]) -> str | None:
    """Say where a command printed something else than a page shows; `None`: nowhere."""
    lines = [_without_changing(line) for line in printed if line]
    at, is_anywhere = 0, False
    for line in map(_without_changing, shown):
        if line.strip() == "...":
            is_anywhere = True
            continue
        if is_anywhere and line in lines[at:]:
            at = lines.index(line, at)
        if at >= len(lines) or lines[at] != line:
            return f"the page has {line!r} where this was printed:\n" + "\n".join(printed)
        at, is_anywhere = at + 1, False
    if at < len(lines) and not is_anywhere:
        return f"the page lacks {lines[at]!r} of what was printed:\n" + "\n".join(printed)
    return None


def run_ids(shown: Sequence[str], printed: Sequence[str]) -> dict[str, str]:
    """Return the ids of runs that a page shows, each with the one that was printed in its place."""
    pairs = zip(RUN_ID.findall("\n".join(shown)), RUN_ID.findall("\n".join(printed)), strict=False)
    return dict(pairs)


def _without_changing(line: str) -> str:
    for pattern, name in _CHANGING:
        line = pattern.sub(name, line)
    return re.sub(r"\s+", " ", line.rstrip())
