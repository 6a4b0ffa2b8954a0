"""What somebody else states, of a loss, a set or a factorisation, earns no guarantee: it is enforced, or refused."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from solver_probes import Recorder
from solver_registry import PROBED

import solvers.algorithms as algorithms
from solvers.algorithms import (
    exponential_mechanism,
    frank_wolfe,
    ftrl,
    gradient_descent,
    localisation,
    objective_perturbation,
    projected_noisy_sgd,
    regularized_exponential,
)
from solvers.factorisations import BandedToeplitz, BinaryTree, Buffered, Factorisation, Optimised, Participation, SquareRoot
from solvers.factorisations.decoder import Decoder
from solvers.gate import Gate, PrefixSums
from solvers.grid import hidden_reach
from solvers.losses import LinearLoss, Logistic, Quantile, Squared
from solvers.problem import Problem
from solvers.random import InsecureRandomnessWarning, RandomSource
from solvers.sets import Box, L1Ball, L2Ball, Polytope, VertexSet

LOUD = 1e6
# the entry of tests/solver_registry.py that an algorithm has, or where else its laws are tested
COVERED = {
    "exponential_mechanism": "exponential", "frank_wolfe": "Frank-Wolfe", "ftrl": "FTRL", "gradient_descent": "gradient descent",
    "localisation": "localisation", "objective_perturbation": "objective perturbation", "projected_noisy_sgd": "projected noisy SGD",
    "regularized_exponential": None,  # only its last point passes the gate: tests/test_regularized_exponential.py audits its law
}


def source(seed=0):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InsecureRandomnessWarning)
        return RandomSource.seeded_for_tests_only(seed)


@dataclass(frozen=True)
class Liar(LinearLoss):
    """It says that its slope is 1."""

    @property
    def smooth(self):
        return True

    @property
    def curvature(self):
        return 0.1

    def slope(self, reach=np.inf):
        return 1.0

    def targets(self, owner, labels, size):
        return np.asarray(labels, dtype=float)

    def value(self, scores, targets):
        return LOUD * scores * targets

    def derivative(self, scores, targets):
        return LOUD * targets * np.ones(scores.shape)

    def second_derivative(self, scores, targets):
        return np.zeros(scores.shape)


class Quiet(Logistic):
    """A subclass of a loss that is known is somebody's own as well."""

    def derivative(self, scores, targets):
        return LOUD * super().derivative(scores, targets)


def posed(loss, constraint=None):
    return Problem([[1.0], [1.0]], [1.0, 1.0], loss, constraint or Box(-1e9, 1e9))


@pytest.mark.parametrize("loss", [Liar(), Quiet()], ids=["own", "subclass"])
def test_gradients_of_somebodys_own_loss_are_clipped_to_what_it_states(loss):
    problem = posed(loss)
    assert problem.enforces_gradients_only
    assert abs(problem.data_gradient(np.zeros(1), problem.lipschitz)[0]) <= 2.0 * problem.lipschitz * (1 + 1e-12)
    release = gradient_descent(problem, noise_multiplier=1.0, steps=1, learning_rate=1.0, random=source(), progress=False)
    assert abs(release.value[0]) < 20.0
    picked = frank_wolfe(posed(loss, L1Ball(1.0)), epsilon=1.0, delta=0.0, steps=3, random=source(), progress=False)
    assert abs(picked.value[0]) <= 1.0 + 1e-12


@pytest.mark.parametrize("loss", [Liar(), Quiet()], ids=["own", "subclass"])
@pytest.mark.parametrize("run", [
    lambda p: objective_perturbation(p, epsilon=1.0, random=source()),
    lambda p: exponential_mechanism(p, epsilon=1.0, random=source()),
    lambda p: projected_noisy_sgd(p, noise_multiplier=1.0, step_size=0.1, adjacency="replace-one", random=source(), progress=False),
    lambda p: regularized_exponential(p, epsilon=1.0, delta=1e-5, random=source(), progress=False),
    lambda p: frank_wolfe(p, epsilon=1.0, delta=0.0, steps=3, scores="incremental", random=source(), progress=False),
], ids=["objective", "exponential", "sgd", "regularised", "incremental"])
def test_what_no_clipping_enforces_is_refused(loss, run):
    with pytest.raises((ValueError, TypeError), match="loss"):
        run(posed(loss, L1Ball(1.0)))


