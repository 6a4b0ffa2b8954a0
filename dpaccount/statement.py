"""A privacy statement to paste into a model card or a paper."""

from __future__ import annotations

import importlib.metadata
import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR
from typing import Any, NamedTuple

from dpaccount import _check
from dpaccount.adjacency import Adjacency
from dpaccount.bestof import BestOf
from dpaccount.citations import citations
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpaccount.mechanisms.exponential import ExponentialMechanism
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.mechanisms.gdp import GaussianDP
from dpaccount.mechanisms.laplace import Laplace
from dpaccount.mechanisms.pure import ApproximateDP, PureDP
from dpaccount.mechanisms.response import RandomizedResponse
from dpaccount.pair import DominatingPair, Guarantee, Reversed, Step
from dpaccount.renyi import ZCDP, OrderTable, RenyiBound
from dpaccount.results import Bounds, Status, rounded
from dpaccount.sampling.fixed_size import FixedSizeSampled
from dpaccount.sampling.poisson import PoissonSampled
from dpaccount.sampling.schedule import NoiseSchedule
from dpaccount.training import TrainingRun

OWNER = "privacy_statement"
STYLES = ("plain", "markdown", "latex")
LONGEST = 100  # parts that are listed one by one
DIGITS = 9
RELATIONS = {
    Adjacency.ADD_OR_REMOVE: "one record is added or removed",
    Adjacency.REPLACE_ONE: "one record is exchanged for another",
    Adjacency.ZERO_OUT: "one record is replaced by one that contributes nothing",
    Adjacency.AS_WRITTEN: "the ordered pair of the expression",
}
ENGINES = {
    "closed": "closed form",
    "line": "contour integral at the saddle point",
    "circle": "contour integral over one period of a lattice",
    "smoothed": "contour integral of the smoothed curve, between two convex bounds",
    "chords": "two steps between chords and means of a convex curve",
    "recursion": "step by step over a grid, between chords",
    "lattice": "tilted FFT on a loss lattice, rounded both ways",
    "balls": "contour integral in ball arithmetic",
}


def privacy_statement(
    subject: Any, *, epsilon: float | None = None, delta: float | None = None, style: str = "plain", cite: bool = False
) -> str:
    """Say what a run satisfies, under which assumptions, and how certain the figure is.

    Parameters
    ----------
    subject : TrainingRun, PrivacyProfile, or a guarantee (under add-or-remove)
    epsilon, delta : float
        Exactly one; the other is computed and rounded up.
    style : {"plain", "markdown", "latex"}
    cite : bool
        Add the BibTeX of the theorems that were used.

    Examples
    --------
    >>> from dpaccount import Gaussian
    >>> from dpaccount.statement import privacy_statement
    >>> print(privacy_statement(10 * Gaussian(8.0), delta=1e-6).splitlines()[0])
    This release is (epsilon, delta)-differentially private with epsilon = 1.743 and delta = 1e-06.
    """
    _check.choice(OWNER, "style", style, STYLES)
    if (epsilon is None) == (delta is None):
        _check.refuse(OWNER, "delta", "given, or epsilon instead of it", delta, "Pass exactly one of them.", TypeError)
    if delta is None:
        epsilon = _check.real(OWNER, "epsilon", epsilon)
    else:
        delta = _check.real(OWNER, "delta", delta, low=0.0, high=1.0)
    profile = _profile(subject)
    run = subject if isinstance(subject, TrainingRun) else profile.guarantee
    return statement_of(profile, run, style=style, cite=cite, epsilon=epsilon, delta=delta)


def statement_of(
    profile: PrivacyProfile, run: TrainingRun | Guarantee, before: Sequence[TrainingRun | Guarantee] = (), *,
    epsilon: float | None = None, delta: float | None = None, style: str = "plain", cite: bool = False,
) -> str:
    """As `privacy_statement`, of a profile that counts a run and what was spent before it; each phase is described by itself."""
    found = profile.epsilon(delta=delta) if epsilon is None else profile.delta(epsilon=epsilon)
    computed = "epsilon" if epsilon is None else "delta"
    notes = found.notes
    if isinstance(run, TrainingRun):
        notes += run.notes(delta if epsilon is None else found.upper)
    claim = _Claim(
        ("training run" if isinstance(run, TrainingRun) else "release") + (", with what came before it," if before else ""),
        float(found) if epsilon is None else float(epsilon),
        float(found) if delta is None else float(delta),
        _facts(run, before, profile, found, computed) + [("Note", note) for note in notes],
    )
    text = {"plain": _plain, "markdown": _markdown, "latex": _latex}[style](claim)
    return text + ("\n\n" + citations(*sources(profile, run, before), found) if cite else "")


