"""A schedule: Poisson-sampled Gaussians of one sampling probability and many noise multipliers, kept as arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final, overload

import numpy as np

from dpaccount import _check
from dpaccount.adjacency import Adjacency, parse, unsupported
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.pair import DominatingPair, Reversed, Step, compose_all
from dpaccount.sampling.poisson import PoissonSampled

OWNER = "NoiseSchedule"


@final
@dataclass(frozen=True)
class NoiseSchedule(DominatingPair):
    """The composition of ``PoissonSampled(Gaussian(s), q)`` over many noise multipliers s, in any order.

    It equals the sum of its steps; kept as arrays, 100,000 different ones cost little more than one.

    Parameters
    ----------
    noise_multipliers : sequence of float
        One for each step, in [1e-100, 1e100]; equal ones are counted together.
    sampling_probability : float
        q in (0, 1), the same for every step.
    counts : sequence of int, optional
        How often each noise multiplier is used; default once.
    swapped : bool
        The add direction, as `reversed` gives it.

    Guarantee
    ---------
    That of `PoissonSampled` for the composition.

    Examples
    --------
    >>> from dpaccount import NoiseSchedule, PrivacyProfile
    >>> schedule = NoiseSchedule([2.0 - 0.001 * k for k in range(1000)], sampling_probability=0.01)
    >>> answer = PrivacyProfile(schedule).epsilon(delta=1e-5)
    >>> round(answer.estimate, 6), answer.certified
    (1.07171, True)
    """

    noise_multipliers: tuple[float, ...]
    sampling_probability: float
    counts: tuple[int, ...] = ()
    swapped: bool = False

    def __post_init__(self) -> None:
        given = _check.reals(OWNER, "noise_multipliers", self.noise_multipliers, hint="Pass one number a step.")
        if given.ndim != 1 or not given.size:
            _check.refuse(OWNER, "noise_multipliers", "a non-empty sequence of numbers", self.noise_multipliers)
        if not (given.min() >= 1e-100 and given.max() <= 1e100):
            bad = given[(given < 1e-100) | (given > 1e100)][0]
            _check.refuse(OWNER, "noise_multipliers", "in [1e-100, 1e100]", float(bad), "Without noise every epsilon is infinite.")
        q = _check.real(
            OWNER, "sampling_probability", self.sampling_probability, low=1e-100, high=1.0, open_high=True,
            hint="Unsampled steps compose as Gaussian(s) + Gaussian(t) + ...",
        )
        every = isinstance(self.counts, tuple) and not self.counts
        counts = np.ones(given.size) if every else _check.reals(OWNER, "counts", self.counts, low=1, high=_check.MAX_COUNT)
        if counts.shape != given.shape or np.any(counts != np.floor(counts)):
            _check.refuse(OWNER, "counts", "a whole number for every noise multiplier", self.counts)
        values, place = np.unique(given, return_inverse=True)
        total = np.bincount(place, weights=counts)
        object.__setattr__(self, "noise_multipliers", tuple(values.tolist()))
        object.__setattr__(self, "counts", tuple(int(n) for n in total))
        object.__setattr__(self, "sampling_probability", q)
        object.__setattr__(self, "swapped", _check.flag(OWNER, "swapped", self.swapped))

    @cached_property
    def _hash(self) -> int:
        return hash((self.noise_multipliers, self.sampling_probability, self.counts, self.swapped))

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        s, steps = self.noise_multipliers, sum(self.counts)
        span = f"{s[0]:g}" if len(s) == 1 else f"{s[0]:g} to {s[-1]:g}"
        text = f"NoiseSchedule(<{steps} steps, {len(s)} noise multipliers from {span}>, {self.sampling_probability!r})"
        return f"{text}.reversed()" if self.swapped else text

    @property
    def terms(self) -> Sequence[tuple[Step, int]]:
        """The distinct steps, each made when it is looked at."""
        return _Terms(self)

    @property
    def kinds(self) -> Iterable[Step]:
        return (self.terms[0][0],)

    @cached_property
    def log_p_only(self) -> float:
        """No loss is infinite."""
        return -math.inf

    @cached_property
    def proved(self) -> bool:
        return True

    @cached_property
    def loss_range(self) -> tuple[float, float]:
        end = sum(self.counts) * math.log1p(-self.sampling_probability)
        return (-math.inf, -end) if self.swapped else (end, math.inf)

    def reversed(self) -> DominatingPair:
        return replace(self, swapped=not self.swapped)

    def under(self, adjacency: str | Adjacency) -> tuple[DominatingPair, ...]:
        relation = parse(f"{OWNER}.under", adjacency)
        if relation is Adjacency.AS_WRITTEN:
            return (self,)
        if self.swapped:
            unsupported(
                repr(self), relation, "a reversed pair is one direction already; use adjacency='as-written', or reverse nothing."
            )
        if relation is Adjacency.REPLACE_ONE:
            return (compose_all((step.under(relation)[0], count) for step, count in self.terms),)
        return self, self.reversed()


class _Terms(Sequence[tuple[Step, int]]):
    def __init__(self, schedule: NoiseSchedule) -> None:
        self._of = schedule

    def __len__(self) -> int:
        return len(self._of.counts)

    def _made(self, index: int) -> tuple[Step, int]:
        step: Step = PoissonSampled(Gaussian(self._of.noise_multipliers[index]), self._of.sampling_probability)
        return (Reversed(step) if self._of.swapped else step), self._of.counts[index]

    @overload
    def __getitem__(self, index: int) -> tuple[Step, int]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[tuple[Step, int]]: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self._made(i) for i in range(*index.indices(len(self)))]
        return self._made(range(len(self))[index])

    def __iter__(self) -> Iterator[tuple[Step, int]]:
        return (self._made(i) for i in range(len(self)))
