"""Sampling schemes: a step in, the dominating pair of the sampled step out, each under named relations."""
