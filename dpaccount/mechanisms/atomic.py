"""Steps whose privacy loss has finitely many values."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import numpy.typing as npt

from dpaccount._log import log1m_exp, log_total
from dpaccount._quadrature import Density, Nodes, nodes_log_mgf
from dpaccount.pair import Step, Tails

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
    def reversed_log_delta(self, epsilon: Any) -> Any | None:
        loss, log_p = self.atoms()
        return atom_log_delta(-loss, log_p - loss, self.facts.log_q_only, epsilon)

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
    p_above = log_running(np.concatenate([[log_p_only], log_p[::-1]]))[::-1]
    q_below = log_running(np.concatenate([[log_q_only], log_q]))
    p_below = log_running(np.concatenate([[-np.inf], log_p]))
    q_above = log_running(np.concatenate([[-np.inf], log_q[::-1]]))[::-1]
    return Tails(p_above[place], p_below[place], q_above[place], q_below[place], 2e-16 * (20 + loss.size))


def log_running(logs: Array) -> Array:
    """log of the running sums of e^logs: each to n ulps relative, as plain sums of positive terms are."""
    top = float(logs.max(initial=-np.inf))
    if top == -np.inf:
        return logs
    with np.errstate(divide="ignore", under="ignore"):
        plain = np.cumsum(np.exp(logs - top))
        sums = top + np.log(plain)
    tiny = plain < 1e-280  # e^logs underflows here: sums of logarithms, whose rounding grows with the logarithms
    if tiny.any():
        sums[tiny] = np.logaddexp.accumulate(logs[: int(np.count_nonzero(tiny))])
    return np.asarray(sums)


def atom_log_delta(loss: Array, log_p: Array, log_p_only: float, epsilon: Any) -> Any:
    """log of P{L = inf} + sum of p (1 - e^{eps - l}) over l > eps: positive terms, no cancellation.

    With l_k the first atom above eps the sum is A_k + B_k (1 - e^{eps - l_k}), where B_k = sum over j >= k of p_j e^{l_k - l_j}
    and A_k = sum over m >= k of B_{m+1} (1 - e^{l_m - l_{m+1}}), the same sum at eps = l_k.
    """
    epsilon = np.asarray(epsilon, dtype=float)
    if epsilon.size == 1:  # the plain sum: no logarithm as large as a loss is rounded in it
        above = loss > epsilon.ravel()
        parts = log_p[above] + log1m_exp(epsilon.ravel() - loss[above])
        return np.full(epsilon.shape, log_total(np.append(parts, log_p_only)))[()]
    order = np.argsort(loss, kind="stable")
    loss, log_p = loss[order], log_p[order]
    if not loss.size:
        return np.full(epsilon.shape, log_p_only)[()]
    with np.errstate(divide="ignore"):
        log_b = loss + log_running((log_p - loss)[::-1])[::-1]
        rise = log_b[1:] + log1m_exp(-np.diff(loss))
        log_a = np.append(log_running(np.concatenate([[log_p_only], rise[::-1]]))[::-1], -np.inf)
        log_b = np.append(log_b, -np.inf)
        first = np.searchsorted(loss, epsilon, side="right")
        over = np.append(loss, np.inf)[first]
        part = np.where(first < loss.size, log_b[first] + log1m_exp(epsilon - np.where(np.isinf(over), epsilon + 1.0, over)), log_p_only)
    return np.where(first < loss.size, np.logaddexp(log_a[first], part), log_p_only)[()]
