"""Faults planted in each engine - a node spacing widened, a truncation shortened, a tail dropped - and caught by references.

Bounds have margins, so that a fault must exceed them: spacings are widened fourfold, lines cut to a sixth. Unharmed, every engine holds
all of these references. Where each of the three kinds is planted, beside engine by engine what only that engine can get wrong:

| Engine | Spacing | Truncation | Tail |
|---|---|---|---|
| line | `test_contour`, `test_families` (panels) | `test_contour`, `test_families` | `test_contour` (outcomes), `test_families` (atoms) |
| many | here, and the points of interpolation in `test_schedule` | here | here |
| expansion, smoothed, lattice | here | here | here |
| circle | `test_families` (points of the circle) | `test_families` (points left out) | here (rare losses) |
| balls | `test_balls` | `test_balls` | `test_balls` |
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import test_families as families
from helpers import log_of, violations
from test_smoothed import KNOWN

from dpaccount import _panels, pld
from dpaccount.engines import closed
from dpaccount.engines.circle import turns
from dpaccount.engines.jump import Jump
from dpaccount.engines.lattice import answer as lattice
from dpaccount.engines.lattice import tilted
from dpaccount.engines.line import answer as line
from dpaccount.engines.line import contour, expansion
from dpaccount.engines.many.rows import Rows
from dpaccount.engines.smoothed import answer as smoothed
from dpaccount.engines.smoothed import line as smooth_line
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.mechanisms.response import RandomizedResponse
from dpaccount.results import LogDelta
from dpaccount.sampling.poisson import PoissonSampled
from dpaccount.sampling.sampled_strip import SampledStrip
from dpaccount.sampling.schedule import NoiseSchedule

FOLDER = Path(__file__).with_name("references")
Asked = list[tuple[Callable[[], LogDelta], float]]


def _few(count: int, engine: Callable[..., LogDelta], **more: Any) -> Asked:
    rows = json.loads((FOLDER / "few.json").read_text())
    asked: Asked = []
    for row in (rows[2], rows[5], rows[10], rows[15])[:count]:
        step = PoissonSampled(Gaussian(float.fromhex(row["noise_multiplier"])), float.fromhex(row["sampling_probability"]))
        pair = row["steps"] * (step.reversed() if row["reverse"] else step)
        asked.append((partial(engine, pair, float.fromhex(row["epsilon"]), **more), log_of(row["delta"])))
    return asked


def _mixed() -> Asked:
    rows = json.loads((FOLDER / "mixed.json").read_text())
    asked: Asked = []
    for row in rows:
        step = PoissonSampled(Gaussian(float.fromhex(row["noise_multiplier"])), float.fromhex(row["sampling_probability"]))
        asked.append((lambda s=step, r=row: expansion.log_delta(r["steps"] * s, float.fromhex(r["epsilon"]))[0], float(row["log_delta"])))
    return asked


def _known(engine: Callable[..., LogDelta], **more: Any) -> Asked:
    """Where one jump is nearly all of delta, and where the characteristic function hardly decays."""
    return [
        (partial(engine, steps * PoissonSampled(Gaussian(sigma), q), epsilon, **more), float(np.log(delta)))
        for sigma, q, steps, epsilon, delta in KNOWN
    ]


def _atoms(**more: Any) -> Asked:
    """A characteristic function that never decays, with delta from its formula."""
    pair = 7 * RandomizedResponse(0.4)
    return [(partial(smoothed.log_delta, pair, 0.3, **more), closed.log_delta(pair, 0.3).estimate)]


def _circle() -> Asked:
    rows = [row for row in json.loads((FOLDER / "families.json").read_text()) if row["engine"] == "lattice"]
    return [(partial(families.answer_of, row), families.truth_of(row)) for row in rows]


def _schedule() -> Asked:
    """Thirty noise multipliers, summed side by side on common nodes."""
    rows = json.loads((FOLDER / "schedules.json").read_text())
    noise = rows["noise_multipliers"]
    pair = NoiseSchedule(noise, rows["sampling_probability"], [rows["count"]] * len(noise))
    return [
        (partial(line.log_delta, side, float(epsilon)), log_of(digits))
        for name, side in (("remove", pair), ("add", pair.reversed()))
        for epsilon, digits in rows["delta"][name].items()
    ]


ASKED: dict[str, Callable[[], Asked]] = {
    "circle": _circle,
    "expansion": _mixed,
    "lattice": lambda: _few(4, lattice.log_delta) + _known(lattice.log_delta)[:1],
    "many": _schedule,
    "smoothed": lambda: _few(2, smoothed.log_delta, aim=1e-5) + _known(smoothed.log_delta, aim=1e-5) + _atoms(aim=1e-5),
}


@pytest.mark.parametrize("engine", ASKED)
def test_no_reference_is_violated(engine: str) -> None:
    asked = ASKED[engine]()
    assert violations(asked, slack=1e-12) == 0
    assert all(ask().certified for ask, _ in asked)


def _caught(engine: str) -> bool:
    return any(violations([one], slack=1e-12) for one in ASKED[engine]())


def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of outcomes end early on both sides, and what lies beyond is taken as nothing."""
    honest = _panels.graded
    monkeypatch.setattr(SampledStrip, "above", lambda *facts: -np.inf)
    monkeypatch.setattr(SampledStrip, "below", lambda *facts: -np.inf)
    monkeypatch.setattr(_panels, "_trimmed", lambda evaluate, strip, window, *facts: window)  # it rests on both

    def narrow(evaluate: Any, strip: Any, scale: float, window: tuple[float, float], *more: Any) -> Any:
        (first, last), (low, high) = more[0], window
        low, high = max(low, first), min(high, last)
        part = 0.3 * (high - low)
        return honest(evaluate, strip, scale, (low + part * (low > first), high - part * (high < last)), *more)

    monkeypatch.setattr("dpaccount._quadrature.graded", narrow)


