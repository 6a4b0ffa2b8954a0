"""The same question to every peer that is installed: delta or epsilon of a composed Poisson-sampled Gaussian, add or remove."""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

from dpaccount import Gaussian, PoissonSampled, PrivacyProfile


class Run(NamedTuple):
    """`steps` times a Gaussian of noise multiplier `sigma` on a Poisson sample of probability `q`."""

    sigma: float
    q: float
    steps: int

    def __str__(self) -> str:
        return f"({self.sigma:g}, {self.q:g}, {self.steps:g})"


class Answer(NamedTuple):
    """What an accountant says; None where it gives no such end."""

    lower: float | None
    estimate: float | None
    upper: float | None


class Peer(NamedTuple):
    """One accountant: its default grid, other grids for the figure of error against cost, and its two answers at a grid."""

    name: str
    grid: float
    grids: tuple[float, ...]
    delta: Callable[[Run, float, float], Answer]
    epsilon: Callable[[Run, float, float], Answer]


def ours(run: Run, method: str = "auto") -> PrivacyProfile:
    """A cold profile, both directions."""
    return PrivacyProfile(run.steps * PoissonSampled(Gaussian(run.sigma), run.q), method=method)


def _dp_accounting() -> Peer:
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    def accountant(run: Run, grid: float) -> Any:
        sampled = dp_accounting.PoissonSampledDpEvent(run.q, dp_accounting.GaussianDpEvent(run.sigma))
        made = PLDAccountant(value_discretization_interval=grid)
        return made.compose(dp_accounting.SelfComposedDpEvent(sampled, run.steps))

    return Peer(
        "dp-accounting", 1e-4, (1e-2, 1e-3, 1e-4, 1e-5),
        lambda run, epsilon, grid: Answer(None, None, float(accountant(run, grid).get_delta(epsilon))),
        lambda run, delta, grid: Answer(None, None, float(accountant(run, grid).get_epsilon(delta))),
    )


def _prv_accountant() -> Peer:
    from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant

    def accountant(run: Run, grid: float, delta_error: float) -> Any:
        step = PoissonSubsampledGaussianMechanism(sampling_probability=run.q, noise_multiplier=run.sigma)
        return PRVAccountant(prvs=step, max_self_compositions=run.steps, eps_error=grid, delta_error=delta_error)

    # its grid is the error of epsilon that is asked for; its delta has an error of its own, a thousandth of the usual target
    return Peer(
        "prv-accountant", 0.1, (0.3, 0.1, 0.01, 0.001),
        lambda run, epsilon, grid: Answer(*map(float, accountant(run, grid, 1e-8).compute_delta(epsilon, [run.steps]))),
        lambda run, delta, grid: Answer(*map(float, accountant(run, grid, delta / 1000).compute_epsilon(delta, [run.steps]))),
    )


def _opake_accounting() -> Peer:
    core = _opake_core()

    def composed(run: Run, grid: float) -> Any:
        base = core.gaussian_pld(run.sigma, core.DiscretizationConfig(discretization=grid))
        return core.poisson_pld(base, run.q) * run.steps

    return Peer(
        "opake-accounting", 1e-4, (1e-2, 1e-3, 1e-4, 1e-5),
        lambda run, epsilon, grid: Answer(None, None, float(composed(run, grid).delta_at(epsilon))),
        lambda run, delta, grid: Answer(None, None, float(composed(run, grid).epsilon_at(delta))),
    )


def _opake_core() -> Any:
    """The native module: the wheel has no public sampled Gaussian, and its Python part does not import on CPython 3.11.7 or 3.12.1."""
    files = importlib.metadata.files("opake-accounting") or []
    path = next(str(f.locate()) for f in files if f.name.startswith("opake_accounting.") and f.suffix in (".so", ".pyd"))
    loader = importlib.machinery.ExtensionFileLoader("opake_accounting", path)
    spec = importlib.util.spec_from_file_location("opake_accounting", path, loader=loader)
    if spec is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def peers() -> tuple[list[Peer], dict[str, str]]:
    """The peers that can be asked here, and for each name its version, or why it cannot."""
    found, notes = [], {}
    for name, make in (("dp-accounting", _dp_accounting), ("prv-accountant", _prv_accountant), ("opake-accounting", _opake_accounting)):
        try:
            notes[name] = importlib.metadata.version(name)
            found.append(make())
        except Exception as error:
            notes[name] = f"not measured: {type(error).__name__}: {error}"
    return found, notes
