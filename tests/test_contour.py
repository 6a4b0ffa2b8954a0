"""The certified contour: brackets hold the truth, every bound bounds, and a planted fault is caught."""

import json
from functools import partial
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from helpers import log_of, violations

from dpaccount import Gaussian, PoissonSampled, PrivacyProfile
from dpaccount import _strip as strip_module
from dpaccount.engines import decay, jump
from dpaccount.engines.line import alias, contour
from dpaccount.engines.line import answer as line
from dpaccount.engines.line.axis import Axis, below
from dpaccount.pair import compose

ROWS = json.loads(Path(__file__).with_name("references").joinpath("contours.json").read_text())


def pair_of(row):
    pair = compose((PoissonSampled(Gaussian(float.fromhex(s)), float.fromhex(q)), n) for s, q, n in row["terms"])
    return pair.reversed() if row["reverse"] else pair


def truth_of(row):
    return log_of(row["delta"])


def answer_of(row):
    epsilon = float.fromhex(row["epsilon"])
    return line.answer(line.contour(pair_of(row), epsilon), epsilon)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['terms']}{'-' if row['reverse'] else '+'}")
def test_the_bracket_is_certified_narrow_and_holds_the_truth(row):
    found, truth = answer_of(row), truth_of(row)
    assert found.certified
    assert found.lower <= truth <= found.upper
    assert found.upper - found.lower < 1e-9
    assert abs(found.estimate - truth) < 1e-11


def missed():
    return violations((partial(answer_of, row), truth_of(row)) for row in ROWS)


def test_no_reference_is_violated():
    assert missed() == 0


def test_a_doubled_node_spacing_is_caught(monkeypatch):
    honest = strip_module.spacing
    monkeypatch.setattr(strip_module, "spacing", lambda *facts: (4 * honest(*facts)[0], honest(*facts)[1]))
    assert missed() > 0


def test_a_shortened_truncation_is_caught(monkeypatch):
    honest = contour.proved_reach

    def short(*facts):
        found = honest(*facts)
        return None if found is None else (found[0] / 6, found[1])

    monkeypatch.setattr(contour, "proved_reach", short)
    assert missed() > 0


def test_a_dropped_tail_is_caught(monkeypatch):
    monkeypatch.setattr(strip_module.FlippedStrip, "above", lambda *facts: -np.inf)
    monkeypatch.setattr(strip_module.FlippedStrip, "below", lambda *facts: -np.inf)
    honest = strip_module.trapezoid

    def narrow(evaluate, facts, scale, window, tilts, rate, most):
        low, high = window
        return honest(evaluate, facts, scale, (low + 6.5 * scale, high - 6.5 * scale), tilts, rate, most)

    monkeypatch.setattr("dpaccount._quadrature.trapezoid", narrow)
    assert missed() > 0


def test_a_halved_period_is_caught(monkeypatch):
    honest, bound = contour.beside, alias.Alias.log_bound
    monkeypatch.setattr(contour, "beside", lambda *facts: honest(*facts)._replace(period=honest(*facts).period / 3))
    monkeypatch.setattr(alias.Alias, "log_bound", lambda self, epsilon: bound(self._replace(period=3 * self.period), epsilon))
    assert missed() > 0


STEPS = [
    Gaussian(0.7),
    PoissonSampled(Gaussian(1.0), 0.01),
    PoissonSampled(Gaussian(0.5), 1e-4),
    PoissonSampled(Gaussian(3.0), 0.3),
    PoissonSampled(Gaussian(1.0), 0.01).reversed(),
    PoissonSampled(Gaussian(0.4), 0.2).reversed(),
]


@pytest.mark.parametrize("tilt", [0.5, 4.0, 20.0])
@pytest.mark.parametrize("step", STEPS, ids=repr)
def test_the_decay_bounds_the_characteristic_function_from_there_on(step, tilt):
    nodes = step.nodes(0.0, tilt, 400.0)
    log_w = nodes.log_p + tilt * nodes.loss
    weight = np.exp(log_w - log_w.max())
    log_mgf = float(np.log(weight.sum()) + log_w.max())
    weight /= weight.sum()
    spread = float(np.sqrt(weight @ (nodes.loss - weight @ nodes.loss) ** 2))
    density = step.density()
    bound = decay.Decay(density, tilt, log_mgf, np.inf)
    s = np.linspace(0.5, min(60.0, 380.0 * spread), 300) / spread
    size = np.abs(np.exp(1j * np.multiply.outer(s, nodes.loss)) @ weight)
    later = np.maximum.accumulate(size[::-1])[::-1]
    assert np.all(later <= np.exp(bound.log_bound(s)) + 1e-12)
    assert bound.log_bound(s)[-1] < -1e-4  # and says something


