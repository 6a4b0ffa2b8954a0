"""Dominating pairs: one privacy loss, K(z) = log E_P[e^{zL}], and the algebra on it.

An ordered pair (P, Q) has the privacy loss L = log dP/dQ. Composition adds K, swapping the pair
is K(-1-z), and every curve is read off K. A `Step` is one release: besides K it knows its tails,
so that it can be sampled and put on a lattice. A `Composition` is a sum of steps with counts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, final

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from dpaccount._facts import Facts as Facts
from dpaccount._facts import Tails as Tails
from dpaccount._facts import log_error as log_error
from dpaccount._log import ULP, log1m_exp
from dpaccount._quadrature import Density as Density
from dpaccount._quadrature import Nodes, both_roundings, density_nodes, swapped
from dpaccount._slip import Slip, atoms_slip
from dpaccount._slip import log as safe_log
from dpaccount.adjacency import Adjacency, parse, unsupported

Array = npt.NDArray[np.float64]
SHOWN = 12  # distinct steps in the text of a composition


class Guarantee(ABC):  # noqa: B024
    """What is known about a mechanism's privacy: a `DominatingPair`, a `RenyiBound`, or a `BestOf`."""


class DominatingPair(Guarantee):
    """An ordered pair (P, Q) that dominates a mechanism: E_gamma(M(D)||M(D')) <= E_gamma(P||Q) for all gamma >= 0.

    Composition of pairs is again a dominating pair, also for adaptively chosen mechanisms
    (ZDW22, Theorem 10). Expressions are frozen and hashable; ``pair + pair`` and ``count * pair`` compose.
    """

    @property
    @abstractmethod
    def terms(self) -> Sequence[tuple[Step, int]]:
        """The distinct steps with their counts."""

    @abstractmethod
    def under(self, adjacency: str | Adjacency) -> tuple[DominatingPair, ...]:
        """The one or two directed pairs that the relation needs; raises `UnsupportedAdjacency` otherwise."""

    @abstractmethod
    def reversed(self) -> DominatingPair:
        """The swapped pair (Q, P), whose K is K(-1-z)."""

    @final
    def log_mgf(self, z: Any) -> Any:
        """K(z) = log of the integral of p^{z+1} q^{-z} over {p, q > 0}; any branch of the logarithm.

        Parameters
        ----------
        z : complex or array
            Any point of the plane where the integral converges.

        Returns
        -------
        complex or array
            Real for real input. ``K(0) = log(1 - P{q = 0})`` and ``K(-1) = log(1 - Q{p = 0})``.
        """
        z = _check.points("log_mgf", "z", z)
        kind = complex if np.iscomplexobj(z) else float
        total = np.zeros(z.shape, dtype=kind)
        for step, times in self.terms:
            value = np.asarray(step.step_log_mgf(z.astype(kind)))
            gone = np.isneginf(np.real(value))
            total = np.where(gone, -np.inf, total + times * np.where(gone, 0.0, value))
        return total[()]

    @final
    def __add__(self, other: object) -> DominatingPair:
        if not isinstance(other, DominatingPair):
            return NotImplemented
        return compose((*self.terms, *other.terms))

    @final
    def __mul__(self, times: object) -> DominatingPair:
        if isinstance(times, Guarantee):
            return NotImplemented
        number = _check.count(
            "Composition", "count", times, hint="A composition repeats a step a whole number of times."
        )
        return compose((step, count * number) for step, count in self.terms)

    __rmul__ = __mul__

    @property
    def kinds(self) -> Iterable[Step]:
        """Steps of every kind there is: all of them, or one of each where there are too many to look at."""
        return (step for step, _ in self.terms)

    @cached_property
    def log_p_only(self) -> float:
        """log P{L = inf} of the whole composition."""
        if all(step.facts.log_p_only == -np.inf for step in self.kinds):
            return -np.inf
        return float(log1m_exp(sum(n * float(log1m_exp(s.facts.log_p_only)) for s, n in self.terms)))

    @cached_property
    def proved(self) -> bool:
        """Whether every step's pair is proved to dominate its mechanism."""
        return all(step.facts.proved for step, _ in self.terms)

    @cached_property
    def upper_bound(self) -> bool:
        """Whether some step's pair is no more than an upper bound."""
        return any(step.facts.upper_bound for step in self.kinds)

    @cached_property
    def loss_range(self) -> tuple[float, float]:
        """The least and largest finite privacy loss the composition can show (infinite where unbounded)."""
        low = sum(n * s.facts.min_loss for s, n in self.terms)
        high = sum(n * s.facts.max_loss for s, n in self.terms)
        return float(low), float(high)


