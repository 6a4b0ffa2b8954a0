"""Few samples, few steps: the smoothed contour's bracket holds the truth, every bound bounds, and a planted fault is caught."""

import json
import math
from functools import partial
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from helpers import log_of, overlap, violations
from scipy.special import i1e

from dpaccount import Gaussian, Laplace, PoissonSampled, PrivacyProfile, RandomizedResponse
from dpaccount._panels import graded
from dpaccount.engines import auto, jump, recursion
from dpaccount.engines.line import alias
from dpaccount.engines.smoothed import answer as smoothed
from dpaccount.engines.smoothed import line as smooth_line
from dpaccount.engines.smoothed import mollifier
from dpaccount.engines.smoothed.spectrum import spectrum
from dpaccount.pair import compose
from dpaccount.results import NumericalFailure

ROWS = json.loads(Path(__file__).with_name("references").joinpath("few.json").read_text())


def pair_of(row):
    step = PoissonSampled(Gaussian(float.fromhex(row["noise_multiplier"])), float.fromhex(row["sampling_probability"]))
    return row["steps"] * (step.reversed() if row["reverse"] else step)


def truth_of(row):
    return log_of(row["delta"])


def answer_of(row, aim=1e-6):
    return smoothed.log_delta(pair_of(row), float.fromhex(row["epsilon"]), aim=aim)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['delta']}{'-' if row['reverse'] else '+'}")
def test_the_bracket_is_certified_narrow_and_holds_the_reference(row):
    found, truth = answer_of(row), truth_of(row)
    assert found.certified
    assert found.lower <= truth <= found.upper
    assert found.upper - found.lower < 1e-4
    assert abs(found.estimate - truth) < 0.2 * (found.upper - found.lower) + 1e-11


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['delta']}{'-' if row['reverse'] else '+'}")
def test_the_recursion_holds_the_reference(row):
    found = recursion.log_delta(pair_of(row), float.fromhex(row["epsilon"]))
    assert found.lower <= truth_of(row) <= found.upper
    if float.fromhex(row["epsilon"]) > 1e-3:  # masses of narrower cells lose digits
        assert found.upper - found.lower < 0.02


@pytest.mark.parametrize(("sigma", "q", "steps", "epsilon"), [(0.788, 8.31e-4, 2, 1.537e-3), (1.37, 0.0793, 3, 0.1903)])
def test_add_near_its_upper_edge_is_narrow(sigma, q, steps, epsilon):
    """Under the tilt nearly all outcomes weigh nothing, and take no nodes."""
    pair = steps * PoissonSampled(Gaussian(sigma), q).reversed()
    found = smoothed.log_delta(pair, epsilon)
    assert found.certified
    assert found.upper - found.lower < 1e-6
    assert overlap(found, recursion.log_delta(pair, epsilon))


@pytest.mark.parametrize(("q", "epsilon", "reverse"), [(1e-3, 1.0, False), (1e-11, 0.5, False)])
def test_many_distinct_steps_with_few_samples(q, epsilon, reverse):
    """Thirteen noise multipliers within 1e-12 of 1 answer as thirteen equal steps do."""
    apart = compose([(PoissonSampled(Gaussian(1.0 + i * 3e-14), q), 1) for i in range(13)])
    alike = 13 * PoissonSampled(Gaussian(1.0), q)
    found, truth = (auto.log_delta(pair.reversed() if reverse else pair, epsilon) for pair in (apart, alike))
    assert found.certified
    assert found.upper - found.lower < 2e-6
    assert overlap(found, truth, slack=1e-9)


KNOWN = ((0.3, 1e-3, 1000, 5.0, 0.02573877564047), (1.0, 1e-3, 10, 0.2, 7.561884733033e-10))


def missed(aim=1e-5):
    """The first two have characteristic functions that hardly decay."""
    asked = [(steps * PoissonSampled(Gaussian(s), q), e, np.log(delta)) for s, q, steps, e, delta in KNOWN]
    asked += [(pair_of(row), float.fromhex(row["epsilon"]), truth_of(row)) for row in ROWS[:4]]
    return violations(((partial(smoothed.log_delta, pair, e, aim=aim), truth) for pair, e, truth in asked), slack=1e-12)


def test_no_reference_is_violated():
    assert missed() == 0


