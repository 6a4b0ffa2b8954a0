"""How other programs failed in public, as tests: each is named for the kind of fault it guards against (more in `test_cases_of_runs`).

The numbers were computed independently (closed forms in 60 digits, contour integrals checked in 40, PLD brackets); the
public report behind each is cited. "tight upper bound": `upper` is not below the true value by more than `below`,
nor above it by more than `above`. "safe calibration": never below the true least noise.
"""

from __future__ import annotations

import pytest

from dpaccount import serial
from dpaccount.calibration import calibrate
from dpaccount.conversions import renyi_epsilon
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.pair import DominatingPair
from dpaccount.renyi import RenyiBound
from dpaccount.results import Status
from dpaccount.sampling.poisson import PoissonSampled
from dpaccount.training import TrainingRun


def run(sigma: float, q: float, steps: int) -> DominatingPair:
    """A Poisson-sampled Gaussian, composed."""
    return steps * PoissonSampled(Gaussian(sigma), q)


def epsilon_of(sigma: float, q: float, steps: int, delta: float) -> float:
    return float(PrivacyProfile(run(sigma, q, steps)).epsilon(delta=delta))


def assert_tight(found: object, value: float, *, below: float = 1e-6, above: float = 0.0, above_rel: float = 0.0) -> None:
    upper = float(found)  # type: ignore[arg-type]
    assert value - below <= upper <= value + above + above_rel * abs(value), (upper, value)


def assert_safe(found: object, value: float, *, below_rel: float, above_rel: float) -> None:
    noise = float(found)  # type: ignore[arg-type]
    assert value * (1 - below_rel) <= noise <= value * (1 + above_rel), (noise, value)


# BR-101, microsoft/prv_accountant #17


@pytest.mark.parametrize(
    ("q", "delta", "epsilon"),
    [(3.3e-4, 1.1e-18, 0.0672136141), (3.3e-4, 1.13e-18, 0.0671854458), (3.8e-4, 1.11e-18, 0.0775623637)],
)
def test_delta_below_the_noise_floor_of_a_plain_fft(q: float, delta: float, epsilon: float) -> None:
    assert_tight(epsilon_of(4.0, q, 10_000, delta), epsilon, below=1e-7, above=5e-4)


def test_epsilon_does_not_rise_with_delta_below_the_noise_floor() -> None:
    profile = PrivacyProfile(run(4.0, 3.3e-4, 10_000))
    assert float(profile.epsilon(delta=1.1e-18)) >= float(profile.epsilon(delta=1.13e-18))


def test_the_larger_direction_decides_at_tiny_delta() -> None:
    """Remove is the larger one: .0672136 against .0658228 for add."""
    add = PrivacyProfile(run(4.0, 3.3e-4, 10_000).reversed(), "as-written").epsilon(delta=1.1e-18)
    assert_tight(add, 0.0658228356, below=1e-7, above=5e-4)


# BR-102, microsoft/prv_accountant #42


def test_loss_range_wide_for_moderate_noise_and_large_q() -> None:
    found = PrivacyProfile(run(1.0, 0.2, 10)).epsilon(delta=1e-5)
    assert_tight(found, 4.9842133987, above_rel=0.005)
    assert_tight(epsilon_of(1.0, 0.2, 500, 1e-5), 38.1702472065, above_rel=0.005)


def test_an_object_sized_for_more_steps_answers_for_fewer() -> None:
    long = PrivacyProfile(run(1.0, 0.2, 500))
    long.epsilon(delta=1e-5)
    assert_tight(PrivacyProfile(run(1.0, 0.2, 10)).epsilon(delta=1e-5), 4.9842133987, above_rel=0.005)


# BR-103, meta-pytorch/opacus #643


def test_no_central_limit_value_is_sold_as_a_bound() -> None:
    found = PrivacyProfile(run(3.0, 0.2, 50)).epsilon(delta=1 / 48000)
    assert_tight(found, 1.960811339, above_rel=0.005)
    assert found.upper >= 1.9608113  # the central-limit value is 1.838
    for method in ("line", "lattice"):
        assert PrivacyProfile(run(3.0, 0.2, 50), method=method).epsilon(delta=1 / 48000).upper >= 1.9608113
    for conversion in ("mironov", "improved", "optimal"):
        bound = RenyiBound.zcdp(0.0) + run(3.0, 0.2, 50)
        assert PrivacyProfile(bound, conversion=conversion).epsilon(delta=1 / 48000).upper >= 1.9608113