@pytest.mark.parametrize("rate", [0.0, 3.0, 40.0])
@pytest.mark.parametrize("step", STEPS, ids=repr)
def test_nodes_are_within_their_bound_of_a_finer_rule(step, rate):
    """The bound leaves 1e-20; what doubles show is rounding, and that is within what the step states."""
    coarse, density = step.nodes(0.0, 6.0, rate), step.density()
    low, high = density.window(0.0, 6.0)
    step_x = 2.0 ** np.floor(np.log2((high - low) / 30_000))
    x = step_x * np.arange(np.floor(low / step_x), high / step_x)
    loss, log_p = density.evaluate(x)
    for z in (0.0, 6.0, 1j * rate, 6.0 + 1j * rate, 2.0 + 0.7j * rate):
        top = float((log_p + np.real(z) * loss).max())
        exact = np.sum(np.exp(log_p + z * loss - top)) * step_x
        found = np.sum(np.exp(coarse.log_p + z * coarse.loss - top))
        mass = np.sum(np.exp(coarse.log_p + np.real(z) * coarse.loss - top))
        off, part = coarse.rounding()
        allowed = np.exp(coarse.log_p + np.real(z) * coarse.loss - top) @ (part + abs(z) * off + 1e-14)
        assert abs(found - exact) <= 2 * allowed + coarse.error * mass


def test_the_evaluated_masses_and_losses_are_within_the_rounding_they_state():
    with mp.workdps(40):
        for step, s, q in ((STEPS[1], 1.0, 0.01), (STEPS[2], 0.5, 1e-4), (STEPS[3], 3.0, 0.3)):
            density = step.density()
            x = np.linspace(*density.window(0.0, 10.0), 57)
            loss, log_p = density.evaluate(x)
            off, part = density.strip.rounding(x, loss)
            for k, point in enumerate(x):
                inner = (mp.mpf(float(point)) - mp.mpf("0.5")) / mp.mpf(s) ** 2
                exact = mp.log(1 - mp.mpf(q) + mp.mpf(q) * mp.exp(inner))
                log_q = -(mp.mpf(float(point)) / mp.mpf(s)) ** 2 / 2 - mp.log(mp.mpf(s) * mp.sqrt(2 * mp.pi))
                assert abs(loss[k] - exact) <= off[k]
                assert abs(log_p[k] - (log_q + exact)) <= part[k]


def test_without_a_strip_the_same_contour_only_estimates():
    pair = 1000 * PoissonSampled(Gaussian(1.0), 0.01)
    plain = contour.Contour.beside(pair, 1.0, jump.NO_CUT)
    nodes = Axis(below(pair, np.inf), 0.0, 10.0, 5.0)
    assert plain.proved
    assert nodes.proved
    unproved = contour.Contour.beside(pair, 1.0, jump.Margin(3.0, -69.0, bounded=False))
    assert not unproved.proved
    low, high = (np.exp(unproved.at(1.0).log_delta) * (1 + side * 1e-9) for side in (-1, 1))
    assert low < np.exp(plain.at(1.0).log_delta) < high


def test_certified_answers_reach_the_face():
    profile = PrivacyProfile(1000 * PoissonSampled(Gaussian(1.0), 0.01))
    assert profile.delta(epsilon=1.0).certified
    found = profile.epsilon(delta=1e-5)
    assert found.certified
    assert found.width < 1e-9


@pytest.mark.parametrize("high", [0.0, 0.83, 3.0, 40.0])
@pytest.mark.parametrize("span", [0.05, 0.4, 0.8, 2.0, 30.0])
@pytest.mark.parametrize("reverse", [False, True])
def test_nodes_between_cuts_hold_the_mass_there_and_nothing_else(high, span, reverse):
    """Cuts on either side of the window that the tilts suggest: no node lies outside, none of the mass is missed, all is proved."""
    step = PoissonSampled(Gaussian(1.22), 0.000568)
    lower = 0.331 if not reverse else -0.9
    step = step.reversed() if reverse else step
    upper = lower + span
    found = step.nodes(0.0, high, 0.0, lower, upper)
    assert found.rounding is not None
    assert np.all((found.loss > lower) & (found.loss <= upper + 1e-12))
    ends = step.tails(np.array([lower, upper]))
    above = np.exp(ends.p_above)
    assert np.exp(found.log_p).sum() == pytest.approx(above[0] - above[1], rel=1e-11)


def test_far_below_the_mean_loss_the_integral_is_bounded_without_a_line():
    """delta = 1 - E min(1, e^{eps - L}): where the latter underflows a bound on it is proof enough, and it is a bound where it does not."""
    pair = 500_000 * PoissonSampled(Gaussian(1.0), 0.95)
    axis = Axis(below(pair, np.inf), -1.0, 0.0, 0.0)
    _, mean, variance = axis.cumulants(0.0)
    far, near = (float(mean - k * np.sqrt(variance)) for k in (45.0, 30.0))
    found = line.log_delta(pair, far)
    assert found.certified
    assert -1e-14 < found.lower <= found.upper == 0.0
    drawn = line.contour(pair, near)
    wave = np.exp(drawn.log_phi) / ((drawn.c + 1j * drawn.s) * (drawn.c + 1 + 1j * drawn.s)) * np.exp(-1j * near * drawn.s)
    wave[0] /= 2
    lacking = drawn.log_scale + np.log(abs(drawn.step / np.pi * float(np.real(wave.sum()))))
    drawn._mass_only(axis, drawn.c)
    assert lacking < drawn.log_scale < lacking + 20.0