def test_a_dropped_shift_is_caught(monkeypatch):
    class Unmoved(mollifier.Mollifier):
        def __init__(self, *facts):
            super().__init__(*facts)
            self.eta = 0.0

    pair = 7 * RandomizedResponse(0.4)  # between its atoms f is linear, and smoothing moves it by the shift alone
    exact = auto.log_delta(pair, 0.3, "closed")
    assert overlap(exact, smoothed.log_delta(pair, 0.3, aim=1e-4))
    monkeypatch.setattr(smoothed, "Mollifier", Unmoved)
    assert not overlap(exact, smoothed.log_delta(pair, 0.3, aim=1e-4))


def test_a_smaller_gap_is_caught(monkeypatch):
    """The lower bound takes C D off; the truth is about half of it below f~."""

    class Bold(mollifier.Mollifier):
        def _gap(self):
            return 0.3 * super()._gap()

    monkeypatch.setattr(smoothed, "Mollifier", Bold)
    assert missed() > 0


def ends_apart(monkeypatch, end):
    """By how much f~ and C D change when the line goes on, in units of the errors stated for its full length.

    At so small a tilt hardly any mass jumps, and the characteristic function does not decay; nor does it turn at the mean loss.
    """
    body = smoothed._body(10 * PoissonSampled(Gaussian(1.0), 1e-3), 0.2)._replace(tilt=5.0)
    body = body._replace(epsilon=body.axis.cumulants(0.0)[1])
    kernel = mollifier.Mollifier(mollifier.half_width(1e-6, 9.0), 9.0, body.tilt)
    aliases = alias.on_both_sides(body.axis, body.tilt, body.epsilon, body.log_scale - 14.0, body.spread)
    found = []
    for stop in (end, 4.0):
        monkeypatch.setattr(smooth_line, "END", stop)
        found.append(smooth_line.read(body, kernel, aliases))
    one, two = found
    claimed = kernel.beyond(smooth_line.FULL * kernel.beta / kernel.width)
    allowed = claimed[0] / np.pi + two.error, kernel.gap * claimed[1] / np.pi + two.gap_error
    return abs(one.smooth - two.smooth) / allowed[0], abs(one.gap - two.gap) / allowed[1]


def test_the_end_of_the_line_is_bounded_and_a_third_of_the_support_is_caught(monkeypatch):
    monkeypatch.setattr(smooth_line, "FULL", smooth_line.END, raising=False)
    assert max(ends_apart(monkeypatch, smooth_line.FULL)) <= 1.0
    assert max(ends_apart(monkeypatch, smooth_line.FULL / 3)) > 2.0


def test_a_shorter_period_is_caught(monkeypatch):
    honest, bound = smoothed.on_both_sides, alias.Alias.log_bound
    monkeypatch.setattr(smoothed, "on_both_sides", lambda *facts: honest(*facts)._replace(period=honest(*facts).period / 4))
    monkeypatch.setattr(alias.Alias, "log_bound", lambda self, epsilon: bound(self._replace(period=4 * self.period), epsilon))
    assert missed() > 0


def nodes_apart(rate):
    """How far the characteristic function at `rate` is off by nodes made for it, and the error and rounding they state."""
    term = smoothed._body(10 * PoissonSampled(Gaussian(1.0), 1e-3), 0.2).axis.terms[0]
    tilt, sums = 90.0, []
    for reach in (rate, 2.0 * rate):
        nodes, error = smooth_line._fine(term, tilt, reach)
        weight = np.exp(nodes.log_p + tilt * nodes.loss)
        sums.append(np.exp(1j * rate * nodes.loss) @ (weight / weight.sum()))
        off, part = nodes.rounding()
    stated = float((weight / weight.sum()) @ (2 * part + (tilt + rate) * (off + 1e-15 * np.abs(nodes.loss)) + 1e-14)) + 2 * error
    return abs(sums[0] - sums[1]), stated


def test_panels_serve_the_rates_they_are_made_for_and_no_others(monkeypatch):
    for rate in (0.0, 100.0, 4e3, 5e4):
        apart, stated = nodes_apart(rate)
        assert apart <= stated

    def blind(*facts):
        return graded(*facts[:6], facts[6] / 4, *facts[7:])

    monkeypatch.setattr(smooth_line, "graded", blind)
    apart, stated = nodes_apart(5e4)
    assert apart > 10.0 * stated


