"""The trade-off function: the dual of a privacy profile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from dpaccount.curves.dual import Curve, Dual, Value
from dpaccount.results import Bounds, Status, is_wide

Array = npt.NDArray[np.float64]
SHARED = 12  # so many points in one call share contours


class TradeOffFunction:
    """f(alpha), the least type II error of any test between M(D) and M(D') at type I error alpha.

    ``f(alpha) = sup over real eps of max(0, 1 - delta(eps) - e^eps alpha)`` (DRS19, Proposition 2.12,
    over all real eps), where delta is the profile of the *larger* direction. For an ordered pair
    taken "as-written" the profile H(P||Q) gives T(Q||P) by this formula; here P is the null of
    ``T(P||Q)``, so the curve of the swapped pair is used. Of several options the one with the greatest lower end answers.

    Guarantee
    ---------
    ``lower`` is valid for the profile's upper bound: any eps gives a valid lower bound, the best found is
    reported. ``upper`` bounds the supremum by concavity in e^eps, from brackets of delta alone. Where delta is
    only known from above it is ``1 - alpha``. The slope of delta guides the search, no more.

    Examples
    --------
    >>> from dpaccount import Gaussian, PrivacyProfile
    >>> f = PrivacyProfile(Gaussian(1.0)).trade_off()
    >>> round(f(0.05).estimate, 12)
    0.740488977159
    """

    def __init__(
        self, curves: Sequence[tuple[Curve, Curve]], *, notes: tuple[str, ...] = (), proved: bool = True,
        many: Callable[[Array], Sequence[Value | None]] | None = None,
    ) -> None:
        self._curves, self._notes, self._proved, self._many = tuple(curves), notes, proved, many
        self._duals = [Dual(curve, swapped) for curve, swapped in self._curves]
        self.hint = np.nan  # an epsilon near the tangent point, if one is known

    def __call__(self, false_positive_rate: Any) -> Bounds:
        """f at the given type I errors in [0, 1] (array)."""
        alpha = _check.reals("TradeOffFunction", "false_positive_rate", false_positive_rate, low=0.0, high=1.0)
        ready = self._many(alpha.ravel()) if self._many is not None and alpha.size >= SHARED else [None] * alpha.size
        found = [self._at(float(a)) if value is None else value for a, value in zip(alpha.ravel(), ready, strict=True)]
        lower, middle, upper = (np.array([f[i] for f in found]).reshape(alpha.shape)[()] for i in range(3))
        # what lies below the rounding of 1 - alpha is not wide
        wide = any(is_wide(f.lower, f.upper, 1e-14 * (1.0 - a)) for f, a in zip(found, alpha.ravel(), strict=True))
        status = Status.UNPROVED if not self._proved else Status.WIDE if wide else Status.OK
        return Bounds(
            lower, middle, upper, all(f.certified for f in found) and self._proved,
            "dual of " + ", ".join(dict.fromkeys(f.method for f in found)), status, "lower", notes=self._notes,
        )

    def inverse(self, false_negative_rate: Any) -> Bounds:
        """The least alpha with f(alpha) <= beta; for a symmetric profile this is f itself (DRS19, Lemma A.2)."""
        beta = _check.reals("TradeOffFunction.inverse", "false_negative_rate", false_negative_rate, low=0.0, high=1.0)
        curves = [(swapped, curve) for curve, swapped in self._curves]  # T(P||Q)^{-1} = T(Q||P)
        return TradeOffFunction(curves, notes=self._notes, proved=self._proved)(beta)

    def _at(self, alpha: float) -> Value:
        best: Value | None = None
        for dual in self._duals:
            dual.hint = self.hint
            found = dual.value(alpha)
            if best is None or found.lower > best.lower:
                best, tangent = found, dual.tangent
        assert best is not None
        self.hint = tangent
        return best
