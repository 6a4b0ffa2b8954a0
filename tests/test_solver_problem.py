"""Problems and rows: bounds are enforced on every row there is, and counted with the intercept."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from solvers.losses import Logistic, Multinomial, Quantile, Squared
from solvers.problem import Problem
from solvers.rows import RowRule, row_norms
from solvers.sets import Box, L1Ball, L2Ball, Simplex

ENTRIES = st.one_of(
    st.floats(-1e308, 1e308), st.floats(-2.0, 2.0), st.sampled_from([0.0, 5e-324, -1e-310, 1.7e308, 1e200, 1e-160])
)


def exact_norm(row):
    """The l2 norm, to more digits than a double has."""
    import mpmath as mp

    with mp.workdps(40):
        return mp.sqrt(mp.fsum(mp.mpf(float(v)) ** 2 for v in row))


@pytest.mark.parametrize("treatment", ["clip", "normalise"])
@given(row=st.lists(ENTRIES, min_size=1, max_size=6), bound=st.sampled_from([1.0, 0.3, 1e-5, 1e6]))
def test_no_row_is_longer_than_its_bound(treatment, row, bound):
    rule = RowRule(bound, treatment=treatment)
    dense = rule.apply(np.array([row, row]))
    thin = rule.apply(sparse.csr_array(np.array([row, row]))).toarray()
    assert_allclose(thin, dense, rtol=1e-14)
    for found in (dense[0], thin[0]):
        assert exact_norm(found) <= bound
    if treatment == "clip" and exact_norm(row) <= bound * (1 - 1e-14):
        assert_array_equal(dense[0], row)
    elif any(row):
        assert exact_norm(dense[0]) >= bound * (1 - 1e-13)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
def test_rows_keep_their_kind_and_the_given_data(kind):
    given_rows = kind(np.array([[3.0, 4.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.1, 0.0]]))
    before = given_rows.copy()
    found = RowRule(1.0, intercept=2.0).apply(given_rows)
    assert sparse.issparse(found) == sparse.issparse(given_rows)
    dense = found.toarray() if sparse.issparse(found) else found
    assert_allclose(dense, [[0.6, 0.8, 0.0, 2.0], [0.0, 0.0, 0.0, 2.0], [0.0, 0.1, 0.0, 2.0]], rtol=1e-14)
    assert abs(before - given_rows).max() == 0.0
    assert_allclose(row_norms(found), np.linalg.norm(dense, axis=1), rtol=1e-15)


def test_entries_are_clipped_one_by_one():
    rule = RowRule(1.0, "linf", intercept=0.5)
    assert_allclose(rule.apply([[3.0, -0.2, -9.0]]), [[1.0, -0.2, -1.0, 0.5]])
    assert rule.norm_bound == rule.entry_bound() == 1.0
    assert rule.l2_bound(3) == pytest.approx(math.sqrt(3.25))


def test_repeated_entries_of_a_sparse_row_are_added_before_they_are_bounded():
    twice = sparse.coo_array(([3.0, 3.0], ([0, 0], [1, 1])), shape=(1, 2))
    assert_allclose(RowRule(1.0).apply(twice).toarray(), [[0.0, 1.0]], rtol=1e-14)


# BR-116 of the public cases: an intercept after the rows were bounded counts


@pytest.mark.parametrize(("intercept", "bound"), [(True, math.sqrt(2.0)), (False, 1.0), (0.5, math.sqrt(1.25))])
def test_the_intercept_counts_in_the_gradient(intercept, bound):
    problem = Problem([[1e6, 0.0], [0.0, 1.0]], [1, -1], Logistic(), intercept=intercept)
    assert problem.lipschitz == pytest.approx(bound, rel=1e-15)
    theta = np.full(problem.dimension, -1e3)
    assert np.linalg.norm(problem.data_gradient(theta, chosen=np.array([0]))) == pytest.approx(bound, rel=1e-12)


def test_one_huge_row_moves_a_sum_by_no_more_than_declared():
    before = Problem([[0.1, 0.2], [0.3, 0.1]], [0.2, 0.4], Squared(1.0), L2Ball(2.0))
    after = Problem([[0.1, 0.2], [1e6, 1e6]], [0.2, -1e6], Squared(1.0), L2Ball(2.0))
    theta = np.array([1.4, 1.4])
    assert np.linalg.norm(before.data_gradient(theta) - after.data_gradient(theta)) <= 2 * before.lipschitz


# derived bounds


def test_bounds_follow_from_loss_rows_and_set():
    x, y = np.eye(3), [1, -1, 1]
    plain = Problem(x, y, Logistic(), L2Ball(2.0), ridge=0.3, row_norm_bound=2.0, intercept=1.0)
    assert plain.lipschitz == plain.row_bound == pytest.approx(math.sqrt(5.0))
    assert plain.smoothness == pytest.approx(0.25 * 5.0)
    assert plain.strong_convexity == 0.3
    assert plain.diameter == 4.0
    assert plain.entry_bound == 2.0
    assert Problem(x, y, Squared(1.5), L2Ball(2.0)).lipschitz == 3.5
    assert Problem(x, y, Squared(1.5)).lipschitz == math.inf
    assert Problem(x, y, Quantile()).smoothness == math.inf
    classes = Problem(x, [0, 1, 2], Multinomial(3), Box(-1.0, 1.0))
    assert classes.dimension == 9
    assert classes.lipschitz == pytest.approx(math.sqrt(2.0))
    entries = Problem(x, y, Logistic(), L1Ball(5.0), row_norm="linf", row_norm_bound=0.5)
    assert entries.entry_bound == 0.5
    assert entries.lipschitz == pytest.approx(0.5 * math.sqrt(3.0))


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize(("loss", "labels"), [(Logistic(), (-1.0, 1.0)), (Multinomial(3), (0.0, 1.0, 2.0)), (Squared(2.0), (-1.0, 1.5))])
def test_objective_gradient_and_hessian_fit_together(kind, loss, labels):
    rng = np.random.default_rng(2)
    x = rng.standard_normal((40, 3))
    problem = Problem(kind(x), rng.choice(labels, 40), loss, ridge=0.7, intercept=True)
    theta, h = rng.standard_normal(problem.dimension), 1e-6
    basis = np.eye(problem.dimension)
    slope = [(problem.objective(theta + h * e) - problem.objective(theta - h * e)) / (2 * h) for e in basis]
    assert_allclose(problem.gradient(theta), slope, atol=1e-6)
    curve = [(problem.gradient(theta + h * e) - problem.gradient(theta - h * e)) / (2 * h) for e in basis]
    assert_allclose(problem.hessian(theta), curve, atol=1e-6)
    assert problem.values(theta).shape == (40,)


def test_chosen_records_and_many_records_are_summed_alike(monkeypatch):
    rng = np.random.default_rng(0)
    problem = Problem(rng.standard_normal((50, 2)), rng.choice([-1.0, 1.0], 50), Logistic())
    theta, mask = np.array([0.3, -0.2]), rng.random(50) < 0.5
    both = problem.data_gradient(theta, chosen=mask) + problem.data_gradient(theta, chosen=~mask)
    whole = problem.data_gradient(theta)
    assert_allclose(both, whole, rtol=1e-13)
    assert_array_equal(problem.data_gradient(theta, chosen=np.zeros(50, dtype=bool)), np.zeros(2))
    import solvers.problem

    monkeypatch.setattr(solvers.problem, "WHOLE", 20)
    monkeypatch.setattr(solvers.problem, "CHUNK", 7)
    assert_allclose(problem.data_gradient(theta), whole, rtol=1e-13)


def test_theta_comes_apart_into_coefficients_and_intercept():
    problem = Problem(np.eye(2), [1, -1], Logistic(), intercept=0.5)
    found = problem.split(np.array([1.0, 2.0, 3.0]))
    assert_array_equal(found.coefficients, [1.0, 2.0])
    assert found.intercept == 1.5
    scores = Logistic().scores(problem.rows, np.array([1.0, 2.0, 3.0]))
    assert_allclose(scores, problem.rows[:, :2] @ found.coefficients + found.intercept)
    classes = Problem(np.eye(2), [0, 1], Multinomial(3), intercept=True).split(np.arange(9.0))
    assert classes.coefficients.shape == (2, 3)
    assert_array_equal(classes.intercept, [6.0, 7.0, 8.0])
    assert Problem(np.eye(2), [1, -1], Logistic()).split(np.ones(2)).intercept == 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": np.zeros((0, 2)), "labels": []}, "at least one row"),
        ({"features": np.zeros((2, 0))}, "at least one row and one column"),
        ({"features": np.zeros(2)}, "one row a record"),
        ({"features": [[np.nan], [1.0]]}, "finite"),
        ({"features": sparse.csr_array([[np.inf], [1.0]])}, "finite"),
        ({"features": [["a"], ["b"]]}, "features"),
        ({"labels": [1, 0]}, "-1 or 1"),
        ({"labels": [1]}, "one label a row"),
        ({"constraint": Box([0.0], [1.0])}, "in 2 dimensions"),
        ({"constraint": "ball"}, "ConstraintSet"),
        ({"loss": "logistic"}, "Loss"),
        ({"ridge": -1.0}, "ridge"),
        ({"row_norm_bound": 0.0}, "bound"),
        ({"row_norm": "l3"}, "one of"),
        ({"row_treatment": "drop"}, "one of"),
        ({"row_norm": "linf", "row_treatment": "normalise"}, "clipped one by one"),
        ({"intercept": -1.0}, "intercept"),
    ],
)
def test_what_makes_no_problem_is_refused(options, message):
    given_options = {"features": np.eye(2), "labels": [1, -1], "loss": Logistic(), **options}
    with pytest.raises((ValueError, TypeError), match=message):
        Problem(**given_options)


def test_a_problem_says_what_it_is():
    text = repr(Problem(np.eye(2), [1, -1], Logistic(), Simplex(), ridge=0.5))
    assert "Logistic(steepest=1.0, margin=0.0)" in text
    assert "Simplex(size=1.0)" in text
    assert "lipschitz=1" in text