def sources(profile: PrivacyProfile, run: TrainingRun | Guarantee, before: Sequence[TrainingRun | Guarantee] = ()) -> list[Any]:
    """What `citations` must see: the profile, and the training runs that it does not know to be such."""
    return [*(phase for phase in (run, *before) if isinstance(phase, TrainingRun)), profile]


class _Claim(NamedTuple):
    """What every style says."""

    what: str
    epsilon: float
    delta: float
    facts: list[tuple[str, str]]


def _profile(subject: Any) -> PrivacyProfile:
    if isinstance(subject, TrainingRun):
        return subject.profile()
    if isinstance(subject, PrivacyProfile):
        return subject
    if not isinstance(subject, Guarantee):
        _check.refuse(OWNER, "subject", "a TrainingRun, a PrivacyProfile or a guarantee", subject, kind=TypeError)
    return PrivacyProfile(subject)


def _facts(
    run: TrainingRun | Guarantee, before: Sequence[TrainingRun | Guarantee], profile: PrivacyProfile, found: Bounds, computed: str
) -> list[tuple[str, str]]:
    facts = describe(run)
    for phase in before:
        (_, mechanism), *rest = describe(phase)
        facts.append(("Before it", "; ".join([mechanism, *(f"{name.lower()}: {text}" for name, text in rest)])))
    facts.append(("Adjacency", f"{profile.adjacency}: {RELATIONS[profile.adjacency]}"))
    facts.append(("Bracket", f"{computed} in {bracket(found)}; {certainty(found)}"))
    facts.append(("Method", f"{method_text(found.method)}; dpaccount {version()}"))
    scope = "the releases described here only; tuning, selection and preprocessing on the same records are not counted"
    if any("Poisson" in text for _, text in facts):
        scope = f"batches that are really drawn by Poisson sampling, and {scope}"
    facts.append(("Holds for", scope))
    return facts


def _plain(claim: _Claim) -> str:
    first = (
        f"This {claim.what} is (epsilon, delta)-differentially private with "
        f"epsilon = {shown_up(claim.epsilon, 5)} and delta = {shown_up(claim.delta, 5)}."
    )
    width = max(len(name) for name, _ in claim.facts) + 2
    return "\n".join([first, *(f"{name:<{width}}{text}" for name, text in claim.facts)])


def _markdown(claim: _Claim) -> str:
    first = (
        f"**Privacy.** This {claim.what} is (ε, δ)-differentially private with "
        f"**ε = {shown_up(claim.epsilon, 5)}** and **δ = {shown_up(claim.delta, 5)}**."
    )
    return "\n".join([first, "", *(f"- {name}: {text}" for name, text in claim.facts)])


def _latex(claim: _Claim) -> str:
    first = (
        f"This {claim.what} is $(\\varepsilon, \\delta)$-differentially private with "
        f"$\\varepsilon = {_tex_number(claim.epsilon)}$ and $\\delta = {_tex_number(claim.delta)}$."
    )
    items = [f"  \\item {name}: {_tex(text)}." for name, text in claim.facts]
    return "\n".join([first, "\\begin{itemize}", *items, "\\end{itemize}"])


def _tex(text: str) -> str:
    for sign in "&%$#_{}":
        text = text.replace(sign, "\\" + sign)
    return text.replace(">=", "$\\ge$").replace("<=", "$\\le$").replace(" x ", " $\\times$ ")


def _tex_number(value: float) -> str:
    if math.isinf(value):
        return "\\infty"
    digits, _, exponent = shown_up(value, 5).partition("e")
    if not exponent:
        return digits
    power = f"10^{{{int(exponent)}}}"
    return power if digits == "1" else f"{digits} \\times {power}"


# the words, shared with the command line


def describe(subject: TrainingRun | Guarantee) -> list[tuple[str, str]]:
    """Labelled lines that say what is released and how records are drawn."""
    if isinstance(subject, TrainingRun):
        return _describe_run(subject)
    if isinstance(subject, BestOf):
        return [("Mechanism", "several guarantees hold, the best answers")] + [
            (f"Option {i}", "; ".join(_parts(option))) for i, option in enumerate(subject.options, 1)
        ]
    if isinstance(subject, DominatingPair) and len(subject.terms) == 1:
        step, count = subject.terms[0]
        return [
            ("Mechanism", mechanism_text(step)),
            ("Sampling", sampling_text(step)),
            ("Steps", str(count)),
        ]
    return [("Mechanism", "a composition")] + [("Part", part) for part in _parts(subject)]


def _describe_run(run: TrainingRun) -> list[tuple[str, str]]:
    n, batch = run.dataset_size, run.logical_batch_size
    split = f" ({run.batch_size} x {run.accumulation} accumulated)" if run.accumulation > 1 else ""
    steps = f"{run.steps}"
    if run.epochs is not None:
        steps += f" = ceil({float(run.epochs):g} epochs x {n}/{batch})"
    noise = "to be found" if run.noise_multiplier is None else shown(run.noise_multiplier)
    return [
        ("Mechanism", f"DP-SGD: Gaussian noise on clipped gradient sums, noise multiplier {noise} (noise over clipping norm)"),
        ("Sampling", f"Poisson, q = {batch}/{n} = {shown(run.sampling_probability)}{split}"),
        ("Steps", steps),
    ]


