"""Random numbers drawn in large blocks, for chains of many short steps."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from solvers.random import RandomSource

Array = npt.NDArray[np.float64]
BLOCK = 1 << 16


class Stock:
    """Uniforms and Gaussians of a source, handed out in pieces; none is handed out twice."""

    def __init__(self, source: RandomSource) -> None:
        self.source = source
        self._gaussian = self._uniform = np.empty(0)
        self._used_gaussian = self._used_uniform = 0

    def gaussian(self, shape: tuple[int, ...]) -> Array:
        """N(0, 1)."""
        size = int(np.prod(shape))
        if self._used_gaussian + size > self._gaussian.size:
            self._gaussian, self._used_gaussian = self.source.gaussian(1.0, (max(BLOCK, size),)), 0
        start, self._used_gaussian = self._used_gaussian, self._used_gaussian + size
        return self._gaussian[start : start + size].reshape(shape)

    def uniform(self, size: int) -> Array:
        """On (0, 1)."""
        if self._used_uniform + size > self._uniform.size:
            self._uniform, self._used_uniform = self.source.uniform((max(BLOCK, size),)), 0
        start, self._used_uniform = self._used_uniform, self._used_uniform + size
        return self._uniform[start : start + size]

    def below(self, bound: int, size: int) -> npt.NDArray[np.int64]:
        """Whole numbers in 0 .. bound - 1, to within bound 2^-52 of uniform."""
        return np.minimum((self.uniform(size) * bound).astype(np.int64), bound - 1)
