"""scikit-learn faces of the private optimisers (extra ``dpaccount[sklearn]``)."""

try:
    import sklearn as _  # noqa: F401
except ImportError as error:
    raise ImportError(f"`solvers.estimators` needs scikit-learn: pip install 'dpaccount[sklearn]' adds it ({error}).") from error

from solvers.estimators.classification import PrivateLogisticRegression
from solvers.estimators.regression import PrivateLinearRegression
from solvers.estimators.sparse import PrivateSparseLogisticRegression

__all__ = ["PrivateLinearRegression", "PrivateLogisticRegression", "PrivateSparseLogisticRegression"]
