"""Grids of parameters: one question of every cell, in this process or on many, and a cell that fails keeps its reason."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpaccount import _check
from dpaccount._parallel import spread
from dpaccount.adjacency import Adjacency, parse
from dpaccount.calibration import calibrate
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.engines.auto import METHODS
from dpaccount.grid import BOUNDS, Answer, Sweep, answered, assembled, failed
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.pair import Guarantee
from dpaccount.results import Bounds, Status
from dpaccount.sampling.poisson import PoissonSampled
from dpaccount.training import TrainingRun

OWNER = "sweep"
_READ: dict[str, tuple[tuple[str, ...], Callable[..., Bounds]]] = {
    "epsilon": (("delta",), lambda profile, delta: profile.epsilon(delta=delta)),
    "delta": (("epsilon",), lambda profile, epsilon: profile.delta(epsilon=epsilon)),
    "log_delta": (("epsilon",), lambda profile, epsilon: profile.log_delta(epsilon=epsilon)),
    "false_negative_rate": (("false_positive_rate",), lambda profile, false_positive_rate: profile.trade_off(false_positive_rate)),
    "advantage": ((), lambda profile: profile.advantage()),
}
_TARGETS = (("epsilon", "delta"), ("false_positive_rate", "false_negative_rate"), ("advantage",))


def dp_sgd(noise_multiplier: float, sampling_probability: float = 1.0, steps: int = 1) -> Guarantee:
    """``steps * PoissonSampled(Gaussian(noise_multiplier), sampling_probability)``: the family that most sweeps are about.

    Examples
    --------
    >>> from dpaccount import PrivacyProfile, dp_sgd
    >>> round(PrivacyProfile(dp_sgd(1.0, 0.01, 1000)).epsilon(delta=1e-5).upper, 4)
    1.8282
    """
    return _check.count("dp_sgd", "steps", steps) * PoissonSampled(Gaussian(noise_multiplier), sampling_probability)


def sweep(
    family: Callable[..., Any],
    grid: Mapping[str, Any],
    *,
    find: str | None = None,
    epsilon: Any = None,
    delta: Any = None,
    false_positive_rate: Any = None,
    false_negative_rate: Any = None,
    advantage: Any = None,
    adjacency: str | Adjacency | None = None,
    method: str = "auto",
    integer: bool = False,
    bracket: tuple[float, float] | None = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
) -> Sweep:
    """One question of every combination of parameters, cell by cell.

    Parameters
    ----------
    family : callable
        Keyword arguments to a guarantee (or a `TrainingRun`, a `PrivacyProfile`, or anything with ``.epsilon(delta=...)`` and
        ``.delta(epsilon=...)``): `dp_sgd`, `TrainingRun` itself, or a function of your own. Worker processes need to unpickle it.
    grid : mapping
        The family's arguments. A list, tuple, range or array is an axis, in this order; anything else is the same in all cells.
    epsilon, delta, false_positive_rate, false_negative_rate, advantage : float or list of floats
        The question; lists are further axes. ``delta`` finds epsilon, ``epsilon`` finds delta, and ``false_positive_rate`` the
        false negative rate. A whole target (``epsilon`` with ``delta``, both rates, or ``advantage``) finds the parameter `find`.
    find : str, optional
        ``"advantage"`` and ``"log_delta"`` are found only if they are named. With a target, the argument of the family to `calibrate`.
    adjacency : optional
        As in `PrivacyProfile`, by default add-or-remove. A family's own profiles and runs keep theirs; another one is refused.
    method
        As in `PrivacyProfile`.
    integer, bracket
        As in `calibrate`.
    n_jobs : int, optional
        Processes; -1 is every core. By default what joblib's context says, such as ``with joblib.parallel_config("dask"):``, and
        this process alone outside of any. More than one needs ``dpaccount[parallel]``.
    progress : bool, optional
        A bar on standard error; by default on a terminal only.

    Returns
    -------
    Sweep
        Arrays of the grid's shape. They depend neither on `n_jobs` nor on the order of the values.

    Raises
    ------
    TypeError, ValueError
        If the question or the grid makes no sense. What goes wrong in one cell is that cell's `Sweep.reason`, and its bounds are NaN.

    Examples
    --------
    >>> from dpaccount import dp_sgd, sweep
    >>> sweep(dp_sgd, {"noise_multiplier": [0.8, 1.0], "steps": [100, 1000], "sampling_probability": 0.01}, delta=1e-5)
    Sweep of epsilon: noise_multiplier (2) x steps (2); sampling_probability = 0.01, delta = 1e-05; add-or-remove; all certified
    noise_multiplier  steps = 100...steps = 1000
    0.8               1.510837... 3.141014...
    1                 0.718035... 1.828236...
    >>> noise = sweep(dp_sgd, {"sampling_probability": [0.01], "steps": [1000]}, find="noise_multiplier", epsilon=[1, 2], delta=1e-5)
    >>> noise.value.round(4).tolist()
    [[[1.4146, 0.9591]]]
    """
    question = {
        "epsilon": epsilon, "delta": delta, "false_positive_rate": false_positive_rate, "false_negative_rate": false_negative_rate,
        "advantage": advantage,
    }
    question = {name: _numbers(name, value) for name, value in question.items() if value is not None}
    found, calibrated = _found(find, tuple(question))
    axes, fixed = _split(grid)
    _check_names((*axes, *fixed), found, tuple(question), calibrated)
    _check_family(family, (*axes, *fixed, *([found] if calibrated else [])))
    relation = None if adjacency is None else parse(OWNER, adjacency)
    method, integer = _check.choice(OWNER, "method", method, METHODS), _check.flag(OWNER, "integer", integer)
    if not calibrated and (integer or bracket is not None):
        name = "integer" if integer else "bracket"
        _check.refuse(OWNER, name, "left out where no parameter is calibrated", integer or bracket, f"{found} is not searched for.")
    ask = _Ask(family, found, calibrated, relation, method, integer, bracket)
    cells = [fixed | dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    asked, constant = _split(question)
    targets = [constant | dict(zip(asked, values, strict=True)) for values in itertools.product(*asked.values())]
    # the questions of one cell share its profile; a calibration shares nothing, so that targets are spread as well
    tasks = [(cell, [target]) for cell in cells for target in targets] if calibrated else [(cell, targets) for cell in cells]
    answers = [answer for part in spread(OWNER, ask, tasks, n_jobs, progress) for answer in part]
    return assembled(found, axes | asked, fixed | constant, answers)


@dataclass(frozen=True)
class _Ask:
    """The question; called with a cell and its targets it gives one answer for each."""

    family: Callable[..., Any]
    find: str
    calibrated: bool
    adjacency: Adjacency | None
    method: str
    integer: bool
    bracket: tuple[float, float] | None

    def __call__(self, task: tuple[dict[str, Any], list[dict[str, float]]]) -> list[Answer]:
        cell, targets = task
        try:
            made = None if self.calibrated else self.family(**cell)
            profile = None if self.calibrated else self._profile(made)
        except Exception as error:
            return [failed(error)] * len(targets)
        if isinstance(profile, PrivacyProfile) and len(targets) > 1:
            return self._together(made, profile, targets)
        return [self._one(cell, made, profile, target) for target in targets]

    def _one(self, cell: dict[str, Any], made: Any, profile: Any, target: dict[str, float]) -> Answer:
        try:
            if self.calibrated:
                return self._calibrated(cell, target)
            return self._read(made, profile, target, self.read(profile, **target))
        except Exception as error:  # whatever it is, the other cells must not be lost
            return failed(error)

    def _together(self, made: Any, profile: PrivacyProfile, targets: list[dict[str, float]]) -> list[Answer]:
        """All points of one profile, in rising order, so that what they share does not depend on the grid's."""
        (name,) = targets[0]
        points = sorted({target[name] for target in targets})
        known: dict[float, Answer] = {}
        try:
            found = self.read(profile, np.array(points))
        except Exception:
            found = None  # which point it was is seen one by one
        if found is not None and found.certified and found.status is Status.OK and ", " not in found.method:
            known = {x: self._read(made, profile, {name: x}, one) for x, one in zip(points, found, strict=True)}
        else:  # what differs from point to point is asked of each
            known = {x: self._one({}, made, profile, {name: x}) for x in points}
        return [known[target[name]] for target in targets]

    @property
    def read(self) -> Callable[..., Bounds]:
        return _READ[self.find][1]

    def _read(self, made: Any, profile: Any, target: dict[str, float], found: Bounds) -> Answer:
        delta = found.upper if self.find == "delta" else target.get("delta")
        notes = made.notes(delta) if isinstance(made, TrainingRun) and delta is not None else ()
        return answered(found, float(found), (found.lower, found.estimate, found.upper), found.status, profile, (*found.notes, *notes))

    def _calibrated(self, cell: dict[str, Any], target: dict[str, float]) -> Answer:
        seen: list[Any] = []

        def by_value(value: Any) -> Any:
            seen[:] = [self._profile(self.family(**cell, **{self.find: value}))]
            return seen[0]

        asked: dict[str, Any] = {"integer": self.integer, "bracket": self.bracket, **target}
        found = calibrate(by_value, **asked)
        other = found.value if found.infeasible is None else found.infeasible
        sides = (min(found.value, other), found.value, max(found.value, other))
        return answered(found.achieved, found.value, sides, found.status, seen[0], (*found.notes, *found.achieved.notes))

    def _profile(self, made: Any) -> Any:
        own = getattr(made, "adjacency", None)
        if self.adjacency is not None and own is not None and str(own) != str(self.adjacency):
            _check.refuse(OWNER, "adjacency", f"{str(own)!r}, which the family's objects have, or left out", str(self.adjacency))
        if isinstance(made, TrainingRun):
            return made.profile(method=self.method)
        if isinstance(made, Guarantee):
            return PrivacyProfile(made, Adjacency.ADD_OR_REMOVE if self.adjacency is None else self.adjacency, method=self.method)
        if not (hasattr(made, "delta") and hasattr(made, "epsilon")):
            _check.refuse(OWNER, "family", "a function to guarantees, or to objects with .delta and .epsilon", made, kind=TypeError)
        return made


