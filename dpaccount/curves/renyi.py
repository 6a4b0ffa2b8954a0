"""The Renyi curve of a guarantee."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpaccount import _check
from dpaccount.results import Bounds, Status

RELATIVE = 1e-11  # estimated error of K on the real line, relative


class RenyiCurve:
    """a -> D_a = K(a - 1)/(a - 1) for real orders a > 1, over both directions the larger; made by `PrivacyProfile.renyi`.

    Examples
    --------
    >>> from dpaccount import Gaussian, PrivacyProfile
    >>> PrivacyProfile(Gaussian(2.0)).renyi(order=8).estimate
    1.0
    """

    def __init__(
        self, rdp: Callable[[Any], Any], *, exact: bool, endless: bool = False, notes: tuple[str, ...] = ()
    ) -> None:
        self._rdp, self._exact, self._endless, self.notes = rdp, exact, endless, notes

    def __call__(self, order: Any) -> Bounds:
        """D_a at the given orders (array, all > 1); infinite where the loss is infinite with positive probability.

        An order out of the doubles' reach has the bracket [0, inf] and the status `WIDE`.
        """
        a = _check.reals(
            "RenyiCurve", "order", order, low=1.0, open_low=True, hint="Order 1 is the KL divergence, its limit."
        )
        value = np.asarray(self._rdp(a), dtype=float)[()]
        with np.errstate(invalid="ignore"):
            slack = np.where(np.isfinite(value), RELATIVE * np.abs(value), 0.0)
        lower = np.where(np.isfinite(value) | self._endless, value - slack, 0.0)[()] if self._exact else np.zeros(np.shape(value))[()]
        status = Status.WIDE if np.any(np.isinf(value)) and not self._endless else Status.OK
        return Bounds(lower, value, value + slack, False, "K on the real line", status, notes=self.notes)
