"""The sum over jumps: brackets hold the truth where a Gaussian body competes with jumps, and a planted fault is caught."""

import json
from functools import cache, partial
from pathlib import Path

import mpmath as mp
import pytest
from helpers import violations

from dpaccount import Gaussian, PoissonSampled, PrivacyProfile, certified_delta
from dpaccount.engines import auto
from dpaccount.engines.jump import margin, split
from dpaccount.engines.line import answer as line
from dpaccount.engines.line import expansion
from dpaccount.engines.smoothed import answer as smoothed
from dpaccount.engines.vouch import CannotVouch
from dpaccount.mechanisms.discrete import DiscreteLaplace

ROWS = json.loads(Path(__file__).with_name("references").joinpath("mixed.json").read_text())


def pair_of(row):
    sigma, q = float.fromhex(row["noise_multiplier"]), float.fromhex(row["sampling_probability"])
    return row["steps"] * PoissonSampled(Gaussian(sigma), q)


def answer_of(row):
    return expansion.log_delta(pair_of(row), float.fromhex(row["epsilon"]))[0]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row["steps"]))
def test_the_bracket_is_certified_narrow_and_holds_the_truth(row):
    found, truth = answer_of(row), float(row["log_delta"])
    assert found.certified
    assert found.lower <= truth <= found.upper
    assert found.upper - found.lower < 2e-8
    assert abs(found.estimate - truth) < 1e-9
    assert found.condition < 100.0


@pytest.mark.parametrize("row", ROWS[2:3], ids=lambda row: str(row["steps"]))
def test_the_face_answers_with_it(row):
    profile = PrivacyProfile(pair_of(row))
    found = profile.log_delta(epsilon=float.fromhex(row["epsilon"]))
    assert found.certified
    assert found.lower <= float(row["log_delta"]) <= found.upper
    back = profile.epsilon(log_delta=float(row["log_delta"]))
    assert back.lower <= float.fromhex(row["epsilon"]) * (1 + 1e-12)
    assert float.fromhex(row["epsilon"]) <= back.upper * (1 + 1e-12)
    assert back.upper - back.lower < 1e-8


def missed():
    return violations((partial(answer_of, row), float(row["log_delta"])) for row in ROWS)


def test_no_reference_is_violated():
    assert missed() == 0


def test_a_wrong_number_of_ways_is_caught(monkeypatch):
    honest = expansion.Level.ways
    monkeypatch.setattr(expansion.Level, "ways", lambda self, m: ((parts, 0.999999 * log) for parts, log in honest(self, m)))
    assert missed() > 0


def at_level(monkeypatch, row, share):
    """Let the level be this share of the cut; low levels make many terms matter."""
    pair, epsilon = pair_of(row), float.fromhex(row["epsilon"])
    cut = split(pair, epsilon, margin(pair)).cut
    monkeypatch.setattr(expansion, "_best_level", lambda *_: expansion._level_at(pair, epsilon, share * cut, cut, 0.0))


@pytest.mark.parametrize("share", [0.005, 0.03, 0.2, 0.5])
def test_the_level_makes_no_difference(monkeypatch, share):
    at_level(monkeypatch, ROWS[2], share)
    found = answer_of(ROWS[2])
    assert found.certified
    assert found.lower <= float(ROWS[2]["log_delta"]) <= found.upper


def test_a_dropped_term_is_caught(monkeypatch):
    at_level(monkeypatch, ROWS[2], 0.005)
    honest = expansion.Level.ways
    monkeypatch.setattr(expansion.Level, "ways", lambda self, m: honest(self, m) if m != 3 else iter(()))
    found = answer_of(ROWS[2])
    assert not found.lower <= float(ROWS[2]["log_delta"]) <= found.upper


def test_terms_that_are_not_computed_are_bounded(monkeypatch):
    """With terms given up early the bracket is wider and still holds the truth."""
    at_level(monkeypatch, ROWS[2], 0.005)
    narrow = answer_of(ROWS[2])
    monkeypatch.setattr(expansion, "NEGLIGIBLE", 12.0)
    found = answer_of(ROWS[2])
    assert found.lower <= float(ROWS[2]["log_delta"]) <= found.upper
    assert found.upper - found.lower > 2 * (narrow.upper - narrow.lower)


def test_several_kinds_of_steps_share_the_jumps():
    """A kind cut in two by a change of the noise that shifts log delta by far less than the tolerance."""
    row = ROWS[2]
    sigma, q = float.fromhex(row["noise_multiplier"]), float.fromhex(row["sampling_probability"])
    half = row["steps"] // 3
    pair = half * PoissonSampled(Gaussian(sigma), q) + (row["steps"] - half) * PoissonSampled(Gaussian(sigma * (1 - 1e-13)), q)
    found, _ = expansion.log_delta(pair, float.fromhex(row["epsilon"]))
    assert found.certified
    assert abs(found.estimate - float(row["log_delta"])) < 1e-8
    both = row["steps"] * PoissonSampled(Gaussian(sigma), q) + 10 * Gaussian(100.0)
    more, _ = expansion.log_delta(both, float.fromhex(row["epsilon"]))
    assert more.certified
    assert more.lower > float(row["log_delta"])


def test_what_has_no_jumps_is_refused():
    for pair in (5 * DiscreteLaplace(1.2), 20 * Gaussian(3.0)):
        with pytest.raises(CannotVouch):
            expansion.log_delta(pair, 1.0)
    with pytest.raises(CannotVouch):
        expansion.log_delta(pair_of(ROWS[0]), -1.0)


