"""The exponential mechanism: draws against their exact density, both claims, audits, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats
from solver_probes import Halved, lower_bound, seeded

from dpaccount import ExponentialMechanism, PrivacyProfile, approximate_draw
from solvers.algorithms import exponential_mechanism
from solvers.exact import ConvexDensity
from solvers.exact.boxes import BoxSampler
from solvers.exact.kinks import log_mass, sample_pieces, within
from solvers.gate import Gate
from solvers.losses import ClippedSquared, HuberHinge, Logistic, Multinomial, PerExampleLoss, PseudoHuber, Quantile, Squared
from solvers.problem import Problem
from solvers.sets import Box, L1Ball, L2Ball, Simplex, WholeSpace

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((40, 1)) * 0.7
SIGNS = np.where(ROWS[:, 0] + 0.5 * RNG.standard_normal(40) > 0, 1.0, -1.0)
NUMBERS = RNG.standard_normal(40)


def distribution(density, rate):
    """The exact distribution function on a line, by Simpson's rule on 20,001 points."""
    low, high = (float(end[0]) for end in density.ends())
    grid = np.linspace(low, high, 20_001)
    log = -rate * density.values(grid[:, None])
    total = integrate.cumulative_simpson(np.exp(log - log.max()), x=grid, initial=0)
    return lambda point: np.interp(point, grid, total / total[-1])


@pytest.mark.parametrize("rate", [0.02, 3.0])
@pytest.mark.parametrize(
    ("loss", "labels", "ridge"),
    [
        (Logistic(), SIGNS, 0.0),
        (HuberHinge(0.2), SIGNS, 0.0),
        (Squared(1.0), NUMBERS, 0.5),
        (ClippedSquared(0.5), NUMBERS, 0.0),
        (Quantile(0.3), NUMBERS, 2.0),
    ],
)
def test_draws_by_rejection_have_the_exact_density(loss, labels, ridge, rate):
    """Kolmogorov-Smirnov with 10,000 draws at level 1e-3, seed fixed; ten cases."""
    density = ConvexDensity(Problem(ROWS, labels, loss, Box(-2.0, 2.0), ridge=ridge))
    found = density.draws(rate, seeded(4), 10_000)[:, 0]
    assert stats.kstest(found, distribution(density, rate)).pvalue > 1e-3


@pytest.mark.parametrize("rate", [0.1, 1.0, 30.0])
def test_draws_between_kinks_have_the_exact_density(rate):
    """100,000 draws by inversion, duplicates and zero rows among the records; level 1e-3."""
    rows = np.concatenate([ROWS, ROWS[:5], np.zeros((2, 1))])
    density = ConvexDensity(Problem(rows, np.concatenate([NUMBERS, NUMBERS[:5], [1.0, 1e300]]), Quantile(0.3), Box(-2.0, 1.0)))
    assert stats.kstest(density.draws(rate, seeded(4), 100_000)[:, 0], distribution(density, rate)).pvalue > 1e-3


def test_a_pull_on_a_line_is_a_truncated_exponential():
    """One record far away: F is linear and everything is known in closed form, at 100,000 draws and level 1e-3."""
    density = ConvexDensity(Problem(np.ones((1, 1)), [1e300], Quantile(0.5), Box(0.0, 1.0)))
    found = density.draws(8.0, seeded(2), 100_000)[:, 0]
    assert stats.kstest(1.0 - found, stats.truncexpon(4.0, scale=0.25).cdf).pvalue > 1e-3


