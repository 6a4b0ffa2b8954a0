"""K(z) of a step by quadrature: what serves every step that has no formula for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpaccount._log import log1m_exp
from dpaccount._quadrature import nodes_log_mgf
from dpaccount.pair import Step


def quadrature_log_mgf(step: Step, z: Any) -> Any:
    """K(z) from the step's nodes, in the form log(mass) + log1p(sum p expm1(zl)), exact at z = 0 and z = -1."""
    z = np.asarray(z)
    real = np.real(z)
    low, high = min(0.0, float(real.min(initial=0.0))), max(0.0, float(real.max(initial=0.0)))
    rate = float(np.abs(np.imag(z)).max(initial=0.0)) if np.iscomplexobj(z) else 0.0
    return nodes_log_mgf(step.nodes(low, high, rate), log_finite_mass(step), z)


def log_finite_mass(step: Step) -> float:
    """log P{L < inf}."""
    return float(log1m_exp(step.facts.log_p_only))
