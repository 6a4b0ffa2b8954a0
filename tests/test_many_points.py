"""Many epsilons, and many counts, on shared contours: certified like single answers, and the same whatever was asked before."""

from __future__ import annotations

import numpy as np
import pytest

from dpaccount import Gaussian, Laplace, PoissonSampled, PrivacyProfile, RandomizedResponse, Status, TrainingRun
from dpaccount.curves.multiples import epsilon_of_multiples
from dpaccount.engines.jump import NO_CUT
from dpaccount.engines.line import repeats
from dpaccount.engines.line.contour import Contour
from dpaccount.engines.line.shelf import Shelf
from dpaccount.engines.line.tilts import tabulate

RUN = 1000 * PoissonSampled(Gaussian(1.0), 0.01)
EPSILONS = np.linspace(-2.0, 6.0, 120)


def meet(many, single, index):
    return max(many.lower[index], single.lower) <= min(many.upper[index], single.upper)


@pytest.mark.parametrize(
    "guarantee", [RUN, 20 * Gaussian(4.0), 10**6 * PoissonSampled(Gaussian(0.5), 1e-4)],
    ids=repr,
)
def test_a_profile_of_many_points_meets_the_single_answers(guarantee):
    profile = PrivacyProfile(guarantee)
    found = profile.log_delta(EPSILONS)
    singles = [profile.log_delta(float(EPSILONS[i])) for i in range(0, 120, 17)]
    assert found.certified == all(one.certified for one in singles)
    for i, one in zip(range(0, 120, 17), singles, strict=True):
        assert meet(found, one, i)
        assert found.upper[i] - found.lower[i] <= 5 * (one.upper - one.lower) + 1e-13
    assert np.all(np.diff(found.estimate) <= 0.0)


def test_the_answers_do_not_depend_on_the_order_or_on_what_was_asked_before():
    profile = PrivacyProfile(RUN)
    first = profile.log_delta(EPSILONS)
    profile.delta(epsilon=1.2345)
    profile.epsilon(delta=1e-6)
    again, backwards = profile.log_delta(EPSILONS), profile.log_delta(EPSILONS[::-1])
    for side in ("lower", "estimate", "upper"):
        assert np.array_equal(getattr(first, side), getattr(again, side))
        assert np.array_equal(getattr(first, side), getattr(backwards, side)[::-1])


def test_infinite_and_repeated_epsilons_in_an_array():
    found = PrivacyProfile(RUN).delta([np.inf, -np.inf, 1.0, 1.0, 0.0, 2.0, 50.0])
    assert found.upper[0] == 0.0
    assert found.lower[1] == 1.0
    assert found.upper[2] == found.upper[3]
    assert found.certified


def test_pairs_without_a_contour_are_asked_point_by_point():
    found = PrivacyProfile(Laplace(1.0), "replace-one").delta(np.linspace(0.0, 3.0, 9))
    assert found.method == "closed"


def test_contours_are_few():
    shelf = Shelf(RUN)
    shelf.log_deltas(np.linspace(0.5, 3.0, 500))
    assert len(shelf._links) < 12


# epsilon


@pytest.mark.parametrize(
    ("guarantee", "deltas"),
    [(RUN, np.geomspace(1e-30, 0.5, 60)), (10**6 * PoissonSampled(Gaussian(0.5), 1e-4), np.geomspace(1e-12, 1e-2, 40))],
    ids=["thousand", "million"],
)
def test_many_epsilons_meet_the_single_ones(guarantee, deltas):
    profile = PrivacyProfile(guarantee)
    found = profile.epsilon(deltas[::-1])
    assert found.certified
    assert np.all(np.diff(found.estimate) >= 0.0)
    for i in range(0, deltas.size, 7):
        one = PrivacyProfile(guarantee).epsilon(float(deltas[::-1][i]))
        assert meet(found, one, i)
        assert found.upper[i] - found.lower[i] <= 10 * one.width + 1e-12
        assert profile.delta(float(found.upper[i])).upper <= deltas[::-1][i] * (1 + 1e-9)


def test_special_deltas_in_an_array():
    found = PrivacyProfile(RUN).epsilon([0.0, 1e-5, 1.0, 0.3, 1e-300, 1e-5, 1e-3])
    assert found.upper[0] == np.inf
    assert found.upper[2] == 0.0
    assert found.upper[1] == found.upper[5]
    assert found.status is Status.INFINITE_DELTA_ZERO