@pytest.mark.parametrize("constraint", [L2Ball(1.0), L1Ball(1.5), Box((-1.0, 0.0), (0.5, 1.0))])
def test_draws_in_the_plane_have_the_exact_density(constraint):
    """Chi-squared on 8 x 8 cells whose masses a grid of 640 x 640 gives; 6,000 draws, level 1e-3, three cases."""
    rows = np.random.default_rng(1).standard_normal((30, 2))
    density = ConvexDensity(Problem(rows, np.where(rows[:, 0] > 0, 1.0, -1.0), Logistic(), constraint))
    found = density.draws(1.5, seeded(3), 6000)
    low, high = density.ends()
    axes = [a + (np.arange(640) + 0.5) / 640 * (b - a) for a, b in zip(low, high, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    norm = {L2Ball: (points**2).sum(axis=1) <= 1.0, L1Ball: np.abs(points).sum(axis=1) <= 1.5}.get(type(constraint), np.ones(len(points)))
    mass = np.exp(-1.5 * density.values(points)) * norm
    cells = mass.reshape(8, 80, 8, 80).sum(axis=(1, 3)).ravel() / mass.sum()
    place = np.clip(((found - low) / (high - low) * 8).astype(int), 0, 7)
    counts = np.bincount(place[:, 0] * 8 + place[:, 1], minlength=64)
    used = cells * 6000 > 5
    rest = max(cells[~used].sum(), 1e-9)
    statistic = ((counts - 6000 * cells)[used] ** 2 / (6000 * cells[used])).sum() + (counts[~used].sum() - 6000 * rest) ** 2 / (6000 * rest)
    assert stats.chi2(used.sum()).sf(statistic) > 1e-3


def test_draws_in_space_have_the_exact_marginals():
    """A Gaussian cut by a box is a product: Kolmogorov-Smirnov on each axis, 4,000 draws, level 1e-3 each."""
    problem = Problem(np.eye(3), np.array([0.2, -0.5, 0.0]), Squared(1.0), Box(-1.0, 2.0), ridge=0.5)
    found = ConvexDensity(problem).draws(6.0, seeded(8), 4000)
    for axis, label in enumerate((0.2, -0.5, 0.0)):
        scale, mean = 1.0 / math.sqrt(9.0), label / 1.5
        law = stats.truncnorm((-1.0 - mean) / scale, (2.0 - mean) / scale, mean, scale)
        assert stats.kstest(found[:, axis], law.cdf).pvalue > 1e-3


def test_few_looks_are_enough():
    """A concentrated density in space: hundreds of looks at the data, not millions."""
    rows = np.random.default_rng(0).standard_normal((2000, 3))
    density = ConvexDensity(Problem(rows, np.where(rows[:, 0] > 0.1, 1.0, -1.0), Logistic(), L2Ball(10.0)))
    sampler = BoxSampler(density, 0.1, *density.ends())
    sampler.draw(seeded(1), 1)
    assert sampler.looks < 2000


def test_pieces_of_no_width_and_steep_pieces():
    """Coinciding kinks have no mass (the best one may be among them), and slopes of 1e300 or 0 do no harm."""
    knots = np.array([0.0, 1.0, 1.0, 1.0, 2.0])
    found = sample_pieces(knots, np.array([-1e5, -3e5, 0.0, 1e5]), 1.0, seeded(0), 2000)
    assert np.abs(found - 1.0).max() < 1e-3
    assert abs(found.mean() - 1.0) < 1e-6
    assert log_mass(np.array([0.0, 1e-9, 1e300]), np.array([0.5, 0.5, 0.5])).tolist() == pytest.approx([0.0, 0.0, 5e299])
    assert within(np.array([1e300, -1e300, 0.0]), np.ones(3), np.full(3, 0.25)).tolist() == pytest.approx([-1.0, 1.0, -0.5])


def test_quantiles_of_many_duplicates():
    """80 % of 200,000 whole numbers equal: a utility whose weights all underflow, and a maximum on an empty interval (BR-117)."""
    rng = np.random.default_rng(0)
    labels = np.where(rng.random(200_000) < 0.8, 7.0, rng.integers(0, 20, 200_000)).astype(float)
    release = exponential_mechanism(Problem(np.ones((200_000, 1)), labels, Quantile(0.5), Box(0.0, 20.0)), epsilon=1.0, random=seeded(0))
    assert abs(release.value[0] - 7.0) < 0.01


def test_both_claims():
    """eta = epsilon under add-or-remove and half of it under replace-one, where the same weights cost twice."""
    problem = Problem(ROWS, NUMBERS, Quantile(), Box(-1.0, 1.0))
    relations = ("add-or-remove", "zero-out", "replace-one")
    runs = {a: exponential_mechanism(problem, epsilon=1.0, adjacency=a, random=seeded(0)) for a in relations}
    rates = {a: run.diagnostics["rate"] for a, run in runs.items()}
    assert rates["add-or-remove"] == rates["zero-out"] == 2.0 * rates["replace-one"]
    assert rates["replace-one"] == pytest.approx(1.0 / (2.0 * problem.lipschitz * problem.diameter), rel=1e-3)  # Algorithm 1
    for run in runs.values():
        assert run.guarantee == ExponentialMechanism(1.0)
        assert run.epsilon(0.0).upper == pytest.approx(1.0, rel=1e-12)


def test_a_budget_with_delta_buys_a_larger_range():
    problem = Problem(ROWS, NUMBERS, Quantile(), Box(-1.0, 1.0))
    release = exponential_mechanism(problem, epsilon=1.0, delta=1e-3, random=seeded(0))
    assert 1.0 < release.diagnostics["range"] < 1.2
    assert release.epsilon(1e-3).upper <= 1.0


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 30.0, 100.0, 299.0, 700.0])
def test_large_budgets_with_delta_buy_no_smaller_range_than_without(epsilon):
    median = Problem(np.ones((9, 1)), np.linspace(-1.0, 1.0, 9), Quantile(), Box(-2.0, 2.0))
    for delta in (1e-300, 1e-5, 0.5, 0.999):
        release = exponential_mechanism(median, epsilon=epsilon, delta=delta, random=seeded(0))
        assert release.diagnostics["range"] >= epsilon * (1 - 1e-9)
        assert release.epsilon(delta).upper <= epsilon * (1 + 1e-12)


