"""The trade-off function against Neyman-Pearson tests, its cost in engine calls, and how answers show themselves."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from dpaccount.bestof import BestOf
from dpaccount.calibration import calibrate
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.engines import auto, invert
from dpaccount.mechanisms.finite import FinitePair
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.mechanisms.laplace import Laplace
from dpaccount.mechanisms.pure import ApproximateDP, PureDP
from dpaccount.pair import DominatingPair
from dpaccount.renyi import RenyiBound
from dpaccount.results import Bounds, Calibration, LogDelta, Status
from dpaccount.sampling.poisson import PoissonSampled

RUN = 14063 * PoissonSampled(Gaussian(1.1), 256 / 60000)


def neyman_pearson(p: np.ndarray, q: np.ndarray, alpha: float) -> float:
    """Least type II error of P against Q at level alpha: reject by rising p/q, the last atom at random."""
    order = np.argsort(p / np.where(q > 0, q, 1e-300))
    beta, level = 1.0, alpha
    for i in order:
        part = min(1.0, level / p[i]) if p[i] > 0 else 1.0
        beta -= part * q[i]
        level -= part * p[i]
    return beta


@pytest.mark.parametrize("mu", [1e-4, 0.01, 0.3, 1.0, 5.0, 30.0])
@pytest.mark.parametrize("alpha", [1e-300, 1e-12, 0.01, 0.5, 0.97, 0.975, 0.98, 0.999, 1 - 1e-12])
def test_gaussian(mu: float, alpha: float) -> None:
    """Phi(Phi^-1(1 - alpha) - mu), with digits of its own where it is small."""
    truth = float(norm.cdf(norm.isf(alpha) - mu))
    found = PrivacyProfile(Gaussian(1 / mu)).trade_off(alpha)
    slack = 1e-13 * (1 + mu * mu)
    assert found.lower <= truth * (1 + slack)
    assert found.upper >= truth * (1 - slack)
    if truth > 1e-12 * (1 - alpha):
        assert found.upper - found.lower <= 1e-9 * truth
        assert found.status is Status.OK


@pytest.mark.parametrize("count", [1, 3, 8])
@pytest.mark.parametrize("alpha", [1e-9, 1e-3, 0.05, 0.3, 0.9, 0.999])
def test_kinks(count: int, alpha: float) -> None:
    """Randomised response repeated: the number of true reports is binomial under both."""
    e = 0.7
    k = np.arange(count + 1)
    p, q = binom.pmf(k, count, 1 / (1 + math.exp(-e))), binom.pmf(k, count, 1 / (1 + math.exp(e)))
    found = PrivacyProfile(count * PureDP(e)).trade_off(alpha)
    truth = neyman_pearson(p, q, alpha)
    assert found.lower - 1e-14 <= truth <= found.upper + 1e-14
    assert found.upper - found.lower <= 1e-11 * max(truth, 1e-3)


@pytest.mark.parametrize("alpha", [0.0, 1e-4, 0.07, 0.5, 0.93])
def test_ordered_pairs_with_infinite_losses(alpha: float) -> None:
    p, q = np.array([0.5, 0.3, 0.2, 0.0]), np.array([0.0, 0.2, 0.4, 0.4])
    pair = FinitePair(tuple(p), tuple(q))
    f = PrivacyProfile(pair, "as-written").trade_off()
    for found, truth in ((f(alpha), neyman_pearson(p, q, alpha)), (f.inverse(alpha), neyman_pearson(q, p, alpha))):
        assert found.lower - 1e-14 <= truth <= found.upper + 1e-14
        assert found.upper - found.lower <= 1e-11


@pytest.mark.parametrize(
    "pair", [Gaussian(0.01), 3 * PureDP(500.0), 1000 * Laplace(0.1), 5 * PoissonSampled(Gaussian(0.02), 0.5)], ids=str
)
def test_level_zero_of_an_absolutely_continuous_pair(pair: DominatingPair) -> None:
    """No outcome has probability 0 under the null and not under the other."""
    f = PrivacyProfile(pair).trade_off()
    for found in (f(0.0), f.inverse(0.0)):
        assert found.lower == found.upper == 1.0


def test_level_zero_loses_the_mass_of_infinite_losses_and_has_no_sign() -> None:
    found = PrivacyProfile(7 * ApproximateDP(0.1, 0.01)).trade_off(0.0)
    assert found.estimate == pytest.approx(0.99**7, rel=1e-14)
    nothing = PrivacyProfile(Gaussian(0.0)).trade_off([0.0, 0.5, 1.0])
    for end in (nothing.lower, nothing.estimate, nothing.upper):
        assert "-0" not in str(end)
        assert np.all(end == 0.0)


def test_calibration_at_level_zero() -> None:
    """Every Gaussian has f(0) = 1, so any noise will do."""
    found = calibrate(lambda s: 10 * Gaussian(s), false_positive_rate=0, false_negative_rate=0.5)
    assert found.status is Status.NO_NOISE_NEEDED
    assert found.achieved.lower == 1.0


def test_every_level_is_tight() -> None:
    """Right up to 1, symmetric about the diagonal: f(f(alpha)) = alpha."""
    f = PrivacyProfile(RUN).trade_off()
    alpha = np.concatenate([np.geomspace(1e-12, 0.1, 8), [0.3, 0.97, 0.975, 0.98, 0.999, 1 - 1e-9]])
    found = f(alpha)
    assert np.all(found.upper - found.lower <= 1e-9 * found.upper)
    assert found.status is Status.OK
    assert np.all(np.diff(found.estimate) < 0)
    for a, beta in zip(alpha[4:-1], found.estimate[4:-1], strict=True):
        assert f(beta).estimate == pytest.approx(a, rel=1e-7)


CALLS = {
    "line": (RUN, "add-or-remove"),
    "100 finite": (100 * FinitePair((0.21, 0.2, 0.19, 0.205, 0.195), (0.2,) * 5), "as-written"),
    "200 sampled finite": (200 * PoissonSampled(FinitePair((0.5, 0.3, 0.15, 0.05), (0.1, 0.2, 0.3, 0.4)), 0.05), "as-written"),
    "rare": (10**6 * PoissonSampled(Gaussian(1.0), 1e-6), "add-or-remove"),
}


@pytest.mark.parametrize("name", CALLS)
def test_few_engine_calls(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pair, adjacency = CALLS[name]
    profile, asked = PrivacyProfile(pair, adjacency), []
    sides = 2 if adjacency == "add-or-remove" else 1
    answer = auto.log_delta

    def counted(*arguments: object) -> LogDelta:
        asked.append(arguments)
        return answer(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(auto, "log_delta", counted)
    found = profile.trade_off(0.1)
    assert len(asked) <= 11 * sides
    assert found.upper - found.lower <= 2e-3 * found.upper


def test_one_option_after_the_other() -> None:
    """Of several valid guarantees the one with the greatest lower end: each is a bound of its own."""
    options = (30 * PureDP(0.1), RenyiBound.zcdp(30 * 0.1**2 / 2))
    for alpha in (1e-6, 0.1, 0.7):
        each = [PrivacyProfile(option).trade_off(alpha).lower for option in options]
        assert PrivacyProfile(BestOf(*options)).trade_off(alpha).lower == max(each)


@pytest.mark.parametrize("alpha", [0.01, 0.2, 0.7])
def test_an_ordered_renyi_bound_uses_its_pair_in_the_right_order(alpha: float) -> None:
    pair = FinitePair((0.5, 0.3, 0.15, 0.05), (0.1, 0.2, 0.3, 0.4))
    exact = PrivacyProfile(pair, "as-written").trade_off(alpha)
    assert PrivacyProfile(RenyiBound.zcdp(0.0) + pair, "as-written").trade_off(alpha).lower <= exact.upper


@pytest.mark.parametrize("alpha", [0.001, 0.1, 0.5, 0.9])
def test_conversions_bound_the_trade_off_in_order(alpha: float) -> None:
    lower = [PrivacyProfile(RenyiBound.zcdp(0.5), conversion=c).trade_off(alpha).lower for c in ("mironov", "improved", "optimal")]
    lower.append(float(norm.cdf(norm.isf(alpha) - 1.0)))
    assert all(a <= b * (1 + 1e-9) for a, b in itertools.pairwise(lower))


# Wide brackets


def test_an_epsilon_that_is_never_seen_to_be_reached_is_infinite() -> None:
    def curve(epsilon: float, goal: float = math.nan) -> LogDelta:
        return LogDelta(-50.0 - epsilon, -3.0, -2.0, True, "stub", log_tail=-1.0)

    root = invert.solve(curve, -10.0, 1.0)
    assert (root.lower, root.estimate, root.upper) == (0.0, math.inf, math.inf)


def test_a_wide_epsilon_says_so() -> None:
    wide = PrivacyProfile(PureDP(1.0)).group(2).epsilon(delta=1e-3)
    assert wide.upper - wide.lower > 0.01 * wide.upper
    assert wide.status is Status.WIDE
    assert PrivacyProfile(RUN).epsilon(delta=1e-5).status is Status.OK


# How answers show themselves


def test_bounds_have_a_number_format() -> None:
    answer = Bounds(1.0, 1.5, 2.0, method="example")
    assert f"{answer:.3f}" == "2.000"
    assert f"{Bounds(0.25, 0.5, 0.75, safe='lower'):.2e}" == "2.50e-01"
    assert f"{answer}" == str(answer)
    with pytest.raises(TypeError, match="entries"):
        f"{PrivacyProfile(Gaussian(1.0)).delta([0.5, 1.0]):.3f}"


def test_tables_tell_the_ends_apart() -> None:
    html = Bounds(1.0, 1.0 + 1e-13, 1.0 + 3e-13)._repr_html_()
    cells = [cell.split("<")[0] for cell in html.split("<td>")[1:]]
    assert len(set(cells)) == 3
    assert [float(c) for c in cells] == pytest.approx([1.0, 1.0, 1.0], rel=1e-12)
    assert Bounds(2.0, 2.0, 2.0)._repr_html_().count("<td>2</td>") == 3
    assert "<td>inf</td>" in Bounds(0.0, math.inf, math.inf)._repr_html_()


def test_the_shown_side_is_the_safe_one() -> None:
    assert "at most 2" in repr(Bounds(1.0, 1.5, 2.0))
    assert "at least 1" in repr(Bounds(1.0, 1.5, 2.0, safe="lower"))


def test_a_calibration_has_a_table() -> None:
    found = Calibration(1.5, Bounds(1.0, 1.5, 1.75), "epsilon <= 2", infeasible=1.25)
    html = found._repr_html_()
    for part in ("1.5", "epsilon &lt;= 2", "1.75", "1.25"):
        assert part in html


@pytest.mark.parametrize("alpha", [1e-4, 0.01, 0.3])
@pytest.mark.parametrize("noise", [1.0, 4.0, 31.0])
def test_many_laplace_steps_are_as_narrow_as_their_delta(noise, alpha):
    """A smoothed engine asked for something rough still answers: the supremum over a grid of its deltas is approached from above."""
    profile = PrivacyProfile(50 * Laplace(noise))
    found = profile.trade_off(alpha)
    deltas = profile.delta(epsilon=GRID)
    assert found.lower >= np.max(1.0 - deltas.upper - np.exp(GRID) * alpha) - 2e-3 * found.upper
    assert found.upper >= np.max(1.0 - deltas.lower - np.exp(GRID) * alpha)
    assert found.upper - found.lower < 5e-3 * found.upper


GRID = np.linspace(-0.5, 12.0, 26)