def _found(find: str | None, given: tuple[str, ...]) -> tuple[str, bool]:
    """What the question finds, and whether it is a parameter of the family."""
    if set(given) in [set(names) for names in _TARGETS]:
        if not isinstance(find, str):
            _check.refuse(OWNER, "find", "the argument of the family to calibrate", find, "Such as find='noise_multiplier'.", TypeError)
        return find, True
    if find is None:
        find = next((name for name, (needed, _) in _READ.items() if given and given == needed), None)
        if find is None:
            _check.refuse(
                OWNER, "delta", "the question: delta, epsilon or false_positive_rate, or a target and what to find", list(given),
                "To find a parameter give epsilon and delta, both rates, or advantage.", TypeError,
            )
    find = _check.choice(OWNER, "find", find, _READ, "An argument of the family is found for a whole target, such as epsilon and delta.")
    if given != _READ[find][0]:
        needed = " and ".join(_READ[find][0]) or "no question beside it"
        _check.refuse(OWNER, "find", f"{find!r} with {needed}", list(given), kind=TypeError)
    return find, False


_LIMITS: dict[str, dict[str, Any]] = {"epsilon": {"infinite": True}}


def _numbers(name: str, value: Any) -> Any:
    """One number, or the numbers of an axis."""
    limits = _LIMITS.get(name, {"low": 0.0, "high": 1.0})
    known = _check.reals(OWNER, name, value, **limits)
    if known.ndim > 1 or not known.size:
        _check.refuse(OWNER, name, "a number or a list of numbers", value)
    return tuple(known.tolist()) if known.ndim else float(known)