def test_an_approximate_draw_is_not_pure():
    drawn = PrivacyProfile(approximate_draw(ExponentialMechanism(1.0), 0.01))
    assert drawn.epsilon(delta=0.0).upper == math.inf
    assert drawn.delta(epsilon=0.5).upper == pytest.approx(0.077405 + (1.0 + math.exp(0.5)) * 0.01, rel=0.02)


RANGED = [Logistic(), HuberHinge(0.3), HuberHinge(3.0), Squared(1.5), Squared(0.3), ClippedSquared(0.5), Quantile(0.3)]


@pytest.mark.parametrize("loss", RANGED)
@pytest.mark.parametrize("reach", [0.2, 1.0, 4.0])
def test_the_range_of_a_loss_is_what_it_says(loss, reach):
    labels = [-1.0, 1.0] if isinstance(loss, (Logistic, HuberHinge)) else np.linspace(-9.0, 9.0, 181)
    labels = loss.targets("test", np.array(labels), len(labels))
    values = loss.value(np.linspace(-reach, reach, 2001)[:, None], labels[None, :])
    widest = np.ptp(values, axis=0).max()
    assert 0.98 * loss.variation(reach) <= widest <= loss.variation(reach) * (1 + 1e-12)
    near = loss.value(np.linspace(-reach, reach, 2001)[:, None], loss.anchored(labels, reach)[None, :])
    np.testing.assert_allclose(near - near[0], values - values[0], atol=1e-12)


class Many(Gate):
    """Sixty thousand draws of one release, to see its law."""

    factor = 1.0

    def sample(self, target, *, sensitivity, epsilon):
        return target.draws(self.factor * epsilon / sensitivity, self.source, 60_000)[:, 0]


class ManyHalved(Many):
    factor = 2.0


def audited(kind, adjacency, epsilon):
    """A far record joins one without weight, or goes over to the other side."""
    inside = Problem([[0.0], [1.0]], [0.0, 1e9], Quantile(), Box(-1.0, 1.0))
    outside = Problem([[0.0]], [0.0], Quantile(), Box(-1.0, 1.0))
    if adjacency == "replace-one":
        outside = Problem([[0.0], [1.0]], [0.0, -1e9], Quantile(), Box(-1.0, 1.0))
    runs = [exponential_mechanism(p, epsilon=epsilon, adjacency=adjacency, random=kind(seeded(k))) for k, p in enumerate((outside, inside))]
    return lower_bound(lambda inside, k: runs[inside].value[k], 60_000, 1e-3), float(runs[0].epsilon(1e-3))