class Step(DominatingPair):
    """One release. Subclasses are frozen dataclasses that supply formulas; nothing else is overridden."""

    @property
    @abstractmethod
    def facts(self) -> Facts:
        """Masses at infinity, range, lattice, smoothness."""

    @abstractmethod
    def tails(self, loss: Any) -> Tails:
        """The four tails of the privacy loss at `loss` (array), in logs."""

    @abstractmethod
    def atoms(self) -> tuple[Array, Array]:
        """(loss, log P-mass) of the atoms with a finite loss; empty arrays if there are none."""

    @abstractmethod
    def density(self) -> Density | None:
        """The continuous part, or None."""

    @abstractmethod
    def log_delta(self, epsilon: Any) -> Any | None:
        """log of the hockey-stick divergence at real epsilon in closed form, or None."""

    @abstractmethod
    def step_log_mgf(self, z: Any) -> Any:
        """K(z) of this one step; `quadrature_log_mgf` serves every step without a formula."""

    @property
    @final
    def terms(self) -> tuple[tuple[Step, int], ...]:
        return ((self, 1),)

    def reversed_log_delta(self, epsilon: Any) -> Any | None:
        """`log_delta` of the swapped pair, for steps that have it in closed form."""
        return None

    def loss_error(self, loss: Array) -> Array:
        """What the losses as stated (atoms, ends of the range) may be off by, absolutely: a few ulps of each."""
        return np.asarray(4 * ULP * np.abs(loss))

    @property
    def mass_error(self) -> float:
        """By how much probabilities as given miss the sum 1: relative to each of them."""
        return 0.0

    def atom_rounding(self) -> tuple[Array, Array]:
        """For every atom, what its loss may be off by absolutely and its mass relatively."""
        loss, log_p = self.atoms()
        return self.loss_error(loss), 1e-15 * (1.0 + np.abs(log_p)) + self.mass_error

    @property
    def log_left_out(self) -> float:
        """log of the P-mass that the atoms leave out."""
        return -np.inf

    def slip(self, epsilon: float, value: float) -> Slip:
        """What rounding does to the formula of the curve, `value` at `epsilon`."""
        return plain_slip(self, epsilon)

    def reversed_slip(self, epsilon: float, value: float) -> Slip:
        """The same for the swapped pair."""
        return plain_slip(self.reversed(), epsilon)

    def above(self, loss: float) -> tuple[float, float]:
        """log P[L > loss] and log Q[L > loss], at levels that keep their digits near 0."""
        tails = self.tails(np.array(loss))
        return float(tails.p_above), float(tails.q_above)

    def reversed_above(self, loss: float) -> tuple[float, float]:
        """The same for the swapped pair."""
        tails = self.reversed().tails(np.array(loss))
        return float(tails.p_above), float(tails.q_above)

    @abstractmethod
    def reversed(self) -> Step:
        """The swapped pair, again a step."""

    @property
    def alternatives(self) -> tuple[Guarantee, ...]:
        """Other valid guarantees for the same release (bounded range gives zCDP as well)."""
        return ()

    @final
    def nodes(
        self, low_tilt: float, high_tilt: float, rate: float, lower: float = -np.inf, upper: float = np.inf
    ) -> Nodes:
        """Nodes for E_P[e^{zL}; lower < L <= upper] with low_tilt <= Re z <= high_tilt, |Im z| <= rate."""
        density = self.density()
        smooth = None if density is None else density_nodes(density, low_tilt, high_tilt, rate, lower, upper)
        return self.with_atoms(smooth, lower, upper)

    @final
    def with_atoms(self, smooth: Nodes | None, lower: float = -np.inf, upper: float = np.inf) -> Nodes:
        """The atoms in lower < L <= upper before nodes of the density there."""
        if smooth is not None and self.facts.smooth:
            return smooth
        loss, log_p = self.atoms()
        keep = (loss > lower) & (loss <= upper)
        loss, log_p = loss[keep], log_p[keep]

        def rounding() -> tuple[Array, Array]:
            off, part = self.atom_rounding()
            return off[keep], part[keep]

        if smooth is None:
            return Nodes(loss, log_p, 0.0, loss.size, rounding)
        if not loss.size:
            return smooth
        both = np.concatenate([loss, smooth.loss]), np.concatenate([log_p, smooth.log_p])
        return Nodes(*both, smooth.error, loss.size, both_roundings(rounding, smooth.rounding), smooth.ends_only)


