"""Shifted interpolation: Gaussian DP of the last iterate of a noisy iteration, exactly optimised over the shifts (BSA24).

Two runs differ by at most z_t after step t, in the sense of infinity-Wasserstein distance. A step multiplies that by c_t, adds the
sensitivity s_t, and its noise pays for a part a_t of it: z_t = c_t z_{t-1} + s_t - a_t. Once z_T = 0 the last iterates
are mu-GDP with mu^2 = sum (a_t/tau_t)^2, whatever the a_t. With C_t the product of the later c's, b_t = C_t a_t,
V_t = sum (C_t tau_t)^2 and U_t = sum C_t s_t up to t, the best choice minimises the integral of (dB/dV)^2 under B <= U and
B(V_T) = U_T: a taut string, the lower convex hull of the points (V_t, U_t). Its vertices are the zeros of z, and a chord (dV, dU)
costs dU^2/dV.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from dpaccount._log import ULP
from dpaccount.mechanisms.gaussian import Gaussian

Array = npt.NDArray[np.float64]
LEAST = 1e-100  # the least mu that is told from 0, and the largest that is told from infinity
MOST = 1e100
APART = 1e30  # an expansion after which the noise before it pays for nothing
RANGE = 1e40  # of shifts and noises


def gap_of(step_size: float, smoothness: float, strong_convexity: float) -> float:
    """1 - c, c = max(|1 - eta rho|, |1 - eta beta|) the Lipschitz constant of x - eta f'(x); below 0 if steps expand.

    f is beta-smooth and f - rho |x|^2/2 is convex (rho < 0: weakly convex), so every eigenvalue of the Hessian is in [rho, beta].
    Rounded down, so that what follows from it is an upper bound.
    """
    slow, fast = step_size * strong_convexity, 2.0 - step_size * smoothness
    return min(slow - ULP * abs(slow), fast - 2 * ULP * (1.0 + abs(step_size * smoothness)), 2.0 - slow, 1.0)


def gdp_pair(mu: float) -> Gaussian:
    """The pair of a mu-GDP guarantee, mu rounded up to the range of a noise multiplier."""
    return Gaussian(0.0 if mu >= MOST else math.nextafter(1.0 / max(mu, LEAST), 0.0))


class Interpolation(NamedTuple):
    """The best shifted interpolation of a schedule.

    `mu` is rounded up. The interpolation begins after step `start`, at distance 0 or, at a restart, the diameter; `zeros` are the
    steps after which nothing of the shift remains, in order, the last step included.
    """

    mu: float
    start: int
    zeros: npt.NDArray[np.int64]

    @property
    def pair(self) -> Gaussian:
        """N(mu, 1) against N(0, 1): a dominating pair of the last iterate, which composes with everything."""
        return gdp_pair(self.mu)


@dataclass(frozen=True, eq=False)
class Schedule:
    """x_t = Proj(phi_t(x_{t-1}) + N(0, tau_t^2 I)), t = 1..T, run with phi or with phi', of which x_T alone is seen.

    Parameters
    ----------
    contraction : float or array of T
        c_t >= 0: for every t one of phi_t and phi'_t has this Lipschitz constant.
    shift : float or array of T
        s_t >= 0: the largest |phi_t(x) - phi'_t(x)|; 0 where the record that differs is not used.
    noise : float or array of T
        tau_t >= 0, the standard deviation of each coordinate.
    steps : int, optional
        T; needed if all three are numbers.
    initial : float
        The largest distance of the two starting points, >= 0 (0: the start does not depend on the record).
    diameter : float, optional
        A bound on the distance of any two iterates, such as the diameter of the set that every step projects onto.

    Guarantee
    ---------
    The last iterates of the two runs are `mu`-GDP, in both orders, if the noises are independent of all else and every step
    ends in a map that does not depend on the record and does not expand (a projection, or nothing). `mu` is the least
    that any choice of shifts a_t, of zeros and of a restart gives, rounded up by 2e-15 per step, relatively.

    References
    ----------
    Bok, Su, Altschuler (2024), Sections 3 and 4. That the best shifts are a convex hull is derived in the documentation.

    Examples
    --------
    >>> from dpaccount.iteration import Schedule
    >>> one_pass = Schedule(contraction=1.0, shift=[1.0] + 39 * [0.0], noise=1.0)
    >>> round(one_pass.solve().mu, 12), round(40**-0.5, 12)
    (0.158113883008, 0.158113883008)
    """

    contraction: Any
    shift: Any
    noise: Any
    steps: int | None = None
    initial: float = 0.0
    diameter: float | None = None

    def __post_init__(self) -> None:
        found = {
            name: _check.reals("Schedule", name, getattr(self, name), low=0.0, high=RANGE) for name in ("contraction", "shift", "noise")
        }
        lengths = {name: array.size for name, array in found.items() if array.ndim}
        steps = self.steps if self.steps is not None else max(lengths.values(), default=None)
        if steps is None:
            _check.refuse("Schedule", "steps", "given, or one of the others a sequence", None, kind=TypeError)
        steps = _check.count("Schedule", "steps", steps)
        for name, array in found.items():
            if array.ndim > 1 or (array.ndim == 1 and array.size != steps):
                _check.refuse("Schedule", name, f"a number or a sequence of length {steps}", getattr(self, name))
            if name != "contraction" and array.size and np.any((array > 0.0) & (array < 1.0 / RANGE)):
                _check.refuse("Schedule", name, f"0 or in [{1 / RANGE:g}, {RANGE:g}]", getattr(self, name), "Choose other units.")
            object.__setattr__(self, name, np.broadcast_to(array, (steps,)))
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "initial", _check.real("Schedule", "initial", self.initial, low=0.0, high=RANGE))
        if self.diameter is not None:
            object.__setattr__(self, "diameter", _check.real("Schedule", "diameter", self.diameter, low=0.0, high=RANGE))

    def solve(self) -> Interpolation:
        """The best shifts, in linear time; each restart that a lower bound cannot exclude takes logarithmic time more."""
        marks, parts = _parts(self.contraction, self.shift, np.square(self.noise), keep_start=self.initial > 0.0)
        hull = _Hull(*parts)
        found, start, first = hull.tangent(0, self.initial)
        if self.diameter is not None:
            found, start, first = hull.best_restart(self.diameter, (found, start, first))
        mu = math.sqrt(found) if found < math.inf else math.inf
        rounding = 1.0 + 8 * ULP * (len(self.shift) + 4)
        zeros = np.array([marks[m] for m in hull.vertices(start, first)], dtype=np.int64)
        return Interpolation(mu * rounding + LEAST, marks[start], zeros)


Floats = list[float]


def _parts(contraction: Array, shift: Array, variance: Array, keep_start: bool) -> tuple[list[int], tuple[Floats, Floats, Floats]]:
    """Shift, variance and contraction of parts: runs of steps that neither use the record nor expand count as one, seen from its end.

    No vertex and no best restart lies inside such a run, nor anything before the first use if both start alike.
    `marks` are the steps between parts.
    """
    c, s, v = contraction.tolist(), shift.tolist(), variance.tolist()
    t = 0 if keep_start else next((t for t, value in enumerate(s) if value > 0.0), len(s))
    marks, a, q, g = [t], [], [], []
    while t < len(s):
        shifted, noise, factor = s[t], v[t], c[t]
        t += 1
        if shifted == 0.0 and factor <= 1.0 and len(marks) > 1:  # after the first step a restart is possible
            while t < len(s) and s[t] == 0.0 and c[t] <= 1.0:
                noise, factor = c[t] * c[t] * noise + v[t], c[t] * factor
                t += 1
        a.append(shifted)
        q.append(noise)
        g.append(factor)
        marks.append(t)
    return marks, (a, q, g)


def cost(shift: float, variance: float) -> float:
    """The square of mu if a shift is paid for at an even rate."""
    if shift == 0.0:
        return 0.0
    found = shift * shift / variance if variance > 0.0 else math.inf
    return found if found == found else math.inf


class _Hull:
    """Lower convex hulls of the points k..n for every k: point k knows the next vertex and the chord to it.

    A chord is (a, q, g): shift, variance and contraction seen from its own end, so that nothing overflows or underflows that matters.
    One chord then another make (g2 a1 + a2, g2^2 q1 + q2, g1 g2); the string leaves the point between them if
    a1 q2 >= g2 a2 q1, since then the first is the steeper.
    """

    def __init__(self, shift: Floats, variance: Floats, contraction: Floats) -> None:
        n = len(shift)
        self.n, self.next, self.left, self.below = n, [n] * (n + 1), [0.0] * (n + 1), [math.inf] * (n + 1)
        self.a, self.q, self.g = [0.0] * (n + 1), [0.0] * (n + 1), [1.0] * (n + 1)
        self.straight = [(0.0, 0.0, 1.0)] * (n + 1)
        following, a_of, q_of, g_of, left = self.next, self.a, self.q, self.g, self.left
        whole_a, whole_q, whole_g = 0.0, 0.0, 1.0
        for k in range(n - 1, -1, -1):
            a, q, g, m = shift[k], variance[k], contraction[k], k + 1
            whole_a, whole_q, whole_g = whole_g * a + whole_a, whole_g * whole_g * q + whole_q, whole_g * g
            self.straight[k] = (whole_a, whole_q, whole_g)
            while m < n and a * q_of[m] >= g_of[m] * a_of[m] * q and (g_of[m] < APART or q == 0.0):
                c = g_of[m]
                a, q, g, m = c * a + a_of[m], c * c * q + q_of[m], c * g, following[m]
            following[k], a_of[k], q_of[k], g_of[k] = m, a, q, g
            left[k] = cost(a, q) + left[m]

    def tangent(self, k: int, distance: float, far: list[tuple[int, float, float, float]] | None = None) -> tuple[float, int, int]:
        """Cost, k and the first zero, if the string begins at point k but `distance` below it."""
        if distance == 0.0:
            return self.left[k], k, self.next[k]
        n, following, a_of, q_of, g_of = self.n, self.next, self.a, self.q, self.g
        a, q, m = distance, 0.0, k
        while m < n and a * q_of[m] >= g_of[m] * a_of[m] * q:
            if far is not None:
                j, leap_a, leap_q, c = far[m]
                b, r = c * a + leap_a, c * c * q + leap_q
                if j < n and b * q_of[j] >= g_of[j] * a_of[j] * r:
                    a, q, m = b, r, j
                    continue
            c = g_of[m]
            a, q, m = c * a + a_of[m], c * c * q + q_of[m], following[m]
        return cost(a, q) + self.left[m], k, m

    def best_restart(self, diameter: float, best: tuple[float, int, int]) -> tuple[float, int, int]:
        """The least cost of beginning at any point at this distance, or `best`.

        The cost of beginning at k is at least that of the straight line to the end, and it is convex in the distance.
        """
        if diameter == 0.0:
            return min(best, (0.0, self.n - 1, self.n)) if self.n > 1 else best
        whole_a, whole_q, whole_g = np.array(self.straight[1 : self.n] or [(0.0, 0.0, 1.0)]).T
        a, q, g, left = (np.array(v[1 : self.n] or [0.0]) for v in (self.a, self.q, self.g, self.left))
        with np.errstate(all="ignore"):
            line = np.square(whole_g * diameter + whole_a) / whole_q
            slope = left + np.where(a > 0.0, 2.0 * diameter * g * a / q, 0.0)
            least = (1.0 - 1e-9) * np.fmax(np.nan_to_num(line, nan=0.0), np.nan_to_num(slope, nan=0.0))
        far = None
        for count, k in enumerate(np.argsort(least, kind="stable")[: max(self.n - 1, 0)].tolist()):
            if least[k] >= best[0]:
                break
            if count == 32:
                far = self._far()
            found = self.tangent(k + 1, diameter, far)
            if found[0] < best[0]:
                best = found
        return best

    def _far(self) -> list[tuple[int, float, float, float]]:
        """From each point a chord over many vertices (the jump pointers of a skew-binary list): tangents in logarithmic time."""
        n, following, depth = self.n, self.next, [0] * (self.n + 1)
        far = [(n, 0.0, 0.0, 1.0)] * (n + 1)
        for k in range(n - 1, -1, -1):
            m, a, q, g = following[k], self.a[k], self.q[k], self.g[k]
            j = far[m][0]
            depth[k] = depth[m] + 1
            if depth[m] - depth[j] == depth[j] - depth[far[j][0]] and m < n:
                for _, b, r, c in (far[m], far[j]):
                    a, q, g = c * a + b, c * c * q + r, c * g
                far[k] = far[j][0], a, q, g
            else:
                far[k] = m, a, q, g
        return far

    def vertices(self, start: int, first: int) -> list[int]:
        """The points where the string touches, from the first one on."""
        found, m = [], first
        while m < self.n:
            found.append(m)
            m = self.next[m]
        return [*found, self.n]
