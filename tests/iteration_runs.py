"""The runs of the source paper's figures, which the tests of last iterates share."""

from __future__ import annotations

from dpaccount.iteration import PNSGD

FIG_2 = PNSGD(40, 1.0, 1.0, 0.0, 0.5, 1.0, "gaussian", 2.0)
FIG_3 = PNSGD(40, 1.0, 1.0, 0.4, 0.5, 1.0, "gaussian", 1.0)
LAPLACE = PNSGD(40, 1.0, 1.0, 0.0, 0.5, 1.0, "laplace", 2.0)
RUNS = {"fig 2": FIG_2, "fig 3": FIG_3, "laplace": LAPLACE}
