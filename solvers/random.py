"""Random numbers for noise and sampling: from the operating system, at full double precision next to 0.

A uniform here is ``2^-k (1 + m 2^-52)/2`` with 52 random bits m and k counted by fair coins, so it has full relative
precision down to 1e-300, and 0 never comes. Gaussian, Laplace, Gumbel and gamma variates are inverse functions of such uniforms,
so their tails are as fine as their middles.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable
from typing import Any, final

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from dpaccount import _check

Array = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]
LOW_BITS = np.uint64((1 << 52) - 1)
FEW = 1024  # items, up to which a choice draws a variate for each


class InsecureRandomnessWarning(UserWarning):
    """The noise comes from a seed: whoever knows it subtracts the noise, so nothing is private. For tests alone."""


@final
class RandomSource:
    """Independent draws from random bits. ``RandomSource()`` reads the operating system's generator, and has no state to steal.

    Guarantee
    ---------
    Every draw is a fixed function of fresh bits. What a double cannot hold is lost: see `solvers.gate` for what that means for
    noise. Times of execution are not hidden.

    Examples
    --------
    >>> from solvers.random import RandomSource
    >>> RandomSource().gaussian(1.0, (3,)).shape
    (3,)
    """

    def __init__(self) -> None:
        self._bytes: Callable[[int], bytes] = os.urandom
        self.secure = True

    @staticmethod
    def seeded_for_tests_only(seed: int) -> RandomSource:
        """A source that repeats itself, and so protects nobody; it warns, and every release says so."""
        number = _check.count("RandomSource.seeded_for_tests_only", "seed", seed, minimum=0, maximum=2**64 - 1)
        warnings.warn("noise from a seed protects nobody; use it in tests alone", InsecureRandomnessWarning, stacklevel=2)
        source = RandomSource()
        source._bytes = np.random.Generator(np.random.Philox(number)).bytes
        source.secure = False
        return source

    def __repr__(self) -> str:
        return "RandomSource()" if self.secure else "RandomSource(SEEDED, FOR TESTS ONLY)"

    def words(self, size: int) -> Words:
        """64 random bits each."""
        return np.frombuffer(self._bytes(8 * size), dtype=np.uint64)

    def _half_uniform(self, size: int) -> tuple[Array, Words]:
        """Uniforms on (0, 1/2], finer the smaller, and a word each whose highest bit is still unused."""
        mantissa, coins = self.words(size), self.words(size)
        top = (coins >> np.uint64(11)).astype(np.float64)  # 53 bits, so exact
        leading = 53 - np.frexp(top)[1].astype(np.int64)  # zeros before the first one
        for place in np.flatnonzero(top == 0.0):  # once in 2^53 draws
            leading[place] = self._long_run(int(coins[place]))
        return np.ldexp(1.0 + (mantissa & LOW_BITS) * 2.0**-52, -(leading + 2)), mantissa

    def _long_run(self, word: int) -> int:
        """Zeros before the first one of a stream of bits that starts with `word`."""
        count = 64
        while word == 0:
            word, count = int(self.words(1)[0]), count + 64
        return count - word.bit_length()

    def uniform(self, shape: Any = ()) -> Array:
        """On (0, 1), with full relative precision next to 0."""
        half, _ = self._half_uniform(_size(shape))
        return (2.0 * half).reshape(shape)

    def _signed(self, shape: Any, inverse: Callable[[Array], Array]) -> Array:
        """A symmetric variate: the lower half by `inverse` of a uniform on (0, 1/2], its sign by a bit of its own."""
        half, words = self._half_uniform(_size(shape))
        sign = 1.0 - 2.0 * (words >> np.uint64(63)).astype(np.float64)
        return np.asarray(sign * inverse(half)).reshape(shape)

    def gaussian(self, scale: float, shape: Any = ()) -> Array:
        """N(0, scale^2), scale >= 0."""
        return scale * self._signed(shape, ndtri)

    def laplace(self, scale: float, shape: Any = ()) -> Array:
        """Density e^{-|x|/scale}/(2 scale)."""
        return scale * self._signed(shape, lambda half: np.log(2.0 * half))

    def exponential(self, scale: float, shape: Any = ()) -> Array:
        """Density e^{-x/scale}/scale on x > 0."""
        return -scale * np.log(self.uniform(shape))

    def gumbel(self, scale: float, shape: Any = ()) -> Array:
        """Scale times -log E, E exponential: argmax of score + Gumbel(scale) is the exponential mechanism with weights e^{score/scale}.

        Small E, the upper tail that decides, keeps full relative precision.
        """
        return -scale * np.log(-np.log1p(-self.uniform(shape)))

    def choice(self, scores: Array) -> int:
        """The index k with probability proportional to e^{scores_k}: argmax of scores - log E_k, E_k exponential, drawn where it can win.

        About sqrt(n) places have E_k < 1/sqrt(n); they come after geometric gaps, whatever the scores. Of the others, those whose score
        is within log sqrt(n) of the best sum so far can still win, about sqrt(n) again, and theirs are 1/sqrt(n) plus an exponential.
        """
        count = scores.size
        if count <= FEW:
            return int(np.argmax(scores + self.gumbel(1.0, scores.shape)))
        rate = 1.0 / math.sqrt(count)
        early = self._places(rate, count)
        found = np.full(count, -np.inf)
        found[early] = scores[early] - np.log(-np.log1p(self.uniform(early.shape) * np.expm1(-rate)))
        able = scores > found.max() + math.log(rate)
        able[early] = False
        late = np.flatnonzero(able)
        found[late] = scores[late] - np.log(rate + self.exponential(1.0, late.shape))
        return int(np.argmax(found))

    def _places(self, rate: float, count: int) -> npt.NDArray[np.int64]:
        """Which of `count` independent exponentials are below `rate`: P{a gap of at least g} = e^{-rate g}."""
        found, last = [], -1.0
        while last < count:
            gaps = np.floor(np.minimum(self.exponential(1.0, (int(rate * count) + 8,)) / rate, float(count)))
            found.append(last + np.cumsum(gaps + 1.0))
            last = float(found[-1][-1])
        places = np.concatenate(found)
        return places[places < count].astype(np.int64)

    def gamma_norm(self, scale: float, dimension: int) -> Array:
        """A vector with density proportional to e^{-|b|/scale}: |b| ~ Gamma(dimension, scale), direction uniform."""
        direction = self.gaussian(1.0, (dimension,))
        length = float(self.exponential(scale, (dimension,)).sum())  # not by the inverse: its upper tail would end
        return np.asarray(direction * (length / np.linalg.norm(direction)))

    def gamma_norms(self, scale: float, columns: int, blocks: int) -> Array:
        """(columns, blocks) with density proportional to ``e^{-sum_k |b_k|/scale}``, b_k its columns: independent, each by `gamma_norm`."""
        return np.stack([self.gamma_norm(scale, columns) for _ in range(blocks)], axis=1)

    def included(self, probability: float, size: int) -> npt.NDArray[np.bool_]:
        """Independent inclusions: each true with the given probability, to within 2^-53 of it."""
        return np.asarray(self.uniform((size,)) <= probability)

    def integers(self, bound: int, size: int) -> npt.NDArray[np.int64]:
        """Uniform on 0 .. bound - 1, exactly: words beyond the last full range are drawn anew."""
        limit = (1 << 64) - (1 << 64) % bound
        words = self.words(size).copy()
        while limit < 1 << 64 and (bad := words >= np.uint64(limit)).any():
            words[bad] = self.words(int(bad.sum()))
        return (words % np.uint64(bound)).astype(np.int64)

    def permutation(self, size: int) -> npt.NDArray[np.int64]:
        """A uniform order of 0 .. size - 1: by 128-bit keys, which tie with probability below size^2/2^129."""
        return np.lexsort((self.words(size), self.words(size))).astype(np.int64)


def _size(shape: Any) -> int:
    return math.prod(shape) if isinstance(shape, tuple) else int(shape)