class OwnSet(VertexSet):
    """The interval [-1, 1], stated to be a millionth as long, with a projection that may move points apart."""

    dimension, l1_radius, stretch = 1, 1e-6, 1.5

    def project(self, point):
        return np.clip(self.stretch * point, -1.0, 1.0)

    def contains(self, point, tolerance=1e-9):
        return True

    def diameter(self, dimension):
        return 2e-6

    def radius(self, dimension):
        return 1e-6

    def inner_radius(self, dimension):
        return 1e-6

    def vertex_count(self, dimension):
        return 2

    def vertex_scores(self, direction):
        return np.array([direction[0], -direction[0]])

    def vertex(self, index, dimension):
        return np.array([1.0 - 2.0 * index])


class SmallBall(L1Ball):
    """A subclass of a set that is known is somebody's own as well."""

    def radius(self, dimension):
        return 1e-6


@pytest.mark.parametrize("constraint", [OwnSet(), SmallBall(1.0)], ids=["own", "subclass"])
@pytest.mark.parametrize("run", [
    lambda p: frank_wolfe(p, epsilon=1.0, steps=3, random=SILENT, progress=False),
    lambda p: exponential_mechanism(p, epsilon=1.0, random=SILENT),
    lambda p: projected_noisy_sgd(p, noise_multiplier=1.0, order="random", random=SILENT, progress=False),
    lambda p: projected_noisy_sgd(p, noise_multiplier=1.0, step_size=0.1, random=SILENT, progress=False),
    lambda p: regularized_exponential(p, epsilon=1.0, delta=1e-5, random=SILENT, progress=False),
], ids=["Frank-Wolfe", "exponential", "sgd, random", "sgd", "regularised"])
def test_sizes_and_projections_of_somebodys_own_set_are_refused_where_privacy_rests_on_them(constraint, run):
    with pytest.raises(ValueError, match=r"on a set of solvers.sets.*gradient_descent, localisation and ftrl take any set"):
        run(posed(Logistic(), constraint))


@pytest.mark.parametrize("run", [
    lambda p, random: gradient_descent(p, noise_multiplier=1.0, steps=2, learning_rate=0.1, random=random, progress=False),
    lambda p, random: localisation(p, noise_multiplier=1.0, learning_rate=0.1, public_size=2, random=random, progress=False),
    lambda p, random: ftrl(p, batches=2, noise_multiplier=1.0, learning_rate=0.1, random=random, progress=False),
], ids=["descent", "localisation", "FTRL"])
def test_algorithms_that_clip_ask_a_set_of_ones_own_for_nothing_that_noise_depends_on(run):
    """The noise is that of the clipping norm, for a set of whatever stated size; a slope that the set bounds is clipped to."""
    for constraint, loss in ((OwnSet(), Logistic()), (Box(-1.0, 1.0), Logistic()), (OwnSet(), Squared(5.0))):
        problem = posed(loss, constraint)
        run(problem, gate := Recorder())
        assert gate.queries
        assert all(query.sensitivity >= problem.lipschitz for query in gate.queries)
        assert np.linalg.norm(problem.data_gradient(np.array([1e6]), problem.lipschitz)) <= 2.0 * problem.lipschitz * (1 + 1e-12)


def test_hidden_steps_too_short_for_the_digits_of_their_iterates_are_refused():
    """Steps of 1e-9 from points of length 1 lose 2^-53 each: 20,000 of them drift by more than a step has room for."""
    x = np.ones((2000, 1))
    problem = Problem(x, np.ones(2000), Logistic(), L2Ball(1.0))
    with pytest.raises(ValueError, match="last digits of so many short steps"):
        projected_noisy_sgd(problem, noise_multiplier=1.0, step_size=1e-9, random=SILENT, progress=False)
    far = Problem(x, np.ones(2000), Logistic())
    with pytest.raises(ValueError, match="times its noise"):
        projected_noisy_sgd(far, noise_multiplier=1.0, step_size=1e-9, start=[1.0], random=source(), progress=False)
    near = projected_noisy_sgd(problem, noise_multiplier=1.0, step_size=1e-6, random=source(), progress=False)
    assert np.isfinite(near.value).all()


@pytest.mark.parametrize("steps", [10, 1000])
def test_rounding_of_hidden_steps_is_within_what_is_claimed_of_it(steps):
    """Against the same steps in fractions, with the same noise, at the longest iterates that are allowed."""
    rng, step = np.random.default_rng(0), 2.0**-4
    at = hidden_reach(steps, 1, step) * (1 - 1e-3)
    theta, exact = at, Fraction(at)
    for noise, pull in zip(step * rng.standard_normal(steps), rng.uniform(-1.0, 1.0, steps), strict=True):
        theta, exact = theta - step * pull + noise, exact - Fraction(step) * Fraction(pull) + Fraction(noise)
    lost = abs(float(Fraction(theta) - exact)) / step
    assert 0.0 < lost <= 2.0**-12


class Silent(RandomSource):
    """No number may be drawn before a refusal."""

    def _drawn(self, *shape, **more):
        raise AssertionError("drawn")

    gaussian = laplace = choice = uniform = integers = permutation = _drawn


