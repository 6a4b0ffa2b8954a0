"""The best of several bounds: below each of them, above the truth, and a privacy curve."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from test_bad_input import SHAPE
from test_shifted import FIG2, FIG3

from dpaccount import PrivacyProfile, Status
from dpaccount._log import gaussian_log_delta
from dpaccount.iteration import best_of, pointwise_minimum
from dpaccount.iteration.best import hull
from dpaccount.iteration.one_pass import log_contraction_of, pnsgd_mu

VALUES = json.loads((Path(__file__).parent / "references" / "shifted.json").read_text(encoding="utf-8"))
REFERENCE = VALUES["tangent"]
LINE = np.linspace(-9.0, 9.0, 1801)


def gaussian(mu):
    return lambda epsilon: gaussian_log_delta(epsilon, mu)


def setting(p, index):
    """Both bounds of a record at the constants of the plots (contraction as in ADC20, Theorem 4)."""
    own = 2.0 * p.lipschitz / p.noise_scale
    reach = math.exp(log_contraction_of(p)) * p.diameter / (p.step_size * p.noise_scale)
    later = p.num_records - index
    return {
        "contraction": lambda e: gaussian_log_delta(e, own) + later * gaussian_log_delta(e, reach),
        "shifted": gaussian(float(pnsgd_mu(p, index))),
    }


CURVES = {
    "one": {"gaussian": gaussian(1.0)},
    "near zero": {"one": gaussian(1.0), "product": lambda e: gaussian_log_delta(e, 2.0) + gaussian_log_delta(e, 1.5)},
    "fig 2, 20": setting(FIG2, 20),
    "fig 2, 39": setting(FIG2, 39),
    "fig 3, 20": setting(FIG3, 20),
    "fig 3, 30": setting(FIG3, 30),
    "fig 3, 39": setting(FIG3, 39),
    "three": {**setting(FIG3, 30), "pure": lambda e: np.where(np.asarray(e) >= 2.005, -np.inf, 0.0)},
    "not convex": {"mironov": lambda e: np.where(np.asarray(e) > 0.5, -np.square(np.asarray(e) - 0.5) / 2.0, 0.0)},
}


@pytest.fixture(scope="module", params=CURVES)
def curve(request):
    return pointwise_minimum(CURVES[request.param])


def test_the_curve_is_below_every_bound_and_its_reflection(curve):
    upper = curve.log_delta(LINE).upper
    positive = LINE >= 0.0
    for _, bound in curve.candidates:
        assert (upper[positive] <= np.asarray(bound(LINE[positive])) + 1e-12).all()
    mirror = np.exp(curve.log_delta(-LINE).upper)
    direct = 1.0 - np.exp(-LINE) + np.exp(-LINE) * np.exp(upper)
    assert_allclose(mirror[positive], direct[positive], rtol=1e-9, atol=1e-15)


def test_it_is_a_privacy_curve(curve):
    """Convex in gamma over all gamma > 0, slope in [-1, 0], 1 at gamma = 0."""
    logs = np.maximum(curve.log_delta(LINE).upper, -1e6)  # -inf where a bound says so
    assert (np.diff(logs) <= 1e-12).all()
    assert (logs <= 0.0).all()
    delta, gamma = np.exp(logs), np.exp(LINE)
    slope = np.diff(np.concatenate([[1.0], delta])) / np.diff(np.concatenate([[0.0], gamma]))
    noise = 4e-13 * np.maximum(delta, 1e-300) / np.diff(np.concatenate([[0.0], gamma]))
    assert (slope >= -1.0 - noise).all()
    assert (np.diff(slope) >= -noise[1:] - noise[:-1]).all()


def test_it_is_the_hull_of_a_dense_table(curve):
    """Andrew's algorithm on 14,000 points in plain numbers, chords read by interpolation."""
    level = np.linspace(-3.0, 3.0, 12_001)
    wide = np.unique(np.concatenate([np.linspace(-12.0, 12.0, 2401), level]))
    value, gamma = np.exp(curve.least(wide)[0]), np.exp(wide)
    points = list(zip(np.concatenate([[0.0], gamma]), np.concatenate([[1.0], value]), strict=True))
    kept: list[tuple[float, float]] = []
    for x, y in points:
        while len(kept) > 1 and (kept[-1][1] - kept[-2][1]) * (x - kept[-2][0]) >= (y - kept[-2][1]) * (kept[-1][0] - kept[-2][0]):
            kept.pop()
        kept.append((x, y))
    x, y = np.array(kept).T
    some = level[(level > -2.0) & (level < 2.0)]
    dense, found = np.interp(np.exp(some), x, y), np.exp(curve.log_delta(some).upper)
    assert_allclose(found, dense, rtol=1e-3, atol=1e-15)
    assert (found <= dense * (1 + 1e-7) + 1e-15).all(), "its own table is finer where it matters"


def test_the_common_tangent_has_24_digits_of_reference():
    both = pointwise_minimum(CURVES["near zero"])
    found = both.delta(0.15)
    assert_allclose(found.upper, float(REFERENCE["delta"]), rtol=1e-12)
    assert found.upper >= float(REFERENCE["delta"])
    a, b = float(REFERENCE["from"]), float(REFERENCE["to"])
    assert found.method == "product / one"
    assert both.winner([a - 1e-6, a + 1e-6, b - 1e-6, b + 1e-6]).tolist() == ["product", "product / one", "product / one", "one"]
    least = min(float(v(np.array(0.15))) for v in CURVES["near zero"].values())
    assert float(both.log_delta(0.15)) < least - 0.004


