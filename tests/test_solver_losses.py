"""Losses: derivatives against differences, bounds that hold everywhere and are reached, domains that are kept."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

from solvers.losses import ClippedSquared, HuberHinge, LinearLoss, Logistic, Multinomial, PerExampleLoss, PseudoHuber, Quantile, Squared
from solvers.rows import row_norms

# loss, labels, and a score at which the slope comes near its bound
LOSSES = {
    "logistic": (Logistic(), (-1.0, 1.0)),
    "logistic, half as steep": (Logistic(0.5), (-1.0, 1.0)),
    "logistic, flat": (Logistic(0.2), (-1.0, 1.0)),
    "logistic with a margin": (Logistic(margin=2.0), (-1.0, 1.0)),
    "logistic with a margin, cut": (Logistic(0.7, 1.5), (-1.0, 1.0)),
    "huber hinge": (HuberHinge(0.3), (-1.0, 1.0)),
    "squared": (Squared(1.5), (-1.5, 0.2, 1.5)),
    "clipped squared": (ClippedSquared(0.7), (-3.0, 0.0, 2.0)),
    "pseudo-huber": (PseudoHuber(0.7), (-3.0, 0.0, 2.0)),
    "quantile": (Quantile(0.2), (-1.0, 0.5)),
    "multinomial": (Multinomial(4), (0.0, 1.0, 3.0)),
}
SMOOTH = ("logistic", "logistic with a margin", "squared", "pseudo-huber", "multinomial")


def sample(name, size=200, spread=3.0, seed=0):
    loss, labels = LOSSES[name]
    rng = np.random.default_rng(seed)
    scores = spread * rng.standard_normal((size, loss.outputs) if loss.outputs > 1 else size)
    return loss, scores, loss.targets("test", rng.choice(labels, size), size)


@pytest.mark.parametrize("name", LOSSES)
def test_the_derivative_is_that_of_the_value(name):
    loss, scores, y = sample(name)
    h = 1e-6
    axes = np.eye(loss.outputs) if loss.outputs > 1 else [1.0]
    slopes = np.stack([(loss.value(scores + h * e, y) - loss.value(scores - h * e, y)) / (2 * h) for e in axes], axis=-1)
    assert_allclose(slopes.reshape(scores.shape), loss.derivative(scores, y), atol=1e-8)


@pytest.mark.parametrize("name", [name for name in LOSSES if name != "quantile"])
def test_the_second_derivative_is_that_of_the_first(name):
    loss, scores, y = sample(name)
    h = 1e-6
    axes = np.eye(loss.outputs) if loss.outputs > 1 else [1.0]
    found = np.stack([(loss.derivative(scores + h * e, y) - loss.derivative(scores - h * e, y)) / (2 * h) for e in axes], axis=-1)
    assert_allclose(found.reshape(loss.second_derivative(scores, y).shape), loss.second_derivative(scores, y), atol=1e-6)


@pytest.mark.parametrize("name", LOSSES)
def test_slopes_and_curvatures_keep_their_bounds_and_come_near(name):
    reach = 40.0
    loss, scores, y = sample(name, 4000, 8.0)
    scores = np.clip(scores, -reach, reach)
    slopes = loss.derivative(scores, y)
    size = np.linalg.norm(slopes, axis=1) if slopes.ndim > 1 else np.abs(slopes)
    assert size.max() <= loss.slope(reach) * (1 + 1e-12)
    assert size.max() >= 0.45 * loss.slope(reach)
    if name == "quantile":
        assert loss.curvature == math.inf
        return
    curves = loss.second_derivative(0.2 * scores, y)
    size = np.linalg.eigvalsh(curves)[:, -1] if curves.ndim > 1 else curves
    assert size.max() <= loss.curvature * (1 + 1e-12)
    assert size.max() >= (0.4 if name == "multinomial" else 0.9) * loss.curvature


@pytest.mark.parametrize("name", LOSSES)
@given(theta=st.floats(-30, 30), other=st.floats(-30, 30), share=st.floats(0, 1))
def test_losses_are_convex(name, theta, other, share):
    loss, labels = LOSSES[name]
    shape = (1, loss.outputs) if loss.outputs > 1 else (1,)
    a, b = (np.resize([value, -value, 0.3 * value], shape) for value in (theta, other))
    for label in labels:
        y = np.array([label])
        middle = loss.value(share * a + (1 - share) * b, y)[0]
        ends = share * loss.value(a, y)[0] + (1 - share) * loss.value(b, y)[0]
        assert middle <= ends + 1e-9 * (1 + abs(ends))


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", LOSSES)
def test_sums_over_rows_are_sums_of_single_gradients(name, kind):
    loss, labels = LOSSES[name]
    rng = np.random.default_rng(5)
    x = rng.standard_normal((30, 4)) * (rng.random((30, 4)) < 0.6)
    y = loss.targets("test", rng.choice(labels, 30), 30)
    rows, theta = kind(x), rng.standard_normal(loss.dimension(4))
    for clip in (math.inf, 0.3):
        one_by_one = np.zeros(theta.size)
        for i in range(30):
            slope = np.atleast_1d(loss.derivative(loss.scores(x[i : i + 1], theta), y[i : i + 1])[0])
            gradient = np.outer(x[i], slope).ravel()
            norm = np.linalg.norm(gradient)
            one_by_one += gradient * min(1.0, clip / norm if norm else 1.0)
        assert_allclose(loss.gradient_sum(rows, row_norms(rows), y, theta, clip), one_by_one, rtol=1e-12, atol=1e-13)
    if name in SMOOTH:
        h = 1e-6
        steps = [loss.gradient_sum(rows, row_norms(rows), y, theta + h * e) - loss.gradient_sum(rows, row_norms(rows), y, theta - h * e)
                 for e in np.eye(theta.size)]  # fmt: skip
        assert_allclose(loss.hessian_sum(rows, y, theta), np.array(steps) / (2 * h), atol=1e-6)
        assert loss.smooth


@pytest.mark.parametrize("name", SMOOTH)
def test_what_a_loss_says_of_slope_and_curvature_together_is_so(name):
    loss, scores, y = sample(name, 4000, 6.0)
    slopes, curves = loss.derivative(scores, y), loss.second_derivative(scores, y)
    if loss.outputs > 1:
        assert 0.9 * loss.slope_sum < np.abs(slopes).sum(axis=1).max() <= loss.slope_sum
        return
    if loss.slope() < math.inf:
        assert loss.slope_sum == loss.slope()
        t = np.abs(slopes) / loss.slope()
        if loss.logistic:
            assert_allclose(curves, 4.0 * loss.curvature * t * (1.0 - t), atol=1e-15)
        assert loss.saturating == bool((curves <= loss.curvature * (1.0 - t * t) + 1e-15).all())
    if loss.one_signed:
        assert all(np.ptp(np.sign(slopes[y == label])) == 0 for label in np.unique(y))


def test_pseudo_huber_is_exact_near_and_far():
    loss, zero = PseudoHuber(1e-3), np.zeros(4)
    r = np.array([1e-12, 1e-3, 1e8, 1e300])
    assert_allclose(loss.value(r, zero), [0.5e-24, 1e-6 * (math.sqrt(2.0) - 1.0), 1e-3 * (1e8 - 1e-3), 1e297], rtol=1e-12)
    assert_allclose(loss.derivative(r, zero), [1e-12, 1e-3 / math.sqrt(2.0), 1e-3, 1e-3], rtol=1e-12)
    assert_allclose(loss.second_derivative(r, zero), [1.0, 2.0**-1.5, 0.0, 0.0], atol=1e-12)
    z, far = np.linspace(-2.0, 2.0, 9), np.full(9, 1e300)
    near = PseudoHuber(0.5).anchored(far, 2.0)
    assert near.max() < 1e4
    differences = np.diff(PseudoHuber(0.5).value(z, near))
    assert_allclose(differences, -0.5 * np.diff(z), rtol=1e-7)  # a line of slope -c, which 1e300 would drown
    assert PseudoHuber(1e-30).derivative(np.array([1e300]), np.zeros(1)) == 1e-30


@pytest.mark.parametrize("loss", [Logistic(), Logistic(margin=1.5), Logistic(0.5), Logistic(0.6, 2.0)])
def test_probabilities_are_those_for_which_the_score_is_best(loss):
    """A crowd with share q of label 1 has its least loss at the score whose probability is q."""
    z = np.linspace(-3.0, 3.0, 61)
    q = loss.probability(z)
    up, down = (loss.derivative(z, np.full(61, label)) for label in (1.0, -1.0))
    assert_allclose(q * up + (1.0 - q) * down, 0.0, atol=1e-15)
    assert_allclose(q + loss.probability(-z), 1.0, atol=1e-15)
    if loss == Logistic():
        assert_allclose(q, 1.0 / (1.0 + np.exp(-z)), rtol=1e-13)


@pytest.mark.parametrize("loss", [Logistic(), Logistic(margin=1.5), Logistic(0.6, 2.0)])
def test_variation_is_a_bound_that_is_reached_where_nothing_is_cut(loss):
    for reach in (0.1, 1.0, 30.0):
        ends = loss.value(np.array([-reach, reach]), np.ones(2))
        assert ends[0] - ends[1] <= loss.variation(reach) * (1 + 1e-14)
        if loss.steepest == 1.0:
            assert_allclose(loss.variation(reach), ends[0] - ends[1], rtol=1e-12)


def test_the_rank_of_a_multinomial_hessian_is_one_less_than_the_classes():
    loss, scores, y = sample("multinomial", 50, 1.0)
    assert max(np.linalg.matrix_rank(h, tol=1e-12) for h in loss.second_derivative(scores, y)) == loss.hessian_rank == 3


@pytest.mark.parametrize(
    ("loss", "labels", "message"),
    [
        (Logistic(), [0.0, 1.0], "-1 or 1"),
        (Logistic(), [True, False], "one label a row|labels"),
        (Logistic(), ["a", "b"], "labels"),
        (HuberHinge(), [1.0, 2.0], "-1 or 1"),
        (Multinomial(2), [0.0, 2.0], "whole number in"),
        (Multinomial(2), [0.0, 0.5], "whole number in"),
        (Squared(), [0.0, np.inf], "finite"),
        (Quantile(), [0.0, np.nan], "finite"),
        (ClippedSquared(), [[0.0], [1.0]], "one label a row"),
        (Logistic(), [1.0], "one label a row"),
    ],
)
def test_labels_outside_the_domain_are_refused(loss, labels, message):
    with pytest.raises((ValueError, TypeError), match=message):
        loss.targets("Problem", labels, 2)


def test_bounded_labels_are_clipped_inside():
    assert_allclose(Squared(2.0).targets("Problem", [-9.0, 1.0, 1e300], 3), [-2.0, 1.0, 2.0])


@pytest.mark.parametrize(
    "make",
    [
        lambda: Logistic(0.0), lambda: Logistic(1.1), lambda: HuberHinge(0.0), lambda: Squared(-1.0), lambda: Quantile(1.0),
        lambda: Multinomial(1), lambda: ClippedSquared(np.nan),
        lambda: PseudoHuber(0.0), lambda: Logistic(1.0, -1.0), lambda: Logistic(margin=np.inf),
    ],
)
def test_parameters_outside_their_domain_are_refused(make):
    with pytest.raises(ValueError, match="must be"):
        make()


def own(gradient, value=lambda theta, x, y: np.zeros(len(y)), **options):
    return PerExampleLoss(value, gradient, **options)


def test_an_own_gradient_is_clipped_whatever_it_promises():
    huge = own(lambda theta, x, y: np.array([[3e200, 4e200], [0.0, 0.0], [0.03, 0.04]]), gradient_bound=1.0)
    found = huge.gradient_sum(np.ones((3, 2)), np.ones(3), np.zeros(3), np.zeros(2))
    assert_allclose(found, [0.63, 0.84], rtol=1e-14)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_gradient_that_is_no_number_is_never_clipped_into_the_sum(bad):
    broken = own(lambda theta, x, y: np.full((3, 2), bad), gradient_bound=1.0)
    with pytest.raises(ValueError, match="never clipped"):
        broken.gradient_sum(np.ones((3, 2)), np.ones(3), np.zeros(3), np.zeros(2))
    for loss, theta in ((Squared(), np.array([1e308, 1e308])), (Logistic(), np.full(2, np.nan))):
        with pytest.raises(ValueError, match="finite"), np.errstate(all="ignore"):
            loss.gradient_sum(np.ones((3, 2)), np.ones(3), np.ones(3), theta)


def test_answers_of_another_shape_are_refused():
    with pytest.raises(ValueError, match="of 2 columns"):
        own(lambda theta, x, y: np.zeros(2)).gradient_sum(np.ones((3, 2)), np.ones(3), np.zeros(3), np.zeros(2))
    with pytest.raises(ValueError, match="one finite number a row"):
        own(lambda theta, x, y: x, value=lambda theta, x, y: np.zeros(1)).values(np.ones((3, 2)), np.zeros(3), np.zeros(2))
    with pytest.raises(ValueError, match="check_label"):
        own(lambda theta, x, y: x, check_label=lambda y: y > 0).targets("Problem", [1.0, -1.0], 2)
    assert not issubclass(PerExampleLoss, LinearLoss)


def hinge_variation(h, r):
    """phi(-r) - phi(r) by its pieces."""
    def phi(m):
        return mpmath.mpf(0) if m > 1 + h else 1 - m if m < 1 - h else (1 + h - m) ** 2 / (4 * h)
    return phi(-r) - phi(r)


VARIATIONS = {
    "squared": ([1e-3, 1.0, 1e6], Squared, lambda b, r: 2 * b * r if r <= b else (r + b) ** 2 / 2),
    "margin": (
        [0.0, 1e-3, 1.0, 3.0, 30.0, 100.0],
        lambda k: Logistic(margin=k), lambda k, r: mpmath.log((1 + mpmath.exp(k + r)) / (1 + mpmath.exp(k - r))),
    ),
    "hinge": ([1e-3, 0.5, 1.0, 1.0 - 1e-12, 50.0], HuberHinge, hinge_variation),
}  # fmt: skip


@pytest.mark.parametrize("name", VARIATIONS)
def test_the_range_of_a_loss_keeps_its_digits_at_any_reach(name):
    """Against 400 digits: no smaller than it is by more than a few ulps, which the sensitivity's 2^-11 holds, and no larger."""
    parameters, make, exact = VARIATIONS[name]
    with mpmath.workdps(400):
        for parameter in parameters:
            for exponent in np.arange(-300.0, 3.1, 0.37):
                reach = 10.0**exponent
                found = make(parameter).variation(reach) / exact(mpmath.mpf(parameter), mpmath.mpf(reach))
                assert abs(found - 1) < 1e-12, (parameter, reach)
