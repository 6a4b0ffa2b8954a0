"""Few samples, many tiny steps, deep tails: brackets that once were trivial, slow or wrong, against independent values."""

import mpmath as mp
import numpy as np
import pytest
from helpers import excluded, overlap

from dpaccount import (
    ApproximateDP,
    ExponentialMechanism,
    FinitePair,
    Gaussian,
    Laplace,
    NoiseSchedule,
    PoissonSampled,
    PrivacyProfile,
    PureDP,
    calibrate,
)
from dpaccount.engines import auto, jump
from dpaccount.engines.lattice import answer as lattice
from dpaccount.engines.line import answer as line
from dpaccount.engines.line import contour, expansion
from dpaccount.results import Bounds, Status

RUN = 1000 * PoissonSampled(Gaussian(1.0), 0.01)


@pytest.mark.parametrize("epsilon", [5.0, 8.0, 20.0, 50.0])
def test_a_deep_tail_is_the_same_with_the_jump_split_off_and_without(epsilon):
    """Two lines with different K, different saddle points and, split or not, different quadrature in the outcome."""
    plain, split = (contour.Contour.beside(RUN, epsilon, margin) for margin in (jump.NO_CUT, jump.margin(RUN)))
    one, two = line.answer(plain, epsilon), line.answer(split, epsilon)
    assert one.certified
    assert two.certified
    assert one.lower <= two.upper
    assert two.lower <= one.upper
    assert max(one.upper - one.lower, two.upper - two.lower) < 1e-9


def test_a_deep_tail_lies_between_one_jump_and_chernoff():
    epsilon = 50.0
    found = auto.log_delta(RUN, epsilon)
    wide = lattice.far_tail(RUN, epsilon)
    assert wide.certified
    assert wide.lower <= found.lower <= found.upper <= wide.upper


@pytest.mark.parametrize("delta", [1e-50, 1e-100, 1e-300])
def test_epsilon_at_tiny_deltas_is_certified_and_inverts(delta):
    profile = PrivacyProfile(RUN)
    found = profile.epsilon(delta=delta)
    assert found.certified
    assert found.width < 1e-8
    assert profile.log_delta(epsilon=found.upper).upper <= np.log(delta) + 1e-9


def binomial_log_delta(epsilon, steps, count):
    """log delta of randomised bits, k losses +e and count - k losses -e, in 30 digits; 30,000 terms leave out e^-180 of it."""
    with mp.workdps(30):
        e = mp.mpf(steps.epsilon)
        first = int(mp.floor((epsilon / e + count) / 2)) + 1
        odds = mp.exp(e)
        p = odds / (1 + odds)
        log_ways = mp.loggamma(count + 1) - mp.loggamma(first + 1) - mp.loggamma(count - first + 1)
        term, total = mp.exp(log_ways + first * mp.log(p) + (count - first) * mp.log(1 - p)), mp.mpf(0)
        for k in range(first, min(first + 30_000, count + 1)):
            total += term * -mp.expm1(epsilon - (2 * k - count) * e)
            term *= mp.mpf(count - k) / (k + 1) * odds
        return float(mp.log(total))


def test_ten_million_tiny_steps_are_bracketed():
    step = PureDP(1e-3)
    found = auto.log_delta(10**7 * step, 5.0)
    truth = binomial_log_delta(5.0, step, 10**7)
    assert found.certified
    assert found.lower <= truth <= found.upper
    assert found.upper - found.lower < 1e-9


def test_a_jump_that_takes_all_but_one_atom_leaves_a_lattice_for_the_rest():
    pair = PoissonSampled(Gaussian(1.0), 0.01) + ApproximateDP(1.0, 1e-9)
    found = PrivacyProfile(pair).delta(epsilon=0.0)
    alone = float(PrivacyProfile(ApproximateDP(1.0, 1e-9)).delta(epsilon=0.0).lower)
    assert alone <= found.upper
    assert found.upper <= alone + float(PrivacyProfile(PoissonSampled(Gaussian(1.0), 0.01)).delta(epsilon=0.0).upper) + 1e-12
    assert found.width < 1e-5


