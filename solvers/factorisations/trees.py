"""Binary trees of partial sums: the plain decoder, and Honaker's estimators that use every node."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from dpaccount import _check
from solvers.factorisations.base import Array, Factorisation, checked_steps

DECODERS = ("plain", "online", "full")


@final
@dataclass(frozen=True)
class BinaryTree(Factorisation):
    """C holds the sums of all dyadic blocks that are complete within n steps; each step is in at most log2(n) + 1 of them.

    Parameters
    ----------
    steps : int
        n >= 1.
    estimator : {"plain", "online", "full"}
        B: the fewest blocks that make up a prefix; Honaker's estimator, which weighs a block against the sums of its parts as they have
        been released by then; or the least-squares estimator from all blocks, ``A`` times the pseudo-inverse of C, which needs the whole
        tree and is for sums that are read at the end.

    References
    ----------
    Dwork, Naor, Pitassi, Rothblum (2010); Honaker (2015); Kairouz and others (2021), KMSTTX21.
    """

    steps: int
    estimator: str = "plain"

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", checked_steps("BinaryTree", self.steps))
        _check.choice("BinaryTree", "estimator", self.estimator, DECODERS)

    @cached_property
    def blocks(self) -> list[tuple[int, int]]:
        """(first step, height) of every complete block, by the step that completes it, small ones first."""
        return [
            (t + 1 - (1 << height), height)
            for t in range(self.steps) for height in range((t + 1).bit_length()) if (t + 1) % (1 << height) == 0
        ]  # fmt: skip

    def encoder(self) -> Array:
        c = np.zeros((len(self.blocks), self.steps))
        for row, (first, height) in enumerate(self.blocks):
            c[row, first : first + (1 << height)] = 1.0
        return c

    def decoder(self) -> Array:
        if self.estimator == "full":
            return np.tril(np.ones((self.steps, self.steps))) @ np.linalg.pinv(self.encoder())
        place = {block: row for row, block in enumerate(self.blocks)}
        b = np.zeros((self.steps, len(self.blocks)))
        for t in range(self.steps):
            first = 0
            for height in reversed(range((t + 1).bit_length())):
                if (t + 1) >> height & 1:
                    self._estimate(b[t], place, first, height)
                    first += 1 << height
        return b

    def _estimate(self, row: Array, place: dict[tuple[int, int], int], first: int, height: int) -> None:
        """Add the estimate of a block: itself, or with its parts, layer by layer, each layer weighing half the one above."""
        if self.estimator == "plain":
            row[place[first, height]] += 1.0
            return
        total = 2.0 - 2.0**-height
        for layer in range(height + 1):
            for start in range(first, first + (1 << height), 1 << (height - layer)):
                row[place[start, height - layer]] += 2.0**-layer / total