# BR-104, meta-pytorch/opacus #585 and #844, opendp/opendp #621


def test_epsilon_is_never_negative_when_delta_is_large() -> None:
    profile = PrivacyProfile(run(10.0, 0.01, 100))
    found = profile.epsilon(delta=0.1)
    assert (found.lower, found.estimate, found.upper) == (0.0, 0.0, 0.0)
    assert_tight(profile.delta(epsilon=0.0), 0.0039989845, below=1e-9, above_rel=1e-3)
    assert PrivacyProfile(Gaussian(1.0)).epsilon(delta=0.9).upper == 0.0


@pytest.mark.parametrize(("rho", "delta"), [(0.01, 0.1), (0.5, 0.9)])
@pytest.mark.parametrize("conversion", ["mironov", "improved", "optimal"])
def test_converted_epsilon_is_never_negative(rho: float, delta: float, conversion: str) -> None:
    found = PrivacyProfile(RenyiBound.zcdp(rho), conversion=conversion).epsilon(delta=delta)
    assert found.lower == 0.0 <= found.estimate
    if conversion == "improved":  # mironov stays positive here: rho + 2 sqrt(rho log(1/delta))
        assert found.upper == 0.0


def test_epsilon_at_moderate_delta_beside_the_clamp() -> None:
    assert_tight(PrivacyProfile(RenyiBound.zcdp(0.5)).epsilon(delta=0.35), 0.656079834957, below=1e-9, above=1e-6)
    exact = PrivacyProfile(Gaussian(1.0)).epsilon(delta=0.35)
    assert exact.estimate == pytest.approx(0.107677779499, abs=1e-9)


# BR-105, meta-pytorch/opacus #74, google-deepmind/jax_privacy #287


def test_sampling_probability_one_is_the_plain_gaussian() -> None:
    assert epsilon_of(2.0, 1.0, 100, 1e-6) == pytest.approx(35.5663437141, rel=1e-9)
    assert epsilon_of(2.0, 1.0, 100, 1e-6) == PrivacyProfile(100 * Gaussian(2.0)).epsilon(delta=1e-6).upper


def test_sampling_probability_next_to_one() -> None:
    assert_tight(epsilon_of(2.0, 0.999999999999, 100, 1e-6), 35.5663437141, above_rel=0.005)


def test_sampling_probability_zero_costs_nothing() -> None:
    assert epsilon_of(2.0, 0.0, 100, 1e-6) == 0.0
    assert PrivacyProfile(run(2.0, 0.0, 100)).delta(epsilon=0.0).upper == 0.0


def test_batch_larger_than_the_data_set_is_refused() -> None:
    with pytest.raises(ValueError, match=r"batch_size.*100.*128.*1\.28"):
        TrainingRun(dataset_size=100, batch_size=128, steps=10, noise_multiplier=2.0)


def test_accumulation_enters_the_sampling_probability() -> None:
    """q is 80/1000; the physical batch's 10/1000 would claim .718."""
    logical = TrainingRun(dataset_size=1000, batch_size=10, accumulation=8, steps=100, noise_multiplier=1.0)
    assert logical.sampling_probability == 0.08
    assert_tight(logical.epsilon(delta=1e-5), 5.6134186259, above_rel=0.005)
    assert_tight(epsilon_of(1.0, 0.01, 100, 1e-5), 0.7180356613, above_rel=0.005)


# BR-106, meta-pytorch/opacus #535 and #541

PHASES = (run(1.0, 0.01, 500), run(2.0, 0.02, 500))
TWO_PHASES = 1.8787693888


def test_every_phase_is_charged_in_any_order() -> None:
    first, second = (
        PrivacyProfile(total).epsilon(delta=1e-6) for total in (PHASES[0] + PHASES[1], PHASES[1] + PHASES[0])
    )
    assert_tight(first, TWO_PHASES, above_rel=0.005)
    assert first.estimate == pytest.approx(second.estimate, abs=1e-9)
    assert first.upper == pytest.approx(second.upper, abs=1e-9)


