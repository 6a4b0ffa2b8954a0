"""Factorisations of prefix sums: anchors, sensitivities by brute force; DP-FTRL: laws, budgets, refusals."""

from __future__ import annotations

import itertools
import math
import os

import numpy as np
import pytest
from numpy.testing import assert_allclose
from solver_probes import Recorder, least_encoder, seeded
from solver_problems import two_classes

from dpaccount import Gaussian
from solvers.algorithms import ftrl
from solvers.factorisations import (
    BandedToeplitz,
    BinaryTree,
    Buffered,
    Independent,
    Optimised,
    Participation,
    SquareRoot,
    fitted,
    least_loss,
    named,
)
from solvers.factorisations.base import _best_pattern
from solvers.factorisations.names import NAMED
from solvers.gate import Gate
from solvers.losses import Squared
from solvers.sets import Box

classes = two_classes

ANCHORS = [
    # n, factorisation, max loss, root-mean-square loss: one participation, sigma 1
    (Independent(128), 11.31370850, 8.03118920),
    (BinaryTree(128), 7.48331477, 5.29740503),
    (BinaryTree(128, "full"), 3.41462674, 2.80994016),
    (BinaryTree(128, "online"), 5.86476333, 4.15079475),
    (SquareRoot(128), 2.61010386, 2.44882571),
    (Independent(1024), 32.0, 22.63846285),
    (BinaryTree(1024), 10.48808848, 7.41692269),
    (SquareRoot(1024), 3.27255415, 3.10978991),
]


@pytest.mark.parametrize(("made", "largest", "rms"), ANCHORS, ids=lambda v: repr(v) if not isinstance(v, float) else "")
def test_losses_are_the_published_ones(made, largest, rms):
    assert_allclose(made.max_loss(), largest, atol=6e-9)
    assert_allclose(made.rms_loss(), rms, atol=6e-9)


def test_the_optimised_factorisation_is_the_best_known():
    if os.environ.get("DPACCOUNT_SWEEP") == "all":  # half a minute
        assert_allclose(Optimised(128).rms_loss(), 2.31100125, atol=6e-9)
    assert_allclose(Optimised(16).rms_loss(), 1.68940368, atol=6e-9)
    assert_allclose(np.diag(Optimised(16).gram()), 1.0, rtol=1e-14)
    best = Optimised(6)
    rng = np.random.default_rng(0)
    for _ in range(60):  # no neighbour with columns of norm 1 does better
        c = best.encoder() + 1e-3 * np.tril(rng.standard_normal((6, 6)))
        c = c / np.linalg.norm(c, axis=0)
        assert np.linalg.norm(np.tril(np.ones((6, 6))) @ np.linalg.inv(c)) / math.sqrt(6) >= best.rms_loss() * (1 - 1e-12)


@pytest.mark.parametrize(("buffers", "largest"), [(1, 2.77258970), (2, 2.61745947), (3, 2.61032791)])
def test_buffers_reach_the_known_optimum(buffers, largest):
    assert_allclose(Buffered(128, buffers, loss="max").max_loss(), largest, atol=6e-9)


def test_published_buffers_have_the_published_loss():
    """Two buffers fitted to 100,000 steps elsewhere; here their first 8192, by series, and all of them by the recurrence of the buffers."""
    w, t = (0.0122853238, 0.1878393665), (0.9999528892, 0.9857068667)
    made = Buffered(64, 2, weights=w, decays=t)
    c = np.concatenate([[1.0], sum(a * s ** np.arange(63) for a, s in zip(w, t, strict=True))])
    assert_allclose(made.encoder()[:, 0], c, rtol=1e-12)
    buffers, b, total = np.zeros(2), np.empty(100_000), 0.0
    for s in range(100_000):  # z_s = 1{s = 0} - sum of buffers; b is its running sum
        z = float(s == 0) - buffers.sum()
        total += z
        b[s] = total
        buffers = np.array(t) * buffers + np.array(w) * z
    assert_allclose(made.decoder()[:, 0], b[:64], rtol=1e-9)
    square = 1.0 + sum(a * v * (1 - (s * u) ** 99_999) / (1 - s * u) for a, s in zip(w, t, strict=True) for v, u in zip(w, t, strict=True))
    assert_allclose(math.sqrt(square) * np.linalg.norm(b), 5.29674715, atol=6e-9)