def _no_jump(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Jump, "log_part", lambda *facts: (-np.inf, -np.inf))


# a node spacing widened


def test_expansion_with_a_wider_node_spacing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Panels are not halved, and have a tenth of their nodes: body and jumps lie on either side of a level."""
    _panels.legendre.cache_clear()
    monkeypatch.setattr(_panels, "_bound", lambda strip, x, *facts: np.full((6, x.size), -np.inf))
    monkeypatch.setattr(_panels, "ORDER", 4)
    try:
        assert _caught("expansion")
    finally:
        _panels.legendre.cache_clear()


def test_smoothed_with_panels_for_slower_waves(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = smooth_line.graded
    monkeypatch.setattr(smooth_line, "graded", lambda *facts: honest(*facts[:6], facts[6] / 40, *facts[7:]))
    assert _caught("smoothed")


def test_lattice_with_chords_for_tangents(monkeypatch: pytest.MonkeyPatch) -> None:
    """What should lie below the curve is drawn through its values, as on a lattice that has no cells between them."""
    monkeypatch.setattr(pld, "_optimistic", lambda curve, h: (1.0 - 1e-12) * pld._pessimistic(curve, h))
    assert _caught("lattice")


def test_many_with_every_fifth_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proved spacing is about three times finer than it must be: here every fourth node still does."""
    honest = Rows._trapezoid

    def coarse(rows: Any, *facts: Any) -> Any:
        node, log_w, error = honest(rows, *facts)
        return node[::5], log_w[::5] + np.log(5.0), error

    monkeypatch.setattr(Rows, "_trapezoid", coarse)
    assert _caught("many")


# a truncation shortened


@pytest.mark.parametrize("engine", ["expansion", "many"])
def test_shorter_lines(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = contour.proved_reach

    def short(*facts: Any) -> Any:
        found = honest(*facts)
        return None if found is None else (found[0] / 6, found[1])

    monkeypatch.setattr(contour, "proved_reach", short)
    assert _caught(engine)


def test_smoothed_with_a_quarter_of_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = smooth_line.Mollifier.beyond
    monkeypatch.setattr(smooth_line, "END", smooth_line.END / 4)
    monkeypatch.setattr(smooth_line.Mollifier, "beyond", lambda kernel, s: honest(kernel, 4 * s))
    assert _caught("smoothed")


def test_lattice_with_a_shorter_circle(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = tilted.Side.value
    monkeypatch.setattr(tilted.Side, "value", lambda side, length: honest(side, length // 4))
    assert _caught("lattice")


# a tail dropped


def test_expansion_without_tails(monkeypatch: pytest.MonkeyPatch) -> None:
    _narrow(monkeypatch)
    assert _caught("expansion")


def test_many_without_tails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The window of the common nodes ends early on both sides, and what lies beyond is taken as nothing."""
    honest = Rows._window

    def narrow(rows: Any, powers: list[float]) -> tuple[float, float]:
        start, end = honest(rows, powers)
        return start + 0.25 * (end - start), end - 0.25 * (end - start)

    monkeypatch.setattr(Rows, "_window", narrow)
    monkeypatch.setattr(Rows, "_left_out", lambda *facts: (-np.inf, -np.inf))
    assert _caught("many")


@pytest.mark.parametrize("engine", ["smoothed", "lattice"])
def test_without_the_jump(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _no_jump(monkeypatch)
    assert _caught(engine)


def test_circle_without_rare_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Masses below a millionth of the heaviest are left out, and not counted as an error."""
    honest = turns.Law.tilted

    def without(law: Any, tau: float) -> Any:
        found = honest(law, tau)
        keep = found.p > 1e-6 * found.p.max()
        return found._replace(k=found.k[keep], p=found.p[keep], dropped=0.0)

    monkeypatch.setattr(turns.Law, "tilted", without)
    assert _caught("circle")
