"""Losses on one lattice: the contour over one period."""