# the trade-off function


@pytest.mark.parametrize("adjacency", ["add-or-remove", "as-written"])
def test_many_points_of_the_trade_off_meet_the_single_ones(adjacency):
    profile = PrivacyProfile(RUN, adjacency)
    alphas = np.concatenate([[0.0, 1e-12], np.linspace(0.001, 0.999, 60), [1.0]])
    found, single = profile.trade_off(alphas), profile.trade_off()
    assert found.certified
    assert np.all(np.diff(found.estimate) <= 0.0)
    for i in range(0, alphas.size, 8):
        one = single(float(alphas[i]))
        assert meet(found, one, i)
        assert found.upper[i] - found.lower[i] <= 8 * one.width + 1e-14


def test_many_points_of_a_trade_off_with_kinks():
    """A closed pair with atoms: three points do not always pin it down, and then it is asked point by point."""
    profile = PrivacyProfile(3 * RandomizedResponse(0.7), "replace-one")
    alphas = np.linspace(0.0, 1.0, 41)
    found, single = profile.trade_off(alphas), profile.trade_off()
    for i in range(0, 41, 5):
        assert meet(found, single(float(alphas[i])), i)


# counts


COUNTS = np.array([100 * t for t in range(5, 105)])


def line_of(step, counts=(2200.0, 3000.0, 4000.0)):
    """The one line that serves a few counts at delta = 1e-5."""
    (line, _, _), *others = repeats.lines(step, np.array(counts), np.log(1e-5))
    assert not others
    return line


@pytest.mark.parametrize("reverse", [False, True])
def test_lines_at_other_counts_meet_the_contours_of_their_own(reverse):
    step = PoissonSampled(Gaussian(1.0), 0.01)
    step = step.reversed() if reverse else step
    line = line_of(step)
    for count, epsilon in ((2200, 2.1), (3000, 2.5), (4000, 3.0)):
        found = repeats.readings(line, np.array([count / line.times]), np.array([epsilon]))
        own = Contour.beside(count * step, epsilon, NO_CUT).at(epsilon)
        low, up = (float(end[0]) for end in repeats.bracket(found))
        assert low <= own.log_delta + own.error + 1e-13
        assert up >= own.log_delta - own.error - own.excess - 1e-13
        assert up - low < 1e-8
        assert found.log_tail[0] == pytest.approx(own.log_tail, abs=1e-8)


def test_what_lies_beside_a_reading_is_within_its_errors():
    """The polynomial against a reading of its own; for twice as far as it is said to be, it is found out."""
    line = line_of(PoissonSampled(Gaussian(1.0), 0.01))
    share, epsilon = np.array([2200.0, 3000.0, 4000.0]) / line.times, np.array([2.2, 2.7, 3.1])
    waves = repeats.Waves(line, share, epsilon)
    for move in (1e-11, -1e-8, 1e-6, -1e-3, 0.02, -0.1):
        moved = waves.at(np.full(3, move))
        own, further = (repeats.readings(line, share, epsilon + x * move) for x in (1.0, 2.0))
        assert np.all(np.abs(moved.log_delta - own.log_delta) <= moved.error + own.error)
        assert abs(move) < 1e-9 or np.all(np.abs(moved.log_delta - further.log_delta) > moved.error + further.error)


@pytest.mark.parametrize("step", [PoissonSampled(Gaussian(1.0), 0.01), PoissonSampled(Laplace(1.0), 0.05).reversed()], ids=repr)
def test_tabulated_moment_generating_functions_are_bounds_and_close(step):
    table = tabulate(step, 0.05, 8.0, 1.3, -np.inf)
    exact = np.array([float(step.log_mgf(float(c))) for c in table.c])
    assert table.c[-1] >= 8.0
    assert np.all(table.above >= exact - 4e-16 * (1.0 + np.abs(exact)))
    assert np.all(table.above - exact <= 1e-12 * (1.0 + np.abs(exact)))
    slope = (np.array([float(step.log_mgf(float(c) * 1.001)) for c in table.c]) - exact) / (0.001 * table.c)
    assert table.cumulants[1] == pytest.approx(slope - 0.0005 * table.c * table.cumulants[2], rel=1e-4, abs=1e-9)


