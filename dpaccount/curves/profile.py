"""The privacy profile: delta(eps), eps(delta), and every other curve of a guarantee."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dpaccount import _check
from dpaccount._log import THIN, exp_from_above, exp_from_below
from dpaccount.adjacency import Adjacency, parse
from dpaccount.bestof import BestOf
from dpaccount.conversions import CONVERSIONS
from dpaccount.curves.evaluate import Evaluator
from dpaccount.curves.group import generic_group, group_pair
from dpaccount.curves.options import CurveOption, PairOption
from dpaccount.curves.renyi import RenyiCurve
from dpaccount.curves.roots import shared_roots
from dpaccount.curves.tangents import shared_values
from dpaccount.curves.trade_off import TradeOffFunction
from dpaccount.engines.auto import METHODS
from dpaccount.pair import DominatingPair, Guarantee
from dpaccount.renyi import RenyiBound
from dpaccount.results import Bounds, LogDelta, Status, is_wide

UNDERFLOW = "delta is below 1e-307, where a double has few digits or none: log_delta has them"
SHARED = 6  # so many epsilons in one call share contours


class PrivacyProfile:
    """delta(eps) = sup over neighbours of E_{e^eps}(M(D)||M(D')), with error bars, for a guarantee under a relation.

    Parameters
    ----------
    guarantee : DominatingPair, RenyiBound or BestOf
        What is known about the mechanism, e.g. ``1000 * PoissonSampled(Gaussian(1.0), 0.01)``.
    adjacency : {"add-or-remove", "replace-one", "zero-out", "as-written"}
        The relation on data sets. ``as-written`` takes the ordered pair of the expression itself.
    method : {"auto", "closed", "line", "smoothed", "chords", "recursion", "circle", "lattice", "balls", "estimate"}
        The engine; see `select`. ``lattice`` gives a certified bracket for every pair, ``balls`` one of a double's width by
        ball arithmetic where it has a proof (extra ``dpaccount[certify]``), ``estimate`` ten digits in half the time,
        without a proof, and the answer of ``auto``, certified or not, where it has none.
    conversion : {"improved", "mironov", "optimal"}
        How Renyi bounds become (eps, delta).

    Guarantee
    ---------
    Every answer is a `Bounds` whose upper end is the safe side. `Bounds.certified` says whether every
    error is bounded; otherwise the error is an estimate. Where ``line`` cannot vouch for its digits
    the certified bracket of ``smoothed`` or of the lattice is returned. Composition of both directions is done before
    the larger is taken.

    References
    ----------
    Zhu, Dong, Wang (2022), Theorems 8 and 10; Alghamdi et al. (2023) for the contour.

    Examples
    --------
    >>> from dpaccount import Gaussian, PoissonSampled, PrivacyProfile
    >>> profile = PrivacyProfile(1000 * PoissonSampled(Gaussian(1.0), 0.01))
    >>> profile.epsilon(delta=1e-5)
    Bounds(1.828236... in [1.82823666, 1.82823667], certified, line)
    >>> profile.delta(epsilon=[0.5, 1.0, 2.0]).estimate.shape
    (3,)
    """

    def __init__(
        self,
        guarantee: Guarantee,
        adjacency: str | Adjacency = Adjacency.ADD_OR_REMOVE,
        *,
        method: str = "auto",
        conversion: str = "improved",
    ) -> None:
        _check.instance(
            "PrivacyProfile", "guarantee", guarantee, (DominatingPair, RenyiBound, BestOf),
            "a dominating pair, a RenyiBound or a BestOf", "Build one from a mechanism, such as 10 * Gaussian(2.0).",
        )
        self.guarantee = guarantee
        self.adjacency = parse("PrivacyProfile", adjacency)
        self.method = _check.choice("PrivacyProfile", "method", method, METHODS)
        self.conversion = _check.choice("PrivacyProfile", "conversion", conversion, CONVERSIONS)
        self._evaluator = Evaluator(guarantee, self.adjacency, self.method, self.conversion)
        _ = self._evaluator.options  # refuses an unsupported relation now, not at the first question

    def __repr__(self) -> str:
        return f"PrivacyProfile({self.guarantee!r}, adjacency={str(self.adjacency)!r})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{e:g}</td><td>{float(self.delta(epsilon=e)):.4g}</td></tr>" for e in (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
        )
        return (
            f"<table><caption>{self.guarantee!r}, {self.adjacency}</caption>"
            f"<thead><tr><th>epsilon</th><th>delta (upper)</th></tr></thead><tbody>{rows}</tbody></table>"
        )

    @property
    def engine(self) -> str:
        """The engine that answers ordinary questions (special cases may be answered by another)."""
        return self._evaluator.engine()

    @property
    def proved(self) -> bool:
        """Whether what is known is proved to dominate; if not, answers carry ``Status.UNPROVED`` and are not certified."""
        return bool(self._evaluator.proved)

    @property
    def directions(self) -> tuple[DominatingPair, ...]:
        """The directed pairs of the first option, each composed on its own."""
        return tuple(self._evaluator.options[0].sides)

    # delta

    def delta(self, epsilon: Any) -> Bounds:
        """delta(eps) for any real eps (array); the upper end is the safe side.

        A delta below 1e-307 lies between two neighbouring doubles, 0 perhaps among them: `log_delta` has its digits.
        """
        logs, answers = self._log_deltas("delta", epsilon)
        with np.errstate(under="ignore"):
            middle = np.exp(logs[1])
        found = self._bounds(exp_from_below(logs[0]), middle, exp_from_above(logs[2]), answers)
        thin = np.any((logs[2] > -np.inf) & (logs[2] < THIN))
        return replace(found, notes=(*found.notes, UNDERFLOW)) if thin else found

    def log_delta(self, epsilon: Any) -> Bounds:
        """log delta(eps): keeps its digits where delta underflows; -inf where delta is 0."""
        logs, answers = self._log_deltas("log_delta", epsilon)
        return self._bounds(*logs, answers)

    def _log_deltas(self, name: str, epsilon: Any) -> tuple[tuple[Any, Any, Any], list[LogDelta]]:
        values = _check.reals(f"PrivacyProfile.{name}", "epsilon", epsilon, infinite=True)
        if values.size < SHARED:
            answers = [self._log_delta(float(e), fresh=True) for e in values.ravel()]
        else:
            flat = values.ravel()
            found = iter(self._evaluator.fresh_many(flat[flat > -np.inf]))
            answers = [next(found) if e > -np.inf else self._log_delta(-np.inf) for e in flat]
        shaped = tuple(np.array([a[i] for a in answers]).reshape(values.shape)[()] for i in range(3))
        return shaped, answers  # type: ignore[return-value]

    def _log_delta(self, epsilon: float, fresh: bool = False) -> LogDelta:
        if epsilon == -np.inf:
            return LogDelta(0.0, 0.0, 0.0, True, "closed")
        return self._evaluator.fresh(epsilon) if fresh else self._evaluator.log_delta(epsilon)

    def _bounds(self, lower: Any, middle: Any, upper: Any, answers: list[LogDelta]) -> Bounds:
        methods = list(dict.fromkeys(a.method for a in answers))
        wide = any(a.upper - a.lower > 0.01 and a.upper > -np.inf and not a.one_sided for a in answers)
        status = Status.UNPROVED if not self._evaluator.proved else Status.WIDE if wide else Status.OK
        return Bounds(
            lower, middle, upper,
            certified=all(a.certified for a in answers),
            method=", ".join(methods),
            status=status,
            condition=max((a.condition for a in answers), default=1.0),
            notes=self.notes,
        )

    # epsilon

    def epsilon(self, delta: Any = None, *, log_delta: Any = None) -> Bounds:
        """The least eps >= 0 with delta(eps) <= delta (array); the upper end is the safe side.

        Pass `log_delta` instead for a delta below the smallest double. The answer is 0 where delta is at
        least the total variation, and infinite, with a `Status`, where no finite eps reaches delta.
        """
        owner = "PrivacyProfile.epsilon"
        if (delta is None) == (log_delta is None):
            _check.refuse(owner, "delta", "given, or log_delta instead of it", delta, "Pass exactly one of them.", TypeError)
        if delta is not None:
            values = _check.reals(owner, "delta", delta, low=0.0, high=1.0)
            with np.errstate(divide="ignore"):
                logs = np.log(values)
        else:
            values = logs = _check.reals(owner, "log_delta", log_delta, high=0.0)
        flat = np.asarray(logs, dtype=float).ravel()
        (option, *others) = self._evaluator.options
        shared = flat.size >= SHARED and isinstance(option, PairOption) and not others
        ready = shared_roots(option, flat) if shared else [None] * flat.size  # type: ignore[arg-type]
        found = [self._evaluator.epsilon(float(v)) if one is None else one for v, one in zip(flat, ready, strict=True)]
        lower, middle, upper = (
            np.array([getattr(root, side) for root, _ in found]).reshape(values.shape)[()]
            for side in ("lower", "estimate", "upper")
        )
        status = next((s for _, s in found if s not in (Status.OK, Status.PERFECT)), Status.OK)
        if status is Status.OK and not self._evaluator.proved:
            status = Status.UNPROVED
        if status is Status.OK and any(is_wide(r.lower, r.upper) and not r.answer.one_sided for r, _ in found):
            status = Status.WIDE
        answers = [root.answer for root, _ in found]
        return Bounds(
            lower, middle, upper,
            certified=all(a.certified for a in answers),
            method=", ".join(dict.fromkeys(a.method for a in answers)),
            status=status,
            condition=max((a.condition for a in answers), default=1.0),
            notes=self.notes,
        )

    # other curves

    def trade_off(self, false_positive_rate: Any = None) -> Any:
        """f(alpha), the least type II error at type I error alpha: a `Bounds`, or the `TradeOffFunction` itself.

        Over two directions it is the dual of the larger profile, the convex hull of the minimum of the two
        (DRS19, Proposition 2.12); the lower end is the safe side.
        """
        # T(P||Q) is the dual of H(Q||P); under a relation the larger profile is its own mirror image
        curves = [(option.mirrored.log_delta, option.log_delta) for option in self._evaluator.options]
        (option, *others) = self._evaluator.options
        many = partial(shared_values, option) if isinstance(option, PairOption) and not others else None
        function = TradeOffFunction(curves, notes=self.notes, proved=self._evaluator.proved, many=many)
        return function if false_positive_rate is None else function(false_positive_rate)

    def renyi(self, order: Any = None) -> Any:
        """D_a for a > 1 over both directions the larger: a `Bounds`, or the `RenyiCurve` itself."""
        endless = any(side.log_p_only > -np.inf for o in self._evaluator.options for side in o.sides)
        curve = RenyiCurve(self._evaluator.rdp, exact=self._two_sided, endless=endless, notes=self.notes)
        return curve if order is None else curve(order)

    def total_variation(self) -> Bounds:
        """delta(0): the largest 1 - (type I error) - (type II error) of any test."""
        return self.delta(epsilon=0.0)

    def advantage(self) -> Bounds:
        """The attacker's advantage, true positive rate less false positive rate; equal to the total variation."""
        return self.delta(epsilon=0.0)

    def bayes_error(self, prior: Any = 0.5) -> Bounds:
        """The least error of any attacker, ``prior (1 - delta(log((1 - prior)/prior)))``; the lower end is safe.

        Parameters
        ----------
        prior : float or array
            Probability in (0, 1) of the hypothesis P.
        """
        pi = _check.reals("PrivacyProfile.bayes_error", "prior", prior, low=0.0, high=1.0, open_low=True, open_high=True)
        found = self.delta(epsilon=np.log1p(-pi) - np.log(pi))
        return Bounds(
            pi * (1 - found.upper), pi * (1 - found.estimate), pi * (1 - found.lower),
            found.certified, found.method, found.status, "lower", found.condition, found.notes,
        )

    def group(self, size: int) -> PrivacyProfile:
        """The profile for a user who owns `size` records, all added or all removed together.

        Additive noise, Poisson-sampled or not, gets the mixture of the shifts that the sampled
        records of the group make; anything else the generic bound
        ``delta_k(eps) = sum over i < k of e^{i eps/k} delta(eps/k)`` (DR14, after Theorem 2.2 with deltas kept).
        The method of the answers names the generic bound.
        """
        k = _check.count("PrivacyProfile.group", "size", size)
        if k == 1:
            return self
        whole = not any(isinstance(option, CurveOption) for option in self._evaluator.options)
        pair = group_pair(self.guarantee, k, self.adjacency) if whole else None
        if pair is not None:
            return PrivacyProfile(pair, self.adjacency, method=self.method)
        grouped = PrivacyProfile(self.guarantee, self.adjacency, method=self.method, conversion=self.conversion)

        def limit() -> tuple[float, Status]:
            root, status = self._evaluator.epsilon(-np.inf)
            return k * root.upper, status

        grouped._evaluator = self._evaluator.through(CurveOption(
            generic_group(self._log_delta, k), generic_group(self._evaluator.mirrored, k), limit, self._evaluator.proved,
        ))
        return grouped

    @property
    def notes(self) -> tuple[str, ...]:
        """Assumptions a reader of an answer must see."""
        found = []
        if not self._evaluator.proved:
            found.append("the dominating pair of Poisson sampling under replace-one is the best known one, not proved to dominate")
        if self._evaluator.one_sided:
            found.append("a part of the guarantee is known by an upper bound only: nothing is known from below")
        return tuple(found)

    @property
    def _two_sided(self) -> bool:
        return all(o.sides for o in self._evaluator.options) and not self._evaluator.one_sided

