"""Private optimisers, one a file; each takes a `Problem` and gives a `Release`."""

from solvers.algorithms.gradient_descent import gradient_descent

__all__ = ["gradient_descent"]