def test_epochs_meet_the_single_answers_and_are_certified():
    step = PoissonSampled(Gaussian(1.0), 0.01)
    found = epsilon_of_multiples(step, COUNTS, 1e-5, "add-or-remove")
    assert found.certified
    assert np.all(np.diff(found.estimate) > 0.0)
    for i in (0, 3, 30, 60, 99):
        one = PrivacyProfile(int(COUNTS[i]) * step).epsilon(delta=1e-5)
        assert meet(found, one, i)
        assert found.upper[i] - found.lower[i] < 1e-9 * found.upper[i]


@pytest.mark.parametrize(
    ("step", "counts", "delta"),
    [
        (PoissonSampled(Gaussian(0.7), 0.02), 50 * np.arange(1, 60), 1e-7),
        (PoissonSampled(Gaussian(2.0), 0.001), np.geomspace(3e4, 1e9, 12).astype(int), 1e-6),
        (PoissonSampled(Gaussian(4.0), 0.03), 33 * np.arange(1, 300), 1e-9),
        (PoissonSampled(Laplace(1.0), 0.05), 20 * np.arange(4, 60), 1e-6),
    ],
    ids=repr,
)
def test_other_runs_meet_the_single_answers_as_well(step, counts, delta):
    found = epsilon_of_multiples(step, counts, delta, "add-or-remove")
    assert found.certified
    for i in (0, counts.size // 4, counts.size // 2, counts.size - 2):
        one = PrivacyProfile(int(counts[i]) * step).epsilon(delta=delta)
        assert meet(found, one, i)
        assert found.upper[i] - found.lower[i] < max(3.0 * one.width, 4e-11 * found.upper[i])


def test_epochs_come_from_few_lines(monkeypatch):
    made, asked = [], []
    draw, answer = repeats.draw, PrivacyProfile.epsilon
    monkeypatch.setattr(repeats, "draw", lambda *facts: (made.append(1), draw(*facts))[1])
    monkeypatch.setattr(PrivacyProfile, "epsilon", lambda self, **delta: (asked.append(1), answer(self, **delta))[1])
    epsilon_of_multiples(PoissonSampled(Gaussian(1.0), 0.01), COUNTS, 1e-5, "add-or-remove")
    assert len(made) <= 3
    assert len(asked) == 1  # the last count, which ends where the run itself does


@pytest.mark.parametrize("fault", ["scale", "share"])
def test_a_wrong_scaling_with_the_count_is_caught(fault, monkeypatch):
    step = PoissonSampled(Gaussian(1.0), 0.01)

    class Wrong(repeats.Waves):
        def __init__(self, line, share, epsilon):
            super().__init__(line, share * (1.0 + 1e-9) if fault == "share" else share, epsilon)
            self.log_scale = self.log_scale + (1e-9 if fault == "scale" else 0.0)

    monkeypatch.setattr(repeats, "Waves", Wrong)
    found = epsilon_of_multiples(step, COUNTS, 1e-5, "add-or-remove")
    monkeypatch.undo()
    one = PrivacyProfile(int(COUNTS[60]) * step).epsilon(delta=1e-5)
    assert not meet(found, one, 60)


def test_the_smaller_direction_is_proved_smaller_or_solved():
    step = PoissonSampled(Gaussian(1.0), 0.01)
    counts = np.array([1000.0, 5000.0])
    for side in step.under("add-or-remove"):
        roots = repeats.epsilons(side, counts, np.log(1e-5))
        for count, low, high in zip(counts, roots.lower, roots.upper, strict=True):
            profile = PrivacyProfile(int(count) * side, "as-written")
            assert profile.log_delta(low).upper >= np.log(1e-5) - 1e-12
            assert profile.log_delta(high).lower <= np.log(1e-5) + 1e-12
        far, near = (repeats.below(side, counts, roots.upper + shift, np.log(1e-5)) for shift in (3.0, -0.1))
        assert far.all()
        assert not near.any()


def test_a_run_over_its_epochs_ends_where_the_run_does():
    run = TrainingRun(dataset_size=6000, batch_size=200, epochs=12, noise_multiplier=1.2)
    found, last = run.per_epoch(1e-5), run.epsilon(1e-5)
    assert found.upper[-1] == last.upper
    assert len(found) == 12