def test_asking_does_not_change_the_answer() -> None:
    profile = PrivacyProfile(PHASES[0] + PHASES[1])
    first, second = profile.epsilon(delta=1e-6), profile.epsilon(delta=1e-6)
    profile.delta(epsilon=1.0)
    third = profile.epsilon(delta=1e-6)
    for again in (second, third):
        assert (again.lower, again.estimate, again.upper) == (first.lower, first.estimate, first.upper)


def test_state_saved_between_phases_and_loaded() -> None:
    loaded = serial.from_json(serial.to_json(PHASES[0]))
    found = PrivacyProfile(loaded + PHASES[1]).epsilon(delta=1e-6)  # type: ignore[operator]
    assert found.estimate == pytest.approx(PrivacyProfile(PHASES[0] + PHASES[1]).epsilon(delta=1e-6).estimate, abs=1e-9)


def test_one_entry_a_step_is_one_entry_of_many() -> None:
    total: DominatingPair = run(1.0, 0.01, 1)
    for _ in range(499):
        total = total + run(1.0, 0.01, 1)
    assert total == PHASES[0]
    found = PrivacyProfile(total + PHASES[1]).epsilon(delta=1e-6)
    assert_tight(found, TWO_PHASES, above_rel=0.005)


# BR-107, yuxiangw/autodp #39


@pytest.mark.parametrize(
    ("epsilon", "sigma"),
    [
        (1, 4.224678889326835), (10, 0.541086831818366), (50, 0.15659287039176195), (100, 0.0978372239744411),
        (500, 0.036692644486518634), (1000, 0.02485036668694772),
    ],
)
def test_gaussian_noise_for_epsilon_up_to_a_thousand(epsilon: float, sigma: float) -> None:
    assert_safe(calibrate(Gaussian, epsilon=epsilon, delta=1e-6), sigma, below_rel=1e-12, above_rel=1e-6)


def test_swapped_arguments_are_stopped_by_keywords() -> None:
    profile = PrivacyProfile(Gaussian(1.0))
    assert profile.delta(epsilon=4.22467888932683528).estimate == pytest.approx(1.9012772482561347e-05, rel=1e-9)
    with pytest.raises(TypeError):
        calibrate(Gaussian, 1.0, 1e-6)  # type: ignore[misc]


# BR-108, google/differential-privacy #430


@pytest.mark.parametrize(
    ("mu", "epsilon", "delta"),
    [(40.0, 900.0, 0.005797462683011425), (50.0, 1500.0, 2.5962923508245377e-07), (20.0, 400.0, 5.057827219465741e-24)],
)
def test_gaussian_delta_where_exp_epsilon_overflows(mu: float, epsilon: float, delta: float) -> None:
    assert PrivacyProfile(Gaussian(1 / mu)).delta(epsilon=epsilon).estimate == pytest.approx(delta, rel=1e-9, abs=0)


@pytest.mark.parametrize(
    ("mu", "delta", "epsilon"),
    [(50.0, 1e-10, 1567.1258274830273), (1.0, 1e-30, 11.743883025231737), (1.0, 1e-300, 37.44884791213911)],
)
def test_gaussian_epsilon_in_the_far_tail(mu: float, delta: float, epsilon: float) -> None:
    assert PrivacyProfile(Gaussian(1 / mu)).epsilon(delta=delta).estimate == pytest.approx(epsilon, rel=1e-9)


# BR-109, opendp/smartnoise-sdk #462, uvm-plaid/programming-dp #45


@pytest.mark.parametrize(
    ("epsilon", "delta", "sigma"),
    [
        (5, 1e-5, 0.891868264951518), (8, 1e-5, 0.6002290721989516), (10, 1e-5, 0.4998886197090085),
        (20, 1e-5, 0.2900414180327958), (10, 0.01, 0.3500966862482321),
    ],
)
def test_noise_past_the_range_of_the_textbook_formula(epsilon: float, delta: float, sigma: float) -> None:
    assert_safe(calibrate(Gaussian, epsilon=epsilon, delta=delta), sigma, below_rel=1e-12, above_rel=1e-6)


