"""A run on no labels that stops where the first number of a solver would leave: what is going to be refused is refused before a draw."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from solvers.gate import Array, Gate
from solvers.grid import Grid, noise_scale


class _Reached(Exception):
    """The plan is made, and noise of its size can be drawn."""


class Rehearsal(Gate):
    """Draws nothing: it checks that noise could be drawn, hands on the value, and ends the run at the last of `looks` looks."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.looks = looks

    def gaussian(self, value: Array, *, sensitivity: float, noise_multiplier: float) -> Array:
        return self._checked("gaussian", value, sensitivity, noise_multiplier)

    def laplace(self, value: Array, *, sensitivity: float, noise_multiplier: float) -> Array:
        return self._checked("laplace", value, sensitivity, noise_multiplier)

    def select_count(self, counts: Array, *, epsilon: float) -> int:
        self._looked()
        return 0

    def objective_noise(
        self, gradient: Callable[[Array], Array], dimension: int, *, sensitivity: float, noise_multiplier: float, law: str, blocks: int = 1
    ) -> Array:
        noise_scale(noise_multiplier, sensitivity)
        self._looked()
        return np.zeros(dimension)

    def _checked(self, law: str, value: Array, sensitivity: float, noise_multiplier: float) -> Array:
        Grid.of(law, noise_multiplier, sensitivity, np.size(value))
        self._looked()
        return np.asarray(value, dtype=float)

    def _looked(self) -> None:
        self.looks -= 1
        if not self.looks:
            raise _Reached


def rehearse(run: Callable[[Gate], Any], looks: int) -> None:
    """Run with noise that is never drawn, up to the last of `looks` looks; what is refused until then is refused here."""
    try:
        run(Rehearsal(looks))
    except _Reached:
        return