def test_the_hull_never_falls_below_a_truth_that_all_bounds_hold_for():
    """Bounds that touch the truth here and there and leave it elsewhere: the hull stays above."""
    rng, truth = np.random.default_rng(2), gaussian(1.0)
    for _ in range(3):
        waves = rng.uniform(0.2, 6.0, 3)
        bounds = {
            str(k): (lambda e, w=w: np.minimum(gaussian_log_delta(e, 1.0) + 0.3 * np.square(np.sin(w * np.asarray(e))), 0.0))
            for k, w in enumerate(waves)
        }
        made = pointwise_minimum(bounds)
        upper = made.log_delta(LINE).upper
        exact = gaussian_log_delta(LINE, 1.0)
        assert (upper >= exact - 1e-12).all()
        assert (upper[LINE >= 0] <= made.least(LINE[LINE >= 0])[0] + 1e-12).all()
        assert float(made.pair().log_delta(np.array(0.7))) >= float(truth(np.array(0.7))) - 1e-12


@pytest.mark.parametrize(("figure", "index"), [(figure, int(i)) for figure in ("fig2", "fig3") for i in VALUES["crossings"][figure]])
def test_where_shifts_begin_to_win(figure, index):
    crossing = float(VALUES["crossings"][figure][str(index)])
    both = pointwise_minimum(setting({"fig2": FIG2, "fig3": FIG3}[figure], index))
    before, after = (both.least(np.array(crossing * (1 + step)))[1] for step in (-1e-9, 1e-9))
    assert (before, after) == (0, 1)
    assert both.winner(crossing) == "contraction / shifted", "there the common tangent lies below both"
    assert both.winner(0.3 * crossing).startswith("contraction")
    assert both.winner(2.0 * crossing) == "shifted"


def test_epsilon_is_the_inverse(curve):
    for log_delta in (math.log(0.1), math.log(1e-5), -500.0):
        found = curve.epsilon(log_delta=log_delta)
        assert float(curve.log_delta(found.upper)) <= log_delta
        if 0.0 < found.upper < np.inf:
            assert float(curve.log_delta(found.upper * (1 - 1e-9))) >= log_delta - 1e-6 * abs(log_delta) or 2.0049 < found.upper < 2.0051
    assert float(curve.epsilon(1.0)) == 0.0


def test_arrays_and_special_answers():
    both = pointwise_minimum(CURVES["near zero"], certified=True)
    found = both.epsilon([[1e-5, 0.9], [0.0, 1e-300]])
    assert found.upper.shape == (2, 2)
    assert found.certified
    assert found.upper[0, 1] == 0.0
    assert found.upper[1, 0] == np.inf
    assert found.status is Status.INFINITE_DELTA_ZERO
    assert both.delta([0.1, 2.0]).method.tolist() == ["product / one", "one"]
    assert float(both.delta(200.0)) < 1e-300
    assert both.log_delta(200.0).upper < -19_000
    assert both.names == ("one", "product")
    assert pointwise_minimum(CURVES["three"]).delta(2.5).upper == 0.0


def test_the_pair_has_the_curve():
    both = pointwise_minimum(CURVES["near zero"])
    pair = both.pair()
    for epsilon in (0.0, 0.15, 1.0, 3.0):
        tabled = float(PrivacyProfile(pair).delta(epsilon))
        assert float(both.delta(epsilon)) <= tabled * (1 + 1e-12)
        assert_allclose(tabled, float(both.delta(epsilon)), rtol=4e-3)


def test_a_product_of_curves_needs_no_hull():
    product = CURVES["near zero"]["product"]
    plain, whole = (pointwise_minimum({"product": product}, convex=c) for c in (True, False))
    assert_allclose(whole.log_delta(LINE).upper, plain.log_delta(LINE).upper, rtol=1e-9, atol=1e-12)


def test_best_of_asks_every_method():
    class Known:
        methods = ("low", "high", "best")

        def log_delta(self, epsilon, *, method, shift=0.0):
            return PrivacyProfileLike(gaussian_log_delta(epsilon, 1.0) + (0.0 if method == "low" else 1.0) + shift)

    class PrivacyProfileLike:
        certified = True

        def __init__(self, upper):
            self.upper = np.minimum(upper, 0.0)

    found = best_of(Known(), shift=0.1)
    assert_allclose(found.log_delta(1.0).upper, gaussian_log_delta(1.0, 1.0) + 0.1, rtol=1e-12)
    assert found.winner(1.0) == "low"
    assert found.certified
    assert best_of(Known(), {"other": gaussian(0.5)}).winner(1.0) == "other"


def test_the_hull_in_logs_keeps_points_hundreds_of_orders_apart():
    level = np.linspace(0.0, 60.0, 200)
    logs = gaussian_log_delta(level, 0.5)
    assert logs[-1] < -7000
    assert hull(level, logs).size == level.size
    bumped = logs.copy()
    bumped[150] = bumped[149] - 0.01
    assert 150 not in hull(level, bumped)


@pytest.mark.parametrize("call", [
    lambda: pointwise_minimum({}), lambda: pointwise_minimum([1]), lambda: pointwise_minimum({"a": 1.0}),
    lambda: pointwise_minimum({"a": gaussian(1.0)}, certified=1), lambda: pointwise_minimum({"a": gaussian(1.0)}).delta("x"),
    lambda: pointwise_minimum({"a": gaussian(1.0)}).epsilon(2.0), lambda: pointwise_minimum({"a": gaussian(1.0)}).epsilon(),
    lambda: pointwise_minimum({"a": gaussian(1.0)}).pair(800.0), lambda: pointwise_minimum({"a": lambda e: e * np.nan}).delta(1.0),
])
def test_bad_input_is_refused_in_the_one_shape(call):
    with pytest.raises((ValueError, TypeError), match=SHAPE):
        call()
