"""Figures, one script each, named for the claim it shows; ``python -m figures`` makes them all.

Every script has ``data(quick)``, the numbers, and ``draw(numbers)``, a matplotlib figure of them.
The tests check the claim on the numbers.
"""
