"""Steps whose privacy loss has finitely many values."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import numpy.typing as npt

from dpaccount._log import log1m_exp, log_total
from dpaccount._quadrature import Density, Nodes
from dpaccount.pair import Step, Tails, nodes_log_mgf

Array = npt.NDArray[np.float64]


class AtomicStep(Step):
    """A step given by its atoms alone: the tails, the curve and K follow from them."""

    @final
    def tails(self, loss: Any) -> Tails:
        at, log_p = self.atoms()
        return atom_tails(at, log_p, log_p - at, self.facts.log_p_only, self.facts.log_q_only, loss)

    @final
    def density(self) -> Density | None:
        return None

    @final
    def log_delta(self, epsilon: Any) -> Any | None:
        return atom_log_delta(*self.atoms(), self.facts.log_p_only, epsilon)

    @final
    def step_log_mgf(self, z: Any) -> Any:
        loss, log_p = self.atoms()
        z = np.asarray(z)
        if not loss.size:
            return np.full(z.shape, -np.inf, dtype=z.dtype)[()]
        return nodes_log_mgf(Nodes(loss, log_p, 0.0), float(log1m_exp(self.facts.log_p_only)), z)


def atom_tails(loss: Array, log_p: Array, log_q: Array, log_p_only: float, log_q_only: float, at: Any) -> Tails:
    """Tails of finitely many atoms, summed from the thin side so that each keeps its relative accuracy."""
    order = np.argsort(loss, kind="stable")
    loss, log_p, log_q = loss[order], log_p[order], log_q[order]
    place = np.searchsorted(loss, np.asarray(at, dtype=float), side="right")
    p_above = np.logaddexp.accumulate(np.concatenate([[log_p_only], log_p[::-1]]))[::-1]
    q_below = np.logaddexp.accumulate(np.concatenate([[log_q_only], log_q]))
    p_below = np.concatenate([[-np.inf], np.logaddexp.accumulate(log_p)])
    q_above = np.concatenate([[-np.inf], np.logaddexp.accumulate(log_q[::-1])])[::-1]
    return Tails(p_above[place], p_below[place], q_above[place], q_below[place], 2e-16 * (20 + loss.size))


def atom_log_delta(loss: Array, log_p: Array, log_p_only: float, epsilon: Any) -> Any:
    """log of P{L = inf} + sum of p (1 - e^{eps - l}) over l > eps: positive terms, no cancellation."""
    epsilon = np.asarray(epsilon, dtype=float)
    order = np.argsort(loss, kind="stable")
    loss, log_p = loss[order], log_p[order]
    out = np.empty(epsilon.shape)
    for index in np.ndindex(epsilon.shape):
        first = int(np.searchsorted(loss, epsilon[index], side="right"))
        terms = np.append(log_p[first:] + log1m_exp(epsilon[index] - loss[first:]), log_p_only)
        out[index] = log_total(terms)
    return out[()]
