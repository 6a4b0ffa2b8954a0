"""What `noisy-gd` and `pnsgd` share: a run as one record sees it, the least noise for a target, and losses in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from dpaccount.calibration import calibrate
from dpaccount.cli.show import NOISE_DIGITS
from dpaccount.results import Bounds
from dpaccount.statement import shown_up


class Seen:
    """A run as one record, or the records of one batch, see it, always asked in the same way."""

    def __init__(self, run: Any, place: int | None, chosen: dict[str, str]) -> None:
        self.run, self.place, self.chosen = run, place, chosen

    def delta(self, epsilon: float) -> Bounds:
        found: Bounds = self.run.delta(epsilon, self.place, **self.chosen)
        return found

    def epsilon(self, delta: float) -> Bounds:
        found: Bounds = self.run.epsilon(delta, self.place, **self.chosen)
        return found


def least_noise(
    family: Callable[[float], Any], epsilon: tuple[float, ...] | None, delta: tuple[float, ...] | None
) -> tuple[float, str]:
    """The least noise scale for one target, rounded up to the digits that are printed, and the target in words."""
    if epsilon is None or delta is None or len(epsilon) != 1 or len(delta) != 1:
        raise click.UsageError("Give --noise-scale, or one --epsilon with one --delta to find it.")
    found = calibrate(family, epsilon=epsilon[0], delta=delta[0])
    return float(shown_up(found.value, NOISE_DIGITS)), found.target


def curvature(strong_convexity: float) -> str:
    """Of the losses, in words."""
    if strong_convexity < 0.0:
        return f"not convex (Hessian >= {strong_convexity:g})"
    return "convex" if strong_convexity == 0.0 else f"{strong_convexity:g}-strongly convex"