def test_banded_optima_meet_their_conditions():
    """Convex in X = C'C: X^(-1) A'A X^(-1) is 0 on the bands off the diagonal, so that no banded X with that diagonal does better."""
    for n, bands in ((16, 16), (24, 6), (40, 10)):
        made, a = Optimised(n, bands), np.tril(np.ones((n, n)))
        inverse = np.linalg.inv(made.gram())
        slope = inverse @ a.T @ a @ inverse
        assert np.abs(np.triu(np.tril(slope, bands - 1), 1)).max() <= 1e-6 * np.diag(slope).max()
        assert np.count_nonzero(np.tril(made.encoder(), -bands)) == 0
        assert_allclose(np.diag(made.gram()), 1.0, rtol=1e-14)
    assert_allclose(Optimised(16, 16).rms_loss(), Optimised(16).rms_loss(), rtol=1e-12)


@pytest.mark.parametrize(("made", "which"), [
    (BandedToeplitz(30, 8), "rms"), (BandedToeplitz(30, 8, "max"), "max"), (Buffered(30, 2), "rms"), (Buffered(30, 2, loss="max"), "max"),
])  # fmt: skip
def test_no_neighbour_of_a_fitted_column_does_better(made, which):
    def loss(c):
        b = np.cumsum(np.linalg.inv(_lower(c))[:, 0])
        return np.linalg.norm(c) * math.sqrt(np.cumsum(b * b).mean() if which == "rms" else b @ b)

    c = made.encoder()[:, 0]
    assert_allclose(loss(c), made.rms_loss() if which == "rms" else made.max_loss(), rtol=1e-10)
    rng = np.random.default_rng(0)
    for _ in range(60):
        if isinstance(made, BandedToeplitz):
            other = c + 1e-3 * rng.standard_normal(30) * (np.arange(30) < 8) * (np.arange(30) > 0)
        else:
            w, t = _parts(made, rng)
            other = np.concatenate([[1.0], sum(a * s ** np.arange(29) for a, s in zip(w, t, strict=True))])
        assert loss(other) >= loss(c) * (1 - 1e-9)


def _lower(c):
    return sum(np.diag(np.full(len(c) - k, value), -k) for k, value in enumerate(c))


def _parts(made, rng):
    """Weights and decays near those of a fit."""
    w, t = fitted._buffers(made.steps, made.buffers, made.participation, made.loss)
    return w * (1 + 1e-3 * rng.standard_normal(2)), t * (1 - 1e-4 * rng.random(2))