def test_the_line_falls_back_on_it():
    row = ROWS[0]
    found = line.log_delta(pair_of(row), float.fromhex(row["epsilon"]))
    assert found.certified
    assert found.lower <= float(row["log_delta"]) <= found.upper


@pytest.mark.parametrize(("sigma", "q", "steps", "epsilon"), [
    (0.7, 0.3, 100, 8.0), (0.6, 0.3, 60, 20.0), (0.5, 0.5, 60, 50.0), (0.5, 0.1, 300, 1.0),
])
def test_aliasing_lowers_the_lower_end(sigma, q, steps, epsilon):
    """Where aliases are as large as the rest of the error: the bracket holds what ball arithmetic encloses to 25 digits."""
    pytest.importorskip("flint", reason="python-flint is not installed")
    pair = steps * PoissonSampled(Gaussian(sigma), q)
    found, _ = expansion.log_delta(pair, epsilon)
    truth = certified_delta(pair, epsilon, adjacency="as-written", digits=25)
    assert found.certified
    assert found.lower <= float(truth.lower.ln())
    assert float(truth.upper.ln()) <= found.upper


def test_bounds_from_nodes_without_a_proof_are_not_certified(monkeypatch):
    honest = expansion._jumps
    row = ROWS[2]

    def unproved(*facts):
        term = honest(*facts)
        if term is not None:
            term.state_rounding = None
        return term

    monkeypatch.setattr(expansion, "_jumps", unproved)
    assert not answer_of(row).certified


# far in the tail: bounds alone


@cache
def two_steps(sigma, q, epsilon):
    """log delta of two sampled steps, E_P delta_1(epsilon - L), in mpmath by panels that close in on where the first alone reaches it."""
    with mp.workdps(40):
        sigma, q, epsilon = mp.mpf(sigma), mp.mpf(q), mp.mpf(epsilon)

        def one(eps):
            v = (mp.exp(eps) - 1 + q) / q
            if v <= 0:
                return 1 - mp.exp(eps)
            level = sigma**2 * mp.log(v)
            return q * (mp.ncdf((0.5 - level) / sigma) - v * mp.ncdf((-0.5 - level) / sigma))

        def integrand(x):
            ratio = 1 - q + q * mp.exp((2 * x - 1) / (2 * sigma**2))
            return mp.npdf(x, 0, sigma) * ratio * one(epsilon - mp.log(ratio))

        edge = sigma**2 * mp.log((mp.exp(epsilon) - 1 + q) / q) + mp.mpf(1) / 2
        near = [edge + sign * mp.mpf(10) ** k for sign in (-1, 1) for k in range(-6, 2)]
        cuts = sorted([edge, *near, *(8 * sigma * k / 4 for k in range(-6, 7) if 8 * sigma * k / 4 < edge - 10)])
        return float(mp.log(mp.quad(integrand, cuts, maxdegree=5)))


FAR = [(4.082, 7.593e-6, 0.3075), (2.431, 2.065e-5, 0.1994), (3.0, 1e-4, 2.0)]


@pytest.mark.parametrize(("sigma", "q", "epsilon"), FAR)
def test_bounds_on_the_number_of_jumps_hold_the_truth(sigma, q, epsilon):
    """Below the smallest double, in a bracket of a thousandth; without the bound for one jump below the cut it is missed."""
    pair, truth = 2 * PoissonSampled(Gaussian(sigma), q), two_steps(sigma, q, epsilon)
    found = expansion.bounded(pair, epsilon)
    assert found.certified
    assert found.lower <= truth <= found.upper
    assert found.upper - found.lower < 2e-3
    assert truth > found.lower + 1e-9


@pytest.mark.parametrize(("sigma", "q", "epsilon"), FAR)
def test_a_dropped_bound_is_caught(sigma, q, epsilon, monkeypatch):
    honest = expansion.Level.bound
    monkeypatch.setattr(expansion.Level, "bound", lambda self, m, c: honest(self, m, c) if m != 1 else -700.0 + honest(self, m, c))
    assert expansion.bounded(2 * PoissonSampled(Gaussian(sigma), q), epsilon).upper < two_steps(sigma, q, epsilon)


def test_tilts_that_overflow_serve_the_smoothed_contour():
    """At a saddle point where e^{cL} leaves the doubles, sums are scaled: the bracket meets the bounds, and is a tenth as wide."""
    pair, epsilon = 4 * PoissonSampled(Gaussian(4.646), 1.913e-5), 0.8533
    bounds, found = expansion.bounded(pair, epsilon), smoothed.log_delta(pair, epsilon, aim=1e-4)
    assert found.certified
    assert bounds.lower <= found.lower <= found.upper <= bounds.upper
    assert found.upper - found.lower < 2e-4


@pytest.mark.parametrize(
    ("sigma", "q", "steps", "epsilon"),
    [(3.574, 9.131e-7, 27, 4.381), (2.322, 2.85e-7, 154, 3.879), (3.41, 2.488e-7, 105_578_263, 5.411)],
)
def test_no_tail_is_left_to_a_useless_bracket(sigma, q, steps, epsilon):
    pair = steps * PoissonSampled(Gaussian(sigma), q)
    found = PrivacyProfile(pair, "as-written").log_delta(epsilon)
    assert found.certified
    assert found.upper < -700.0
    assert found.upper - found.lower < 2.0
    near = smoothed.Nearby()
    first, second = (auto.log_delta(pair, e, smooth=near) for e in (epsilon, epsilon * (1 - 2e-6)))
    assert first.certified
    assert second.certified
    assert second.upper - second.lower < 2.0, "what was found beside it does not stand in the way"