def _parts(guarantee: Guarantee) -> list[str]:
    if isinstance(guarantee, NoiseSchedule):
        first, last = guarantee.noise_multipliers[0], guarantee.noise_multipliers[-1]
        return [
            f"{sum(guarantee.counts)} steps: Gaussian, {len(guarantee.counts)} noise multipliers from {shown(first)} to {shown(last)}, "
            f"Poisson, q = {shown(guarantee.sampling_probability)}"
        ]
    if isinstance(guarantee, DominatingPair):
        parts = [_part(step, count) for step, count in guarantee.terms]
        return parts if len(parts) <= LONGEST else [*parts[:LONGEST], f"and {len(parts) - LONGEST} more parts"]
    if isinstance(guarantee, RenyiBound):
        sources = [f"{count} x {_source_text(source)}" for source, count in guarantee.sources]
        return sources + ([] if guarantee.pair is None else _parts(guarantee.pair))
    return [repr(guarantee)]


def _part(step: Step, count: int) -> str:
    sampling = sampling_text(step)
    return f"{count} x {mechanism_text(step)}" + ("" if sampling.startswith("none") else f", {sampling}")


def _source_text(source: Any) -> str:
    if isinstance(source, ZCDP):
        return f"{shown(source.rho)}-zCDP"
    if isinstance(source, OrderTable):
        return f"RDP known at {len(source.orders)} orders up to {source.max_order:g}"
    return "RDP known by a formula"


def mechanism_text(step: Step) -> str:
    """The mechanism of one step in words; sampling is not mentioned."""
    match step:
        case PoissonSampled() | FixedSizeSampled() | Reversed():
            return mechanism_text(step.step)
        case Gaussian():
            return f"Gaussian, noise multiplier {shown(step.noise_multiplier)}"
        case Laplace():
            return f"Laplace, noise multiplier {shown(step.noise_multiplier)}"
        case DiscreteGaussian():
            return f"discrete Gaussian, noise multiplier {shown(step.noise_multiplier)}, sensitivity {step.sensitivity}"
        case DiscreteLaplace():
            return f"discrete Laplace, noise multiplier {shown(step.noise_multiplier)}, sensitivity {step.sensitivity}"
        case RandomizedResponse():
            return f"randomised response over {step.num_categories} categories, epsilon {shown(step.epsilon)}"
        case ExponentialMechanism():
            return f"exponential mechanism, range {shown(step.epsilon)}"
        case GaussianDP():
            return f"any {shown(step.mu)}-GDP mechanism"
        case PureDP():
            return f"any {shown(step.epsilon)}-DP mechanism"
        case ApproximateDP():
            return f"any ({shown(step.epsilon)}, {shown(step.delta)})-DP mechanism"
        case _:
            return repr(step)


def sampling_text(step: Step) -> str:
    """How one step draws its records."""
    if isinstance(step, Reversed):
        return sampling_text(step.step)
    if isinstance(step, PoissonSampled):
        return f"Poisson, q = {shown(step.sampling_probability)}"
    if isinstance(step, FixedSizeSampled):
        return f"{step.sample_size} of {step.dataset_size} without replacement"
    return "none, every record is used every time"


def bracket(found: Bounds) -> str:
    """[lower, upper], rounded outwards."""
    return f"[{shown_down(float(found.lower))}, {shown_up(float(found.upper))}]"


def certainty(found: Bounds) -> str:
    """What the bracket is worth, and why the answer is special if it is."""
    text = "certified, every error is bounded" if found.certified else "numerical errors are estimated, not bounded"
    return text if found.status is Status.OK else f"{text}; {found.status.value}"


def method_text(method: str) -> str:
    """The engines or theorems by name, with what they are."""
    names = method.split(", ")
    return ", ".join(f"{name} ({ENGINES[name]})" if name in ENGINES else name for name in names)


def version() -> str:
    """The installed version of dpaccount."""
    try:
        return importlib.metadata.version("dpaccount")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"


def shown(value: float, digits: int = 12) -> str:
    """A number as it was given, to 12 digits."""
    return f"{value:.{digits}g}"


def shown_up(value: float, digits: int = DIGITS) -> str:
    """A number rounded up to some significant digits: never below the value."""
    return rounded(value, digits, ROUND_CEILING)


def shown_down(value: float, digits: int = DIGITS) -> str:
    """A number rounded down to some significant digits: never above the value."""
    return rounded(value, digits, ROUND_FLOOR)
