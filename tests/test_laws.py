"""Laws that every pair obeys, whatever engine answers; the registry is `helpers.py`."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
from helpers import ADJACENCIES, COMPOSED, ENGINES, EPSILON, ONE_STEP, PAIRS, REFUSED, masses, ordered, overlap, supported

from dpaccount.adjacency import Adjacency, UnsupportedAdjacency
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.engines import auto
from dpaccount.pair import DominatingPair, compose
from dpaccount.results import LogDelta, NumericalFailure
from dpaccount.sampling.poisson import PoissonSampled

# K is a sum over steps of formulas or sums, good to a few ulps each; counts multiply the error
K_ERROR = 2e-14
REAL = (-2.5, -1.3, -0.7, -0.5, -0.2, 0.4, 1.6, 3.0)
COMPLEX = np.array([0.3 + 0.7j, -0.4 - 2.0j, 1.5 + 0.1j, -1.6 + 1.0j])


def names(pairs: dict[str, object]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("name", pairs)


def steps_in(pair: DominatingPair) -> int:
    return sum(count for _, count in pair.terms)


@cache
def answer(name: str, epsilon: float, method: str = "auto", reverse: bool = False) -> LogDelta:
    pair = PAIRS[name]
    return auto.log_delta(pair.reversed() if reverse else pair, epsilon, method)


def engines_for(name: str, epsilon: float) -> dict[str, LogDelta]:
    """Every engine that answers here; a refusal must be a `NumericalFailure`."""
    found = {}
    for method in ENGINES:
        try:
            found[method] = answer(name, epsilon, method)
        except NumericalFailure:
            continue
    return found


# K(z)


@names(PAIRS)
def test_k_at_zero_and_minus_one_are_the_masses(name: str) -> None:
    pair = PAIRS[name]
    at_zero, at_minus_one = masses(pair)
    slack = K_ERROR * steps_in(pair) ** 0.5
    assert float(pair.log_mgf(0.0)) == pytest.approx(at_zero, abs=slack)
    assert float(pair.log_mgf(-1.0)) == pytest.approx(at_minus_one, abs=slack)


@names({name: pair for name, pair in PAIRS.items() if masses(pair)[0] > -np.inf})
def test_k_is_convex_on_the_real_line(name: str) -> None:
    pair = PAIRS[name]
    value = np.array([float(pair.log_mgf(z)) for z in REAL])
    for (a, ka), (b, kb), (c, kc) in itertools.combinations(zip(REAL, value, strict=True), 3):
        chord = ((c - b) * ka + (b - a) * kc) / (c - a)
        assert kb <= chord + 1e-13 * (abs(ka) + abs(kc) + steps_in(pair) * 1e-2)


@names(PAIRS)
def test_k_of_the_swapped_pair_is_the_reflection(name: str) -> None:
    pair = PAIRS[name]
    for z in (*REAL, *COMPLEX):
        direct, mirrored = pair.reversed().log_mgf(z), pair.log_mgf(-1 - z)
        if not np.isfinite(direct):
            assert np.real(direct) == np.real(mirrored) == -np.inf
            continue
        turn = np.exp(1j * np.imag(direct - mirrored))  # any branch of the logarithm may be returned
        scale = 1e-11 * (1 + abs(direct))
        assert abs(np.real(direct - mirrored)) <= scale
        assert abs(turn - 1) <= scale + 1e-9 * (steps_in(pair) > 1e5)


@names(ONE_STEP)
def test_k_adds_under_composition(name: str) -> None:
    step = ONE_STEP[name]
    other = PAIRS["two phases"]
    for z in (0.4, -0.7, 2.0):
        if not np.isfinite(step.log_mgf(z)):
            continue
        total = (3 * step + other).log_mgf(z)
        assert total == pytest.approx(3 * step.log_mgf(z) + other.log_mgf(z), rel=1e-12, abs=1e-13)


@names({name: step for name, step in ONE_STEP.items() if masses(step)[0] > -np.inf})
def test_k_conjugates(name: str) -> None:
    step = ONE_STEP[name]
    for z in COMPLEX:
        up, down = np.exp(step.log_mgf(z)), np.exp(step.log_mgf(np.conj(z)))
        assert abs(up - np.conj(down)) <= 1e-12 * abs(up)


@names(ONE_STEP)
def test_tails_add_to_one_and_fall(name: str) -> None:
    step = ONE_STEP[name]
    loss = np.array([-30.0, -2.0, -0.5, -1e-3, 1e-3, 0.45, 1.9, 25.0])
    tails = step.tails(loss)
    for above, below in ((tails.p_above, tails.p_below), (tails.q_above, tails.q_below)):
        assert np.allclose(np.exp(above) + np.exp(below), 1.0, rtol=0, atol=1e-12)
        assert np.all(above[1:] <= above[:-1] + 1e-12)
        assert np.all(below[1:] >= below[:-1] - 1e-12)


@names(ONE_STEP)
def test_tails_agree_with_the_curve(name: str) -> None:
    """P[L > eps] - e^eps Q[L > eps] is the closed form, where there is one."""
    step = ONE_STEP[name]
    epsilon = np.array([-1.3, -0.2, 0.1, 0.9])
    closed = step.log_delta(epsilon)
    if closed is None:
        assert auto.select(step).engine != "closed"
        return
    tails = step.tails(epsilon)
    difference = np.exp(tails.p_above) - np.exp(epsilon + tails.q_above)
    assert np.allclose(np.exp(closed), difference, rtol=1e-9, atol=1e-13)


@names(ONE_STEP)
def test_loss_range_holds_the_tails(name: str) -> None:
    step = ONE_STEP[name]
    low, high = step.loss_range
    if np.isfinite(high):
        at = np.array(high + 1e-9)
        assert float(np.exp(step.tails(at).p_above)) == pytest.approx(float(np.exp(step.facts.log_p_only)), abs=1e-12)
    if np.isfinite(low):
        assert float(step.tails(np.array(low - 1e-9)).p_below) == -np.inf


# delta(eps)


@names(PAIRS)
def test_delta_lies_in_its_range(name: str) -> None:
    """max(0, 1 - e^eps) <= delta <= 1, and every bracket is in order."""
    for epsilon in EPSILON:
        found = answer(name, epsilon)
        assert ordered(found), (epsilon, found)
        floor = -np.expm1(epsilon) if epsilon < 0 else 0.0
        assert np.exp(found.upper) >= floor * (1 - 1e-12)
        assert np.exp(found.lower) >= floor * (1 - 1e-3)


@names(PAIRS)
def test_delta_falls_with_epsilon(name: str) -> None:
    found = [answer(name, epsilon) for epsilon in EPSILON]
    for left, right in itertools.pairwise(found):
        assert right.lower <= left.upper + 1e-13
        if right.lower > -np.inf:
            slack = (left.upper - left.lower) + (right.upper - right.lower)
            assert right.estimate <= left.estimate + slack + 1e-13


@names(PAIRS)
def test_delta_is_convex_in_exp_epsilon(name: str) -> None:
    gamma = np.exp(np.array(EPSILON))
    low = np.array([np.exp(answer(name, epsilon).lower) for epsilon in EPSILON])
    up = np.array([np.exp(answer(name, epsilon).upper) for epsilon in EPSILON])
    for i in range(1, len(EPSILON) - 1):
        share = (gamma[i] - gamma[i - 1]) / (gamma[i + 1] - gamma[i - 1])
        assert low[i] <= ((1 - share) * up[i - 1] + share * up[i + 1]) * (1 + 1e-12) + 1e-15


@names(PAIRS)
def test_delta_reflects_between_a_pair_and_its_reverse(name: str) -> None:
    """E_gamma(P||Q) = 1 - gamma + gamma E_{1/gamma}(Q||P), within the two brackets."""
    for epsilon in (0.03, 0.3, 1.1):
        direct, swapped = answer(name, epsilon), answer(name, -epsilon, reverse=True)
        lower = -np.expm1(-epsilon) + np.exp(direct.lower - epsilon)
        upper = -np.expm1(-epsilon) + np.exp(direct.upper - epsilon)
        assert np.exp(swapped.lower) <= upper * (1 + 1e-12)
        assert np.exp(swapped.upper) >= lower * (1 - 1e-12)


@names(PAIRS)
def test_engines_agree_where_two_apply(name: str) -> None:
    for epsilon in (-0.4, 0.3):  # the sweep of test_agreement.py has every other
        found = engines_for(name, epsilon)
        assert found, f"no engine answers at {epsilon}"
        for (one, a), (two, b) in itertools.combinations(found.items(), 2):
            assert overlap(a, b), (epsilon, one, a, two, b)


@names(PAIRS)
def test_the_chosen_engine_is_named_and_answers(name: str) -> None:
    chosen = auto.select(PAIRS[name])
    assert chosen.engine in ENGINES
    assert len(chosen.reason) > 10
    found = answer(name, 0.3)
    assert found.method in (*ENGINES, "closed")


@names(PAIRS)
def test_lattice_is_certified_and_says_something(name: str) -> None:
    for epsilon in (-0.4, 0.3):
        found = answer(name, epsilon, "lattice")
        assert ordered(found)
        assert found.certified
        # at 10^9 steps the rounding of the masses is all that is left of the width
        assert found.upper == found.lower or found.upper - found.lower < 0.05 or name.startswith("1e9")


@names(COMPOSED)
def test_order_of_composition_does_not_matter(name: str) -> None:
    pair = COMPOSED[name]
    turned = compose(reversed([(step, count) for step, count in pair.terms]))
    for epsilon in (-0.4, 0.3):
        a, b = answer(name, epsilon), auto.log_delta(turned, epsilon)
        assert a.estimate == pytest.approx(b.estimate, abs=1e-9)
        assert a.upper == pytest.approx(b.upper, abs=1e-9)


@names(COMPOSED)
def test_asking_twice_gives_the_same_answer(name: str) -> None:
    adjacency = next(iter(supported(COMPOSED[name])))
    profile = PrivacyProfile(COMPOSED[name], adjacency)
    first = profile.delta(epsilon=0.3)
    profile.epsilon(delta=1e-3)
    again, fresh = profile.delta(epsilon=0.3), PrivacyProfile(COMPOSED[name], adjacency).delta(epsilon=0.3)
    for other in (again, fresh):
        for part in ("lower", "estimate", "upper", "method"):
            assert getattr(other, part) == getattr(first, part)


@names(PAIRS)
def test_pairs_are_values(name: str) -> None:
    """Frozen, hashable, merged: p + p is 2 p, reversing twice is the identity."""
    pair = PAIRS[name]
    assert hash(pair) == hash(pair.reversed().reversed())
    assert pair.reversed().reversed() == pair
    assert pair + pair == 2 * pair == pair * 2
    with pytest.raises((AttributeError, TypeError)):
        pair.sampling_probability = 0.5  # type: ignore[attr-defined]


# epsilon(delta)


@names(PAIRS)
def test_epsilon_inverts_delta(name: str) -> None:
    """delta's upper bound at the upper epsilon meets the target; just below the lower epsilon it does not."""
    pair = PAIRS[name]
    profile = PrivacyProfile(pair, next(iter(supported(pair))))
    for delta in (1e-6, 1e-2, 0.3):
        found = profile.epsilon(delta=delta)
        assert 0 <= found.lower <= found.estimate <= found.upper
        if np.isfinite(found.upper):
            assert profile.delta(epsilon=found.upper).upper <= delta * (1 + 1e-12)
        if found.lower > 1e-9:
            assert profile.delta(epsilon=found.lower * (1 - 1e-9)).upper >= delta * (1 - 1e-6)


