"""Private optimisers, one a file; each takes a `Problem` and gives a `Release`."""

from solvers.algorithms.exponential_mechanism import exponential_mechanism
from solvers.algorithms.frank_wolfe import frank_wolfe
from solvers.algorithms.ftrl import ftrl
from solvers.algorithms.gradient_descent import gradient_descent
from solvers.algorithms.localisation import localisation
from solvers.algorithms.objective_perturbation import objective_perturbation
from solvers.algorithms.projected_noisy_sgd import projected_noisy_sgd
from solvers.algorithms.regularized_exponential import regularized_exponential

__all__ = [
    "exponential_mechanism",
    "frank_wolfe",
    "ftrl",
    "gradient_descent",
    "localisation",
    "objective_perturbation",
    "projected_noisy_sgd",
    "regularized_exponential",
]