@pytest.mark.parametrize(("width", "beta", "tilt"), [(0.3, 9.0, 2.0), (1e-3, 13.0, 40.0), (3e-5, 12.0, 1e4)])
def test_the_kernel_is_what_it_says(width, beta, tilt):
    """Its transform, its shift and C against quadrature of the density in mpmath; what lies beyond its end is bounded."""
    found = mollifier.Mollifier(width, beta, tilt)
    nodes, weights = np.polynomial.legendre.leggauss(400)
    y, t = width * nodes, np.sqrt(1.0 - nodes**2)
    mass = weights * t * i1e(beta * t) * np.exp(beta * (t - 1.0))
    mass /= mass.sum()
    s = np.array([0.0, 0.4, 0.8, 1.0, 1.15]) * beta / width
    value, error = found.values(s)
    with mp.workdps(40):

        def transform(z):
            x = mp.sqrt(mp.mpf(beta) ** 2 + (mp.mpf(width) * z) ** 2)
            return (x * mp.cosh(x) - mp.sinh(x)) / x**3

        eta = mp.log(transform(-1) / transform(0))
        assert abs(found.eta - float(eta)) <= found.eta_error + 1e-15 * float(eta)
        for k, point in enumerate(s):
            exact = complex(transform(mp.mpc(tilt, float(point))) / transform(mp.mpf(tilt)))
            assert abs(value[k] - exact) <= error[k]
            plain = np.sum(mass * np.exp((tilt + 1j * point) * y)) / np.sum(mass * np.exp(tilt * y))
            assert abs(plain - exact) < 1e-12
    at = float(np.sqrt(1.0 - (found.eta / width) ** 2))
    density = at * float(i1e(beta * at)) * np.exp(beta * (at - 1.0)) * mass[200] / (weights[200] * t[200] * i1e(beta * t[200]))
    density /= width * np.exp(beta * (t[200] - 1.0))
    largest = float(mass @ np.maximum(np.expm1(y - found.eta), 0.0)) / density
    assert 0.999 <= found.gap / largest < 1.03
    far = np.geomspace(1.15 * beta / width, 1e4 * beta / width, 20_000)
    size = np.abs(found.values(far)[0])
    second, first = (float(np.trapezoid(size / weight, far)) for weight in (far**2, np.ones(1)))
    bounds = found.beyond(float(far[0]))
    assert second <= bounds[0]
    assert first <= bounds[1]


def test_the_kernel_knows_what_cancels_in_its_argument():
    """Where beta^2 + (a c)^2 and (a s)^2 meet, on the frequencies k h that rounding misses, against fifty digits."""
    beta, width = 40.0, 0.3
    near = np.arange(19_950, 20_050)
    worst = 0.0
    for lean in (0.011, 0.02, 0.04):
        found = mollifier.Mollifier(width, beta, lean / width)
        step = math.hypot(beta, lean) / width / 20_000.0
        value, error = found.values(step * near)
        with mp.workdps(50):
            a, b, c = mp.mpf(width), mp.mpf(beta), mp.mpf(lean / width)

            def kappa(square):
                x = mp.sqrt(square)
                return (x * mp.cosh(x) - mp.sinh(x)) / x**3

            whole = kappa(b * b + (a * c) ** 2)
            for k, one, stated in zip(near.tolist(), value, error, strict=True):
                exact = kappa(b * b + (a * mp.mpc(c, mp.mpf(step) * k)) ** 2) / whole
                worst = max(worst, float(abs(exact - mp.mpc(complex(one))) / mp.mpf(float(stated))))
    assert 0.01 < worst < 1.0


def test_a_hopeless_phase_is_worth_no_more_than_what_a_characteristic_function_may_be():
    """With every logarithm off by hundreds the errors cover any value of modulus 1, however small the computed one."""
    size, slip = np.array([1e-300, 1e-20, 0.3, 1.0]), np.array([695.0, 100.0, 3.0, 1e-12])
    lost = smooth_line._lost(size, slip)
    assert np.all(lost[:3] >= 1.0 - size[:3])
    assert np.all(lost <= 1.0 + size)
    assert lost[3] == pytest.approx(1e-12)
    assert lost[0] > size[0] * np.expm1(30.0)


