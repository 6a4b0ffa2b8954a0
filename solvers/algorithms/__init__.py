"""Private optimisers, one a file; each takes a `Problem` and gives a `Release`."""

from solvers.algorithms.frank_wolfe import frank_wolfe
from solvers.algorithms.gradient_descent import gradient_descent
from solvers.algorithms.regularized_exponential import regularized_exponential

__all__ = ["frank_wolfe", "gradient_descent", "regularized_exponential"]