@pytest.mark.parametrize("adjacency", ["add-or-remove", "replace-one"])
def test_an_audit_finds_no_more_than_is_claimed_and_catches_half_the_noise(adjacency):
    """False alarms 5 %, seeds fixed. The add-or-remove bound passes half of epsilon, which a claim of eps/2 there would miss."""
    found, claim = audited(Many, adjacency, 1.0)
    assert 0.4 * claim < found <= claim
    found, claim = audited(ManyHalved, adjacency, 1.0)
    assert found > claim * (1.0 if adjacency == "add-or-remove" else 0.9)


def test_the_gate_passes_half_the_noise_on():
    problem = Problem(np.ones((1, 1)), [1e9], Quantile(), Box(-1.0, 1.0))
    wide, narrow = (np.mean([exponential_mechanism(problem, epsilon=9.0, random=g).value[0] for _ in range(100)]) for g in (
        Gate(seeded(1)), Halved(seeded(1))))  # fmt: skip
    assert narrow > wide


SQUARE = np.eye(2)


@pytest.mark.parametrize(
    ("problem", "options", "message"),
    [
        (Problem(np.eye(4), np.ones(4), Logistic(), L2Ball(1.0)), {}, "at most 3 parameters"),
        (Problem(SQUARE, [0, 1], Multinomial(2), L2Ball(1.0)), {}, "one score"),
        (Problem(SQUARE, [0, 1], PerExampleLoss(lambda t, x, y: y, lambda t, x, y: x), L2Ball(1.0)), {}, "Its slope is a claim"),
        (Problem(SQUARE, [1, 1], Logistic(), WholeSpace()), {}, "bounded set"),
        (Problem(SQUARE, [1, 1], Logistic(), Simplex(1.0)), {}, "interior"),
        (Problem(SQUARE, [1, 1], Logistic(), L2Ball(1.0)), {"epsilon": 0.0}, "zero budget"),
        (Problem(SQUARE, [1, 1], Logistic(), L2Ball(1.0)), {"delta": 1.0}, "delta"),
        (Problem(SQUARE, [1, 1], Logistic(), L2Ball(1.0)), {"adjacency": "neighbours"}, "never guessed"),
        (Problem(SQUARE, [1, 1], Logistic(), L2Ball(1.0)), {"random": 3}, "protects nobody"),
        (Problem(SQUARE, [1, 1], Logistic(), L2Ball(1.0)), {"reveal_unprotected": 1}, "True or False"),
    ],
)
def test_what_it_cannot_do_is_refused(problem, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        exponential_mechanism(problem, **{"epsilon": 1.0, **options})


SMALL = [
    (Logistic(margin=3.0), 1.0), (Logistic(margin=100.0), 1.0), (Logistic(), 1.0), (HuberHinge(30.0), 1.0), (Squared(1e6), 1e6),
    (ClippedSquared(1e6), 3.0), (PseudoHuber(1e3), 1e3), (Quantile(), 1.0),
]  # fmt: skip


@pytest.mark.parametrize(("loss", "label"), SMALL)
def test_one_record_moves_values_by_no_more_than_is_claimed_however_small_rows_are(loss, label):
    """Where rounding would decide, the problem is refused; above that the computed range keeps the sensitivity, and draws do not stop."""
    for bound in 10.0 ** np.arange(-17.0, 1.0, 0.7):
        problem, single = (Problem([[bound]] * n, [label] * n, loss, Box(-1.0, 1.0), row_norm_bound=bound) for n in (50, 1))
        if 2.0 * bound < 1e-9 * loss.magnitude:
            with pytest.raises(ValueError, match="lost in rounding"):
                ConvexDensity(single)
            continue
        one = ConvexDensity(single)
        values = one.values(np.linspace(-1.0, 1.0, 1001)[:, None])
        assert np.ptp(values) <= problem.sensitivity(one.variation())
        assert abs(exponential_mechanism(problem, epsilon=1.0, random=seeded(0)).value[0]) <= 1.0


def test_a_set_so_far_from_0_that_scores_hardly_vary_is_refused():
    with pytest.raises(ValueError, match="lost in rounding"):
        ConvexDensity(Problem([[1.0]], [1.0], Quantile(), Box(1e12, 1e12 + 1.0)))