def _split(grid: Mapping[str, Any]) -> tuple[dict[str, tuple[Any, ...]], dict[str, Any]]:
    """The axes, and what is the same in all cells."""
    _check.instance(OWNER, "grid", grid, Mapping, "a mapping from arguments of the family to their values")
    axes: dict[str, tuple[Any, ...]] = {}
    fixed: dict[str, Any] = {}
    for name, values in grid.items():
        if not isinstance(name, str):
            _check.refuse(OWNER, "grid", "a mapping from names", name, kind=TypeError)
        known = values.tolist() if hasattr(values, "tolist") else values
        if isinstance(known, (set, frozenset, dict, Iterator)):
            _check.refuse(OWNER, "grid", "lists, tuples, ranges, arrays or single values", values, f"Of {name}: make it a list.", TypeError)
        if not isinstance(known, (list, tuple, range)):
            fixed[name] = known
            continue
        if not known or any(isinstance(item, list) for item in known):
            _check.refuse(OWNER, "grid", "axes of one dimension with at least one value", values, f"It is {name}'s.")
        axes[name] = tuple(known)
    return axes, fixed


def _check_names(grid: tuple[str, ...], find: str, question: tuple[str, ...], calibrated: bool) -> None:
    """A name means one thing: an argument of the family, or a part of the question."""
    if calibrated and find in grid:
        _check.refuse(OWNER, "find", "an argument that the grid leaves free", find, f"The grid has {', '.join(grid)}.")
    for name in grid:
        if name in (find, *question, *BOUNDS, "certified"):
            _check.refuse(
                OWNER, "grid", "about arguments that are not part of the question or the answer", name,
                f"Wrap the family in a function that calls its {name} otherwise.",
            )


def _check_family(family: Any, names: tuple[str, ...]) -> None:
    """Refuse what no cell could survive: no callable, or names that it does not take."""
    if not callable(family):
        _check.refuse(OWNER, "family", "a callable", family, "Pass dp_sgd, TrainingRun, or a function of your own.", TypeError)
    try:
        signature = inspect.signature(family)
    except (TypeError, ValueError):  # some callables written in C do not tell
        return
    try:
        signature.bind(**dict.fromkeys(names))
    except TypeError as error:
        called = getattr(family, "__name__", "the family")
        _check.refuse(OWNER, "grid", f"arguments of {called}{signature}", list(names), f"Python says: {error}.", TypeError)
