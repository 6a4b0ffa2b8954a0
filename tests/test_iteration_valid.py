"""Every bound lies above the exact curve: 210 random one-dimensional instances, and variants by exact mixtures.

The instances are those of the contact sheet in the documentation (figures/_instances.py): quadratic losses with random
curvatures and centres in the class of the run, Gaussian and Laplace noise, with and without a projection.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from dpaccount.iteration import PNSGD, Chain
from dpaccount.iteration.lower import excess, mixture
from figures._instances import EPSILON, KINDS, Case, cases, exact

COUNT = 210
QUADRATURE = {"gaussian": 1e-9, "laplace": 2e-5}  # relative error allowed to the exact curve, many times what is measured
CASES = cases(COUNT)


@pytest.fixture(scope="module")
def curves() -> list[np.ndarray]:
    return [exact(case) for case in CASES]


def excess_over(case: Case, curve: np.ndarray, bound: np.ndarray) -> float:
    """How far the exact curve is above a bound, less what the quadrature may be off by."""
    return float((curve * (1 - QUADRATURE[case.run.noise]) - 1e-12 - bound).max())


def test_the_instances_are_of_the_class_they_claim_to_be():
    kinds = [0, 0, 0]
    for case in CASES:
        run, chain = case.run, case.chain
        kinds[KINDS.index(f"{run.noise}, {'projected' if chain.projected else 'not projected'}")] += 1
        assert run.contracts
        differ = [t for t, (a, b) in enumerate(zip(chain.steps, chain.others, strict=True), 1) if a != b]
        assert differ in ([], [case.index])
        for c, s in (*chain.steps, *chain.others):
            curvature = (1 - c) / run.step_size
            assert run.strong_convexity - 1e-12 <= curvature <= run.smoothness + 1e-12
            if chain.projected:  # |k y - s/eta| at both ends
                assert max(abs(curvature * y - s / run.step_size) for y in (chain.low, chain.high)) <= run.lipschitz * (1 + 1e-12)
        if not chain.projected:
            gaps = [abs(a[1] - b[1]) for a, b in zip(chain.steps, chain.others, strict=True)]
            assert max(gaps) <= 2 * run.lipschitz * run.step_size * (1 + 1e-12)
        assert chain.scale == run.step_size * run.noise_scale
    assert kinds == [COUNT // 3] * 3


@pytest.mark.parametrize("gradient_step", ["cocoercivity", "spectrum"])
def test_no_instance_exceeds_a_bound_at_any_epsilon(curves, gradient_step):
    closest = dict.fromkeys(("contraction", "rdp", "shifted", "composition", "nonlinear", "best", "sharpest"), 0.0)
    for case, curve in zip(CASES, curves, strict=True):
        run = replace(case.run, gradient_step=gradient_step)
        for method in run.methods:
            bound = run.delta(EPSILON, case.index, method=method).upper
            assert excess_over(case, curve, bound) <= 0.0, (method, case)
            inside = curve > 1e-6
            closest[method] = max(closest[method], float((curve[inside] / bound[inside]).max(initial=0.0)))
    assert closest["contraction"] > 0.999, "some instance attains the contraction bound"
    assert closest["shifted"] > 0.999


def test_a_bound_with_a_fault_would_be_caught(curves):
    """Half the sensitivity, or one step of contraction too many, and some instance lies above."""
    for fault in ({"lipschitz": 0.5}, {"index": 1}):
        caught = 0
        for case, curve in zip(CASES, curves, strict=True):
            run = replace(case.run, lipschitz=case.run.lipschitz * fault.get("lipschitz", 1.0))
            index = max(case.index - fault.get("index", 0), 1)
            caught += excess_over(case, curve, run.delta(EPSILON, index, method="best").upper) > 0.0
        assert caught >= 3


@pytest.mark.parametrize("number", range(8))
def test_simulation_agrees_with_the_exact_curve(number):
    """200 000 runs: the share in the best half line under both data sets; five standard deviations, so one false alarm in 10^6."""
    case = next(c for c in CASES[number * 20 :] if c.chain.projected and 0.02 < exact(c, np.array([0.0]))[0] < 0.98)
    chain, count = case.chain, 200_000
    rng = np.random.default_rng(number)
    ours, theirs = chain.simulate(count, rng), chain.simulate(count, rng, other=True)
    first, second = chain.laws()
    for t in np.linspace(chain.low, chain.high, 7)[1:-1]:
        for law, seen in ((first, ours), (second, theirs)):
            share = float(law.above(t))
            assert abs((seen > t).mean() - share) <= 5 * math.sqrt(share * (1 - share) / count) + 1e-7
    gap = max(abs((ours > t).mean() - (theirs > t).mean()) for t in np.linspace(chain.low, chain.high, 40)[1:-1])
    assert gap <= exact(case, np.array([0.0]))[0] + 5 / math.sqrt(count)


def test_an_unprojected_chain_is_a_wide_projected_one():
    chain = Chain(((0.5, 1.0), (0.8, 0.2)), ((0.5, -0.4), (0.8, 0.2)), -math.inf, math.inf, "gaussian", 0.7)
    wide = replace(chain, low=-12.0, high=12.0)
    np.testing.assert_allclose(wide.delta(EPSILON), chain.delta(EPSILON), rtol=1e-9, atol=1e-13)


def test_finer_quadrature_changes_nothing(monkeypatch):
    from dpaccount.iteration import lower

    some = [c for c in CASES if c.run.noise == "laplace"][:2]
    before = [exact(c) for c in some]
    monkeypatch.setattr(lower, "LAPLACE_NODES", 500)
    for a, case in zip(before, some, strict=True):
        np.testing.assert_allclose(a, exact(case), rtol=QUADRATURE["laplace"], atol=1e-9)


# variants

PROJECTED = [c for c in CASES if c.chain.projected and c.run.num_records > 1]


def mixed(case: Case, chains: list[Chain]) -> np.ndarray:
    """The exact curve of a mixture with equal weights, the larger of both orders."""
    pairs = [chain.laws() for chain in chains]
    first, second = (mixture([pair[side] for pair in pairs]) for side in (0, 1))
    return np.maximum(excess(first, second, EPSILON), excess(second, first, EPSILON))


def with_steps(chain: Chain, order: list[int]) -> Chain:
    return replace(chain, steps=tuple(chain.steps[t] for t in order), others=tuple(chain.others[t] for t in order))


@pytest.mark.parametrize("number", range(0, 36, 2))
def test_random_stopping(number):
    case = PROJECTED[number]
    n = case.run.num_records
    curve = mixed(case, [with_steps(case.chain, list(range(t))) for t in range(1, n + 1)])
    stopped = case.run.random_stopping()
    for method in stopped.methods:
        bound = stopped.delta(EPSILON, case.index, method=method).upper
        assert excess_over(case, curve, bound) <= 0.0, method
        assert (bound <= stopped.delta(EPSILON, method=method).upper * (1 + 1e-9)).all(), "the answer without an index is the largest"


@pytest.mark.parametrize("number", range(0, 48, 4))
def test_random_permutation(number):
    case = [c for c in PROJECTED if c.run.num_records <= 4][number % 40]
    orders = list(itertools.permutations(range(case.run.num_records)))
    curve = mixed(case, [with_steps(case.chain, list(order)) for order in orders])
    permuted = case.run.random_permutation()
    for method in permuted.methods:
        assert excess_over(case, curve, permuted.delta(EPSILON, case.index, method=method).upper) <= 0.0, method


@pytest.mark.parametrize("passes", [2, 3])
def test_several_passes(passes):
    near = 0.0
    for case in [c for c in CASES if c.run.num_records <= 4][passes :: 14]:
        n = case.run.num_records
        curve = exact(Case(case.run, case.index, with_steps(case.chain, list(range(n)) * passes)))
        several = case.run.several_passes(passes)
        for method in several.methods:
            bound = several.delta(EPSILON, case.index, method=method).upper
            assert excess_over(case, curve, bound) <= 0.0, (method, case)
        inside = curve > 1e-6
        near = max(near, float((curve[inside] / several.delta(EPSILON, case.index).upper[inside]).max(initial=0.0)))
    assert near > 0.5


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("rho", [0.0, 0.4])
def test_the_known_instances_of_variants_are_those_of_chains_put_together_by_hand(noise, rho):
    """The same data sets, every law from a chain of its own; and close to the bounds at epsilon = 0."""
    n, half, eta, scale = 5, 0.5, 0.5, 1.5
    run = PNSGD(n, 1.0, 1.0, rho, eta, 2 * half, noise, scale)
    push = eta * (1.0 - rho * half)
    own, other = ((1 - eta * rho, -push), (1 - eta * rho, push)), (1 - eta * rho, 0.0)

    def chain(*steps: int) -> Chain:
        """1 where the record is used, 0 elsewhere."""
        sides = [tuple(own[side] if used else other for used in steps) for side in (0, 1)]
        return Chain(sides[0], sides[1], -half, half, noise, eta * scale)

    case = Case(run, 4, chain(0, 0, 0, 1, 0))
    stopped = mixed(case, [chain(*(0, 0, 0, 1, 0)[:t]) for t in range(1, n + 1)])
    permuted = mixed(case, [chain(*(int(t == place) for t in range(n))) for place in range(n)])
    twice = exact(Case(run, 4, chain(*(2 * (0, 0, 0, 1, 0)))))
    off = QUADRATURE[noise]
    for variant, curve in ((run.random_stopping(), stopped), (run.random_permutation(), permuted), (run.several_passes(2), twice)):
        found = variant.delta(EPSILON, 4, method="contraction", instance=True)
        assert (found.lower >= curve * (1 - off) - 2e-12).all()
        assert (found.lower <= variant.delta(EPSILON, 4, method="sharpest").upper).all()
        assert not found.certified
        assert found.lower[2] > 0.6 * found.upper[2]


def bent_case(rng: np.random.Generator, number: int) -> Case:
    """Large steps, kinks and losses that bend downwards, on an interval: quadratics whose gradients have norm at most L there."""
    noise = ("gaussian", "laplace")[number % 2]
    diameter, lipschitz = (float(v) for v in rng.uniform(0.5, 2.0, 2))
    most = 2 * lipschitz / diameter  # the curvature of which gradients reach L at both ends
    beta = most * float(rng.choice([rng.uniform(0.3, 1.0), rng.uniform(1.0, 4.0), math.inf]))
    rho = float(rng.choice([-min(beta, 4 * most), rng.uniform(-1.0, 1.0) * min(beta, most)]))
    eta, n = float(rng.uniform(0.3, 4.0)) / most, int(rng.integers(1, 5))
    run = PNSGD(n, lipschitz, beta, rho, eta, diameter, noise, float(rng.uniform(0.1, 1.5)) * diameter / eta)
    index, half = int(rng.integers(1, n + 1)), diameter / 2
    low, high = max(rho, -most), min(beta, most)

    def step(side: float) -> tuple[float, float]:
        curvature = float(rng.choice([low, high, min(max(0.0, low), high)]))
        return 1 - eta * curvature, eta * (lipschitz - abs(curvature) * half) * side

    steps = [step(float(rng.choice([-1.0, 0.0, 1.0]))) for _ in range(n)]
    steps[index - 1] = step(1.0)
    others = [*steps[: index - 1], step(-1.0), *steps[index:]]
    chain = Chain(tuple(steps), tuple(others), -half, half, noise, eta * run.noise_scale, float(rng.choice([-half, half])))
    return Case(run, index, chain)


def test_bounds_hold_outside_the_convex_class():
    """What still holds is above the exact curves too, and each of the spreads is nearly reached."""
    rng, near = np.random.default_rng(5), dict.fromkeys(("steps' Lipschitz constant", "gradients' norm", "both, convex"), 0.0)
    for number in range(250):
        case = bent_case(rng, number)
        run, curve = case.run, exact(case)
        for method in run.methods:
            bound = run.delta(EPSILON, case.index, method=method).upper
            assert excess_over(case, curve, bound) <= 0.0, (method, case)
        far, push = run.diameter, 2 * run.step_size * run.lipschitz
        convex = math.hypot(math.sqrt(max(1 - 2 * run.step_size * run.strong_convexity, 0)) * far, push)
        spreads = (run.contraction * far, far + push, convex)
        if not run.contracts and case.index < run.num_records:
            assert run.spread == min(spreads)
            product = float(run.delta(0.0, case.index, method="contraction").upper)
            name = list(near)[spreads.index(run.spread)]
            near[name] = max(near[name], float(curve[EPSILON == 0.0][0]) / product if product < 0.95 else 0.0)
    assert near["steps' Lipschitz constant"] > 0.9
    assert near["gradients' norm"] > 0.9
    assert near["both, convex"] > 0.5, "on a line convex losses cannot use both at once"


def test_where_no_loss_has_so_small_gradients_half_their_difference_is_enough():
    """2L < rho D: a strongly convex loss has larger gradients on K; steps still contract, and records still differ by 2L."""
    rng, near = np.random.default_rng(8), 0.0
    for number in range(50):
        noise = ("gaussian", "laplace")[number % 2]
        n, lipschitz, rho = int(rng.integers(2, 4)), float(rng.uniform(0.05, 0.5)), float(rng.uniform(0.3, 1.0))
        diameter, beta = float(rng.uniform(2.0, 8.0)) * lipschitz / rho, rho * float(rng.uniform(1.0, 1.3))
        eta = float(rng.choice([rng.uniform(0.1, 0.5), rng.uniform(0.5, 0.55)])) / rho
        run = PNSGD(n, lipschitz, beta, rho, eta, diameter, noise, float(rng.uniform(0.5, 4.0)) * lipschitz, "spectrum")
        assert 2 * lipschitz < rho * diameter
        steps = [(1 - eta * float(rng.choice([rho, beta])), 0.0) for _ in range(n)]
        index, half = int(rng.integers(1, n + 1)), diameter / 2
        moved = [[(c, s * eta * lipschitz if t == index else 0.0) for t, (c, _) in enumerate(steps, 1)] for s in (1.0, -1.0)]
        case = Case(run, index, Chain(tuple(moved[0]), tuple(moved[1]), -half, half, noise, eta * run.noise_scale))
        curve = exact(case)
        for step in ("spectrum", "cocoercivity"):
            other = replace(run, gradient_step=step)
            for method in other.methods:
                bound = other.delta(EPSILON, index, method=method).upper
                assert excess_over(case, curve, bound) <= 0.0, (method, case)
                if index < n and bound[2] < 0.95:
                    near = max(near, float(curve[2] / bound[2]))
    assert near > 0.9


def test_the_spread_of_a_contracting_step_is_that_of_its_lipschitz_constant():
    run = PNSGD(2, 0.1, 1.0, 1.0, 0.5, 10.0, "gaussian", 0.2, "spectrum")
    chain = Chain(((0.5, 0.05), (0.5, 0.0)), ((0.5, -0.05), (0.5, 0.0)), -5.0, 5.0, "gaussian", 0.1)
    exact_delta = float(chain.delta(0.0))
    assert exact_delta == pytest.approx(0.17694, abs=1e-5)
    assert run.spread == 5.0
    for method in run.methods:
        assert float(run.delta(0.0, 1, method=method).upper) >= exact_delta
    far = replace(run, smoothness=math.inf)  # no Lipschitz constant, and no loss whose gradients have norm L on the set
    assert far.spread == math.inf
    assert far.delta(0.0, 1).upper == pytest.approx(far.delta(0.0, 2).upper, rel=1e-12)


def test_an_interval_too_wide_for_the_nodes_is_refused_and_no_instance_is_made_there():
    for width in (50.0, 190.0):
        chain = Chain(((1.0, 1.0),) + ((1.0, 0.0),) * 2, ((1.0, -1.0),) + ((1.0, 0.0),) * 2, -width / 2, width / 2, "gaussian", 1.0)
        free = replace(chain, low=-math.inf, high=math.inf)
        np.testing.assert_allclose(chain.delta(EPSILON), free.delta(EPSILON), rtol=1e-10, atol=1e-13)
    with pytest.raises(ValueError, match="at most 200 scales above low"):
        replace(chain, low=-150.0, high=150.0)
    run = PNSGD(5, 1.0, 0.001, 0.0, 1.0, 150.0, "gaussian", 1.0)
    near = run.random_stopping().delta(1.0, index=2, instance=True).lower
    for diameter in (500.0, 1000.0):
        for variant in (replace(run, diameter=diameter).random_stopping(), replace(run, diameter=diameter)):
            assert variant.delta(1.0, index=2, instance=True).lower == 0.0
    assert near > 0.1