def test_a_billion_steps_that_hardly_sample_are_one_jump():
    pair = 10**9 * PoissonSampled(Gaussian(1.0), 1e-12)
    found = PrivacyProfile(pair).log_delta(epsilon=0.3)
    once = float(PoissonSampled(Gaussian(1.0), 1e-12).log_delta(0.301))  # the others take at most 1e-3
    assert found.upper - found.lower < 0.1
    assert found.upper >= once + np.log(1e9) - 1e-6
    assert found.upper < -300.0


@pytest.mark.parametrize(
    ("step", "epsilon"),
    [
        (PoissonSampled(Laplace(1.0), 0.05), 0.4),
        (PoissonSampled(Laplace(1.0), 0.05), -0.4),
        (PoissonSampled(ApproximateDP(0.5, 1e-3), 0.2), 0.3),
        (PoissonSampled(FinitePair((0.7, 0.2, 0.1), (0.1, 0.3, 0.6)), 0.3), 0.5),
    ],
    ids=repr,
)
def test_atoms_at_the_end_of_a_lattice_count_once(step, epsilon):
    """Tails of swapped steps count an atom at its own loss as above it; a lattice that ends there must not lose it."""
    for pair in (20 * step, (20 * step).reversed()):
        other, found = auto.log_delta(pair, epsilon), lattice.log_delta(pair, epsilon)
        assert found.certified
        assert found.lower <= other.upper
        assert other.lower <= found.upper
        assert found.upper - found.lower < 1e-3


def test_answers_do_not_depend_on_what_was_asked_before():
    asked, fresh = PrivacyProfile(RUN), PrivacyProfile(RUN)
    asked.epsilon(delta=[1e-9, 1e-5])
    for epsilon in (0.5, 1.0, 1.83):
        assert asked.delta(epsilon=epsilon).upper == fresh.delta(epsilon=epsilon).upper


@pytest.mark.parametrize(("step", "count"), [(30.0, 3), (30.0, 7), (40.0, 49)])
def test_shares_of_epsilon_are_rounded_to_the_safe_side(step, count):
    """Just below the largest loss delta is steep: (P-mass of all ups) (1 - e^{eps - count e})."""
    epsilon = count * step * (1 - 3e-14)
    gap = count * step - epsilon
    truth = -count * np.log1p(np.exp(-step)) + np.log(-np.expm1(-gap))
    for method in ("auto", "lattice"):
        found = auto.log_delta(count * PureDP(step), epsilon, method)
        assert found.lower - 1e-9 <= truth <= found.upper + 1e-9


def test_an_epsilon_is_certified_only_if_every_direction_is():
    pair = 44 * PoissonSampled(Gaussian(2.466298712603026), 0.0017145070770588718)
    found = PrivacyProfile(pair).epsilon(delta=1.0720344435687061e-05)
    second = pair.reversed()
    sure = excluded(second, float(found.lower), np.log(1.0720344435687061e-05))
    assert not found.certified or sure or auto.log_delta(second, float(found.lower)).certified


@pytest.mark.parametrize("epsilon", [6.0, 8.0, 20.0])
def test_a_direction_far_below_the_other_does_not_cost_the_certificate(epsilon):
    found = PrivacyProfile(RUN).log_delta(epsilon=epsilon)
    leading = auto.log_delta(RUN, epsilon)
    assert found.certified
    assert (found.lower, found.upper) == (leading.lower, leading.upper)


def test_the_mass_below_a_cut_is_known_to_its_thin_side():
    pair = 2991601 * PoissonSampled(Gaussian(1.016338959186694), 0.020527478734714846)
    found = line.answer(contour.Contour.beside(pair, 2.86, jump.margin(pair)), 2.86)
    assert found.lower <= 0.0
    assert found.lower > -1e-8


