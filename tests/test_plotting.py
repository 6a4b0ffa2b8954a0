"""Curves on a user's axes, and their tidy export."""

from __future__ import annotations

import csv

import matplotlib as mpl
import numpy as np
import pytest
from numpy.testing import assert_allclose

from dpaccount import Gaussian, PoissonSampled, PrivacyProfile, PureDP, RenyiBound
from dpaccount.plotting import plot_profile, plot_renyi, plot_trade_off, tidy

mpl.use("agg")
from matplotlib import pyplot as plt

GAUSSIAN = PrivacyProfile(Gaussian(2.0))
SAMPLED = PrivacyProfile(100 * PoissonSampled(Gaussian(1.0), 0.01))


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def _line(ax, index=0):
    return np.asarray(ax.lines[index].get_xdata()), np.asarray(ax.lines[index].get_ydata())


def test_the_line_is_the_estimate():
    epsilon = np.array([0.5, 1.0, 2.0])
    x, y = _line(plot_profile(SAMPLED, epsilon))
    assert_allclose(x, epsilon)
    assert_allclose(y, SAMPLED.delta(epsilon).estimate, rtol=1e-15)


def test_the_band_is_the_bracket():
    profile = PrivacyProfile(Gaussian(2.0), method="lattice")
    epsilon = np.array([0.5, 1.0])
    ax = plot_profile(profile, epsilon)
    corners = ax.collections[0].get_paths()[0].vertices
    answer = profile.delta(epsilon)
    for bound in (answer.lower, answer.upper):
        for value in bound:
            assert np.isclose(corners[:, 1], value, rtol=1e-12).any()


@pytest.mark.parametrize("plot", [plot_profile, plot_trade_off, plot_renyi])
def test_a_users_axes_are_used_and_their_labels_kept(plot):
    _, mine = plt.subplots()
    mine.set_xlabel("my words")
    assert plot(GAUSSIAN, ax=mine, label="run", color="C3", linewidth=2.5) is mine
    assert mine.get_xlabel() == "my words"
    assert mine.get_ylabel()
    line = mine.lines[0]
    assert (line.get_label(), line.get_color(), line.get_linewidth()) == ("run", "C3", 2.5)
    assert len(plt.get_fignums()) == 1


@pytest.mark.parametrize("plot", [plot_profile, plot_trade_off, plot_renyi])
def test_new_axes_are_made_when_none_are_given(plot):
    ax = plot(GAUSSIAN)
    assert ax.get_xlabel()
    assert ax.get_ylabel()
    assert np.isfinite(_line(ax)[1]).all()


def test_scales_fit_the_curve():
    assert plot_profile(GAUSSIAN).get_yscale() == "log"
    assert plot_profile(GAUSSIAN, log=False).get_yscale() == "linear"
    assert plot_trade_off(GAUSSIAN).get_xscale() == "linear"
    logarithmic = plot_trade_off(GAUSSIAN, log=True)
    assert (logarithmic.get_xscale(), logarithmic.get_yscale()) == ("log", "log")
    assert plot_renyi(GAUSSIAN).get_xscale() == "log"


def test_the_default_privacy_curve_ends_where_delta_is_small():
    x, y = _line(plot_profile(GAUSSIAN))
    assert x[0] == 0.0
    assert_allclose(y[-1], 1e-10, rtol=1e-6)


def test_a_lower_bound_of_zero_does_not_stretch_a_log_axis():
    profile = PrivacyProfile(RenyiBound.zcdp(0.125))
    ax = plot_profile(profile, np.linspace(0.5, 3.0, 6))
    least = profile.delta(3.0).upper
    assert ax.get_ylim()[0] > least / 100
    assert len(ax.collections) == 1


def test_zeros_and_infinities_are_gaps_not_warnings():
    _, y = _line(plot_profile(PrivacyProfile(PureDP(1.0)), np.array([0.5, 1.0, 1.5])))
    assert np.isfinite(y).tolist() == [True, False, False]
    _, y = _line(plot_renyi(PrivacyProfile(Gaussian(0.0)), np.array([2.0, 4.0])))
    assert np.isnan(y).all()


def test_no_band_on_request():
    assert not plot_profile(GAUSSIAN, band=False).collections


@pytest.mark.parametrize(
    ("argument", "values", "quantity"),
    [
        ("epsilon", [0.5, 1.0], "delta"),
        ("delta", [1e-6, 1e-5], "epsilon"),
        ("false_positive_rate", [0.01, 0.5], "false_negative_rate"),
        ("order", [2.0, 8.0], "renyi_divergence"),
    ],
)
def test_tidy_exports_each_curve_point_by_point(argument, values, quantity):
    columns = tidy(SAMPLED, **{argument: values})
    assert columns[argument] == values
    assert columns["quantity"] == [quantity] * 2
    assert columns["adjacency"] == ["add-or-remove"] * 2
    ask = {"epsilon": SAMPLED.delta, "delta": SAMPLED.epsilon, "order": SAMPLED.renyi}.get(argument, SAMPLED.trade_off())
    for i, value in enumerate(values):
        answer = ask(value)
        assert columns["lower"][i] == answer.lower <= columns["estimate"][i] <= columns["upper"][i] == answer.upper


def test_csv_round_trips_every_digit(tmp_path):
    path = tmp_path / "curve.csv"
    columns = tidy(SAMPLED, epsilon=np.array([0.5, 1.0, 2.0]), path=path)
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(columns)
    for key in ("epsilon", "lower", "estimate", "upper"):
        assert [float(row[key]) for row in rows] == columns[key]
    assert [row["certified"] for row in rows] == [str(v) for v in columns["certified"]]


def test_tidy_takes_one_argument():
    with pytest.raises(TypeError, match=r"`tidy\(epsilon=\.\.\.\)` must be exactly one of"):
        tidy(GAUSSIAN)
    with pytest.raises(TypeError, match="exactly one of"):
        tidy(GAUSSIAN, epsilon=1.0, order=2.0)


@pytest.mark.parametrize("plot", [plot_profile, plot_trade_off, plot_renyi])
def test_bad_input_is_refused_by_name(plot):
    with pytest.raises(TypeError, match=rf"`{plot.__name__}\(profile=\.\.\.\)` must be a PrivacyProfile"):
        plot(Gaussian(1.0))
    with pytest.raises(ValueError, match=r"non-empty array"):
        plot(GAUSSIAN, np.zeros((2, 2)) + 2.0)
    with pytest.raises(ValueError, match=rf"`{plot.__name__}\("):
        plot(GAUSSIAN, [float("nan")])
