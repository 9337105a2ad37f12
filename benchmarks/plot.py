"""Plots of figures that grow, as SVG: panels side by side, with logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 280, 240
_LEFT, _TOP, _RIGHT, _BOTTOM = 52, 30, 14, 44
_COLOURS = ("#1f6feb", "#c2410c", "#15803d")
_INK, _GRID = "#57606a", "#d0d7de"

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot."""

    title: str
    across: str
    """What the horizontal axis counts."""
    series: tuple[tuple[str, Points], ...]
    """Name and points of each line."""
    shows_linear: bool = False
    """Whether a dotted line goes through the last point of the first series as all of it would if it were linear."""


def svg(panels: Sequence[Panel]) -> str:
    """Return a document with some panels side by side."""
    width = WIDTH * len(panels)
    body = "\n".join(
        f'<g transform="translate({WIDTH * number} 0)">\n' + "\n".join(_panel(panel)) + "\n</g>"
        for number, panel in enumerate(panels)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{HEIGHT}" viewBox="0 0 {width} {HEIGHT}" '
        f'font-family="sans-serif" font-size="10" fill="{_INK}">\n'
        f'<rect width="{width}" height="{HEIGHT}" fill="#ffffff"/>\n{body}\n</svg>\n'
    )


@dataclass(frozen=True, slots=True)
class _Axis:
    """Whole powers of ten around some values, on so many pixels."""

    low: int
    high: int
    start: float
    length: float

    @staticmethod
    def around(values: Sequence[float], start: float, length: float) -> _Axis:
        low = math.floor(math.log10(min(values)))
        return _Axis(low, max(math.ceil(math.log10(max(values))), low + 1), start, length)

    def at(self, value: float) -> float:
        return self.start + self.length * (math.log10(value) - self.low) / (self.high - self.low)

    def ticks(self) -> Iterator[tuple[float, str]]:
        for power in range(self.low, self.high + 1):
            yield self.at(10.0**power), f"{10.0**power:g}" if power < 4 else f"10^{power}"


def _panel(panel: Panel) -> Iterator[str]:
    points = [point for _, line in panel.series for point in line]
    x = _Axis.around([across for across, _ in points], _LEFT, WIDTH - _LEFT - _RIGHT)
    y = _Axis.around([up for _, up in points], HEIGHT - _BOTTOM, -(HEIGHT - _TOP - _BOTTOM))
    yield _text(_LEFT, 18, panel.title, size=12)
    for at, label in y.ticks():
        yield _line([(_LEFT, at), (WIDTH - _RIGHT, at)], _GRID)
        yield _text(_LEFT - 5, at + 3, label, anchor="end")
    for at, label in x.ticks():
        yield _line([(at, _TOP), (at, HEIGHT - _BOTTOM)], _GRID)
        yield _text(at, HEIGHT - _BOTTOM + 14, label, anchor="middle")
    yield _text((_LEFT + WIDTH - _RIGHT) / 2, HEIGHT - 12, panel.across, anchor="middle")
    if panel.shows_linear:
        across, up = panel.series[0][1][-1]
        least = max(min(a for a, _ in points), across * 10.0**y.low / up)
        ends = [(least, up * least / across), (across, up)]
        yield _line([(x.at(a), y.at(b)) for a, b in ends], _INK, 'stroke-dasharray="2 3"')
    for number, ((name, line), colour) in enumerate(zip(panel.series, _COLOURS, strict=False)):
        places = [(x.at(a), y.at(b)) for a, b in line]
        yield _line(places, colour, 'stroke-width="2"')
        yield from (f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in places)
        if len(panel.series) > 1:
            yield _text(_LEFT + 6, HEIGHT - _BOTTOM - 8 - 12 * number, name, colour=colour)


def _line(places: Points, colour: str, more: str = "") -> str:
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" {more}/>'


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 10, colour: str = _INK) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}">{escape(text)}</text>'
    )