# Relations


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@names(PAIRS)
def test_every_relation_is_answered_or_refused_with_a_reason(name: str, adjacency: Adjacency) -> None:
    pair = PAIRS[name]
    if adjacency not in supported(pair):
        with pytest.raises(UnsupportedAdjacency, match=rf"{str(adjacency)!r} adjacency: .{{15,}}"):
            PrivacyProfile(pair, adjacency)
        return
    sides = pair.under(adjacency)
    assert 1 <= len(sides) <= 2
    assert adjacency is not Adjacency.AS_WRITTEN or sides == (pair,)
    at_most = PrivacyProfile(pair, adjacency).log_delta(epsilon=0.3)
    assert at_most.upper >= max(auto.log_delta(side, 0.3).lower for side in sides) - 1e-12


@pytest.mark.parametrize("name", REFUSED)
def test_an_unsupported_relation_names_the_reason(name: str) -> None:
    adjacency, word = REFUSED[name]
    with pytest.raises(UnsupportedAdjacency, match=word):
        PrivacyProfile(PAIRS[name], adjacency)


def test_both_directions_are_composed_before_the_larger_is_taken() -> None:
    pair = PAIRS["100 sampled gaussians"]
    remove, add = (auto.log_delta(side, 0.3) for side in pair.under("add-or-remove"))
    found = PrivacyProfile(pair).log_delta(epsilon=0.3)
    assert found.estimate == max(remove.estimate, add.estimate)
    assert add.estimate < remove.estimate - 0.01


