"""The sums along a line: powers by doubling, nearby epsilons by Taylor's polynomial, and plans that are only guides."""

import math

import mpmath as mp
import numpy as np
import pytest

from dpaccount import Gaussian, PoissonSampled
from dpaccount._log import ULP
from dpaccount.engines.jump import NO_CUT
from dpaccount.engines.line import near, waves
from dpaccount.engines.line.axis import Axis, Plan, below
from dpaccount.engines.line.contour import Contour
from dpaccount.engines.line.reach import planned, proved_reach
from dpaccount.engines.line.sketch import Sketch

RUN = 1000 * PoissonSampled(Gaussian(1.0), 0.01)
LONG = 10**6 * PoissonSampled(Gaussian(0.5), 1e-4)


def turns(angles):
    """e^{i angle} - 1 rounded from 40 digits, and exactly."""
    with mp.workdps(40):
        exact = [mp.expjpi(mp.mpf(a) / mp.pi) - 1 for a in angles.tolist()]
    return np.array([complex(x) for x in exact]), exact


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 14, 33, 200])
def test_powers_are_off_by_no_more_than_is_said(count):
    rng = np.random.default_rng(count)
    x, exact = turns(np.concatenate([[0.0, 1e-300, 1e-12, math.pi, 3.1415926], 10.0 ** rng.uniform(-9, 0.5, 20), rng.uniform(-4, 4, 20)]))
    rows = waves.powers(x, count)
    most = (waves.STEPS + waves.DOUBLING * math.ceil(math.log2(count + 1))) * ULP
    with mp.workdps(40):
        for k in {0, 1, 2, count // 2, count - 2, count - 1} & set(range(count)):
            for found, one in zip(rows[k].tolist(), exact, strict=True):
                assert abs(mp.mpc(found) - ((1 + one) ** k - 1)) <= most * k * abs(one)


@pytest.mark.parametrize(("pair", "epsilon"), [(RUN, 1.8), (RUN.reversed(), 0.4), (LONG, 3.9)])
@pytest.mark.parametrize("move", [1e-9, -1e-4, 3e-3, -0.03, 0.1])
def test_sums_nearby_are_those_of_the_line_within_what_is_said(pair, epsilon, move):
    line = Contour.beside(pair, epsilon, NO_CUT)
    facts = line.log_phi, line._kernels, line.s, line.size
    start, direct = near.Near(*facts, epsilon), near.Near(*facts, epsilon + move)
    value, slope, off = start.at(epsilon + move)
    truth, steep, nothing = direct.at(epsilon + move)
    assert nothing == 0.0
    rounding = 4 * ULP * float(line.size.sum()) * (1.0 + float(line.s[-1]) * (epsilon + 0.1))
    assert abs(value - truth) <= off + rounding
    assert slope == pytest.approx(steep, rel=1e-6 + 10 * off / truth)
    assert start.left_out(epsilon + 3e-3) < 1e-13 * truth < truth < start.left_out(epsilon + 2.0)


def test_a_contour_far_from_its_first_epsilon_takes_its_sums_anew():
    line = Contour.beside(RUN, 1.8, NO_CUT)
    for epsilon in (1.8, 1.8 + 1e-5, 1.83, 1.87):
        fresh = Contour.beside(RUN, 1.8, NO_CUT)
        one, other = line.at(epsilon), fresh.at(epsilon)
        assert abs(one.log_delta - other.log_delta) <= one.error + other.error
        assert one.error <= 1.02 * other.error
        assert one.excess == pytest.approx(other.excess, rel=1e-6)


def test_a_plan_of_another_density_proves_nothing():
    """Layers serve their own density, tilt and cut alone, and no plan is believed about how far a line goes."""
    parts, c = below(RUN, np.inf), 6.0
    axis = Axis(parts, -1.0, 9.0, 40.0)
    spread = math.sqrt(axis.cumulants(c)[2])
    honest = proved_reach(axis, c, spread, 30.0)
    assert honest is not None
    for other, tilt in ((LONG, c), (RUN, 0.9 * c), (1000 * PoissonSampled(Gaussian(1.0), 0.01), c)):
        _, plan = planned(below(other, np.inf), tilt, spread, Sketch.of(below(other, np.inf), 12.0))
        assert plan is not None
        axis.plan = Plan(0.2 * honest[0], plan.decays)
        assert proved_reach(axis, c, spread, 30.0) == pytest.approx(honest, rel=1e-9)


@pytest.mark.parametrize(("pair", "c"), [(RUN, 6.0), (LONG, 2.6), (RUN.reversed(), 30.0)])
def test_a_plan_is_enough_for_its_own_line(pair, c):
    parts = below(pair, np.inf)
    sketch = Sketch.of(parts, 2 * c)
    spread = math.sqrt(sketch.cumulants(c)[2])
    rate, plan = planned(parts, c, spread, sketch)
    axis = Axis(parts, -1.0, 2 * c, rate)
    needed = 26.0 + math.log(c * (c + 1)) + 0.5 * math.log(2 * math.pi * (spread**2 + c**-2 + (c + 1) ** -2))
    plain = proved_reach(axis, c, spread, needed)
    axis.plan = plan
    found = proved_reach(axis, c, spread, needed)
    assert found[0] == plan.reach <= 1.2 * plain[0]
    assert found[1] <= math.exp(-needed)
