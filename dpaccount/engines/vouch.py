"""How an engine refuses: better no answer than one whose error it cannot estimate."""

from __future__ import annotations


class CannotVouch(ArithmeticError):
    """The contour cannot estimate its own error here; the message says why."""


class Overflow(CannotVouch):
    """A tilt so large that its sums leave the doubles."""