@pytest.mark.parametrize("n", [8, 64, 128])
def test_losses_keep_to_their_bounds_and_their_order(n):
    """Between what no factorisation passes and what the square root reaches: 1 + (gamma + ln n)/pi at most."""
    assert_allclose(least_loss(n), np.linalg.svd(np.tril(np.ones((n, n))), compute_uv=False).sum() / n, rtol=1e-12)
    root = SquareRoot(n)
    assert root.rms_loss() < root.max_loss() <= 1.0 + (np.euler_gamma + math.log(n)) / math.pi
    fits = [BandedToeplitz(n, n), Buffered(n, 3), Optimised(n, n)]
    assert_allclose([made.decoder() @ made.encoder() for made in fits], [np.tril(np.ones((n, n)))] * 3, atol=1e-10)
    assert least_loss(n) < fits[2].rms_loss() < fits[0].rms_loss() < root.rms_loss()
    assert fits[0].rms_loss() < fits[1].rms_loss() < 1.01 * root.rms_loss()
    assert BandedToeplitz(n, n, "max").max_loss() <= root.max_loss() * (1 + 1e-9)  # whose column is the best for the largest loss
    for bands in (2, n // 4):
        assert Optimised(n, bands).rms_loss() < BandedToeplitz(n, bands).rms_loss() < SquareRoot(n, bands).rms_loss()


def test_several_passes_are_fitted_to():
    part = Participation(4, 32)
    losses = {name: named(name, 128, part).rms_loss(part) for name in ("independent", "square-root", "buffered", "banded", "optimised")}
    assert losses["optimised"] < losses["banded"] < SquareRoot(128, 32).rms_loss(part) < losses["buffered"] < losses["square-root"]
    assert losses["square-root"] < losses["independent"]
    assert losses["buffered"] < Buffered(128, 3).rms_loss(part)  # fitted to one pass
    assert part.exact(named("optimised", 128, part).gram())
    assert named("optimised", 128, part).sensitivity(part) == pytest.approx(2.0, rel=1e-9)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 21])
