"""Curves of a privacy profile: drawn on a user's axes with their brackets, or exported as tidy columns.

Nothing here is imported by ``import dpaccount``, and matplotlib only where a figure has to be made.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.results import Bounds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = npt.NDArray[np.float64]
SMALLEST = 1e-10  # delta at the right end of a default privacy curve
POINTS = 101
BAND_OPACITY = 0.2
TINY = 5e-324


def plot_profile(
    profile: PrivacyProfile,
    epsilon: Any = None,
    *,
    ax: Axes | None = None,
    label: str | None = None,
    band: bool = True,
    log: bool = True,
    **line: Any,
) -> Axes:
    """Draw delta(eps) with its bracket as a band; delta on a log axis unless ``log=False``.

    Parameters
    ----------
    profile : PrivacyProfile
    epsilon : array, shape (n,), optional
        Real numbers; by default from 0 to the epsilon where delta is 1e-10 (or 10, if there is none).
    ax : matplotlib Axes, optional
        Drawn on and returned; a new figure is made if None. Labels that you have set are kept.
    label : str, optional
        For the legend, which is yours to show.
    band : bool
        Shade from the lower to the upper bound. A band that cannot be seen is narrower than the line.
    **line
        Passed to ``ax.plot``: color, linestyle, linewidth...

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from dpaccount import Gaussian, PrivacyProfile
    >>> from dpaccount.plotting import plot_profile
    >>> ax = plot_profile(PrivacyProfile(Gaussian(2.0)), label="noise multiplier 2")
    >>> ax.get_xlabel(), ax.get_yscale()
    ('epsilon', 'log')
    >>> matplotlib.pyplot.close(ax.figure)
    """
    _check.instance("plot_profile", "profile", profile, PrivacyProfile, "a PrivacyProfile")
    grid = _default_epsilon(profile) if epsilon is None else _grid("plot_profile", "epsilon", epsilon)
    answer = profile.delta(epsilon=grid)
    return _draw(ax, grid, answer, ("epsilon", "delta"), label=label, band=band, log=log, line=line)


def plot_trade_off(
    profile: PrivacyProfile,
    false_positive_rate: Any = None,
    *,
    ax: Axes | None = None,
    label: str | None = None,
    band: bool = True,
    log: bool = False,
    **line: Any,
) -> Axes:
    """Draw f(alpha), the least false negative rate at each false positive rate; both axes linear, or log with ``log=True``.

    Parameters
    ----------
    profile : PrivacyProfile
    false_positive_rate : array, shape (n,), optional
        In [0, 1]; by default 101 points that crowd towards both ends, or from 1e-10 on if ``log``.
    ax, label, band, **line
        As in `plot_profile`.
    """
    _check.instance("plot_trade_off", "profile", profile, PrivacyProfile, "a PrivacyProfile")
    if false_positive_rate is None:
        even = np.linspace(0.0, 1.0, POINTS)
        false_positive_rate = np.geomspace(SMALLEST, 1.0, POINTS) if log else even * even * (3 - 2 * even)
    grid = _grid("plot_trade_off", "false_positive_rate", false_positive_rate)
    names = ("false positive rate", "false negative rate")
    axes = _draw(ax, grid, profile.trade_off(grid), names, label=label, band=band, log=log, line=line)
    if log:
        axes.set_xscale("log")
    return axes


def plot_renyi(
    profile: PrivacyProfile,
    order: Any = None,
    *,
    ax: Axes | None = None,
    label: str | None = None,
    band: bool = True,
    log: bool = True,
    **line: Any,
) -> Axes:
    """Draw the Renyi divergence D_a against the order a > 1, both on log axes unless ``log=False``.

    Parameters
    ----------
    profile : PrivacyProfile
    order : array, shape (n,), optional
        Numbers > 1; by default from 1.01 to 256. Infinite values are left out of the line.
    ax, label, band, **line
        As in `plot_profile`.
    """
    _check.instance("plot_renyi", "profile", profile, PrivacyProfile, "a PrivacyProfile")
    grid = _grid("plot_renyi", "order", np.geomspace(1.01, 256.0, POINTS) if order is None else order)
    axes = _draw(ax, grid, profile.renyi(grid), ("order", "Renyi divergence (nats)"), label=label, band=band, log=log, line=line)
    if log:
        axes.set_xscale("log")
    return axes


def tidy(
    profile: PrivacyProfile,
    *,
    epsilon: Any = None,
    delta: Any = None,
    false_positive_rate: Any = None,
    order: Any = None,
    path: str | Path | None = None,
) -> dict[str, list[Any]]:
    """One curve as equal columns, one row a point, ready for a data frame; written as CSV if `path` is given.

    Pass exactly one of the four arguments: `epsilon` gives delta, `delta` gives epsilon,
    `false_positive_rate` gives the false negative rate, `order` the Renyi divergence.

    Returns
    -------
    dict
        Columns: the argument's own name, then ``quantity, lower, estimate, upper, certified, method, status, adjacency``.

    Examples
    --------
    >>> from dpaccount import Gaussian, PrivacyProfile
    >>> from dpaccount.plotting import tidy
    >>> columns = tidy(PrivacyProfile(Gaussian(2.0)), epsilon=[0.5, 1.0])
    >>> columns["epsilon"], columns["quantity"], [round(v, 9) for v in columns["estimate"]]
    ([0.5, 1.0], ['delta', 'delta'], [0.052440323, 0.006829595])
    """
    _check.instance("tidy", "profile", profile, PrivacyProfile, "a PrivacyProfile")
    given = {
        "epsilon": epsilon, "delta": delta, "false_positive_rate": false_positive_rate, "order": order,
    }
    chosen = [name for name, value in given.items() if value is not None]
    if len(chosen) != 1:
        domain = "exactly one of " + ", ".join(given)
        _check.refuse("tidy", "epsilon", domain, chosen, "Each call exports one curve.", TypeError)
    name = chosen[0]
    quantity, ask = _curve(profile, name)
    grid = np.atleast_1d(_check.reals("tidy", name, given[name])).ravel()
    rows = [_row(profile, quantity, ask(float(x))) for x in grid]
    columns: dict[str, list[Any]] = {name: grid.tolist()}
    columns |= {key: [row[key] for row in rows] for key in _KEYS}
    if path is not None:
        _write(Path(path), columns)
    return columns


_KEYS = ("quantity", "lower", "estimate", "upper", "certified", "method", "status", "adjacency")


def _curve(profile: PrivacyProfile, name: str) -> tuple[str, Callable[[float], Bounds]]:
    if name == "epsilon":
        return "delta", lambda x: profile.delta(epsilon=x)
    if name == "delta":
        return "epsilon", lambda x: profile.epsilon(delta=x)
    if name == "order":
        return "renyi_divergence", profile.renyi()
    return "false_negative_rate", profile.trade_off()


def _row(profile: PrivacyProfile, quantity: str, answer: Bounds) -> dict[str, Any]:
    low, middle, high = float(answer.lower), float(answer.estimate), float(answer.upper)
    values = (quantity, low, middle, high, answer.certified, answer.method, answer.status.name, str(profile.adjacency))
    return dict(zip(_KEYS, values, strict=True))


def _write(path: Path, columns: dict[str, list[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def _grid(owner: str, name: str, values: Any) -> Array:
    grid = _check.reals(owner, name, values)
    if grid.ndim != 1 or not grid.size:
        _check.refuse(owner, name, "a one-dimensional, non-empty array", values, "A curve needs points.")
    return grid


def _default_epsilon(profile: PrivacyProfile) -> Array:
    end = float(profile.epsilon(delta=SMALLEST))
    return np.linspace(0.0, end if 0.0 < end < np.inf else 10.0, POINTS)


def _draw(
    ax: Axes | None,
    x: Array,
    answer: Bounds,
    names: tuple[str, str],
    *,
    label: str | None,
    band: bool,
    log: bool,
    line: dict[str, Any],
) -> Axes:
    axes = _new_axes() if ax is None else ax
    middle = _visible(answer.estimate, log)
    (drawn,) = axes.plot(x, middle, label=label, **line)
    if band:
        _shade(axes, x, answer, log, drawn.get_color())
    if log:
        axes.set_yscale("log")
    if not axes.get_xlabel():
        axes.set_xlabel(names[0])
    if not axes.get_ylabel():
        axes.set_ylabel(names[1])
    return axes


def _new_axes() -> Axes:
    from matplotlib import pyplot

    _, axes = pyplot.subplots()
    return axes


def _visible(values: Any, log: bool) -> Array:
    """What a line can show: infinities, and zeros on a log axis, become gaps."""
    array = np.asarray(values, dtype=float)
    return np.where(np.isfinite(array) & ((array > 0) if log else True), array, np.nan)


def _shade(axes: Axes, x: Array, answer: Bounds, log: bool, color: Any) -> None:
    """The band between the bounds; it never moves the axis limits, since a lower bound may be 0 on a log axis."""
    low, high = _visible(answer.lower, False), _visible(answer.upper, log)
    limits = axes.dataLim.get_points().copy()
    axes.fill_between(x, np.maximum(low, TINY) if log else low, high, color=color, alpha=BAND_OPACITY, linewidth=0)
    axes.dataLim.set_points(limits)
