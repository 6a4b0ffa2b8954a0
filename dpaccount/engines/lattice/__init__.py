"""The tilted transform on a grid of losses: the universal fallback."""