@pytest.mark.parametrize("count", [40, 5000])  # losses crowd the cells of the grid, or are spread over it
def test_the_spectrum_is_within_its_error_of_the_plain_sum(count):
    rng = np.random.default_rng(3)
    loss, weight = rng.normal(size=3000) * 0.3, rng.random(3000)
    loss[:1000] *= 1e-7
    weight[:1000] *= 1e6
    weight /= weight.sum()
    h = 0.7
    found = spectrum(loss, weight, np.zeros(3000), np.zeros(3000), h, count)
    at = np.unique(rng.integers(0, count + 1, 30))
    exact = np.array([np.sum(weight * np.expm1(1j * (k * h) * loss.astype(np.longdouble))) for k in at])
    assert np.all(np.abs(found.moved[at] - exact) <= found.error + found.slope * h * at)
    assert found.error < 1e-13
    assert np.abs(found.moved[1]) > 1e3 * np.abs(found.moved[1] - exact[at == 1]).max(initial=0.0)


def draw(index):
    rng = np.random.default_rng([2024, index])
    sigma, steps = np.exp(rng.uniform(np.log(0.2), np.log(20))), int(rng.integers(2, 7))
    q = np.exp(rng.uniform(np.log(1e-6), np.log(0.5)))
    pair = steps * PoissonSampled(Gaussian(float(sigma)), float(q))
    if rng.random() < 0.5:
        return pair.reversed(), float(-steps * np.log1p(-q) * rng.uniform(0.02, 0.95))
    return pair, float(np.exp(rng.uniform(np.log(1e-3), np.log(4.0))))


@pytest.mark.parametrize("index", range(12))
def test_engines_meet_on_random_short_compositions(index):
    """The smoothed contour, the recursion and the plain contour share little; their certified brackets intersect."""
    pair, epsilon = draw(index)
    found = {}
    for method in ("line", "smoothed", "recursion"):
        try:
            found[method] = auto.log_delta(pair, epsilon, method)
        except NumericalFailure:
            continue
    for one, a in found.items():
        assert not np.isnan([a.lower, a.estimate, a.upper]).any()
        for two, b in found.items():
            assert overlap(a, b), (one, a, two, b)
    if not {"smoothed", "recursion"} <= found.keys():
        assert auto.log_delta(pair, epsilon).upper < -200.0
    elif found["smoothed"].upper > -115.0:
        assert found["smoothed"].upper - found["smoothed"].lower < 1e-4


@pytest.mark.parametrize(("sigma", "q", "steps", "delta"), [(1.0, 1e-12, 10, 1e-20), (1.0, 1e-9, 10**6, 1e-12)])
def test_rare_sampling_inverts(sigma, q, steps, delta):
    profile = PrivacyProfile(steps * PoissonSampled(Gaussian(sigma), q))
    found = profile.epsilon(delta=delta)
    assert found.certified
    assert found.width < 1e-5 * found.estimate
    assert profile.log_delta(epsilon=found.upper).upper <= np.log(delta) + 1e-7


@pytest.mark.parametrize(("q", "steps", "epsilon"), [(1e-9, 10**6, 0.3), (1e-12, 10**9, 0.3)])
def test_rare_sampling_is_one_jump(q, steps, epsilon):
    """steps delta_1 from the closed curve, at epsilons that the others' losses can shift by no more than steps q either way."""
    step = PoissonSampled(Gaussian(1.0), q)
    found = auto.log_delta(steps * step, epsilon)
    assert found.certified
    assert found.upper - found.lower < 1e-5
    least, most = (float(step.log_delta(epsilon + move)) + np.log(steps) for move in (4 * steps * q, -4 * steps * q))
    assert least - 2e-3 <= found.lower
    assert found.upper <= most + 4 * steps * q + 1e-3


def test_a_goal_stops_the_refinement():
    pair = 10 * PoissonSampled(Gaussian(1.0), 1e-3)
    full, loose = smoothed.log_delta(pair, 0.2), smoothed.log_delta(pair, 0.2, goal=-10.0)
    assert loose.upper < -10.0
    assert overlap(full, loose)
    assert loose.upper - loose.lower > full.upper - full.lower


