"""A plot of lines with logarithmic axes, as SVG that follows the colours of the reader's page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 470, 360, 62, 34, 12, 44

_SLACK = 0.05

STYLE = """
  .page { fill: #ffffff } text { fill: #24292f; font: 12px system-ui, sans-serif } .title { font-weight: 600 }
  .grid { stroke: #d8dee4 } .infer { --c: #0969da } .check { --c: #bc4c00 } .limit { --c: #57606a }
  .line { fill: none; stroke: var(--c); stroke-width: 2 } .dot { fill: var(--c) } .name { fill: var(--c) }
  .faint .line, .faint .dot { opacity: 0.5 } .budget { stroke-dasharray: 5 4; stroke-width: 1.2 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } text { fill: #e6edf3 } .grid { stroke: #30363d }
    .infer { --c: #58a6ff } .check { --c: #ffa657 } .limit { --c: #8b949e } .name { fill: var(--c) }
  }
"""


@dataclass(frozen=True)
class Line:
    """Points (x, y), all of them positive. `kind` chooses the colour: `infer`, `check` or `limit`."""

    name: str
    points: tuple[tuple[float, float], ...]
    kind: str
    budget: bool = False
    faint: bool = False


@dataclass(frozen=True)
class Panel:
    title: str
    axis: str
    lines: tuple[Line, ...]


def plot(panels: Sequence[Panel]) -> str:
    """The panels side by side."""
    width = WIDTH * len(panels)
    body = "\n".join(
        f'<g transform="translate({WIDTH * number} 0)">\n{chr(10).join(_panel(panel))}\n</g>'
        for number, panel in enumerate(panels)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" width="{width}" height="{HEIGHT}">\n'
        f'<style>{STYLE}</style>\n<rect class="page" width="{width}" height="{HEIGHT}"/>\n{body}\n</svg>\n'
    )


@dataclass(frozen=True)
class _Scale:
    """Maps decades to places."""

    low: int
    high: int
    begin: float
    end: float

    @staticmethod
    def of(values: Sequence[float], begin: float, end: float) -> _Scale:
        # What is a little beyond a decade needs no decade of its own.
        return _Scale(
            math.floor(math.log10(min(values)) + _SLACK), math.ceil(math.log10(max(values)) - _SLACK), begin, end
        )

    def place(self, value: float) -> float:
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)

    @property
    def decades(self) -> Iterator[tuple[float, str]]:
        for power in range(self.low, self.high + 1):
            small = f"{10.0**power:g}" if power < 4 else f'10<tspan dy="-5" font-size="9">{power}</tspan>'
            yield self.place(10.0**power), small


def _panel(panel: Panel) -> Iterator[str]:
    points = [point for line in panel.lines for point in line.points]
    across = _Scale.of([x for x, _ in points], LEFT, WIDTH - RIGHT)
    up = _Scale.of([y for _, y in points], HEIGHT - BOTTOM, TOP)
    yield f'<text class="title" x="{LEFT}" y="20">{escape(panel.title)}</text>'
    for x, label in across.decades:
        yield f'<line class="grid" x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}"/>'
        yield f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{label}</text>'
    for y, label in up.decades:
        yield f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
    yield f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(panel.axis)}</text>'
    for line in panel.lines:
        places = [(across.place(x), up.place(y)) for x, y in line.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        style = f"{line.kind}{' faint' if line.faint else ''}"
        yield f'<g class="{style}"><polyline class="line{" budget" if line.budget else ""}" points="{path}"/>'
        yield from (f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in places if not line.budget)
        yield "</g>"
    yield from _legend(panel.lines)


def _legend(lines: Sequence[Line]) -> Iterator[str]:
    """At the bottom right, which lines that grow leave free."""
    x = WIDTH - RIGHT - 150
    for number, line in enumerate(reversed(lines)):
        y = HEIGHT - BOTTOM - 10 - 16 * number
        style = f"{line.kind}{' faint' if line.faint else ''}"
        dashes = " budget" if line.budget else ""
        yield f'<g class="{style}">'
        yield f'<line class="line{dashes}" x1="{x}" y1="{y - 4}" x2="{x + 24}" y2="{y - 4}"/>'
        yield f'<text class="name" x="{x + 30}" y="{y}">{escape(line.name)}</text></g>'
