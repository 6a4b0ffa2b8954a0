"""Line charts as inline SVG: colours that differ in grey too, dashes besides, and a description for those who cannot see them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from dpaccount.auditing.report.curves import AT_LEAST, AT_MOST, Curve

WIDTH, HEIGHT = 360, 270
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 12, 40
COLOURS = ("#004c8c", "#b3400e", "#00663f", "#8a2a7d", "#5a4a00", "#444444")
DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 2", "12 4")


@dataclass(frozen=True)
class Axes:
    """The window of a chart, its ticks with their labels, and the names of its axes."""

    x: tuple[float, float]
    y: tuple[float, float]
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]
    x_label: str
    y_label: str

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Where a point is drawn."""
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)


def chart(key: str, title: str, description: str, axes: Axes, curves: Sequence[Curve], point: tuple[float, float, str] | None) -> str:
    """One chart; `point` is the claim's, with its label."""
    lines = "".join(_line(axes, curve, i) for i, curve in enumerate(curves))
    return (
        f'<svg role="img" aria-labelledby="{key}-t {key}-d" viewBox="0 0 {WIDTH} {HEIGHT}" xmlns="http://www.w3.org/2000/svg">'
        f'<title id="{key}-t">{escape(title)}</title><desc id="{key}-d">{escape(description)}</desc>'
        f'<defs><clipPath id="{key}-c"><rect x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" height="{HEIGHT - TOP - BOTTOM}"/>'
        f'</clipPath></defs>{_frame(axes)}<g clip-path="url(#{key}-c)">{lines}</g>{_point(axes, point)}</svg>'
    )


def _frame(axes: Axes) -> str:
    base, parts = HEIGHT - BOTTOM, []
    for value, label in axes.x_ticks:
        x, _ = axes.at(value, axes.y[0])
        parts.append(f'<path class="grid" d="M{x:.1f} {TOP}V{base}"/><text x="{x:.1f}" y="{base + 14}" text-anchor="middle">{label}</text>')
    for value, label in axes.y_ticks:
        _, y = axes.at(axes.x[0], value)
        parts.append(
            f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/><text x="{LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
        )
    middle = (TOP + base) / 2
    return "".join(parts) + (
        f'<path class="axis" d="M{LEFT} {TOP}V{base}H{WIDTH - RIGHT}"/>'
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}" text-anchor="middle">{escape(axes.x_label)}</text>'
        f'<text transform="translate(11 {middle}) rotate(-90)" text-anchor="middle">{escape(axes.y_label)}</text>'
    )


def _line(axes: Axes, curve: Curve, i: int) -> str:
    floor = axes.y[0] - 0.2 * (axes.y[1] - axes.y[0])  # below the picture, where a delta of 0 lies
    points = [axes.at(float(x), max(float(y), floor)) for x, y in zip(curve.x, curve.y, strict=True) if not math.isnan(y)]
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return f'<path fill="none" {stroke(i, curve.own)} d="{path}"/>'


def stroke(i: int, bold: bool) -> str:
    """How line i is drawn, in the chart and in its legend."""
    dash = f' stroke-dasharray="{DASHES[i % len(DASHES)]}"' if DASHES[i % len(DASHES)] else ""
    return f'stroke="{COLOURS[i % len(COLOURS)]}" stroke-width="{2.6 if bold else 1.7}"{dash}'


def _point(axes: Axes, point: tuple[float, float, str] | None) -> str:
    if point is None or not (axes.x[0] <= point[0] <= axes.x[1] and axes.y[0] <= point[1] <= axes.y[1]):
        return ""
    x, y = axes.at(point[0], point[1])
    right = x < WIDTH / 2
    return (
        f'<path class="claim" d="M{x:.1f} {y - 6:.1f}L{x + 6:.1f} {y:.1f}L{x:.1f} {y + 6:.1f}L{x - 6:.1f} {y:.1f}Z"/>'
        f'<text class="claim" x="{x + (9 if right else -9):.1f}" y="{y - 7:.1f}" text-anchor="{"start" if right else "end"}">'
        f"{escape(point[2])}</text>"
    )


def legend(curves: Sequence[Curve]) -> str:
    """The lines by name, with which side of the truth they are."""
    sides = {AT_LEAST: " (at least)", AT_MOST: " (at most)"}
    rows = [
        f'<li><svg aria-hidden="true" width="34" height="10" viewBox="0 0 34 10"><path {stroke(i, c.own)} d="M0 5H34"/></svg>'
        f"{escape(c.name)}{sides.get(c.kind, '')}{', as stated' if c.own else ''}</li>"
        for i, c in enumerate(curves)
    ]
    return f'<ul class="legend">{"".join(rows)}</ul>'


def even(low: float, high: float, count: int = 5) -> list[tuple[float, str]]:
    """Round ticks in a range."""
    raw = (high - low) / count
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(m * unit for m in (1.0, 2.0, 2.5, 5.0, 10.0) if m * unit >= raw * 0.999)
    return [(float(v), f"{v:.6g}") for v in np.arange(math.ceil(low / step), math.floor(high / step + 1e-9) + 1) * step]


def powers(low: float, high: float) -> list[tuple[float, str]]:
    """Ticks at powers of ten, of log10 values."""
    step = max(round((high - low) / 5), 1)
    return [(float(v), "1" if v == 0 else f"1e{v:d}") for v in range(math.ceil(low), math.floor(high) + 1) if (int(high) - v) % step == 0]