def test_chernoff_keeps_its_digits_at_huge_tilts():
    pair = 1000 * PoissonSampled(Gaussian(1e14), 0.01)
    spread = np.sqrt(1000.0) * 0.01 / 1e14
    epsilon = 6.5 * spread
    gaussian = PrivacyProfile(Gaussian(1.0 / spread)).log_delta(epsilon=epsilon)  # what a thousand of them are, nearly
    far = lattice._without_grid(pair, float(epsilon), jump.split(pair, float(epsilon), jump.margin(pair)))
    assert far.upper >= gaussian.estimate
    assert not excluded(pair, float(epsilon), float(gaussian.estimate))


def test_a_whole_number_that_cannot_be_confirmed_gives_way_to_the_next_safe_one():
    class Claim:
        def __init__(self, steps):
            self.steps = steps

        def delta(self, epsilon):
            return 1e-6 * self.steps

        def epsilon(self, delta):
            upper = 2.0 if self.steps < 10 else 2.0 + 1e-12
            return Bounds(upper, upper, upper, False, "stated")

    found = calibrate(Claim, epsilon=2.0, delta=1e-5, integer=True)
    assert int(found.value) == 9
    assert found.achieved.upper <= 2.0


def test_epsilons_beyond_what_lines_reach_are_bracketed():
    """1e300 and -1e300, alone and among others: no answer is NaN and none is lost."""
    for pair in (Gaussian(1.0), 1000 * PoissonSampled(Gaussian(1.0), 0.01), NoiseSchedule([1.0, 2.0, 3.0], 0.01)):
        found = PrivacyProfile(pair).log_delta([-1e300, -1e5, 0.5, 800.0, 1e13, 1e300])
        assert np.all(found.lower <= found.estimate)
        assert np.all(found.estimate <= found.upper)
        assert np.all(np.diff(found.upper) <= 1e-12)
        assert found.upper[0] == 0.0
        assert found.lower[0] > -1e-12


@pytest.mark.parametrize(("pair", "epsilon"), [
    (3 * PoissonSampled(Gaussian(1e-3), 1e-6), 1e-12),
    (1000 * PoissonSampled(Gaussian(0.03), 1e-12), 1e-12),
    (10**9 * PoissonSampled(Gaussian(1000.0), 0.001), 30.0),
])
def test_doubles_that_run_out_are_no_raw_error(pair, epsilon):
    found = PrivacyProfile(pair).log_delta(epsilon)
    assert found.lower <= found.estimate <= found.upper <= 0.0


def test_an_order_out_of_reach_is_bracketed():
    found = PrivacyProfile(10 * PoissonSampled(Gaussian(1.0), 0.01)).renyi([8.0, 1e5])
    assert found.lower[1] == 0.0
    assert found.upper[1] == np.inf
    assert found.status is Status.WIDE
    assert PrivacyProfile(Gaussian(1.0)).renyi(1e160).upper >= 4.9e159


def test_an_epsilon_that_was_not_found_says_so():
    found = PrivacyProfile(Gaussian(1e-20)).epsilon(1e-5)
    assert found.upper == np.inf
    assert found.status is Status.WIDE


def test_a_bracket_is_neither_true_nor_false():
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(PrivacyProfile(Gaussian(1.0)).delta(1.0))


@pytest.mark.parametrize("bracket", [(1e-8, 700.0), (1e-12, 1.0), (1e-300, 1.0)])
def test_a_search_that_begins_where_delta_is_0_finds_where_it_is_not(bracket):
    """806 picks of a small range have no loss above 8; of a slightly larger one a delta of e^-1988, and then all others."""
    found = calibrate(lambda e: 806 * ExponentialMechanism(e), epsilon=8.0, delta=1e-5, bracket=bracket)
    assert float(found) == pytest.approx(0.11047897, rel=1e-6)
    assert found.status is Status.OK