@names({n: s for n, s in ONE_STEP.items() if isinstance(s, PoissonSampled) and 0 < s.sampling_probability < 1})
def test_sampling_never_hurts(name: str) -> None:
    sampled = ONE_STEP[name]
    assert isinstance(sampled, PoissonSampled)
    for epsilon in (0.03, 0.3, 1.1):
        plain = auto.log_delta(sampled.step, epsilon)
        assert auto.log_delta(sampled, epsilon).lower <= plain.upper + 1e-12


# Trade-off functions


@names({n: PAIRS[n] for n in ("finite", "finite with infinities", "one-sided curve", "sampled gaussian .05", "gaussian 1.3",
                              "laplace .8", "sampled finite", "3 finite", "sampled laplace")})
@pytest.mark.parametrize("reverse", [False, True])
def test_trade_off_is_convex_falling_and_below_guessing(name: str, reverse: bool) -> None:
    pair = PAIRS[name].reversed() if reverse else PAIRS[name]
    alpha = np.array([0.0, 1e-6, 1e-3, 0.05, 0.2, 0.5, 0.8, 0.99, 1.0])
    f = PrivacyProfile(pair, "as-written").trade_off(alpha)
    assert np.all(f.lower <= f.estimate + 1e-15)
    assert np.all(f.estimate <= f.upper + 1e-15)
    assert np.all(f.estimate <= 1 - alpha + 1e-12)
    assert np.all(np.diff(f.lower) <= 1e-9)
    for i in range(1, alpha.size - 1):
        share = (alpha[i] - alpha[i - 1]) / (alpha[i + 1] - alpha[i - 1])
        assert f.lower[i] <= (1 - share) * f.upper[i - 1] + share * f.upper[i + 1] + 1e-9