def plain_slip(step: Step, epsilon: float) -> Slip:
    """For sums over atoms; for differences of tails, a loss off by rounding counts with the slope there, e^eps Q[L > eps]."""
    if step.density() is None:
        loss, log_p = step.atoms()
        return atoms_slip(loss, log_p, step.loss_error(loss), step.mass_error, step.log_left_out, epsilon)
    tails = step.tails(np.array(epsilon))
    reach = abs(epsilon) + max(abs(v) for v in (step.facts.min_loss, step.facts.max_loss, 0.0) if np.isfinite(v))
    return Slip(tails.error, epsilon + float(tails.q_above) + safe_log(2 * ULP * reach))


@final
@dataclass(frozen=True)
class Reversed(Step):
    """The swapped pair of a step: P and Q exchange roles, L becomes -L. Build it with ``step.reversed()``."""

    step: Step

    @cached_property
    def facts(self) -> Facts:
        inner = self.step.facts
        lattice = None if inner.lattice is None else (-inner.lattice[0], inner.lattice[1])
        return Facts(
            inner.log_q_only, inner.log_p_only, -inner.max_loss, -inner.min_loss, lattice, inner.smooth, inner.proved, inner.upper_bound
        )

    def tails(self, loss: Any) -> Tails:
        inner = self.step.tails(-np.asarray(loss, dtype=float))
        return Tails(inner.q_below, inner.q_above, inner.p_below, inner.p_above, inner.error)

    def atoms(self) -> tuple[Array, Array]:
        loss, log_p = self.step.atoms()
        return -loss, log_p - loss

    def density(self) -> Density | None:
        return _swapped_density(self.step)

    def log_delta(self, epsilon: Any) -> Any | None:
        """By reflection: E_gamma(Q||P) = 1 - gamma + gamma E_{1/gamma}(P||Q)."""
        epsilon = np.asarray(epsilon, dtype=float)
        direct = self.step.reversed_log_delta(epsilon)
        if direct is not None or np.any(epsilon > 0):
            return direct  # the reflection cancels for epsilon > 0
        inner = self.step.log_delta(-epsilon)
        if inner is None:
            return None
        with np.errstate(divide="ignore"):
            return np.logaddexp(np.log(-np.expm1(epsilon)), epsilon + inner)

    def loss_error(self, loss: Array) -> Array:
        return self.step.loss_error(-loss)

    def atom_rounding(self) -> tuple[Array, Array]:
        (off, part), (loss, log_p) = self.step.atom_rounding(), self.step.atoms()
        return off, part + off + ULP * (np.abs(loss) + np.abs(log_p))

    @property
    def mass_error(self) -> float:
        return self.step.mass_error

    @property
    def log_left_out(self) -> float:
        return self.step.log_left_out

    def slip(self, epsilon: float, value: float) -> Slip:
        return self.step.reversed_slip(epsilon, value)

    def reversed_slip(self, epsilon: float, value: float) -> Slip:
        return self.step.slip(epsilon, value)

    def above(self, loss: float) -> tuple[float, float]:
        return self.step.reversed_above(loss)

    def reversed_above(self, loss: float) -> tuple[float, float]:
        return self.step.above(loss)

    def step_log_mgf(self, z: Any) -> Any:
        return self.step.step_log_mgf(-1.0 - np.asarray(z))

    def reversed(self) -> Step:
        return self.step

    def under(self, adjacency: str | Adjacency) -> tuple[DominatingPair, ...]:
        relation = parse("Reversed.under", adjacency)
        if relation is Adjacency.AS_WRITTEN:
            return (self,)
        unsupported(
            repr(self), relation, "a reversed pair is one direction already; use adjacency='as-written', or reverse nothing."
        )


