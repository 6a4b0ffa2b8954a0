"""Discrete, Laplace and exponential mechanisms: brackets hold the truth, every bound bounds, and a planted fault is caught."""

import json
from functools import partial
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from helpers import log_of, violations

from dpaccount import (
    ApproximateDP,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    FinitePair,
    FixedSizeSampled,
    Gaussian,
    Laplace,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
)
from dpaccount import _panels as panels_module
from dpaccount.engines import auto, jump
from dpaccount.engines.circle import answer as circle
from dpaccount.engines.circle import turns
from dpaccount.engines.lattice import answer as lattice
from dpaccount.engines.line import answer as line
from dpaccount.engines.line import axis, contour, reach
from dpaccount.pair import compose

ROWS = json.loads(Path(__file__).with_name("references").joinpath("families.json").read_text())
LATTICE = [row for row in ROWS if row["engine"] == "lattice"]
LINE = [row for row in ROWS if row["engine"] == "line"]
KINDS = {
    "response": lambda e, k: RandomizedResponse(e, int(k)),
    "approximate": ApproximateDP,
    "sampled binary": lambda e, q: PoissonSampled(PureDP(e), q),
    "discrete laplace": DiscreteLaplace,
    "discrete gaussian": DiscreteGaussian,
    "laplace": Laplace,
    "exponential": ExponentialMechanism,
    "sampled laplace": lambda b, q, reverse: turned(PoissonSampled(Laplace(b), q), reverse),
    "sampled exponential": lambda e, q, reverse: turned(PoissonSampled(ExponentialMechanism(e), q), reverse),
}


def turned(step, reverse):
    return step.reversed() if reverse else step


def pair_of(row):
    def value(p):
        return float.fromhex(p) if isinstance(p, str) else p

    return compose((KINDS[kind](*map(value, given)), n) for kind, given, n in row["terms"])


def truth_of(row):
    return log_of(row["delta"])


def answer_of(row):
    engine = circle if row["engine"] == "lattice" else line
    return engine.log_delta(pair_of(row), float.fromhex(row["epsilon"]))


def name_of(row):
    return f"{row['terms']}-{float.fromhex(row['epsilon'])}"


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_the_bracket_is_certified_narrow_and_holds_the_truth(row):
    found, truth = answer_of(row), truth_of(row)
    assert found.certified
    assert found.lower <= truth <= found.upper
    assert found.upper - found.lower < (1e-10 if max(n for *_, n in row["terms"]) < 10**5 else 1e-8)


@pytest.mark.parametrize("row", ROWS[::3], ids=name_of)
def test_the_engine_is_chosen(row):
    found = auto.log_delta(pair_of(row), float.fromhex(row["epsilon"]))
    assert found.certified
    assert found.method in ("closed", "circle" if row["engine"] == "lattice" else "line")


def missed(rows):
    return violations((partial(answer_of, row), truth_of(row)) for row in rows)


def test_no_reference_is_violated():
    assert missed(ROWS) == 0


# the circle


