"""Loss, learning rate and gradient norm: the golden seeds as a band, the candidate's curve in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pytest_traincheck.golden.portrait import Curve, Portrait
from pytest_traincheck.report.pictures.picture import Key, Picture, Table
from pytest_traincheck.report.pictures.scale import Scale, linear, logarithmic, short, tick_text
from pytest_traincheck.report.pictures.svg import drawing, element, group, line, number, path, rect, text
from pytest_traincheck.text import one_line, plural

WIDTH, HEIGHT = 340.0, 204.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 14.0, 30.0, 28.0
_MOST = 4
"""Optimizers that are drawn."""
_ROUNDED = 1e-4
"""Relative distance that is none: golden's numbers are kept with five digits."""

Line = tuple[float, ...]


@dataclass(frozen=True)
class Panel:
    """One number over the steps: the runs of golden, and that of the candidate, which may be empty."""

    label: str
    golden: tuple[Line, ...]
    candidate: Line
    bad: int | None = None
    """The first step that breaks a rule, where that is known."""

    @property
    def steps(self) -> int:
        return max((len(run) for run in (*self.golden, self.candidate)), default=0)

    def band(self, step: int) -> tuple[float, float] | None:
        """The least and the greatest of golden's runs in a step."""
        found = [run[step] for run in self.golden if step < len(run) and math.isfinite(run[step])]
        return (min(found), max(found)) if found else None

    def left(self) -> int | None:
        """The first step in which the candidate is outside of golden's band, by more than rounding."""
        for step, value in enumerate(self.candidate):
            band = self.band(step)
            if band is None or math.isnan(value):
                continue
            slack = _ROUNDED * max(abs(band[0]), abs(band[1]))
            if not band[0] - slack <= value <= band[1] + slack:
                return step
        return None


def curves(candidate: Portrait, golden: Portrait | None, bad: int | None = None) -> Picture | None:
    """Every curve of both sides; None where there is none of at least two steps."""
    panels = _panels(candidate, golden, bad)
    panels = [panel for panel in panels if panel.steps > 1]
    if not panels:
        return None
    seeds = list(dict.fromkeys(curve.seed for curve in golden.curves)) if golden else []
    return Picture(
        "curves",
        "Do the curves stay where the golden runs were?" if golden else "How did the training go?",
        _answer(panels, other_seed=candidate.seed not in seeds)
        if golden
        else f"{plural(panels[0].steps, 'step')}, as the trace has them.",
        tuple(_draw(panel) for panel in panels),
        _table(panels),
        _legend(candidate, seeds, bad is not None and bool(golden)),
    )


def _panels(candidate: Portrait, golden: Portrait | None, bad: int | None) -> list[Panel]:
    theirs = [curve for curve in candidate.curves if curve.seed == candidate.seed] or list(candidate.curves)
    names = dict.fromkeys(curve.optimizer for curve in (*theirs, *(golden.curves if golden else ())))
    panels = []
    for name in list(names)[:_MOST]:
        own = [curve for curve in theirs if curve.optimizer == name][:1]
        ours = [curve for curve in golden.curves if curve.optimizer == name] if golden else []
        of = f", {one_line(name)}" if len(names) > 1 else ""
        panels += [
            Panel(f"loss{of}", *_lines(ours, own, "losses"), bad),
            *_rates(ours, own, of, bad),
            Panel(f"gradient norm{of}", *_lines(ours, own, "norms"), bad),
        ]
    return [panel for panel in panels if any(map(_is_known, (*panel.golden, panel.candidate)))]


def _lines(golden: Sequence[Curve], candidate: Sequence[Curve], what: str) -> tuple[tuple[Line, ...], Line]:
    mine = tuple(getattr(curve, what) for curve in golden)
    return mine, getattr(candidate[0], what) if candidate else ()


def _rates(golden: Sequence[Curve], candidate: Sequence[Curve], of: str, bad: int | None) -> list[Panel]:
    count = max((len(curve.rates) for curve in (*golden, *candidate)), default=0)
    panels = []
    for place in range(min(count, 3)):
        mine = tuple(curve.rates[place] for curve in golden if place < len(curve.rates))
        own = candidate[0].rates[place] if candidate and place < len(candidate[0].rates) else ()
        more = f" {place + 1}" if count > 1 else ""
        panels.append(Panel(f"learning rate{more}{of}", mine, own, bad))
    return panels


def _is_known(values: Line) -> bool:
    return any(math.isfinite(value) for value in values)


def _answer(panels: Sequence[Panel], *, other_seed: bool) -> str:
    outside = [(step, panel.label) for panel in panels if (step := panel.left()) is not None]
    if not any(panel.golden for panel in panels):
        return "The golden keeps no curves for this platform, so the candidate's stand alone."
    if not outside:
        return "Yes: every curve is within the range of the golden runs in every step."
    words = [f"the {label} from step {step}" for step, label in sorted(outside)]
    listed = f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]
    head = "Not in every step, and with a seed of its own it need not" if other_seed else "No"
    return f"{head}: outside of the golden runs' range {'are' if len(words) > 1 else 'is'} {listed} on."


def _legend(candidate: Portrait, seeds: Sequence[str], marked: bool) -> tuple[Key, ...]:
    of = f", seed {one_line(candidate.seed)}" if candidate.seed else ""
    if not seeds:
        return (Key("", f"this run{of}", _sample()),)
    shown = ", ".join(map(one_line, seeds))
    runs = f"golden, {plural(len(seeds), 'seed')} ({shown})" if any(seeds) else "golden"
    return (
        Key("p-band", runs),
        Key("", f"candidate{of}", _sample()),
        *([Key("", "first step that breaks a rule", line(8, 0, 8, 12, "p-mark"))] if marked else []),
    )