def test_every_factorisation_multiplies_to_prefix_sums(n):
    trees = [BinaryTree(n, kind) for kind in ("plain", "online", "full")]
    fits = [BandedToeplitz(n, max(n // 2, 1)), Buffered(n, 2), Optimised(n), Optimised(n, max(n // 2, 1))]
    for made in [Independent(n), SquareRoot(n), SquareRoot(n, max(n // 3, 1)), *fits, *trees]:
        assert_allclose(made.decoder() @ made.encoder(), np.tril(np.ones((n, n))), atol=1e-12)
    assert max(tree.max_loss() for tree in trees) == trees[0].max_loss()
    assert min(tree.rms_loss() for tree in trees) == trees[2].rms_loss()
    assert np.count_nonzero(np.triu(trees[1].decoder() @ trees[1].encoder(), 1).round(12)) == 0


def brute(c, count, separation):
    """Over all patterns, and all signs of contributions along one direction: the exact sensitivity if C'C >= 0, else a lower bound."""
    n, worst = c.shape[1], 0.0
    for length in range(1, count + 1):
        for pattern in itertools.combinations(range(n), length):
            if all(b - a >= separation for a, b in itertools.pairwise(pattern)):
                for signs in itertools.product((1.0, -1.0), repeat=length - 1):
                    worst = max(worst, float(np.linalg.norm(c[:, pattern] @ np.array([1.0, *signs]))))
    return worst


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("separation", [1, 2, 3, 5])
def test_sensitivity_over_patterns_is_what_brute_force_finds(count, separation):
    part = Participation(count, separation)
    fits = (Optimised(10), Optimised(11, 3), BandedToeplitz(12, 3), BandedToeplitz(12, 5, "max"), Buffered(12, 2, part), Buffered(11, 1))
    for made in (Independent(12), BinaryTree(11), SquareRoot(12), SquareRoot(12, 4), *fits):
        assert part.exact(made.gram())
        assert_allclose(part.sensitivity(made.gram()), brute(made.encoder(), count, separation), rtol=1e-10)
    signed = np.array([[1.0, 0.0, 0.0], [-0.4, 1.0, 0.0], [0.0, 0.7, 1.0]])  # entries of both signs, and bands no wider than the separation
    if separation >= 2:
        assert part.exact(signed.T @ signed)
        assert_allclose(part.sensitivity(signed.T @ signed), brute(signed, count, separation), rtol=1e-10)
    assert_allclose(part.sensitivity(Independent(12).gram()), math.sqrt(min(count, 11 // separation + 1)), rtol=1e-10)


def test_where_entries_are_negative_it_is_an_upper_bound():
    rng, strict = np.random.default_rng(3), 0
    for _ in range(30):
        c = rng.standard_normal((9, 9))
        part = Participation(3, 2)
        assert not part.exact(c.T @ c)
        found, best = part.sensitivity(c.T @ c), brute(c, 3, 2)
        assert found >= best * (1 - 1e-12)
        assert part._bounded(np.abs(c.T @ c)) >= found**2 * (1 - 1e-11)  # what is used where patterns are too many
        strict += found > best * (1 + 1e-9)
    assert strict > 0


def test_many_patterns_are_bounded_and_falling_ones_are_exact():
    made, part = SquareRoot(600), Participation(20, 20)
    columns = made.encoder()[:, ::20][:, :20]
    assert_allclose(part.sensitivity(made.gram()), np.linalg.norm(columns.sum(axis=1)), rtol=1e-8)
    shuffled = made.gram()[::-1, ::-1]  # later steps are the larger ones: no order to rest on
    assert not part.exact(shuffled)
    assert part.sensitivity(shuffled) >= np.linalg.norm(columns.sum(axis=1)) * (1 - 1e-12)
    assert_allclose(SquareRoot(600, 20).sensitivity(part), math.sqrt(20 * SquareRoot(600, 20).sensitivity() ** 2), rtol=1e-8)


def test_the_best_pattern_of_weights():
    rng = np.random.default_rng(1)
    for count, separation in itertools.product((1, 2, 4), (1, 3, 4)):
        w = rng.uniform(0.0, 1.0, 9)
        found = max(
            sum(w[list(p)]) for m in range(1, count + 1) for p in itertools.combinations(range(9), m)
            if all(b - a >= separation for a, b in itertools.pairwise(p))
        )  # fmt: skip
        assert_allclose(_best_pattern(w, count, separation), found, rtol=1e-14)


def test_a_stream_has_the_covariance_that_is_accounted():
    """800 streams without data: the sample covariance of noisy prefix sums is sigma^2 B B', within five standard errors."""
    made, part = BinaryTree(5, "online"), Participation(2, 2)
    source, found = seeded(0), []
    for _ in range(800):
        stream = Gate(source).prefix_sums(made, part, 1, sensitivity=0.5, noise_multiplier=3.0)
        found.append([stream.release(np.zeros(1))[0] for _ in range(5)])
    expected = (1.5 * brute(least_encoder(made.decoder()), 2, 2)) ** 2 * made.decoder() @ made.decoder().T
    spread = np.sqrt((np.outer(np.diag(expected), np.diag(expected)) + expected**2) / 800)
    assert (np.abs(np.cov(np.array(found).T) - expected) < 5.0 * spread).all()


# the algorithm


def test_without_noise_it_follows_the_regularised_leader():
    problem = classes(constraint=Box(-0.4, 0.3), ridge=6.0)
    release = ftrl(problem, batches=5, epochs=2, noise_multiplier=1.0, learning_rate=0.01, random=Recorder(seed=4, noise_off=True))
    joins = seeded(4).integers(5, 400)
    theta, total = np.zeros(4), np.zeros(4)
    for t in range(10):
        total = total + problem.data_gradient(theta, chosen=joins == t % 5) + 6.0 / 5 * theta
        theta = np.clip(-0.01 * total, -0.4, 0.3)
    assert_allclose(release.value, theta, rtol=1e-12)


@pytest.mark.parametrize("adjacency", ["add-or-remove", "replace-one", "zero-out"])
def test_a_budget_is_spent_and_kept(adjacency):
    release = ftrl(classes(), batches=20, epochs=2, epsilon=1.5, delta=1e-5, public_size=400, adjacency=adjacency, random=seeded(1))
    assert 1.5 * (1 - 1e-6) <= release.epsilon(1e-5).upper <= 1.5
    assert release.guarantee == Gaussian(release.diagnostics["noise_multiplier"])
    assert release.diagnostics["steps"] == 40


def test_the_default_factorisation_is_the_better_of_two():
    one = ftrl(classes(), batches=30, noise_multiplier=1.0, learning_rate=0.1, random=seeded(0)).diagnostics["factorisation"]
    assert one == SquareRoot(30)
    many = ftrl(classes(), batches=10, epochs=6, noise_multiplier=1.0, learning_rate=0.1, random=seeded(0)).diagnostics["factorisation"]
    part = Participation(6, 10)
    assert many.rms_loss(part) == min(SquareRoot(60).rms_loss(part), SquareRoot(60, 10).rms_loss(part))


@pytest.mark.parametrize("name", NAMED)
def test_a_factorisation_is_known_by_its_name(name):
    release = ftrl(classes(), batches=8, epochs=2, noise_multiplier=1.0, learning_rate=0.1, factorisation=name, random=seeded(0))
    assert release.diagnostics["factorisation"] == named(name, 16, Participation(2, 8))
    assert release.guarantee == Gaussian(1.0)


def test_correlated_noise_does_better_than_independent_noise():
    problem, found = classes(n=4000), {}
    for made in (Independent(200), SquareRoot(200)):
        options = {"batches": 200, "epsilon": 0.3, "delta": 1e-5, "public_size": 4000, "factorisation": made}
        runs = [ftrl(problem, **options, random=seeded(k)).value for k in range(6)]
        found[type(made)] = np.mean([problem.objective(theta) for theta in runs])
    assert found[SquareRoot] < found[Independent]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "epsilon"),
        ({"epsilon": 1.0}, "delta"),
        ({"noise_multiplier": 1.0, "epsilon": 1.0}, "instead of both"),
        ({"noise_multiplier": 1.0}, "private under add-or-remove and zero-out"),
        ({"noise_multiplier": 1.0, "batches": 0}, "batches"),
        ({"noise_multiplier": 1.0, "epochs": 1.5}, "epochs"),
        ({"noise_multiplier": 1.0, "factorisation": SquareRoot(9)}, "steps"),
        ({"noise_multiplier": 1.0, "factorisation": "trees"}, "one of"),
        ({"noise_multiplier": 1.0, "factorisation": 3}, "solvers.factorisations"),
        ({"noise_multiplier": 1.0, "learning_rate": -1.0}, "learning_rate"),
        ({"noise_multiplier": 1.0, "learning_rate": 1.0, "output": "best"}, "one of"),
        ({"noise_multiplier": 1.0, "learning_rate": 1.0, "start": np.full(4, 9.0)}, "a point of L2Ball"),
        ({"noise_multiplier": 1.0, "learning_rate": 1.0, "random": 3}, "protects nobody"),
    ],
)
def test_bad_arguments_fail_closed(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        ftrl(classes(), **{"batches": 10, **options})


FITS = (
    (Optimised, (4, 5)), (Optimised, (600, 3)), (BandedToeplitz, (4, 5)), (BandedToeplitz, (4, 2, "mean")),
    (Buffered, (4, 0)), (Buffered, (4, 11)),
    (Buffered, (4, 1, Participation(), "rms", (0.0,), (0.5,))), (Buffered, (4, 1, Participation(), "rms", (0.5,), (1.0,))),
    (Buffered, (4, 2, Participation(), "rms", (0.5,), (0.5,))),
)  # fmt: skip


def test_problems_and_matrices_it_cannot_use_are_refused():
    from solvers.sets import WholeSpace

    with pytest.raises(ValueError, match="clipping_norm"):
        ftrl(classes(loss=Squared(), constraint=WholeSpace()), batches=5, noise_multiplier=1.0, learning_rate=0.1)
    with pytest.raises(ValueError, match="share of the diameter"):
        ftrl(classes(constraint=WholeSpace()), batches=5, noise_multiplier=1.0, public_size=400)
    plain = ((SquareRoot, (0,)), (SquareRoot, (4, 5)), (BinaryTree, (4, "best")), (Optimised, (2000,)), (Participation, (0,)))
    for kind, given in (*plain, *FITS):
        with pytest.raises(ValueError, match="must be"):
            kind(*given)
