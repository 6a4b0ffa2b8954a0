"""Draws from strongly log-concave laws: the alternating sampler, its inner steps, and what its total variation is bounded by."""

from solvers.sampler.chain import Draws, expected_seconds, sample
from solvers.sampler.plan import Plan, planned
from solvers.sampler.target import Target

__all__ = ["Draws", "Plan", "Target", "expected_seconds", "planned", "sample"]