SILENT = Silent()


@pytest.mark.parametrize(("constraint", "loss", "options"), [
    (Polytope([[1.0], [-1.0]]), Logistic(), {"scores": "incremental"}),
    (L1Ball(1.0), Quantile(), {}),
    (L1Ball(1.0), Quantile(), {"scores": "incremental", "steps": 3}),
    (OwnSet(), Logistic(), {}),
], ids=["polytope", "kink", "kink, incremental", "own set"])
def test_frank_wolfe_refuses_before_it_counts(constraint, loss, options):
    with pytest.raises((ValueError, TypeError), match="frank_wolfe"):
        frank_wolfe(posed(loss, constraint), epsilon=1.0, random=SILENT, progress=False, **options)


def test_a_pure_budget_is_kept_to_the_last_digit():
    problem = posed(Logistic(), L1Ball(1.0))
    for steps in (None, *range(1, 120)):
        for epsilon in (0.1, 0.7):
            assert frank_wolfe(problem, epsilon=epsilon, steps=steps, random=source(), progress=False).epsilon(0.0).upper <= epsilon


class Thin(Factorisation):
    """Encodes a millionth of the sums, so that its noise would be as small."""

    def __init__(self, steps, honest=False):
        self.steps, self.share = steps, 1.0 if honest else 1e-6

    def encoder(self):
        return self.share * np.eye(self.steps)

    def decoder(self):
        return np.tril(np.ones((self.steps, self.steps)))

    def sensitivity(self, participation=None):
        return 1e-6


def test_a_factorisation_that_is_none_is_refused_and_its_sensitivity_is_not_believed():
    problem = posed(Quantile(), Box(-10.0, 10.0))
    options = {"batches": 4, "noise_multiplier": 1.0, "learning_rate": 0.1, "progress": False}
    with pytest.raises(ValueError, match="B C = the prefix sums"):
        ftrl(problem, factorisation=Thin(4), random=source(), **options)
    for made in (Thin(4, honest=True), SquareRoot(4)):
        values = [ftrl(problem, factorisation=made, random=source(s), **options).value[0] for s in range(40)]
        assert np.std(values) > 0.02, "the noise is there"


class Own(Factorisation):
    """Any matrices, and any statements about them."""

    def __init__(self, decoder, encoder, norms=None, later=None):
        self.steps, self.matrices, self.norms, self.later, self.asked = len(decoder), (decoder, encoder), norms, later, 0

    def encoder(self):
        return self.matrices[1]

    def decoder(self):
        self.asked += 1
        return self.matrices[0] if self.asked == 1 or self.later is None else self.later

    def noise_norms(self):
        return super().noise_norms() if self.norms is None else self.norms


PREFIX = np.tril(np.ones((20, 20)))


def spread(made, part=None, multiplier=3.0):
    """Standard deviations of the first and the last prefix sum, over 200 streams of zeros."""
    noise = source()
    streams = [PrefixSums(noise, made, part or Participation(), 1, 1.0, multiplier) for _ in range(200)]
    return np.std([[s.release(np.zeros(1))[0] for _ in range(made.steps)] for s in streams], axis=0)[[0, -1]]


def test_noise_is_that_of_the_decoder_and_not_what_a_factorisation_says():
    assert np.allclose(spread(Own(PREFIX, np.eye(20), norms=np.zeros(20))), [3.0, 3.0 * np.sqrt(20.0)], rtol=0.25)
    assert np.allclose(spread(Own(PREFIX, np.eye(20), norms=1e9 * np.ones(20))), [3.0, 3.0 * np.sqrt(20.0)], rtol=0.25)
    once = Own(PREFIX, np.eye(20), later=np.zeros((20, 20)))
    assert PrefixSums(source(), once, Participation(), 1, 1.0, 3.0).release(np.zeros(1))[0] != 0.0, "another matrix after the check"
    assert once.asked == 1
    theirs = PREFIX.copy()
    stream = PrefixSums(source(), Own(theirs, np.eye(20)), Participation(), 1, 1.0, 3.0)
    theirs[:] = 0.0
    assert stream.release(np.zeros(1))[0] != 0.0


def beside(column):
    """B = [0, column], for C = [I; 0]."""
    return Own(np.hstack([np.zeros((20, 20)), np.reshape(column, (20, 1))]), np.vstack([np.eye(20), np.zeros((1, 20))]))


