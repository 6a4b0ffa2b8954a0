"""Check values of the theory, to 1e-12 relative; `references/make_values.py` recomputes them at 50 digits.

The digits below were copied from the project's mathematical notes (sections 1 and 2) before any code existed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from mpmath import mp, mpf
from references import make_values

from dpaccount.curves.profile import PrivacyProfile
from dpaccount.engines import auto
from dpaccount.mechanisms.finite import FinitePair
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.mechanisms.laplace import Laplace
from dpaccount.mechanisms.pure import PureDP
from dpaccount.renyi import RenyiBound
from dpaccount.sampling.fixed_size import FixedSizeSampled
from dpaccount.sampling.poisson import PoissonSampled

RELATIVE = 1e-12  # the accuracy asked of every closed form

COPIED = {
    "gaussian delta(1; mu=1)": "0.126936737506643946",
    "gaussian delta(0; mu=1)": "0.382924922548026207",
    "gaussian delta(-1; mu=1)": "0.678817974886627916",
    "gaussian delta(50; mu=10)": "0.460493305898613997",
    "gaussian delta(1e-12; mu=1e-9)": "3.98442479872755477e-10",
    "gaussian delta(3; mu=0.1)": "7.30480610175430978e-200",
    "gaussian sigma(1, 1e-5)": "3.73063163481594183",
    "gaussian sigma(0.1, 1e-6)": "36.3046904261957849",
    "gaussian sigma(8, 1e-5)": "0.600229072198951559",
    "gaussian eps(mu=1, 1e-5)": "4.37717809568122463",
    "G_1(0.05)": "0.740488977158555929",
    "G_2(1e-6)": "0.997051229713546282",
    "finite T(P||Q)(.05)": "0.6",
    "finite crossed": "0.75",
    "laplace delta(0.5; r=1)": "0.221199216928595132",
    "mironov eps(mu=1, 1e-5)": "5.29852591218808121",
    "improved eps(mu=1, 1e-5)": "4.7283869849433139",
}
FAR = "1.41281395705096985e-2179"  # gaussian delta(0.1; mu=0.001)


@pytest.fixture(scope="module")
def exact() -> dict[str, mpf]:
    """Everything recomputed at 50 digits."""
    return make_values.values()


@pytest.mark.parametrize("name", COPIED)
def test_copied_digits_are_right(name: str, exact: dict[str, mpf]) -> None:
    digits = len(COPIED[name].split("e")[0].replace(".", "").lstrip("0"))
    unit = mpf(10) ** -(digits - 1)
    assert digits < 3 or abs(mpf(COPIED[name]) / exact[name] - 1) < unit
    assert digits >= 3 or abs(mpf(COPIED[name]) - exact[name]) < mpf(10) ** -40


def test_copied_log_and_joint_range_digits_are_right(exact: dict[str, mpf]) -> None:
    assert abs(mp.log(mpf(FAR)) - exact["gaussian log delta(0.1; mu=0.001)"]) < mpf("1e-17")
    # the notes end in ...849; the recomputed value is ...84768: their fifteenth digit is one too large
    assert abs(exact["optimal eps(mu=1, 1e-5)"] - mpf("4.72838564863848")) < mpf("5e-15")


def assert_close(found: float, wanted: mpf | str, relative: float = RELATIVE) -> None:
    """Relative error in 50 digits, so that the comparison itself rounds nothing."""
    assert abs(mpf(float(found)) / mpf(wanted) - 1) <= relative, (float(found), mp.nstr(mpf(wanted), 18))


def delta_of(mu: float, epsilon: float) -> float:
    return PrivacyProfile(Gaussian(1 / mu)).delta(epsilon=epsilon).estimate


CLOSED: dict[str, Callable[[], float]] = {
    "gaussian delta(1; mu=1)": lambda: delta_of(1, 1.0),
    "gaussian delta(0; mu=1)": lambda: delta_of(1, 0.0),
    "gaussian delta(-1; mu=1)": lambda: delta_of(1, -1.0),
    "gaussian delta(50; mu=10)": lambda: delta_of(10, 50.0),
    "gaussian delta(1e-12; mu=1e-9)": lambda: delta_of(1e-9, 1e-12),
    "gaussian eps(mu=1, 1e-5)": lambda: PrivacyProfile(Gaussian(1.0)).epsilon(delta=1e-5).estimate,
    "G_1(0.05)": lambda: PrivacyProfile(Gaussian(1.0)).trade_off(0.05).estimate,
    "G_2(1e-6)": lambda: PrivacyProfile(Gaussian(0.5)).trade_off(1e-6).estimate,
    "laplace delta(0.5; r=1)": lambda: PrivacyProfile(Laplace(1.0)).delta(epsilon=0.5).estimate,
    "laplace renyi(3; r=1)": lambda: PrivacyProfile(Laplace(1.0)).renyi(order=3).estimate,
    "pure delta(0.5; eps=1)": lambda: PrivacyProfile(PureDP(1.0)).delta(epsilon=0.5).estimate,
    "pure delta(-0.5; eps=1)": lambda: PrivacyProfile(PureDP(1.0)).delta(epsilon=-0.5).estimate,
    "mironov eps(mu=1, 1e-5)": lambda: converted("mironov"),
    "improved eps(mu=1, 1e-5)": lambda: converted("improved"),
    "sampled gaussian remove": lambda: one_sampled(0.5, add=False),
    "sampled gaussian add": lambda: one_sampled(0.05, add=True),
    "sampled gaussian remove below": lambda: one_sampled(-0.05, add=False),
    "fixed size true, gamma=.7": lambda: PrivacyProfile(
        FixedSizeSampled(Gaussian(0.8), 10, 100), "replace-one"
    ).delta(epsilon=np.log(0.7)).estimate,
}


def converted(conversion: str) -> float:
    return PrivacyProfile(RenyiBound.zcdp(0.5), conversion=conversion).epsilon(delta=1e-5).estimate


def one_sampled(epsilon: float, *, add: bool) -> float:
    step = PoissonSampled(Gaussian(0.8), 0.1)
    return float(np.exp(auto.log_delta(step.reversed() if add else step, epsilon).estimate))


@pytest.mark.parametrize("name", CLOSED)
def test_closed_values(name: str, exact: dict[str, mpf]) -> None:
    assert_close(CLOSED[name](), exact[name])


def test_gaussian_tail_keeps_its_digits(exact: dict[str, mpf]) -> None:
    """delta = 7.3e-200: noise multiplier 10 is mu = 0.1 exactly as written, so its own rounding does not enter."""
    assert_close(delta_of(0.1, 3.0), exact["gaussian delta(3; mu=0.1)"])


def test_gaussian_log_delta_survives_underflow(exact: dict[str, mpf]) -> None:
    answer = PrivacyProfile(Gaussian(1000.0)).log_delta(epsilon=0.1)
    assert_close(answer.estimate, exact["gaussian log delta(0.1; mu=0.001)"])
    assert PrivacyProfile(Gaussian(1000.0)).delta(epsilon=0.1).upper < 1e-300


@pytest.mark.parametrize(
    ("name", "epsilon", "delta"),
    [("gaussian sigma(1, 1e-5)", 1.0, 1e-5), ("gaussian sigma(0.1, 1e-6)", 0.1, 1e-6), ("gaussian sigma(8, 1e-5)", 8.0, 1e-5)],
)
def test_gaussian_sigma(name: str, epsilon: float, delta: float, exact: dict[str, mpf]) -> None:
    from dpaccount.calibration import calibrate

    found = calibrate(Gaussian, epsilon=epsilon, delta=delta)
    assert_close(float(found), exact[name])


def test_improved_conversion_names_its_order() -> None:
    """The best orders, 5.7985 and 5.4318, printed to four digits in the notes."""
    from dpaccount.conversions import renyi_epsilon

    rdp = RenyiBound.zcdp(0.5).rdp
    assert renyi_epsilon(rdp, 1e-5, "mironov").order == pytest.approx(5.7985, abs=6e-5)
    assert renyi_epsilon(rdp, 1e-5, "improved").order == pytest.approx(5.4318, abs=6e-5)


def test_optimal_conversion(exact: dict[str, mpf]) -> None:
    assert_close(converted("optimal"), exact["optimal eps(mu=1, 1e-5)"])


def test_conversion_by_closed_form_proposition() -> None:
    """D_a <= r a gives delta = exp(-(eps - r)^2/(4 r)) by `mironov`, for eps > r."""
    r, epsilon = 0.3, 2.1
    found = PrivacyProfile(RenyiBound.zcdp(r), conversion="mironov").log_delta(epsilon=epsilon)
    assert found.estimate == pytest.approx(-((epsilon - r) ** 2) / (4 * r), rel=RELATIVE)


def test_trade_off_of_an_asymmetric_pair_is_not_crossed() -> None:
    """T(P||Q)(.05) is .6; pairing it with H(P||Q) instead of H(Q||P) would give .75."""
    pair = FinitePair((0.5, 0.3, 0.15, 0.05), (0.1, 0.2, 0.3, 0.4))
    assert PrivacyProfile(pair, "as-written").trade_off(0.05).estimate == pytest.approx(0.6, rel=RELATIVE)
    assert PrivacyProfile(pair.reversed(), "as-written").trade_off(0.05).estimate == pytest.approx(0.75, rel=RELATIVE)


def test_gaussian_composition_is_a_root_of_sums() -> None:
    """mu-GDP composes as sqrt(sum mu^2): 9 steps at noise 3 are one at noise 1, and 3, 4 make 5."""
    nine = PrivacyProfile(9 * Gaussian(3.0)).delta(epsilon=1.0).estimate
    assert_close(nine, make_values.gaussian_delta("1", "1"))
    mixed = PrivacyProfile(Gaussian(1 / 3) + Gaussian(1 / 4)).delta(epsilon=2.0).estimate
    assert_close(mixed, make_values.gaussian_delta("2", "5"))


def test_amplified_pure_epsilon() -> None:
    from dpaccount.sampling.poisson import amplified

    assert_close(amplified(1.0, 0.01), mp.log(1 + mpf(0.01) * (mp.e - 1)))


def test_fixed_size_wrong_side_is_smaller(exact: dict[str, mpf]) -> None:
    """Composing (mixture, base) alone is not valid: at gamma = .7 it says .300 where .340 is true."""
    assert_close(exact["fixed size wrong side, gamma=.7"], "0.3", 1e-15)
    assert abs(exact["fixed size true, gamma=.7"] - mpf("0.340")) < mpf("5e-4")