def test_what_the_textbook_sigma_really_gives() -> None:
    found = PrivacyProfile(Gaussian(0.24224026313026947)).delta(epsilon=20.0)
    assert found.estimate == pytest.approx(0.0015266946955248563, rel=1e-9)


# BR-110, tensorflow/privacy #166


def test_zero_epsilon_is_exact_where_delta_exceeds_the_total_variation() -> None:
    profile = PrivacyProfile(run(1.0, 0.00105, 1))
    assert profile.epsilon(delta=1e-3).upper == 0.0
    assert profile.delta(epsilon=0.0).estimate == pytest.approx(0.0004020711686754, rel=1e-6)
    assert_tight(profile.epsilon(delta=1e-5), 0.0097761982228302, below=1e-8, above_rel=1e-3)


def test_an_order_next_to_one_does_not_undercut_the_truth() -> None:
    step = PrivacyProfile(run(1.0, 0.00105, 1))
    orders = [1 + 1e-8, *(round(1.1 + 0.1 * i, 1) for i in range(99)), *range(12, 64)]
    table = RenyiBound.from_table(orders, step.renyi(order=orders).upper)
    for conversion in ("mironov", "improved", "optimal"):
        assert PrivacyProfile(table, conversion=conversion).epsilon(delta=1e-5).upper >= 0.0097761982


@pytest.mark.parametrize(
    ("order", "value", "relative"),
    [(1 + 1e-8, 9.44548013685e-07, 1e-3), (1.5, 1.41880657919136e-06, 1e-6), (32.0, 8.9197779460336, 1e-9)],
)
def test_renyi_divergence_next_to_one_does_not_cancel(order: float, value: float, relative: float) -> None:
    remove = PrivacyProfile(run(1.0, 0.00105, 1), "as-written").renyi(order=order)
    assert remove.estimate == pytest.approx(value, rel=relative)


# BR-111, meta-pytorch/opacus #233 and #49


def test_exact_epsilon_of_a_weak_mechanism() -> None:
    found = PrivacyProfile(Gaussian(100.0)).epsilon(delta=1e-9)
    assert found.estimate == pytest.approx(0.0488663930157033, rel=1e-9)


@pytest.mark.parametrize(
    ("sigma", "delta", "epsilon", "exact", "order"),
    [
        (100.0, 1e-9, 0.0519211031747817, 0.0488663930157033, 538.305),
        (1000.0, 1e-12, 0.00598716377013076, 0.00569954646842628, 6150.27),
        (0.1, 1e-5, 96.0352706751732, 91.8172896246637, 1.47173),
        (1.0, 1e-5, 4.72838698494331, 4.37717809568122, 5.43185),
    ],
)
def test_orders_are_free_and_real(sigma: float, delta: float, epsilon: float, exact: float, order: float) -> None:
    bound = RenyiBound.zcdp(1 / (2 * sigma**2))
    assert_tight(PrivacyProfile(bound).epsilon(delta=delta), epsilon, below=1e-9 * epsilon, above_rel=0.02)
    assert renyi_epsilon(bound.rdp, delta).order == pytest.approx(order, rel=2e-5)
    tighter = PrivacyProfile(bound, conversion="optimal").epsilon(delta=delta).upper
    assert exact <= tighter <= epsilon * (1 + 1e-9)


def test_order_one_is_refused_or_the_divergence() -> None:
    with pytest.raises(ValueError, match=r"order.*> 1.*got 1\.0"):
        PrivacyProfile(Gaussian(2.0)).renyi(order=1.0)


def test_the_end_of_an_order_grid_is_reported() -> None:
    orders = [*(round(1.1 + 0.1 * i, 1) for i in range(99)), *range(12, 64)]
    short = RenyiBound.from_table(orders, [a / (2 * 100.0**2) for a in orders])
    found = PrivacyProfile(short).epsilon(delta=1e-9)
    assert found.status is Status.ORDER_GRID_END
    assert found.upper == pytest.approx(0.2546, abs=5e-5)
    from_the_left = RenyiBound.from_table([20.0, 30.0, 40.0], [a / (2 * 0.1**2) for a in (20.0, 30.0, 40.0)])
    low = PrivacyProfile(from_the_left).epsilon(delta=1e-5)
    assert low.status is Status.ORDER_GRID_END
    assert low.upper >= 91.8172896246637
