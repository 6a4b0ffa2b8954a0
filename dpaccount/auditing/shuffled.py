"""Shuffled epochs: a lower bound on epsilon that no analysis can pass, by the largest of the batch sums.

All other records send -1, the target +1 (or nothing): with T batches and t the target's, the sums are N(2 e_t, s^2 I) against
N(e_t, s^2 I) after subtracting what is known (CGHKKMSZ24). The largest coordinate exceeds C with probability
``P(C) = 1 - Phi((C - 2)/s) Phi(C/s)^{T-1}`` against ``Q(C)``, the same with C - 1. For one epoch
``eps >= max_C ln((P(C) - delta)/Q(C))``. Over epochs, shuffled anew, the law of the maximum is cut into bins (which loses
privacy loss, never gains), and composed by the lattice rounded down.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import betainc, log_ndtr

from dpaccount import _check
from dpaccount._lattice_curve import Grid
from dpaccount._log import log1m_exp
from dpaccount.adjacency import Adjacency, parse
from dpaccount.auditing.outcome import AuditResult, small_delta
from dpaccount.auditing.works import WORKS
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.engines.lattice.tilted import Side
from dpaccount.mechanisms.finite import FinitePair
from dpaccount.mechanisms.gaussian import Gaussian, noise_multiplier
from dpaccount.pld import PrivacyLossDistribution, discretise

OWNER = "shuffle_lower_bound"
BINS = 4000
WIDTH = 2e-3  # of the loss lattice; what it rounds away is of second order
ROUNDING = 1e-11  # relative error of the masses of bins, generously
COUNTING = 1e-6  # relative, of binomial tails of rounded probabilities
TINY = 1e-290  # tails below it are left out
SLACK = 1e-8  # relative, of the root
LONG = 1000  # epochs beyond which only the event of `counted` is looked at, for time
NODES, WEIGHTS = np.polynomial.legendre.leggauss(8)
LOG_ROOT_2PI = 0.9189385332046727
METHOD = "largest batch sum of a shuffled epoch (Chua et al. 2024; Annamalai et al. 2024)"
Array = npt.NDArray[np.float64]


class Largest(NamedTuple):
    """The law of the largest of T independent N(., s^2): with probability `share` one has mean `shift`, the others 0."""

    shift: float
    sigma: float
    batches: int
    share: float = 1.0

    def log_below(self, c: Array) -> Array:
        """log P[max <= c]."""
        others = (self.batches - 1) * log_ndtr(c / self.sigma) if self.batches > 1 else 0.0
        return others + self._mixed(log_ndtr((c - self.shift) / self.sigma), log_ndtr(c / self.sigma))

    def log_above(self, c: Array) -> Array:
        """log P[max > c], without cancellation."""
        return np.asarray(log1m_exp(np.minimum(self.log_below(c), -1e-320)))

    def log_density(self, c: Array) -> Array:
        a, b, others = (c - self.shift) / self.sigma, c / self.sigma, self.batches - 1
        own = self._mixed(-0.5 * a * a, -0.5 * b * b) + (others * log_ndtr(b) if others else 0.0)
        if others:
            rest = math.log(others) + self._mixed(log_ndtr(a), log_ndtr(b)) - 0.5 * b * b + (others - 1) * log_ndtr(b)
            own = np.logaddexp(own, rest)
        return np.asarray(own - LOG_ROOT_2PI - math.log(self.sigma))

    def _mixed(self, with_target: Array, without: Array) -> Array:
        """log of the mixture of the target's own coordinate."""
        if self.share == 1.0:
            return np.asarray(with_target)
        near = np.minimum(with_target, without) >= -0.5  # near 1: a mean of complements keeps the digits that a mean would round away
        small = self.share * np.expm1(np.maximum(with_target, -0.5)) + (1.0 - self.share) * np.expm1(np.maximum(without, -0.5))
        return np.where(near, np.log1p(small), np.logaddexp(math.log(self.share) + with_target, math.log1p(-self.share) + without))


