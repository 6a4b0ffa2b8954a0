"""Engines: each turns a directed pair and an epsilon into log delta with a bracket."""