def _sample() -> Markup:
    """A piece of the candidate's curve."""
    return group([line(0, 6, 16, 6, "p-curve"), element("circle", cx=8.0, cy=6.0, r=2.6, class_="p-point")])


def _draw(panel: Panel) -> Markup:
    values = [value for run in (*panel.golden, panel.candidate) for value in run if math.isfinite(value)]
    make = logarithmic if min(values) > 0 and max(values) > 50 * min(values) else linear
    y = make(values, HEIGHT - _BOTTOM, _TOP)
    x = Scale(0.0, float(max(panel.steps - 1, 1)), _LEFT, WIDTH - _RIGHT)
    parts = [text(panel.label, 0, 12, "p-heading")]
    for value in y.ticks():
        at = y(value)
        parts += [line(_LEFT, at, WIDTH - _RIGHT, at, "p-grid"), text(short(value), _LEFT - 7, at + 4, "p-tick", "end")]
    parts += [text(tick_text(step), x(step), HEIGHT - 10, "p-tick", "middle") for step in _steps(panel.steps)]
    parts.append(_band(panel, x, y))
    parts += [path(_path(run, x, y), "p-seed") for run in panel.golden if _is_known(run)]
    if panel.bad is not None and panel.bad < panel.steps:
        at = x(panel.bad)
        side = "end" if at > WIDTH * 0.7 else "start"
        parts += [
            line(at, _TOP - 8, at, HEIGHT - _BOTTOM, "p-mark"),
            text(f"step {panel.bad}", at + (5 if side == "start" else -5), _TOP - 2, "p-marked", side),
        ]
    if _is_known(panel.candidate):
        parts += [path(_path(panel.candidate, x, y), "p-curve"), _points(panel, x, y)]
    parts += _infinite(panel, x)
    return drawing(WIDTH, HEIGHT, panel.label, _describe(panel), *parts)


def _band(panel: Panel, x: Scale, y: Scale) -> Markup:
    """The range of golden's runs; where it has no width it is a line, drawn by the runs themselves."""
    known = [(step, band) for step in range(panel.steps) if (band := panel.band(step))]
    if len(panel.golden) < 2 or len(known) < 2:
        return Markup()
    upper = [f"{number(x(step))} {number(y(band[1]))}" for step, band in known]
    lower = [f"{number(x(step))} {number(y(band[0]))}" for step, band in reversed(known)]
    return path(f"M{' L'.join([*upper, *lower])}Z", "p-band")


def _path(run: Line, x: Scale, y: Scale) -> str:
    """Lines between steps that follow each other; what is not known leaves a gap."""
    parts, pen = [], "M"
    for step, value in enumerate(run):
        if math.isfinite(value):
            parts.append(f"{pen}{number(x(step))} {number(y(value))}")
            pen = "L"
        else:
            pen = "M"
    return "".join(parts)


def _points(panel: Panel, x: Scale, y: Scale) -> Markup:
    if panel.steps > 24:
        return Markup()
    return group(
        element(
            "circle",
            element("title", f"step {step}: {short(value)}"),
            cx=x(step),
            cy=y(value),
            r=2.6,
            class_="p-point",
        )
        for step, value in enumerate(panel.candidate)
        if math.isfinite(value)
    )


def _infinite(panel: Panel, x: Scale) -> list[Markup]:
    found = [step for step, value in enumerate(panel.candidate) if math.isinf(value)]
    return [
        *(rect(x(step) - 2, _TOP, 4, 4, "p-bad", f"step {step}: not finite", 0) for step in found),
        *([text("not finite", WIDTH - _RIGHT, _TOP + 14, "p-marked", "end")] if found else []),
    ]


def _steps(count: int) -> list[int]:
    """The steps that are named below an axis, six at most."""
    stride = next(size for size in (1, 2, 5, 10, 20, 50, 100, 1000) if (count - 1) / size <= 8 or size == 1000)
    return list(range(0, count, stride))


def _describe(panel: Panel) -> str:
    known = [value for value in panel.candidate if math.isfinite(value)]
    words = [f"The {panel.label} over {plural(panel.steps, 'step')}."]
    if known:
        words.append(f"This run goes from {short(known[0])} to {short(known[-1])}.")
    bands = [band for step in range(panel.steps) if (band := panel.band(step))]
    if bands:
        words.append(f"The golden runs end between {short(bands[-1][0])} and {short(bands[-1][1])}.")
    return " ".join(words)


def _table(panels: Sequence[Panel]) -> Table:
    columns = ["step"]
    for panel in panels:
        columns += [f"{panel.label}, golden"] if panel.golden else []
        columns += [f"{panel.label}, candidate" if panel.golden else panel.label] if panel.candidate else []
    rows = []
    for step in range(max(panel.steps for panel in panels)):
        cells = [str(step)]
        for panel in panels:
            if panel.golden:
                band = panel.band(step)
                cells.append("" if band is None else _range(*band))
            if panel.candidate:
                value = panel.candidate[step] if step < len(panel.candidate) else math.nan
                cells.append("" if math.isnan(value) else short(value))
        rows.append(tuple(cells))
    return Table(tuple(columns), tuple(rows))


def _range(low: float, high: float) -> str:
    return short(low) if short(low) == short(high) else f"{short(low)} to {short(high)}"