@pytest.mark.parametrize(("pair", "epsilon"), [
    (Gaussian(1.0), 60.0), (1000 * PoissonSampled(Gaussian(1.0), 0.01), 500.0), (Gaussian(1.0), 38.2), (10 * Gaussian(3.0), 40.0),
])
def test_no_upper_end_of_delta_underflows(pair, epsilon):
    """What is above 0 is never said to be 0; whoever asks is sent to log_delta."""
    found, log = PrivacyProfile(pair).delta(epsilon=epsilon), PrivacyProfile(pair).log_delta(epsilon=epsilon)
    assert log.lower > -np.inf
    assert 0.0 <= found.lower <= found.upper
    assert found.upper > 0.0
    assert mp.log(mp.mpf(float(found.upper))) >= log.upper - 1e-12 * abs(log.upper)
    assert found.lower == 0.0 or mp.log(mp.mpf(float(found.lower))) <= log.lower + 1e-12 * abs(log.lower)
    assert any("log_delta" in note for note in found.notes) == (log.upper < -707.0)
    both = PrivacyProfile(pair).delta(epsilon=[epsilon, 1.0])
    assert both.upper[0] > 0.0


STRONG = PoissonSampled(Gaussian(0.20517544734853632), 0.28063972368344764)
BESIDE_WEAK = [
    (PoissonSampled(Gaussian(8.47), 1e-9) + STRONG, 5.0),
    (PoissonSampled(Gaussian(8.47), 1e-9) + 3 * STRONG, 15.0),
    (PoissonSampled(Gaussian(8.471875034281133), 7.443136080513466e-12) + 3 * STRONG, 15.005416786448016),
    (PoissonSampled(Gaussian(8.47), 1e-9) + 2 * PoissonSampled(Gaussian(0.3), 0.5), 9.0),
    (PoissonSampled(Gaussian(0.23350586774267024), 0.5901034475466007) + 2 * PoissonSampled(Gaussian(1.79), 8e-10), 1.7329263281656597),
    (PoissonSampled(Laplace(1.0), 1e-6) + 3 * STRONG, 15.0),
]


@pytest.mark.parametrize(("pair", "epsilon"), BESIDE_WEAK, ids=[str(k) for k in range(len(BESIDE_WEAK))])
def test_a_lattice_whose_weakest_step_ends_early_counts_no_loss_twice(pair, epsilon):
    """A grid that ends below the common cut, beside grids that go on above it: what those hold is no jump."""
    coarse, fine = lattice.log_delta(pair, epsilon), auto.log_delta(pair, epsilon)
    assert coarse.certified
    assert fine.certified
    assert fine.method != "lattice"
    assert coarse.lower <= fine.upper
    assert fine.lower <= coarse.upper


def test_beside_the_largest_loss_all_certified_brackets_count():
    """The bracket of the top alone says delta <= e^-7.7 here, other engines know that it is e^-788134 at most."""
    pair = (8317 * PoissonSampled(Gaussian(4.252266138155071), 1.4363468912563986e-06)).reversed()
    found = auto.log_delta(pair, 0.011484195987672212)
    assert found.certified
    assert -2e6 < found.lower < found.upper < -7e5


def test_few_samples_are_summed_over_jumps_where_nothing_else_is_narrow():
    """9.2 samples are expected: a line of the body ends where a plain one does not."""
    pair = 1305997 * PoissonSampled(Gaussian(3.1107274542213186), 7.052077829825202e-06)
    found = auto.log_delta(pair, 0.052421025113362295)
    assert found.certified
    assert found.upper - found.lower < 1e-6
    chernoff, coarse = expansion.bounded(pair, 0.052421025113362295, lattice.FLOOR), lattice.log_delta(pair, 0.052421025113362295)
    assert overlap(found, chernoff)  # bounds on every number of jumps, without a line
    assert overlap(found, coarse)