def test_a_line_answers_again_beside_its_own_epsilon():
    """At epsilons that its tilt and cut serve, as narrowly as a line of their own; elsewhere, and for other pairs, it does not."""
    pair, other = 10 * PoissonSampled(Gaussian(1.0), 1e-3), 10 * PoissonSampled(Gaussian(1.0), 2e-3)
    near = smoothed.Nearby()
    first = near(pair, 0.19)
    assert near.serves
    for shift in (5e-5, -1e-4, 2e-6):
        epsilon = 0.19 * (1.0 + shift)
        again, own = near.again(pair, epsilon), smoothed.log_delta(pair, epsilon)
        assert again is not None
        assert again.certified
        assert overlap(again, own)
        assert again.upper - again.lower < 1.6 * (own.upper - own.lower)
        assert abs(shift) < 1e-5 or not overlap(again, first)
    assert near.again(pair, 0.19 * (1.0 + 2 * smoothed.ROOM)) is None
    assert near.again(pair, 0.17) is None
    assert near.again(other, 0.19) is None


def test_steps_without_a_strip_are_estimated_and_others_mixed_in_are_certified():
    assert not smoothed.log_delta(5 * PoissonSampled(Laplace(0.9), 0.05), 0.2).certified or Laplace(0.9).density().strip is not None
    mixed = smoothed.log_delta(3 * PoissonSampled(Gaussian(1.0), 0.01) + 2 * RandomizedResponse(0.2), 0.3)
    assert mixed.certified
    assert overlap(mixed, recursion.log_delta(3 * PoissonSampled(Gaussian(1.0), 0.01) + 2 * RandomizedResponse(0.2), 0.3))


def test_the_recursion_refuses_many_steps():
    with pytest.raises(NumericalFailure, match="at most 10 steps"):
        auto.log_delta(11 * PoissonSampled(Gaussian(1.0), 0.1), 0.5, "recursion")


@pytest.mark.parametrize("epsilon", [1e-9, 1e-6, 1e-3])
def test_two_nearly_equal_jumps_are_subtracted_to_the_last_digits(epsilon):
    """P(E) - e^eps Q(E) of a sampled Gaussian against mpmath."""
    q, steps = 1e-3 * epsilon, 50
    found = jump.split(steps * PoissonSampled(Gaussian(1.0), q), epsilon, jump.Margin(0.1 * epsilon))
    value, error = found.log_part(epsilon)
    with mp.workdps(50):
        level = mp.log((mp.exp(mp.mpf(found.cut)) - 1 + mp.mpf(q)) / mp.mpf(q))
        low, high = mp.ncdf(-level - 0.5), mp.ncdf(-level + 0.5)
        p = (1 - mp.mpf(q)) * low + mp.mpf(q) * high
        exact = float(mp.log(1 - (1 - p) ** steps - mp.exp(mp.mpf(epsilon)) * (1 - (1 - low) ** steps)))
    assert abs(value - exact) <= np.exp(error - value)
    assert error - value < np.log(1e-9)


@pytest.mark.parametrize("index", range(3))
def test_a_pair_not_proved_to_dominate_is_estimated_by_the_line(index):
    """Its answers are never certified: the smoothed line serves without a proof, and meets the recursion."""
    rng = np.random.default_rng([31, index])
    step = PoissonSampled(Laplace(float(np.exp(rng.uniform(-0.5, 1.5)))), float(np.exp(rng.uniform(-4.0, -0.2))))
    pair = (int(rng.integers(3, 5)) * step).under("replace-one")[0]
    epsilon = float(rng.uniform(0.05, 0.9)) * pair.loss_range[1]
    found = auto.log_delta(pair, epsilon)
    assert not pair.proved
    assert found.upper - found.lower < 1e-4
    assert overlap(found, recursion.log_delta(pair, epsilon))
    assert not PrivacyProfile(pair, "replace-one").delta(epsilon=epsilon).certified


NARROW = [((72.25480395387603, 203.997699329169), -0.018741926292616465), ((0.9563797881912421, 651.0619692910401), -1.0471456694412442)]


@pytest.mark.parametrize(("scales", "epsilon"), NARROW)
def test_a_kernel_too_narrow_for_the_places_of_losses_is_refused(scales, epsilon):
    """Cells so far out that a loss has no digits left inside its own: no bound holds there."""
    pair = Laplace(scales[0]) + Laplace(scales[1])
    with pytest.raises(NumericalFailure, match="places"):
        PrivacyProfile(pair, "as-written", method="smoothed").log_delta(epsilon)
    assert PrivacyProfile(pair, "as-written").log_delta(epsilon).width < 1e-6
