"""Mechanisms: each is a frozen dataclass of its parameters and the formulas of its dominating pair."""