def shuffle_lower_bound(
    sigma: float, T: int, epochs: int, delta: float, *, adjacency: str | Adjacency = Adjacency.ZERO_OUT  # noqa: N803
) -> AuditResult:
    """epsilon that DP-SGD with shuffled fixed batches really needs at `delta`: no accountant may print less.

    Parameters
    ----------
    sigma : float
        Noise standard deviation over the clipping norm, > 0.
    T : int
        Batches in an epoch, >= 1.
    epochs : int
        >= 1, each shuffled anew; every batch sum is released.
    delta : float
        In [0, 1].
    adjacency : {"zero-out", "replace-one"}
        The target sends nothing in the other data set, or -1 like all others.

    Returns
    -------
    AuditResult
        `lower` of kind "computed": no chance is involved, so `level` is 0. `upper` holds for every data set: no
        amplification at all, ``epochs * Gaussian(sigma)``, by joint convexity over the orders.

    Guarantee
    ---------
    `lower` is attained by the data set described above, so it refutes any smaller claim. For one epoch the
    event is optimal for the maximum; for more the loss of the lattice is of second order in its step.

    References
    ----------
    Chua, Ghazi, Kamath, Kumar, Manurangsi, Sinha, Zhang (2024); Annamalai, Balle, De Cristofaro, Hayes (2024).

    Examples
    --------
    >>> from dpaccount.auditing import shuffle_lower_bound
    >>> found = shuffle_lower_bound(1.1, 234, 1, delta=1e-5)
    >>> round(found.lower, 6), round(found.upper, 6), found.kind
    (2.980784, 3.92125, 'computed')
    """
    s = noise_multiplier(OWNER, sigma)
    if not 1e-3 <= s <= 1e6:
        _check.refuse(OWNER, "sigma", "a noise multiplier in [0.001, 1e6]", sigma, "Without noise every epsilon is infinite.")
    batches, times = _check.count(OWNER, "T", T), _check.count(OWNER, "epochs", epochs)
    delta = small_delta(OWNER, delta)
    relation = parse(OWNER, adjacency)
    if relation not in (Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE):
        _check.refuse(OWNER, "adjacency", "'zero-out' or 'replace-one'", adjacency, "Adding a record changes the batches themselves.")
    p = Largest(2.0, s, batches)
    q = Largest(1.0 if relation is Adjacency.ZERO_OUT else 0.0, s, batches)
    top = float(PrivacyProfile(times * Gaussian(s), relation).epsilon(delta=delta).upper)
    low, cut = one_epoch(p, q, delta)
    if times > 1 and 0.0 < delta < 1.0:
        low = max(low, many_epochs(p, q, times, delta, low, top))
    return AuditResult(
        f"epsilon at delta = {delta:g}", min(low, top), top, 0.0, "computed", "optimised: no data are involved",
        (
            f"each of {times} epoch{'s' * (times > 1)} shuffles anew and cuts the order into {batches} batches; every noisy batch "
            "sum is released",
            f"noise is {s:g} times the clipping norm, neighbours differ by {relation}, and other records are the worst possible",
        ),
        METHOD, {"cut": cut, "batches": batches, "epochs": times}, upper_of="any attack, without amplification",
        works=WORKS["shuffled"],
    )


def one_epoch(p: Largest, q: Largest, delta: float) -> tuple[float, float]:
    """max over C of ln((P(C) - delta)/Q(C)), and the C; every C gives a valid bound, so the search need not be exact."""
    if delta >= 1.0:
        return 0.0, math.nan
    low, high = -12.0 * p.sigma, 2.0 + 38.0 * p.sigma
    log_delta = math.log(delta) if delta > 0.0 else -math.inf
    best, at = 0.0, math.nan
    for _ in range(8):
        c = np.linspace(low, high, 801)
        above = p.log_above(c)
        with np.errstate(invalid="ignore", divide="ignore"):
            left = above + np.asarray(log1m_exp(np.minimum(log_delta - above, -0.0)))
            value = np.where(above > log_delta, left - q.log_above(c), -np.inf)
        i = int(np.nanargmax(value))
        if float(value[i]) > best:
            best, at = float(value[i]), float(c[i])
        low, high = float(c[max(i - 1, 0)]), float(c[min(i + 1, c.size - 1)])
    return best, at


def counted(p: Largest, q: Largest, epochs: int, delta: float) -> tuple[float, float, int]:
    """(epsilon, C, k): the event that the largest sum exceeds C in at least k of the epochs, whose number is binomial.

    Every (C, k) gives a valid bound, ``ln((P[Bin(E, P(C)) >= k] - delta)/P[Bin(E, Q(C)) >= k])``; under add-or-remove too, since
    without the record the largest sum is stochastically no larger.
    """
    best, low, high = (0.0, math.nan, 1), -6.0 * p.sigma, 2.0 + 12.0 * p.sigma
    for _ in range(4):
        for c in np.linspace(low, high, 41):
            found = _of_count(float(p.log_above(c)), float(q.log_above(c)), epochs, delta)
            if found[0] > best[0]:
                best = (found[0], float(c), found[1])
        if math.isnan(best[1]):
            break
        low, high = best[1] - (high - low) / 20, best[1] + (high - low) / 20
    return max(best[0] - COUNTING * (1.0 + best[0]), 0.0), best[1], best[2]


def _of_count(log_p: float, log_q: float, epochs: int, delta: float) -> tuple[float, int]:
    """The best number of epochs in which the event is seen, and its epsilon."""
    mean, spread = epochs * math.exp(log_p), math.sqrt(epochs * math.exp(log_p)) + 1.0
    k = np.unique(np.clip(np.round(np.linspace(mean - 6.0 * spread, mean + 2.0 * spread, 60)), 1, epochs))
    with np.errstate(divide="ignore", invalid="ignore"):
        seen, other = (betainc(k, epochs - k + 1.0, math.exp(x)) for x in (log_p, log_q))
        value = np.where((seen > delta) & (other > TINY), np.log(seen - delta) - np.log(other), -np.inf)
    i = int(np.argmax(value))
    return float(value[i]), int(k[i])


