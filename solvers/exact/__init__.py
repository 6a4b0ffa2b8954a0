"""Exact draws from densities e^{-rate F}, F convex, in up to three dimensions."""

from solvers.exact.density import ConvexDensity

__all__ = ["ConvexDensity"]