@pytest.mark.parametrize("made", [
    beside([1e-6] * 19 + [1e9]), beside([0.0] * 19 + [1e9]), beside([1e-6] * 20), Own(np.zeros((20, 20)), np.eye(20)),
    Own(PREFIX * np.array([[1.0]] * 19 + [[1e9]]), np.eye(20)), Own(PREFIX[:, :5], np.eye(20)[:5]), Own(PREFIX * np.nan, np.eye(20)),
    Buffered(20, 1, weights=(50.0,), decays=(0.9,)), Buffered(60, 1, weights=(2.5,), decays=(0.9,)),
], ids=["loud row", "one row", "one column", "zeros", "other sums", "narrow", "nan", "growing", "growing slowly"])
def test_rows_that_protect_nothing_are_refused(made):
    with pytest.raises(ValueError, match="factorisation"):
        PrefixSums(source(), made, Participation(), 1, 1.0, 3.0)


def test_what_an_encoder_states_makes_no_noise_smaller():
    """The least C of this B has a first column of norm 1000, whatever C is offered beside it."""
    quiet = np.diag([1e-3, *np.ones(19)])
    loud = Own(PREFIX @ quiet, np.diag([1e3, *np.ones(19)]))
    assert Decoder.of("test", loud, Participation()).sensitivity == pytest.approx(1e3, rel=1e-9)
    with pytest.raises(ValueError, match="B C = the prefix sums"):
        Decoder.of("test", Own(PREFIX @ quiet, np.eye(20)), Participation())


@pytest.mark.parametrize("made", [
    SquareRoot(24), SquareRoot(24, 6), BinaryTree(24), BinaryTree(24, "online"), BinaryTree(24, "full"), Optimised(24, 6),
    Buffered(24, 2), Buffered(24, 1, weights=(1.9,), decays=(0.9,)), BandedToeplitz(24, 6),
], ids=repr)
def test_the_sensitivity_of_a_decoder_is_that_of_the_least_encoder(made):
    """``A'(BB')^(-1) A`` in 50 digits; for square B the stated one, for trees less."""
    b, a = mpmath.matrix(made.decoder().tolist()), mpmath.matrix(np.tril(np.ones((24, 24))).tolist())
    with mpmath.workdps(50):
        gram = a.T * mpmath.inverse(b * b.T) * a
        first = float(mpmath.sqrt(max(gram[j, j] for j in range(24))))
        exact = np.array([[float(gram[i, j]) for j in range(24)] for i in range(24)])
    assert first <= Decoder.of("test", made, Participation()).sensitivity <= first * (1 + 1e-7)
    part = Participation(3, 8)
    found = Decoder.of("test", made, part).sensitivity
    assert found == pytest.approx(part.sensitivity(np.where(np.abs(exact) < 1e-11, 0.0, exact)), rel=1e-7)
    assert found <= made.sensitivity(part) * (1 + 1e-7)


def test_sums_of_a_stream_keep_digits_that_a_double_loses():
    """2^29 scales come and go, and 2^-30 of a scale, which a double loses beside them, stays."""
    stream = PrefixSums(source(), Own(np.tril(np.ones((3, 3))), np.eye(3)), Participation(), 1, 1.0, 1.0)
    stream.noise[:] = 0.0
    for value in (2.0**29, 2.0**-30, -(2.0**29)):
        last = stream.release(np.array([value]))
    assert stream.total[0] + stream.low[0] == 2.0**-30
    assert last[0] == 0.0
    with pytest.raises(ValueError, match="last digits of so many sums"):
        PrefixSums(source(), Own(PREFIX, np.eye(20)), Participation(), 1, 1.0, 1e16)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_noise_that_would_underflow_is_refused_and_none_is_none_only_where_it_is_asked_for(kind):
    gate = Gate(source())
    ask = getattr(gate, kind)
    assert ask(np.array([1.0]), sensitivity=1e-300, noise_multiplier=0.0).tolist() == [1.0]
    for sensitivity in (5e-324, 1e-300, 0.0, 1e300):
        with pytest.raises(ValueError, match="noise has a scale in"):
            ask(np.array([1e-300]), sensitivity=sensitivity, noise_multiplier=0.3)


def test_a_draw_keeps_its_low_bits_to_itself():
    problem = Problem(np.ones((9, 1)), np.linspace(-1, 1, 9), Quantile(), Box(-1.0, 1.0))
    values = [regularized_exponential(problem, epsilon=1.0, delta=1e-3, random=source(s), progress=False).value[0] for s in range(20)]
    inside = [v for v in values if abs(v) < 1.0]
    assert all(float(v * 2.0**40).is_integer() for v in inside)
    assert len(set(inside)) > 10


def test_every_algorithm_meets_the_laws_or_says_why_not():
    assert set(algorithms.__all__) - {"record_guarantee"} == set(COVERED)
    for entry in filter(None, COVERED.values()):
        assert any(name.lower().startswith(entry.lower()) for name in PROBED), entry