def rising(p: Largest, q: Largest) -> bool:
    """Whether the likelihood ratio of the maximum rises between the ends of the bins; what lies below, e^-60, `ROUNDING` covers."""
    grid = np.linspace(*_ends(p, q), BINS + 1)
    ratio = p.log_density(grid) - q.log_density(grid)
    return bool(np.all(np.diff(ratio) >= -1e-11 * (1.0 + np.abs(ratio[1:]))))


def binned(p: Largest, q: Largest) -> FinitePair:
    """The maximum, cut into bins: masses by quadrature of positive integrands, so tiny ones keep their digits."""
    low, high = _ends(p, q)
    cuts = np.linspace(low, high, BINS + 1)
    half, middle = np.diff(cuts)[:, None] / 2, (cuts[1:] + cuts[:-1])[:, None] / 2
    points, weight = middle + half * NODES, half * WEIGHTS
    ends = np.array([low, high])
    masses = []
    for law in (p, q):
        inner = (weight * np.exp(law.log_density(points))).sum(axis=1)
        masses.append([math.exp(law.log_below(ends)[0]), *inner, math.exp(law.log_above(ends)[1])])
    return FinitePair(*(tuple(m) for m in masses))


def _ends(p: Largest, q: Largest) -> tuple[float, float]:
    """Where the mass left out on either side has no bearing: e^-60 below, e^-75 above, under P."""
    grid = np.linspace(-40.0 * p.sigma, 2.0 + 12.5 * p.sigma, 20001)
    low = grid[int(np.searchsorted(q.log_below(grid), -60.0))]
    return float(low), float(grid[-1])


def many_epochs(p: Largest, q: Largest, epochs: int, delta: float, low: float, top: float) -> float:
    """The largest epsilon found at which the composition, rounded down, still exceeds delta."""
    excess = _excess(p, q, epochs, delta)
    if excess(low) <= 0.0:
        return 0.0
    root = float(brentq(excess, low, top, rtol=SLACK)) if excess(top) < 0.0 else top
    room = SLACK * (1.0 + root)
    while root - room > low and excess(root - room) <= 0.0:
        room *= 4.0
    return max(root - room, low) - 2.0 * ROUNDING * epochs


def exceeds(p: Largest, q: Largest, epochs: int, delta: float, epsilon: float) -> bool:
    """Whether the composition, rounded down, has more than delta at epsilon."""
    return _excess(p, q, epochs, delta)(epsilon + 2.0 * ROUNDING * epochs) > 0.0


def lower_profile(p: Largest, q: Largest, epochs: int, epsilons: Array) -> Array:
    """log delta at each epsilon >= 0, from below: of one epoch the mass where the ratio exceeds it, of several the lattice rounded down."""
    pair = binned(p, q)
    loss, _ = pair.atoms()
    step = max(4.0 * WIDTH, float(np.ptp(loss)) / 2**14)
    first = math.floor(float(loss.min()) / step) - 1
    rounded, _ = discretise(pair, Grid(0.0, step, first, math.ceil(float(loss.max()) / step) + 2 - first), epochs)
    return np.array([_log_delta(rounded, epochs, float(epsilon)) for epsilon in epsilons])


def _excess(p: Largest, q: Largest, epochs: int, delta: float) -> Callable[[float], float]:
    """log of delta(epsilon) of the composition, from below, over delta."""
    pair = binned(p, q)
    loss, _ = pair.atoms()
    step = max(WIDTH, float(np.ptp(loss)) / 2**17)
    first = math.floor(float(loss.min()) / step) - 1
    grid = Grid(0.0, step, first, math.ceil(float(loss.max()) / step) + 2 - first)
    rounded, _ = discretise(pair, grid, epochs)
    target = math.log(delta) + 2.0 * ROUNDING * epochs
    return lambda epsilon: max(_log_delta(rounded, epochs, epsilon) - target, -1e3)


def _log_delta(rounded: PrivacyLossDistribution, epochs: int, epsilon: float) -> float:
    """log of delta of the composition, from below: less the errors that the lattice states."""
    side = Side([(rounded, epochs)], epsilon)
    length = 1 << max(math.ceil(math.log2(max(side.window / rounded.grid.step, 16.0))), 4)
    if length > 2**22:
        return -math.inf
    value, error, _ = side.value(length)
    lost = np.logaddexp(error, math.log(epochs * rounded.leak) if rounded.leak > 0.0 else -math.inf)
    return float(value + log1m_exp(lost - value)) if lost < value else -math.inf
