"""The BibTeX of exactly the theorems that an answer rests on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from dpaccount import _check
from dpaccount._bibliography import BIBLIOGRAPHY
from dpaccount.adjacency import Adjacency
from dpaccount.bestof import BestOf, options_of
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.mechanisms.additive import AdditiveMixture
from dpaccount.mechanisms.curve import CurvePair
from dpaccount.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpaccount.mechanisms.exponential import ExponentialMechanism
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.mechanisms.gdp import GaussianDP
from dpaccount.mechanisms.laplace import Laplace
from dpaccount.mechanisms.pure import ApproximateDP, PureDP
from dpaccount.mechanisms.response import RandomizedResponse
from dpaccount.pair import DominatingPair, Guarantee, Reversed, Step
from dpaccount.renyi import ZCDP, RenyiBound
from dpaccount.results import Bounds, Calibration
from dpaccount.sampling.fixed_size import FixedSizeSampled
from dpaccount.sampling.poisson import PoissonSampled
from dpaccount.training import TrainingRun

if TYPE_CHECKING:
    from dpaccount.iteration.face import LastIterate


class Citation(NamedTuple):
    """A work, and what an answer took from it."""

    key: str
    reason: str

    @property
    def bibtex(self) -> str:
        """The entry, with the reason as a comment above it."""
        return f"% {self.reason}\n{BIBLIOGRAPHY[self.key]}"


def citations(*answers: Any) -> str:
    """The BibTeX of the theorems that answers, profiles, guarantees or training runs rest on.

    Parameters
    ----------
    *answers : Bounds, Calibration, PrivacyProfile, a guarantee, TrainingRun, PNSGD and its variants, NoisyGD, or an audit's result
        A `Bounds` knows how it was computed but not for which mechanism: pass its profile beside it.
        A `PrivacyProfile` adds the engine that `select` names.

    Returns
    -------
    str
        Entries in the order in which they came up, each once, with a comment that says what it is for;
        empty if only elementary facts were used.

    Examples
    --------
    >>> from dpaccount import Gaussian, PrivacyProfile
    >>> from dpaccount.citations import citations
    >>> print(citations(PrivacyProfile(Gaussian(1.0))).splitlines()[1])
    @inproceedings{balle2018improving,
    """
    return "\n\n".join(citation.bibtex for citation in cited(*answers))


def cited(*answers: Any) -> tuple[Citation, ...]:
    """As `citations`, but the works and reasons themselves."""
    if not answers:
        _check.refuse("citations", "answers", "at least one answer, profile or guarantee", answers, kind=TypeError)
    found_by = [a if isinstance(a, Bounds) else a.achieved for a in answers if isinstance(a, (Bounds, Calibration))]
    methods = [method for bounds in found_by for method in bounds.methods]
    found: dict[str, Citation] = {}
    for answer in answers:
        for key, reason in _of(answer, methods):
            found.setdefault(key, Citation(key, reason))
    return tuple(found.values())


Works = Iterator[tuple[str, str]]


def _of(answer: Any, methods: list[str]) -> Works:
    """`methods` are those of the answers given beside profiles: they say which options were used."""
    if isinstance(answer, TrainingRun):
        yield "abadi2016deep", "DP-SGD"
        yield from _of(answer.profile(), methods)
    elif isinstance(answer, PrivacyProfile):
        for option in _used(answer.guarantee, methods):
            yield from _of_guarantee(option, answer.adjacency)
        yield from _of_alternatives(answer.guarantee)
        if not methods:
            yield from _of_method(answer.engine)
    elif isinstance(answer, Guarantee):
        for option in _used(answer, methods):
            yield from _of_guarantee(option, Adjacency.ADD_OR_REMOVE)
        yield from _of_alternatives(answer)
    elif type(answer).__module__.startswith("dpaccount.iteration"):
        yield from _of_iteration(answer, methods)
    elif isinstance(answer, (Bounds, Calibration)):
        for method in (answer if isinstance(answer, Bounds) else answer.achieved).methods:
            yield from _of_method(method)
    elif isinstance(getattr(answer, "works", None), tuple):  # audits name their own
        yield from answer.works
    else:
        _check.refuse(
            "citations", "answers", "a Bounds, Calibration, PrivacyProfile, guarantee, TrainingRun or last iterate", answer, kind=TypeError
        )


def _used(guarantee: Guarantee, methods: list[str]) -> list[Guarantee]:
    """The options that answered: Renyi bounds if a method says RDP, pairs if one does not."""
    if not methods:
        return [guarantee]
    renyi = any("RDP" in method for method in methods)
    pairs = any(not name.startswith("RDP") for method in methods for name in method.split(", "))
    return [o for o in options_of(guarantee) if (renyi if isinstance(o, RenyiBound) else pairs)]


def _of_alternatives(guarantee: Guarantee) -> Works:
    """Steps that were answered by another guarantee of theirs than their pair."""
    if isinstance(guarantee, DominatingPair):
        for step in guarantee.kinds:
            if step.alternatives:
                yield from _MECHANISMS.get(type(step), ())


def _of_method(method: str) -> Works:
    """From the name of the engine or theorem in `Bounds.method`."""
    if any(name in method for name in ("line", "circle", "smoothed")):
        yield "alghamdi2023saddle", "the privacy curve as a contour integral, Theorem 3.1"
    if "lattice" in method:
        yield "doroshenko2022connect", "pessimistic and optimistic privacy-loss distributions on a lattice"
    if "dual of" in method:
        yield "dong2022gaussian", "the trade-off function as the dual of the privacy profile, Proposition 2.12"
    if "K on the real line" in method:
        yield "mironov2017renyi", "Renyi differential privacy"
    if "RDP" in method:
        yield "mironov2017renyi", "Renyi differential privacy and its conversion to (epsilon, delta), Proposition 3"
    if "improved" in method:
        yield "canonne2020discrete", "the improved conversion from Renyi to (epsilon, delta), Proposition 12"
    if "optimal" in method:
        yield "asoodeh2021three", "the optimal conversion from Renyi to (epsilon, delta)"
    if "shifted" in method:
        yield "bok2024shifted", "Gaussian differential privacy of the last iterate by shifted interpolation, Sections 3 and 4"
    if "contraction" in method or method == "nonlinear":
        yield "asoodeh2020contraction", "contraction of the hockey-stick divergence by the steps after a record's last use, Lemma 3"
    if "composition" in method:
        yield "dong2022gaussian", "composition of Gaussian mechanisms, Corollary 3.3"
    if method in ("rdp", "composed", "composition"):
        yield from _LAST_ITERATE[method]
    if "group" in method:
        yield "dwork2014algorithmic", "group privacy"


def _of_iteration(answer: Any, methods: list[str]) -> Works:
    # imported when it is asked about: few who import the package do
    from dpaccount.iteration.face import LastIterate
    from dpaccount.iteration.noisy_gd import NoisyGD

    if isinstance(answer, LastIterate):
        for method in methods or answer.choices("sharpest"):
            yield from _of_last_iterate(answer, method)
    elif isinstance(answer, NoisyGD):
        for method in methods or [m for m in answer.methods if m not in ("best", "composition")]:
            yield from _of_method(method)
    else:
        _check.refuse("citations", "answers", "a PNSGD, a variant of it, or a NoisyGD", answer, kind=TypeError)


def _of_last_iterate(run: LastIterate, method: str) -> Works:
    """With the theorem that `run.theorem` names as the reason."""
    from dpaccount.iteration.stopping import RandomPermutation

    for key, reason in _of_method(method):
        yield key, run.theorem(method) if key in ("asoodeh2020contraction", "bok2024shifted") else reason
    if isinstance(run, RandomPermutation):
        yield "sordello2021shuffled", "a random order of the records, by joint convexity"


_LAST_ITERATE: dict[str, tuple[tuple[str, str], ...]] = {
    "rdp": (
        ("feldman2018privacy", "Renyi divergence of the last iterate, Theorem 23 (random stopping: Lemma 25 and Theorem 26)"),
        ("balle2019mixing", "the same for strongly convex losses, Theorem 5"),
        ("mironov2017renyi", "Renyi differential privacy and its conversion to (epsilon, delta), Proposition 3"),
        ("canonne2020discrete", "the improved conversion from Renyi to (epsilon, delta), Proposition 12"),
    ),
    "composed": (
        ("asoodeh2020contraction", "contraction of the hockey-stick divergence by the steps between uses of a record, Lemma 3"),
        ("zhu2022optimal", "adaptive composition of dominating pairs, Theorem 10"),
    ),
    "composition": (("zhu2022optimal", "adaptive composition of dominating pairs, Theorem 10"),),
}


def _of_guarantee(guarantee: Guarantee, adjacency: Adjacency) -> Works:
    if isinstance(guarantee, BestOf):
        for option in guarantee.options:
            yield from _of_guarantee(option, adjacency)
    elif isinstance(guarantee, RenyiBound):
        for source, _ in guarantee.sources:
            if isinstance(source, ZCDP):
                yield "bun2016concentrated", "zero-concentrated differential privacy"
            yield "mironov2017renyi", "Renyi differential privacy and its composition, Proposition 1"
        if guarantee.pair is not None:
            yield from _of_guarantee(guarantee.pair, adjacency)
    elif isinstance(guarantee, DominatingPair):
        for step in guarantee.kinds:
            yield from _of_step(step, adjacency)
        yield from _of_composition(guarantee)


def _of_composition(pair: DominatingPair) -> Works:
    terms = pair.terms
    if len(terms) == 1 and terms[0][1] == 1:
        return
    if all(isinstance(step, Gaussian) for step in pair.kinds):
        yield "dong2022gaussian", "composition of Gaussian mechanisms, Corollary 3.3"
    elif all(isinstance(step, (PureDP, ApproximateDP)) for step in pair.kinds):
        yield "kairouz2015composition", "optimal composition of (epsilon, delta) guarantees, Theorem 3.3"
    yield "zhu2022optimal", "adaptive composition of dominating pairs, Theorem 10"


_MECHANISMS: dict[type, tuple[tuple[str, str], ...]] = {
    Gaussian: (("balle2018improving", "the exact privacy curve of the Gaussian mechanism, Theorem 8"),),
    Laplace: (("dwork2006calibrating", "the Laplace mechanism"),),
    DiscreteGaussian: (("canonne2020discrete", "the discrete Gaussian mechanism"),),
    DiscreteLaplace: (("ghosh2009universally", "the geometric mechanism"),),
    RandomizedResponse: (("warner1965randomized", "randomised response"),),
    ExponentialMechanism: (
        ("mcsherry2007mechanism", "the exponential mechanism"),
        ("dong2020optimal", "bounded range: its dominating pair, and its concentrated differential privacy"),
    ),
    GaussianDP: (("dong2022gaussian", "Gaussian differential privacy, Definition 2.6"),),
    PureDP: (("kairouz2015composition", "the dominating pair of an (epsilon, delta) guarantee, Theorem 3.3"),),
    ApproximateDP: (("kairouz2015composition", "the dominating pair of an (epsilon, delta) guarantee, Theorem 3.3"),),
    CurvePair: (("zhu2022optimal", "the dominating pair of a privacy curve, Proposition 8"),),
}


def _of_step(step: Step, adjacency: Adjacency) -> Works:
    if isinstance(step, Reversed):
        yield from _of_step(step.step, adjacency)
    elif isinstance(step, AdditiveMixture):
        yield from _of_step(step.base, adjacency)
    elif isinstance(step, FixedSizeSampled):
        yield from _of_step(step.step, adjacency)
        yield "balle2018privacy", "sampling without replacement under replace-one, Theorem 9"
    elif isinstance(step, PoissonSampled):
        yield from _of_step(step.step, adjacency)
        if 0.0 < step.sampling_probability < 1.0:
            yield "balle2018privacy", "privacy amplification by Poisson sampling"
            if adjacency is not Adjacency.REPLACE_ONE:
                yield "zhu2022optimal", "the dominating pair of a Poisson-sampled mechanism, Theorem 11"
    yield from _MECHANISMS.get(type(step), ())