@lru_cache(maxsize=256)
def _swapped_density(step: Step) -> Density | None:
    inner = step.density()
    return None if inner is None else swapped(inner)


@final
@dataclass(frozen=True)
class Composition(DominatingPair):
    """A sum of steps with counts; build it with ``+`` and ``*``. Cost grows with distinct steps, not counts."""

    parts: tuple[tuple[Step, int], ...]

    @cached_property
    def _hash(self) -> int:
        return hash(self.parts)

    def __hash__(self) -> int:
        return self._hash

    @property
    def terms(self) -> tuple[tuple[Step, int], ...]:
        return self.parts

    def reversed(self) -> DominatingPair:
        return compose((step.reversed(), count) for step, count in self.parts)

    def under(self, adjacency: str | Adjacency) -> tuple[DominatingPair, ...]:
        """Each direction composed on its own: the differing record is the same in every step."""
        sides = [(step.under(adjacency), count) for step, count in self.parts]
        if all(len(pairs) == 1 for pairs, _ in sides):
            return (compose_all((pairs[0], count) for pairs, count in sides),)
        as_it_is = all(pairs[0] is step for (pairs, _), (step, _) in zip(sides, self.parts, strict=True))
        return (
            self if as_it_is else compose_all((pairs[0], count) for pairs, count in sides),
            compose_all((pairs[-1], count) for pairs, count in sides),
        )

    def __repr__(self) -> str:
        """The expression; of a long one its beginning and its end."""
        shown = self.parts if len(self.parts) <= SHOWN else (*self.parts[: SHOWN - 1], *self.parts[-1:])
        texts = [repr(step) if count == 1 else f"{count} * {step!r}" for step, count in shown]
        if shown is not self.parts:
            texts.insert(-1, f"<{len(self.parts) - SHOWN} more>")
        return " + ".join(texts)


def compose_all(pairs: Iterable[tuple[DominatingPair, int]]) -> DominatingPair:
    """Compose pairs with counts into one."""
    return compose((step, inner * count) for pair, count in pairs for step, inner in pair.terms)


def compose(terms: Iterable[tuple[Any, int]]) -> DominatingPair:
    """Merge equal steps, keep the order of first appearance, and return a `Step` or a `Composition`."""
    merged: dict[Step, int] = {}
    for step, count in terms:
        merged[step] = merged.get(step, 0) + count
    idle = [] if len(merged) == 1 else [step for step in merged if step.facts == Facts(min_loss=0.0, max_loss=0.0, lattice=(0.0, 1.0))]
    for step in idle[: len(merged) - 1]:
        del merged[step]  # a step that reveals nothing costs nothing
    for step, count in ((step, count) for step, count in merged.items() if not 1 <= count <= _check.MAX_COUNT):
        _check.count("Composition", "count", count, hint=f"The step is {step!r}.")
    if len(merged) == 1:
        ((step, count),) = merged.items()
        if count == 1:
            return step
    return Composition(tuple(merged.items()))
