"""A factorisation A = B C of the prefix-sum matrix: noise Z enters as A G + B Z, which is private as C G + Z is."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from dpaccount import _check

Array = npt.NDArray[np.float64]
LARGEST = 1 << 13  # of a dense matrix


class Factorisation(ABC):
    """``A = B C`` with A the lower triangle of ones, n x n: prefix sums ``A G`` are released as ``B (C G + Z) = A G + B Z``.

    With Z of standard deviation s times the sensitivity of C the release is that of one Gaussian mechanism with noise multiplier s.
    """

    steps: int  # n, how many prefix sums there are

    @abstractmethod
    def encoder(self) -> Array:
        """C, dense: (m, n)."""

    @abstractmethod
    def decoder(self) -> Array:
        """B, dense: (n, m)."""

    def noise_norms(self) -> Array:
        """l2 norm of every row of B: the standard deviation of the noise in each prefix sum at sigma = 1."""
        return np.asarray(np.linalg.norm(self.decoder(), axis=1))

    def gram(self) -> Array:
        """C' C, on which sensitivity depends."""
        c = self.encoder()
        return np.asarray(c.T @ c)

    def sensitivity(self, participation: Participation | None = None) -> float:
        """l2 sensitivity of C G when a record of gradient norm 1 joins or leaves: default in one step, for replace-one twice that."""
        return (participation or Participation()).sensitivity(self.gram())

    def max_loss(self, participation: Participation | None = None) -> float:
        """Sensitivity times the largest noise of a prefix sum."""
        return self.sensitivity(participation) * float(self.noise_norms().max())

    def rms_loss(self, participation: Participation | None = None) -> float:
        """Sensitivity times the root mean square of the noise of prefix sums."""
        return self.sensitivity(participation) * math.sqrt(float(np.mean(self.noise_norms() ** 2)))


@final
@dataclass(frozen=True)
class Participation:
    """In which steps a record may take part: at most `count` of them, any two at least `separation` apart.

    ``sens^2 <= max over patterns pi of sum_{i,j in pi} |(C'C)_ij|``: exact when C'C >= 0 elementwise, or 0 from `separation` on, else an
    upper bound, as is the last resort of computing it; `exact` tells.

    Parameters
    ----------
    count : int
        k >= 1, the number of epochs.
    separation : int
        b >= 1; with fixed batches in the same order in every epoch, the number of batches.

    Examples
    --------
    >>> import numpy as np
    >>> from solvers.factorisations import Participation
    >>> round(Participation(count=2, separation=2).sensitivity(np.ones((3, 3))), 9)
    2.0
    """

    count: int = 1
    separation: int = 1

    def __post_init__(self) -> None:
        for name in ("count", "separation"):
            object.__setattr__(self, name, _check.count("Participation", name, getattr(self, name)))

    def sensitivity(self, gram: Array) -> float:
        """The bound for C'C = `gram`, rounded up by more than its sums can lose."""
        square = self._square(np.abs(gram))
        return math.sqrt(square) * (1.0 + (1e-13 * self.count * len(gram) if self.count > 1 else 2.0**-52 * len(gram)))

    def of_columns(self, encoder: Array) -> float:
        """The same for C itself; for one participation without its product."""
        if self.count > 1:
            return self.sensitivity(np.asarray(encoder.T @ encoder))
        return float(np.linalg.norm(encoder, axis=0).max() * (1.0 + 2.0**-52 * max(encoder.shape)))

    def exact(self, gram: Array) -> bool:
        """Whether `sensitivity` is attained: C'C >= 0 and the maximum over patterns is found."""
        if self._orthogonal(gram):
            return True
        found = bool((gram >= -1e-14 * np.abs(gram).max()).all())
        return found and (self._few(len(gram)) or _falling(gram))

    def _orthogonal(self, gram: Array) -> bool:
        """Whether steps of one pattern never meet: C has no more bands than their separation."""
        return self.count == 1 or not np.triu(gram, self.separation).any()

    def _few(self, steps: int) -> bool:
        """Whether all maximal patterns can be looked at."""
        return _patterns(steps, self.count, self.separation) <= 20_000

    def _square(self, size: Array) -> float:
        steps = len(size)
        if self._orthogonal(size):
            return _best_pattern(np.diag(size), self.count, self.separation)
        if _falling(size):  # the earliest pattern is the largest: every entry rises when a step moves to the front or gaps close
            places = np.arange(0, steps, self.separation)[: self.count]
            return float(size[np.ix_(places, places)].sum())
        if self._few(steps):
            return max(float(size[np.ix_(pi, pi)].sum()) for pi in patterns(steps, self.count, self.separation))
        return self._bounded(size)

    def _bounded(self, size: Array) -> float:
        """Each row by the best pattern for it alone, then the best pattern of rows: an upper bound, by two dynamic programs."""
        rows = np.array([_best_pattern(row, self.count, self.separation) for row in size])
        return _best_pattern(rows, self.count, self.separation)


def _falling(size: Array) -> bool:
    """Whether |C'C| is at its largest for early steps and small gaps: it never rises down a diagonal, nor away from the main one."""
    room = 1e-13 * float(size.max())
    down = bool((size[1:, 1:] <= size[:-1, :-1] + room).all())
    away = all(bool((np.diff(size[i, i:]) <= room).all()) for i in range(len(size)))
    return down and away


def _patterns(steps: int, count: int, separation: int) -> int:
    """How many patterns of exactly min(count, most) steps there are."""
    most = min(count, (steps - 1) // separation + 1)
    return math.comb(steps - (most - 1) * (separation - 1), most)


def patterns(steps: int, count: int, separation: int) -> Any:
    """Every pattern of min(count, most) steps at least `separation` apart; fewer steps never have more, as entries are >= 0."""
    for length in range(1, min(count, (steps - 1) // separation + 1) + 1):
        yield from _extend([], 0, length, steps, separation)


def _extend(found: list[int], first: int, left: int, steps: int, separation: int) -> Any:
    if not left:
        yield list(found)
        return
    for place in range(first, steps - (left - 1) * separation):
        yield from _extend([*found, place], place + separation, left - 1, steps, separation)


def _best_pattern(weights: Array, count: int, separation: int) -> float:
    """The largest sum of weights >= 0 over a pattern, by dynamic programming."""
    steps = len(weights)
    best = np.zeros(steps + separation)
    for _ in range(min(count, (steps - 1) // separation + 1)):
        taken = weights + best[separation : separation + steps]  # this step, then the best of one fewer from separation on
        fresh = np.zeros(steps + separation)
        fresh[:steps] = np.maximum.accumulate(taken[::-1])[::-1]
        best = np.maximum(best, fresh)
    return float(best[0])


def least_loss(steps: int) -> float:
    """No factorisation has a smaller root-mean-square loss in one participation: ``|A|_*/n``, with the singular values of A.

    ``|A|_* <= |B|_F |C|_F <= |B|_F sqrt(n) sens(C)``; A's singular values are ``1/(2 sin((2j-1) pi/(4n+2)))``. The largest loss is no less.

    Examples
    --------
    >>> from solvers.factorisations import SquareRoot, least_loss
    >>> round(least_loss(128), 6), round(SquareRoot(128).rms_loss(), 6)
    (2.254414, 2.448826)
    """
    n = checked_steps("least_loss", steps)
    return float(np.mean(0.5 / np.sin((2.0 * np.arange(1, n + 1) - 1.0) * math.pi / (4.0 * n + 2.0))))


def checked_steps(owner: str, steps: Any) -> int:
    """n in [1, 8192]: matrices are dense."""
    return _check.count(owner, "steps", steps, maximum=LARGEST)
