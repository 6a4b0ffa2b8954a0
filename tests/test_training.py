"""DP-SGD runs as people state them."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpaccount.calibration import UnreachableTarget, calibrate
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.mechanisms.laplace import Laplace
from dpaccount.mechanisms.pure import ApproximateDP, PureDP
from dpaccount.results import Status
from dpaccount.sampling.poisson import PoissonSampled
from dpaccount.statement import privacy_statement
from dpaccount.training import PrivacyWarning, TrainingRun, steps_of

MNIST = TrainingRun(dataset_size=60000, batch_size=256, epochs=60)
SMALL = TrainingRun(dataset_size=6000, batch_size=60, epochs=3, noise_multiplier=1.0)

# the number of steps is whole-number arithmetic: worked out by hand
STEPS = [
    (60, 60000, 256, 14063),  # 14062.5
    (1, 60000, 60000, 1),
    (1, 60000, 59999, 2),
    (0.1, 60000, 6000, 1),  # the double 0.1 is above 1/10, and must not become 2 steps
    (0.3, 10, 1, 3),  # 0.3 * 10 is 3, but 0.1 * 3 is not 0.3 in doubles
    (1.1, 100, 10, 11),  # 1.1 * 100 / 10 = 11.000000000000002 in doubles
    (Fraction(1, 3), 3, 1, 1),
    (1e-9, 10, 1, 1),
    (10**6, 10**9, 7, 142857142857143),
]


@pytest.mark.parametrize(("epochs", "n", "batch", "expected"), STEPS)
def test_steps_are_the_exact_ceiling(epochs, n, batch, expected):
    assert steps_of(epochs, n, batch) == expected


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 999))
def test_steps_never_pay_less_than_the_epochs(n, batch, tenths):
    steps = steps_of(tenths / 10, n, batch)
    assert steps * batch * 10 >= tenths * n > (steps - 1) * batch * 10


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 10**7))
def test_epochs_of_never_need_one_step_more(n, batch, steps):
    run = TrainingRun(dataset_size=max(n, batch), batch_size=batch, steps=1)
    epochs = run.epochs_of(steps)
    assert steps_of(epochs, run.dataset_size, batch) <= steps
    assert epochs == pytest.approx(steps * batch / run.dataset_size, rel=1e-15)


def test_derived_numbers():
    assert MNIST.steps == 14063
    assert MNIST.sampling_probability == 256 / 60000
    run = TrainingRun(dataset_size=1000, batch_size=10, accumulation=8, steps=100, noise_multiplier=1.0)
    assert run.logical_batch_size == 80
    assert run.guarantee == 100 * PoissonSampled(Gaussian(1.0), 0.08)


# accumulation: one check with the physical batch would wave through what the logical batch spends (BR-105)


def _within(value, truth, below, above_rel):
    assert truth - below <= value <= truth * (1 + above_rel)


def test_accumulation_is_part_of_the_sampling_probability():
    run = TrainingRun(dataset_size=1000, batch_size=10, accumulation=8, steps=100, noise_multiplier=1.0)
    _within(float(run.epsilon(delta=1e-5)), 5.6134186259, 1e-6, 0.005)
    _within(float(replace(run, accumulation=1).epsilon(delta=1e-5)), 0.7180356613, 1e-6, 0.005)


def test_full_batches_are_plain_composition():
    run = TrainingRun(dataset_size=100, batch_size=100, steps=100, noise_multiplier=2.0)
    assert float(run.epsilon(delta=1e-6)) == pytest.approx(35.5663437141, rel=1e-9)


@pytest.mark.parametrize(("batch", "accumulation"), [(128, 1), (32, 4)])
def test_a_batch_larger_than_the_data_is_refused_with_its_probability(batch, accumulation):
    with pytest.raises(ValueError, match=r"`TrainingRun\(batch_size=...\)` .*got (128|32)\..*1\.28"):
        TrainingRun(dataset_size=100, batch_size=batch, accumulation=accumulation, steps=10, noise_multiplier=2.0)


# a scheme that is not Poisson is refused, never answered by Poisson's figure (BR-115)


@pytest.mark.parametrize("scheme", ["shuffle", "fixed", "cyclic", "Poisson", "without-replacement"])
def test_other_samplers_are_refused_by_name(scheme):
    with pytest.raises(ValueError, match=rf"`TrainingRun\(sampler=...\)` .*'{scheme}'.*Poisson's figure would not be valid"):
        TrainingRun(dataset_size=10000, batch_size=1, epochs=1, noise_multiplier=0.4, sampler=scheme)


@pytest.mark.parametrize(("noise", "at_least"), [(0.4, 14.4507693572), (0.5, 10.9969147845)])
def test_the_figure_that_the_refusal_offers_is_valid_for_shuffled_batches(noise, at_least):
    offered = PrivacyProfile(1 * Gaussian(noise), adjacency="zero-out").epsilon(delta=1e-6)
    assert float(offered) >= at_least


# answers


def test_two_phases_are_both_charged_in_any_order():
    first = TrainingRun(dataset_size=1000, batch_size=10, steps=500, noise_multiplier=1.0)
    second = TrainingRun(dataset_size=1000, batch_size=20, steps=500, noise_multiplier=2.0)
    both = PrivacyProfile(first.guarantee + second.guarantee)
    other = PrivacyProfile(second.guarantee + first.guarantee)
    _within(float(both.epsilon(delta=1e-6)), 1.8787693888, 1e-6, 0.005)
    assert float(other.epsilon(delta=1e-6)) == pytest.approx(float(both.epsilon(delta=1e-6)), rel=1e-9)


def test_epsilon_and_delta_are_those_of_the_composition():
    profile = PrivacyProfile(SMALL.steps * PoissonSampled(Gaussian(1.0), 0.01))
    assert SMALL.epsilon(delta=1e-5).upper == profile.epsilon(delta=1e-5).upper
    assert SMALL.delta(epsilon=1.0).upper == profile.delta(epsilon=1.0).upper
    assert SMALL.profile(method="lattice").method == "lattice"


def test_per_epoch_is_the_epsilon_of_every_prefix():
    run = replace(SMALL, epochs=2.5, steps=None)
    found = run.per_epoch(delta=1e-5)
    assert run.epoch_steps.tolist() == [100, 200, 250]
    singly = [float(replace(SMALL, epochs=None, steps=int(t)).epsilon(delta=1e-5)) for t in run.epoch_steps]
    np.testing.assert_array_equal(found.upper, singly)
    assert np.all(np.diff(found.upper) > 0)


def test_epoch_steps_of_a_run_in_steps_end_with_its_last_step():
    run = TrainingRun(dataset_size=100, batch_size=30, steps=5)
    assert run.epoch_steps.tolist() == [4, 5]
    assert TrainingRun(dataset_size=100, batch_size=30, steps=1).epoch_steps.tolist() == [1]


def test_adjacency_is_carried():
    other = replace(SMALL, adjacency="replace-one")
    assert float(other.epsilon(delta=1e-5)) > float(SMALL.epsilon(delta=1e-5))
    with pytest.raises(ValueError, match="adjacency"):
        replace(SMALL, adjacency="neighbour")


def test_no_noise_is_an_infinite_epsilon_with_the_reason():
    found = replace(SMALL, noise_multiplier=0.0).epsilon(delta=1e-5)
    assert math.isinf(found.upper)
    assert found.status is Status.INFINITE_MASS  # some sampled step shows the record with certainty


# warnings


def test_a_delta_of_one_record_or_more_is_named():
    with pytest.warns(PrivacyWarning, match="not below 1/dataset_size"):
        found = SMALL.epsilon(delta=1 / 6000)
    assert any("1/dataset_size" in note for note in found.notes)
    assert SMALL.epsilon(delta=1e-5).notes == ()
    assert any("1/dataset_size" in note for note in SMALL.delta(epsilon=0.1).notes)


def test_calibrating_for_such_a_delta_warns_too():
    with pytest.warns(PrivacyWarning):
        found = SMALL.calibrate(epsilon=1.0, delta=1e-3)
    assert found.notes


# what is left free


@pytest.mark.parametrize(
    ("target", "holds"),
    [
        ({"epsilon": 2.0, "delta": 1e-5}, lambda run: run.delta(epsilon=2.0).upper <= 1e-5),
        ({"advantage": 0.1}, lambda run: run.delta(epsilon=0.0).upper <= 0.1),
        (
            {"false_positive_rate": 0.1, "false_negative_rate": 0.8},
            lambda run: run.profile().trade_off(0.1).lower >= 0.8,
        ),
    ],
    ids=["epsilon", "advantage", "trade-off"],
)
def test_calibrated_noise_is_feasible_and_at_the_boundary(target, holds):
    found = SMALL.calibrate(**target)
    assert holds(replace(SMALL, noise_multiplier=found.value))
    assert not holds(replace(SMALL, noise_multiplier=found.value * (1 - 3e-9)))


def test_the_run_of_the_readme():
    found = MNIST.calibrate(epsilon=2.0, delta=1e-5)
    run = replace(MNIST, noise_multiplier=found.value)
    assert run.delta(epsilon=2.0).upper <= 1e-5 < run.delta(epsilon=2.0 - 1e-8).upper


def test_most_steps_after_a_prefix_are_the_most():
    after = 100 * PoissonSampled(Gaussian(0.9), 0.01)
    found = SMALL.most_steps(epsilon=1.5, delta=1e-5, after=after)

    def spent(steps):
        return PrivacyProfile(after + steps * SMALL.step).delta(epsilon=1.5).upper

    assert spent(found.value) <= 1e-5 < spent(found.value + 1)
    assert found.value < SMALL.most_steps(epsilon=1.5, delta=1e-5).value


def test_remaining_epochs_are_those_steps():
    steps = SMALL.most_steps(epsilon=1.5, delta=1e-5).value
    found = SMALL.remaining_epochs(epsilon=1.5, delta=1e-5)
    assert steps_of(found.value, 6000, 60) == steps
    assert found.infeasible > found.value


def test_a_prefix_that_spent_everything_leaves_nothing():
    before = 1000 * SMALL.step
    with pytest.raises(UnreachableTarget, match=r"epsilon <= 0\.1.*what came before spends 1\.8.* 0 epochs are left, that is 0 steps"):
        SMALL.remaining_epochs(epsilon=0.1, delta=1e-5, after=before)
    with pytest.raises(UnreachableTarget, match=r"what came before spends 0\.16.* on its own, so 0 steps are left"):
        SMALL.most_steps(advantage=0.1, after=before)
    with pytest.raises(UnreachableTarget, match=r"what came before spends 1\.8.* no noise is enough"):
        SMALL.calibrate(epsilon=0.1, delta=1e-5, after=before)
    with pytest.raises(UnreachableTarget, match=r"no batch is small enough"):
        SMALL.largest_batch(epsilon=0.1, delta=1e-5, after=before)


def test_a_first_step_that_is_too_much_leaves_nothing():
    with pytest.raises(UnreachableTarget, match=r"at 1, the best value tried, it is 1\.1.* 0 epochs are left, that is 0 steps"):
        SMALL.remaining_epochs(epsilon=0.01, delta=1e-9)


# the ends of a search


@pytest.mark.parametrize("delta", [1e-9, 1e-30, 1e-299])
def test_small_values_are_found(delta):
    found = calibrate(lambda d: ApproximateDP(0.5, d), epsilon=1.0, delta=delta)
    assert delta * (1 - 1e-9) <= found.value <= delta
    assert found.evaluations < 40


def test_a_feasible_end_of_the_range_is_the_answer():
    found = calibrate(lambda d: ApproximateDP(0.5, d), epsilon=1.0, delta=1e-9, bracket=(1e-9, 1.0))
    assert found.value == 1e-9
    assert found.achieved.upper <= 1.0


def test_a_target_of_no_delta_is_read_off_the_largest_loss():
    found = calibrate(lambda s: 3 * Laplace(s), epsilon=1.0, delta=0.0)
    assert found.value == pytest.approx(3.0, rel=1e-12)
    assert found.evaluations < 30
    assert calibrate(PureDP, epsilon=1.0, delta=0.0).value == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize(
    ("family", "target", "message"),
    [
        (Gaussian, {"advantage": 0.0}, r"at 1e\+12, the best value tried, it is 3\.98942e-13\.$"),
        (Gaussian, {"epsilon": 1.0, "delta": 0.0}, r"at 1e\+12, the best value tried, it is inf \(the privacy loss is unbounded"),
        (lambda q: 100 * PoissonSampled(Gaussian(1.0), q), {"advantage": 0.0}, r"at 0\.0001, the best value tried, it is 0\.000\d+\.$"),
        (lambda e: 10 * Gaussian(2.0) + PureDP(e), {"epsilon": 0.1, "delta": 1e-12}, r"the best value tried, it is 11\.99\d+\.$"),
    ],
    ids=["advantage", "delta", "sampling", "prefix"],
)
def test_what_cannot_be_reached_names_the_best_value_and_no_other(family, target, message):
    with pytest.raises(UnreachableTarget, match=message):
        calibrate(family, **target)


def test_of_steps_that_are_all_too_many_the_first_is_the_best():
    with pytest.raises(UnreachableTarget, match=r"at 1, the best value tried, it is 0\.00382925"):  # q (2 Phi(1/2) - 1)
        SMALL.most_steps(advantage=0.0)


@pytest.mark.parametrize("bracket", [(3.2, 3.8), (0.2, 0.8)])
def test_a_bracket_without_a_whole_number_is_echoed_as_given(bracket):
    with pytest.raises(ValueError, match=rf"bracket.*got \({bracket[0]}, {bracket[1]}\)"):
        calibrate(lambda t: t * Gaussian(10.0), epsilon=1.0, delta=1e-5, integer=True, bracket=bracket)


@pytest.mark.parametrize("length", [{"epochs": 3, "steps": None}, {"epochs": None, "steps": 300}])
def test_the_next_larger_batch_fails(length):
    run = replace(SMALL, **length)
    found = run.largest_batch(epsilon=1.0, delta=1e-5)

    def spent(batch):
        steps = None if length["steps"] is None else 300
        return replace(run, batch_size=batch, steps=steps).delta(epsilon=1.0).upper

    assert spent(found.value) <= 1e-5 < spent(found.value + 1)


def test_a_batch_target_that_always_holds_gives_the_whole_data():
    run = TrainingRun(dataset_size=8, batch_size=1, steps=1, noise_multiplier=50.0)
    assert run.largest_batch(epsilon=5.0, delta=1e-5).value == 8


# refusals


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"epochs": None, "steps": None}, TypeError, "exactly one"),
        ({"epochs": 3, "steps": 299}, ValueError, r"steps=.*must be 300"),
        ({"epochs": 0, "steps": None}, ValueError, "epochs"),
        ({"epochs": -1.0, "steps": None}, ValueError, "epochs"),
        ({"epochs": Fraction(0), "steps": None}, ValueError, "epochs"),
        ({"epochs": math.nan, "steps": None}, ValueError, "epochs"),
        ({"epochs": math.inf, "steps": None}, ValueError, "epochs"),
        ({"epochs": "3", "steps": None}, TypeError, "epochs"),
        ({"epochs": True, "steps": None}, TypeError, "epochs"),
        ({"dataset_size": 0}, ValueError, "dataset_size"),
        ({"dataset_size": 6000.5}, ValueError, "dataset_size"),
        ({"batch_size": 0}, ValueError, "batch_size"),
        ({"batch_size": "60"}, TypeError, "batch_size"),
        ({"accumulation": 0}, ValueError, "accumulation"),
        ({"noise_multiplier": -1.0}, ValueError, "noise_multiplier"),
        ({"noise_multiplier": math.nan}, ValueError, "noise_multiplier"),
        ({"noise_multiplier": "1"}, TypeError, "noise_multiplier"),
        ({"sampler": None}, TypeError, "sampler"),
        ({"steps": 0, "epochs": None}, ValueError, "steps"),
    ],
)
def test_bad_input_is_refused_in_the_one_shape(change, kind, message):
    with pytest.raises(kind, match=message) as caught:
        replace(SMALL, **change)
    assert str(caught.value).startswith("`")


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: SMALL.epsilon("x"), r"`TrainingRun.epsilon\(delta=...\)` must be in \[0, 1\]; got 'x'"),
        (lambda: SMALL.delta("x"), r"`TrainingRun.delta\(epsilon=...\)`.*got 'x'"),
        (lambda: SMALL.per_epoch("x"), r"`TrainingRun.per_epoch\(delta=...\)`.*got 'x'"),
        (lambda: SMALL.per_epoch([1e-5, 1e-6]), r"`TrainingRun.per_epoch\(delta=...\)` must be a single number"),
        (lambda: SMALL.notes("x"), r"`TrainingRun.notes\(delta=...\)`.*got 'x'"),
        (lambda: SMALL.epochs_of("x"), r"`TrainingRun.epochs_of\(steps=...\)`.*got 'x'"),
        (lambda: steps_of(1, "a", 3), r"`steps_of\(dataset_size=...\)`.*got 'a'"),
        (lambda: privacy_statement(SMALL, delta=[1e-5, 1e-6]), r"`privacy_statement\(delta=...\)` must be a single number"),
        (lambda: privacy_statement(SMALL, epsilon="x"), r"`privacy_statement\(epsilon=...\)`.*got 'x'"),
        (lambda: SMALL.calibrate(after=5, epsilon=1.0, delta=1e-5), r"`TrainingRun\(after=...\)` must be a guarantee.*got 5"),
        (lambda: SMALL.most_steps(after=SMALL, epsilon=1.0, delta=1e-5), r"`TrainingRun\(after=...\)`.*pass its `guarantee`"),
        (
            lambda: SMALL.calibrate(epsilon=[1, 2, 4], delta=1e-7),
            r"single number; got \[1, 2, 4\].*\[run.calibrate\(epsilon=x, ...\) for x in epsilons\]",
        ),
        (lambda: SMALL.calibrate(advantage=np.array([0.1])), r"\[run.calibrate\(advantage=x, ...\) for x in advantages\]"),
    ],
)
def test_bad_questions_are_refused_in_the_one_shape(ask, message):
    with pytest.raises(TypeError, match=message):
        ask()


def test_a_run_without_noise_multiplier_answers_nothing():
    with pytest.raises(TypeError, match=r"`TrainingRun\(noise_multiplier=...\)`.*calibrate"):
        MNIST.epsilon(delta=1e-5)
    with pytest.raises(TypeError, match="noise_multiplier"):
        _ = MNIST.guarantee


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 50), st.floats(0.5, 5.0))
def test_a_copy_with_another_noise_keeps_the_length(epochs, noise):
    run = replace(TrainingRun(dataset_size=100, batch_size=7, epochs=epochs), noise_multiplier=noise)
    assert run.steps == steps_of(epochs, 100, 7)
    assert run.noise_multiplier == noise
