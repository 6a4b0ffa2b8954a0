"""Curves: what a guarantee says, read off its privacy loss."""
