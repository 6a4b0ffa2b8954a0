"""The gate: every number that depends on the data and leaves a solver passes here, with its sensitivity stated.

Algorithms never add noise by themselves. So the tests can stand at the gate: they record what passes, compare neighbours, and
recompose the guarantee from what was really asked.

What is done about floating point. ``value + noise`` is rounded exactly, once, to a grid of 2^-10 of the noise's scale, so that the
low bits that betray a textbook Laplace or Gaussian sampler (Mironov 2012) never leave. What doubles do to the noise itself changes
no probability by more than e^(+-xi), xi = 2^-32 an entry (2^-29 for Laplace), and the noise is made wider by ``4 xi noise_multiplier``,
which is proved to pay for it (`solvers.grid`). Values beyond 2^30 scales are refused. Not paid for, as it is not proved: the last
few ulps of the noise of `prefix_sums` and `covered`, which passes through products, and of the Gumbel noise of `select`.

What is not done. Products of matrices follow the order of operations of the BLAS in use, so that other records' terms may
differ in their last bits between neighbours; `Problem.sensitivity` widens sums by what summation can lose, but a kink of a
loss can magnify such a bit. Time and memory are not hidden. Arithmetic is not constant-time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from solvers.factorisations import Factorisation, Participation
from solvers.factorisations.decoder import Decoder
from solvers.grid import SMALLEST, Grid, hidden_reach, noise_scale, on_grid, two_sum, within_reach
from solvers.random import RandomSource

Array = npt.NDArray[np.float64]


class ConvexTarget(Protocol):
    """What `Gate.sample` draws from: a convex F on a set."""

    def draw(self, rate: float, source: RandomSource) -> Array:
        """An exact draw from density e^{-rate F}."""
        ...

    def probe(self) -> Array:
        """F, up to a constant, at public points."""
        ...


class Gate:
    """Where values meet noise. Sensitivities are those under add-or-remove; for sums, replace-one doubles them.

    Parameters
    ----------
    source : RandomSource, optional
        Default the operating system's generator.
    """

    def __init__(self, source: RandomSource | None = None) -> None:
        self.source = RandomSource() if source is None else source

    @property
    def secure(self) -> bool:
        """False where the noise comes from a seed."""
        return self.source.secure

    def gaussian(self, value: Array, *, sensitivity: float, noise_multiplier: float) -> Array:
        """``value + N(0, (noise_multiplier sensitivity)^2 I)`` on the grid; l2 sensitivity. Accounted by ``Gaussian(noise_multiplier)``."""
        grid = Grid.of("gaussian", noise_multiplier, sensitivity, np.size(value))
        return grid.rounded(value, self.source.gaussian(grid.scale, np.shape(value)))

    def laplace(self, value: Array, *, sensitivity: float, noise_multiplier: float) -> Array:
        """The same with Laplace noise of that scale on each entry; l1 sensitivity. Accounted by ``Laplace(noise_multiplier)``."""
        grid = Grid.of("laplace", noise_multiplier, sensitivity, np.size(value))
        return grid.rounded(value, self.source.laplace(grid.scale, np.shape(value)))

    def hidden(self, value: Array, *, sensitivity: float, noise_multiplier: float, law: str, steps: int) -> Array:
        """``value`` plus such noise for one of `steps` steps that nobody sees, not on a grid: rounding is no contraction, and
        theorems about hidden iterates need one. The last step, which is seen, is `gaussian` or `laplace`. Iterates beyond
        `hidden_reach` are refused.
        """
        scale = noise_scale(noise_multiplier, sensitivity)
        draw = self.source.gaussian if law == "gaussian" else self.source.laplace
        noisy = np.asarray(value + draw(scale, np.shape(value)))
        if scale > 0.0:
            within_reach(noisy, scale)
            within_reach(np.linalg.norm(noisy), scale, hidden_reach(steps, np.size(value), sensitivity) / scale)
        return noisy

    def select(self, scores: Array, *, sensitivity: float, epsilon: float) -> int:
        """The index k with probability proportional to e^{epsilon scores_k/(2 sensitivity)}, by Gumbel noise and argmax.

        `sensitivity` bounds how much any one score moves. Accounted by ``ExponentialMechanism(epsilon)`` under add-or-remove,
        and under replace-one by ``ExponentialMechanism(2 * epsilon)``, as scores then move by twice as much. Proof. The log-ratio of k's
        probabilities is ``epsilon (s_k - s'_k)/(2 sensitivity)`` and a constant that all k share, so it has a range of at most epsilon
        (or 2 epsilon), and the pair dominates all of that range (DDR20, Theorem 2). Gumbel noise and argmax are the exponential mechanism
        (MT07) exactly, as ``P{argmax = k} = e^{a_k}/sum e^{a_j}``.
        """
        return self.source.choice(np.asarray(scores) * (epsilon / (2.0 * sensitivity)))

    def select_count(self, counts: Array, *, epsilon: float) -> int:
        """The index k with probability proportional to e^{epsilon counts_k}.

        A record that joins raises every count by something in [0, 1], and lowers none: so under add-or-remove the log-ratio has range
        epsilon, without the 2 of `select`. Accounted by ``ExponentialMechanism(epsilon)`` there, and under replace-one by
        ``ExponentialMechanism(2 * epsilon)``. Public numbers may be added to counts.
        """
        return self.source.choice(np.asarray(counts) * epsilon)

    def prefix_sums(
        self, factorisation: Factorisation, participation: Participation, dimension: int, *, sensitivity: float, noise_multiplier: float
    ) -> PrefixSums:
        """A stream that takes one gradient sum a step and gives prefix sums with the correlated noise B Z.

        `sensitivity` bounds what one record adds to one step in l2. The whole stream is accounted by ``Gaussian(noise_multiplier)``.
        """
        return PrefixSums(self.source, factorisation, participation, dimension, sensitivity, noise_multiplier)

    def objective_noise(
        self, gradient: Callable[[Array], Array], dimension: int, *, sensitivity: float, noise_multiplier: float, law: str, blocks: int = 1
    ) -> Array:
        """A linear term for an objective whose `gradient` moves by at most `sensitivity` in l2, at any point.

        Law ``gamma``: density proportional to ``e^{-|b|/(noise_multiplier sensitivity)}``; with K `blocks`, theta being K columns kept
        row by row, |b| is the sum of the columns' l2 norms, and so is what `sensitivity` bounds. ``gaussian``: normal with that standard
        deviation. Not on a grid: it acts through the minimiser, and `covered` hides what that is computed to. Accounted by
        `solvers.perturbation`, since the Hessian has its part in it.
        """
        scale = noise_scale(noise_multiplier, sensitivity)
        if law == "gaussian":
            return self.source.gaussian(scale, (dimension,))
        return self.source.gamma_norms(scale, dimension // blocks, blocks).ravel()

    def covered(self, value: Array, *, error: float, noise_multiplier: float, law: str) -> Array:
        """`value` plus noise on the grid, to cover that it is known to within `error` in l2, whatever the data.

        Two data sets then differ by at most 2 `error` from what is released exactly, so noise of scale
        ``2 error noise_multiplier`` is accounted as ``PureDP(1/noise_multiplier)`` for law ``gamma`` and as Gaussian DP of
        ``1/noise_multiplier`` for law ``gaussian``, as given under every relation.
        """
        scale = noise_scale(noise_multiplier, 2.0 * error)
        size = len(value)
        noise = self.source.gamma_norm(scale, size) if law == "gamma" else self.source.gaussian(scale, (size,))
        return on_grid(value, noise, scale)

    def sample(self, target: ConvexTarget, *, sensitivity: float, epsilon: float) -> Array:
        """An exact draw from density proportional to ``e^{-epsilon F/sensitivity}``.

        `sensitivity` bounds the range, over the set, of what a record adds to F. Accounted by ``ExponentialMechanism(epsilon)`` under
        add-or-remove, and under replace-one by ``ExponentialMechanism(2 * epsilon)``.
        """
        return target.draw(epsilon / sensitivity, self.source)

    def drawn(self, point: Array, scale: float) -> Array:
        """A draw whose last step added noise of this scale, on the grid of that noise: its low bits stay here."""
        if not scale > 0.0:
            _check.refuse("Gate", "scale", "above 0", scale)
        return on_grid(point, np.zeros(np.shape(point)), scale)

    def poisson_batch(self, size: int, probability: float) -> npt.NDArray[np.bool_]:
        """Which records are in a batch, each independently with the given probability; what follows is accounted as sampled."""
        return self.source.included(probability, size)


class PrefixSums:
    """``S_t + (B Z)_t`` on the grid of its own noise, Z of scale ``noise_multiplier sensitivity sens(C)``, drawn before the first step.

    The sensitivity is that of the least C of this B (`solvers.factorisations.decoder`), and the norms are of this B: nothing that
    a factorisation states about itself is used.

    S_t is kept in two doubles, so that T additions lose at most ``2^-104 T`` of the largest |S_t|, which is at most 2^31 of its noise,
    or nothing leaves. Two data sets then differ by another ``2^-72 T r |b_t|`` scales of Z in an entry of S_t at most, r the ratio of
    the largest norm |b_t| of a row to the smallest, and so in l2, all T p entries pulled back through B^+, by at most
    ``2^-72 T r sqrt(T p) |B^+|`` scales. If that times noise_multiplier is at most 2^-13, it is 2^-13 of the sensitivity, which
    `Problem.sensitivity` has room for beside what sums of records lose. Otherwise it is refused.
    """

    def __init__(
        self, source: RandomSource, factorisation: Factorisation, participation: Participation, dimension: int, sensitivity: float,
        noise_multiplier: float,
    ) -> None:
        decoder = Decoder.of("Gate", factorisation, participation)
        self.sensitivity, self.decoder = sensitivity * decoder.sensitivity, decoder.matrix
        scale = noise_scale(noise_multiplier, self.sensitivity)
        self.scales = scale * decoder.norms
        self._check_digits(decoder, dimension, noise_multiplier)
        self.noise = source.gaussian(scale, (self.decoder.shape[1], dimension))
        self.total, self.low, self.step = np.zeros(dimension), np.zeros(dimension), 0

    def _check_digits(self, decoder: Decoder, dimension: int, noise_multiplier: float) -> None:
        steps = len(decoder.norms)
        if noise_multiplier > 0.0 and not self.scales.min() >= SMALLEST:
            _check.refuse("Gate", "sensitivity", f"such that noise has a scale of at least {SMALLEST:g}", float(self.scales.min()))
        drift = 2.0**-72 * steps * float(decoder.norms.max() / decoder.norms.min()) * math.sqrt(steps * dimension) * decoder.inverse
        if not drift * noise_multiplier <= 2.0**-13:
            hint = "The last digits of so many sums would add up."
            _check.refuse("Gate", "noise_multiplier", f"at most {2.0**-13 / drift:g} for this factorisation", noise_multiplier, hint)

    def release(self, value: Array) -> Array:
        """The noisy sum of this value and all before it."""
        total, lost = two_sum(self.total, np.asarray(value, dtype=float))
        self.total, self.low = two_sum(total, lost + self.low)
        t, self.step = self.step, self.step + 1
        return on_grid(self.total, self.decoder[t] @ self.noise, float(self.scales[t]), low=self.low)


def gate_of(owner: str, random: Any) -> Gate:
    """The gate of what a user passes as `random`: nothing, a source, or a gate."""
    if random is None:
        return Gate()
    if isinstance(random, RandomSource):
        return Gate(random)
    hint = "A seed makes noise that protects nobody: RandomSource.seeded_for_tests_only(seed) says so."
    found: Gate = _check.instance(owner, "random", random, Gate, "None, a RandomSource or a Gate", hint)
    return found