@names({n: PAIRS[n] for n in ("finite", "finite with infinities", "one-sided curve", "sampled gaussian .05", "laplace .8")})
def test_duality_round_trip_on_asymmetric_pairs(name: str) -> None:
    """H(Q||P)(eps) = sup over alpha of 1 - e^eps alpha - T(P||Q)(alpha); a fine grid of alpha comes close from below."""
    pair = PAIRS[name]
    f = PrivacyProfile(pair, "as-written").trade_off()
    alpha = np.concatenate([[0.0], np.geomspace(1e-7, 1.0, 160)])
    beta = f(alpha)
    for epsilon in (-0.5, 0.2, 0.9):
        swapped = answer(name, epsilon, reverse=True)
        best = float(np.max(1 - np.exp(epsilon) * alpha - beta.lower))
        assert best <= np.exp(swapped.upper) + 1e-9 or best <= np.exp(swapped.upper) + float(np.max(beta.upper - beta.lower))
        assert best >= np.exp(swapped.lower) - 0.01  # the grid's own coarseness: gaps of 11 % in alpha


@names({n: PAIRS[n] for n in ("finite", "gaussian 1.3", "sampled gaussian .05", "laplace .8")})
def test_trade_off_inverse_undoes_the_function(name: str) -> None:
    f = PrivacyProfile(PAIRS[name], "as-written").trade_off()
    for alpha in (0.01, 0.1, 0.3):
        beta = f(alpha).estimate
        assert beta > 0
        assert f.inverse(beta).estimate == pytest.approx(alpha, abs=1e-7)


def test_trade_off_over_two_directions_is_the_hull_of_the_minimum() -> None:
    """Under a relation f is the dual of the larger profile: below both T(P||Q) and T(Q||P), and symmetric."""
    pair = PAIRS["finite"]
    both = PrivacyProfile(pair, "replace-one").trade_off()
    for alpha in (0.01, 0.05, 0.2, 0.6):
        least = min(PrivacyProfile(p, "as-written").trade_off(alpha).estimate for p in (pair, pair.reversed()))
        assert both(alpha).estimate <= least + 1e-9
        assert both.inverse(both(alpha).estimate).estimate == pytest.approx(alpha, abs=1e-7)


def test_operating_points() -> None:
    """Total variation is delta(0), equals max of 1 - alpha - f, and Bayes error at even prior is (1 - TV)/2."""
    for name in ("gaussian 1.3", "finite", "sampled laplace"):
        pair = PAIRS[name]
        profile = PrivacyProfile(pair, next(iter(supported(pair))))
        distance = profile.total_variation().estimate
        assert profile.advantage().estimate == distance
        assert profile.bayes_error().estimate == pytest.approx((1 - distance) / 2, rel=1e-12)
        alpha = np.linspace(0, 1, 101)
        best = float(np.max(1 - alpha - profile.trade_off(alpha).estimate))
        assert distance - 0.01 <= best <= distance + 1e-9