def test_fewer_points_on_the_circle_are_caught(monkeypatch):
    honest = circle._Circle._period

    def fewer(*facts):
        count, alias = honest(*facts)
        return max(count // 3, 2), alias

    monkeypatch.setattr(circle._Circle, "_period", fewer)
    assert missed(LATTICE) > 0


def test_points_left_out_are_caught(monkeypatch):
    honest = circle._Circle._enough

    def fewer(*facts):
        used, rest = honest(*facts)
        return max(used // 4, 1), rest

    monkeypatch.setattr(circle._Circle, "_enough", fewer)
    assert missed(LATTICE) > 0


def test_a_lattice_read_one_point_off_is_caught(monkeypatch):
    honest = circle._Circle._saddle

    def off(self):
        self.first += 1
        return honest(self)

    monkeypatch.setattr(circle._Circle, "_saddle", off)
    assert missed(LATTICE) > 0


def test_losses_off_their_lattice_widen_the_bracket(monkeypatch):
    """Losses known to 1e-12 make delta known to about the count times that, for twice the steps twice as badly."""
    step = RandomizedResponse(0.01)
    honest = circle.log_delta(2000 * step, 0.5)
    monkeypatch.setattr(RandomizedResponse, "loss_error", lambda self, loss: np.full(loss.shape, 1e-12))
    once, twice = circle.log_delta(2000 * step, 0.5), circle.log_delta(4000 * step, 0.5)
    assert once.lower < honest.lower < honest.upper < once.upper
    width = [(found.upper - found.lower) * np.exp(found.estimate) for found in (once, twice)]
    assert width[0] > 2000 * 1e-12
    assert 1.5 < width[1] / width[0] < 10.0


@pytest.mark.parametrize("tau", [0.0, 0.3, 2.0])
@pytest.mark.parametrize(
    "step",
    [RandomizedResponse(0.4), RandomizedResponse(0.4, 7), DiscreteGaussian(12.0), DiscreteLaplace(1.3, 30), DiscreteLaplace(40.0, 30),
     FinitePair((0.5, 0.0625, 0.25, 0.125, 0.0625), (0.0625, 0.125, 0.25, 0.5, 0.0625))],
    ids=repr,
)
def test_the_bound_holds_from_there_to_the_half_turn(step, tau):
    h = circle.common_lattice(step)
    assert h is not None
    law = turns.Law(step, 1, h).tilted(tau)
    theta = np.linspace(1e-3, np.pi, 700)
    size = np.abs(np.exp(1j * np.multiply.outer(theta, law.k)) @ law.p)
    later = np.maximum.accumulate(size[::-1])[::-1]
    bound = turns.log_bound(law, theta)
    assert np.all(later <= np.exp(bound) + 1e-12)
    assert bound.min() < 0.1 * np.log(size.min() + 0.99)  # and says something


@pytest.mark.parametrize("count", [10, 1000, 10**6, 10**9])
def test_time_does_not_grow_with_the_steps(count):
    """What is summed is counted, not timed: points of the circle times atoms."""
    pair = count * RandomizedResponse(2.0 / np.sqrt(count))
    h = circle.common_lattice(pair)
    found = circle._Circle(pair, 1.0, h)
    seen = []
    honest = found._enough
    found._enough = lambda *facts: seen.append(honest(*facts)) or seen[0]
    answer = found.answer()
    assert seen[0][0] < 60
    assert answer.upper - answer.lower < 1e-8


@pytest.mark.parametrize("epsilon", [1e-9, 0.1, 0.4, 0.8 - 1e-12, 0.8, 1.2, 5.2, 5.6 - 1e-9])
def test_epsilon_at_and_beside_a_lattice_point(epsilon):
    """14 binary responses by their binomial sum in 40 digits."""
    with mp.workdps(40):
        e = mp.mpf(0.4)
        p = mp.exp(e) / (1 + mp.exp(e))
        truth = mp.fsum(
            mp.binomial(14, k) * p**k * (1 - p) ** (14 - k) * -mp.expm1(mp.mpf(epsilon) - (2 * k - 14) * e)
            for k in range(15) if (2 * k - 14) * e > epsilon
        )
        found = circle.log_delta(14 * RandomizedResponse(0.4), epsilon)
        assert found.lower <= float(mp.log(truth)) <= found.upper
        tail = mp.fsum(mp.binomial(14, k) * (1 - p) ** k * p ** (14 - k) for k in range(15) if (2 * k - 14) * e > epsilon)
        if epsilon not in (0.4, 0.8, 1.2):
            assert found.log_tail == pytest.approx(float(mp.log(tail)), abs=1e-9)


def test_sampled_binary_losses_are_a_lattice_and_others_are_not():
    assert auto.select(500_000 * PoissonSampled(PureDP(1.0), 0.01)).engine == "circle"
    assert auto.select(1000 * PoissonSampled(RandomizedResponse(1.1, 7), 0.3)).engine == "smoothed"
    assert auto.select(5000 * RandomizedResponse(0.3) + 5000 * RandomizedResponse(0.3 * 2**0.5)).engine == "smoothed"
    assert auto.select(5000 * RandomizedResponse(0.3) + 5000 * ApproximateDP(0.0, 1e-9)).engine == "circle"


# the line


def test_a_shortened_line_is_caught(monkeypatch):
    honest = contour.proved_reach

    def short(*facts):
        found = honest(*facts)
        return None if found is None else (found[0] / 6, found[1])

    monkeypatch.setattr(contour, "proved_reach", short)
    assert missed(LINE) > 0


def test_dropped_atoms_are_caught(monkeypatch):
    """A Laplace step whose largest loss is forgotten: the masses no longer make a pair, and every answer is off."""
    honest = Laplace.atoms
    monkeypatch.setattr(Laplace, "atoms", lambda self: tuple(v[:1] for v in honest(self)))
    monkeypatch.setattr(Laplace, "atom_rounding", lambda self: (np.zeros(1), np.full(1, 1e-15)))
    assert missed(LINE) > 0


def test_too_few_nodes_in_a_panel_are_caught(monkeypatch):
    panels_module.legendre.cache_clear()
    monkeypatch.setattr(panels_module, "_bound", lambda strip, x, *facts: np.full((6, x.size), -np.inf))
    monkeypatch.setattr(panels_module, "ORDER", 4)
    try:
        assert missed(LINE) > 0
    finally:
        panels_module.legendre.cache_clear()


STEPS = [
    Laplace(0.8),
    Laplace(30.0),
    ExponentialMechanism(1.5),
    PoissonSampled(Laplace(0.4), 0.05),
    PoissonSampled(Laplace(0.4), 0.05).reversed(),
    PoissonSampled(ExponentialMechanism(3.0), 0.2),
    PoissonSampled(ExponentialMechanism(3.0), 0.2).reversed(),
]


@pytest.mark.parametrize("tilt", [0.0, 2.0, 15.0])
@pytest.mark.parametrize("step", STEPS, ids=repr)
def test_the_decay_bounds_the_characteristic_function_from_there_on(step, tilt):
    span = step.facts.max_loss - step.facts.min_loss
    nodes = axis.Axis(axis.below(step, np.inf), 0.0, tilt, 200.0 / span)
    (term,) = nodes.terms
    weight = term.weight * np.exp(tilt * term.loss)
    weight /= weight.sum()
    s = np.linspace(0.02, 199.0, 900) / span
    size = np.abs(np.exp(1j * np.multiply.outer(s, term.loss)) @ weight)
    later = np.maximum.accumulate(size[::-1])[::-1]
    bound = reach.modulus_from(term, step.density(), tilt, nodes)(s)
    assert np.all(later <= np.exp(bound) + 1e-12)
    assert bound.min() < -1e-3  # and says something


@pytest.mark.parametrize("rate", [0.0, 3.0, 40.0])
@pytest.mark.parametrize("step", STEPS, ids=repr)
def test_nodes_are_within_their_bound_of_a_finer_rule(step, rate):
    nodes, density = step.nodes(0.0, 6.0, rate), step.density()
    low, high = density.support
    x, w = np.polynomial.legendre.leggauss(60)
    edges = np.linspace(low, high, 60)
    at = (edges[:-1, None] + np.diff(edges)[:, None] * (x + 1) / 2).ravel()
    loss, log_p = density.evaluate(at)
    log_w = log_p + np.log((np.diff(edges)[:, None] / 2 * w).ravel())
    for z in (0.0, 6.0, 1j * rate, 6.0 + 1j * rate):
        top = float((log_w + np.real(z) * loss).max())
        exact = np.sum(np.exp(log_w + z * loss - top))
        own, own_p = nodes.loss[nodes.atoms :], nodes.log_p[nodes.atoms :]
        found, mass = np.sum(np.exp(own_p + z * own - top)), np.sum(np.exp(own_p + np.real(z) * own - top))
        off, part = (v[nodes.atoms :] for v in nodes.rounding())
        allowed = np.exp(own_p + np.real(z) * own - top) @ (part + abs(z) * off + 2e-14) + 1e-12 * mass  # numpy's own weights
        assert abs(found - exact) <= allowed + nodes.error * mass


ATOMIC = [
    PoissonSampled(PureDP(600.0), 1e-3),
    PoissonSampled(FinitePair((0.5, 0.3, 0.2, 0.0), (0.0, 0.2, 0.4, 0.4)), 0.3),
    PoissonSampled(DiscreteLaplace(0.7, 3), 0.2).reversed(),
]


@pytest.mark.parametrize("step", [*STEPS, *ATOMIC], ids=repr)
def test_atoms_are_within_the_rounding_they_state(step):
    """Masses of the two measures agree with the tails, and rounding is stated for every atom."""
    loss, _ = step.atoms()
    off, part = step.atom_rounding()
    assert off.shape == part.shape == loss.shape
    assert np.all(off >= 0)
    assert np.all(part < 1e-11)


def test_atoms_of_sampled_pure_steps_in_forty_digits():
    for e, q in ((600.0, 1e-3), (1.3, 0.01), (1e-4, 0.5)):
        step = PoissonSampled(PureDP(e), q)
        for side, sign in ((step, 1), (step.reversed(), -1)):
            loss, log_p = side.atoms()
            off, part = side.atom_rounding()
            with mp.workdps(60 + int(e)):
                norm = 1 + mp.exp(-mp.mpf(e))
                exact = [mp.log(1 - mp.mpf(q) + mp.mpf(q) * mp.exp(s * mp.mpf(e))) for s in (-1, 1)]
                log_q = [-mp.log(norm), -mp.mpf(e) - mp.log(norm)]
                for k in range(2):
                    assert abs(mp.mpf(loss[k]) - sign * exact[k]) <= off[k]
                    truth = log_q[k] + (exact[k] if sign > 0 else 0)
                    assert abs(mp.mpf(log_p[k]) - truth) <= part[k]


@pytest.mark.parametrize("ulps", [-3, -1, 0, 1, 3])
@pytest.mark.parametrize("step", [PoissonSampled(RandomizedResponse(10.0, 7), 1e-3), PoissonSampled(Laplace(0.3), 0.2)], ids=repr)
def test_a_cut_at_an_atom_is_moved_off_it(step, ulps):
    """Tails and nodes must count the same atoms below a cut."""
    loss, _ = step.atoms()
    for atom in loss:
        cut = jump.clear_of_atoms([step], float(atom) * (1 + ulps * 2.0**-52))
        assert atom < cut < atom + 1e-11
        above = float(np.exp(step.tails(np.array(cut)).p_above))
        nodes = step.nodes(0.0, 0.0, 0.0, upper=cut)
        assert np.exp(nodes.log_p).sum() == pytest.approx(1.0 - above, abs=1e-12)


def test_sampled_integer_noise_is_bracketed_by_a_smooth_kernel():
    pair = 1000 * PoissonSampled(DiscreteGaussian(1.5), 0.01)
    for side in (pair, pair.reversed()):
        found, bracket = auto.log_delta(side, 0.3), lattice.log_delta(side, 0.3, aim=3e-3)
        assert found.method == "smoothed"
        assert found.certified
        assert found.upper - found.lower < 1e-5
        assert bracket.lower <= found.upper
        assert found.lower <= bracket.upper


@pytest.mark.parametrize(
    "pair",
    [
        300 * PoissonSampled(Laplace(1.0), 0.05) + 2 * ApproximateDP(0.1, 1e-4),
        30 * PoissonSampled(Gaussian(1.0), 0.05) + 2 * ApproximateDP(0.1, 1e-4) + 20 * Laplace(2.0),
        200 * FixedSizeSampled(Gaussian(2.0), 10, 100),
        500 * ExponentialMechanism(0.05) + 100 * DiscreteLaplace(3.0, 2),
    ],
    ids=repr,
)
def test_mixtures_of_families_are_certified_and_meet_the_lattice(pair):
    for side in (pair, pair.reversed()):
        found, bracket = auto.log_delta(side, 0.4), auto.log_delta(side, 0.4, "lattice")
        assert found.certified
        assert found.method == "line"
        assert found.upper - found.lower < 1e-9
        assert bracket.lower <= found.upper
        assert found.lower <= bracket.upper
