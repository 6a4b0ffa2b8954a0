"""The BibTeX of exactly the theorems that an answer rests on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from dpaccount import _check
from dpaccount.adjacency import Adjacency
from dpaccount.bestof import BestOf, options_of
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.mechanisms.additive import AdditiveMixture
from dpaccount.mechanisms.curve import CurvePair
from dpaccount.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpaccount.mechanisms.exponential import ExponentialMechanism
from dpaccount.mechanisms.gaussian import Gaussian
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
        for method in methods or answer.methods[:-1]:
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


BIBLIOGRAPHY = {
    "abadi2016deep": """@inproceedings{abadi2016deep,
  title = {Deep Learning with Differential Privacy},
  author = {Abadi, Mart{\\'i}n and Chu, Andy and Goodfellow, Ian and McMahan, H. Brendan and
    Mironov, Ilya and Talwar, Kunal and Zhang, Li},
  booktitle = {Proceedings of the 2016 ACM SIGSAC Conference on Computer and Communications Security},
  pages = {308--318},
  year = {2016}
}""",
    "alghamdi2023saddle": """@inproceedings{alghamdi2023saddle,
  title = {The Saddle-Point Method in Differential Privacy},
  author = {Alghamdi, Wael and Gomez, Juan Felipe and Asoodeh, Shahab and Calmon, Flavio and Kosut, Oliver and Sankar, Lalitha},
  booktitle = {Proceedings of the 40th International Conference on Machine Learning},
  series = {Proceedings of Machine Learning Research},
  volume = {202},
  pages = {508--528},
  year = {2023}
}""",
    "annamalai2024shuffle": """@article{annamalai2024shuffle,
  title = {To Shuffle or not to Shuffle: Auditing {DP-SGD} with Shuffling},
  author = {Annamalai, Meenatchi Sundaram Muthu Selva and Balle, Borja and De Cristofaro, Emiliano and Hayes, Jamie},
  journal = {arXiv preprint arXiv:2411.10614},
  year = {2024}
}""",
    "asoodeh2020contraction": """@inproceedings{asoodeh2020contraction,
  title = {Privacy Amplification of Iterative Algorithms via Contraction Coefficients},
  author = {Asoodeh, Shahab and Diaz, Mario and Calmon, Flavio P.},
  booktitle = {2020 IEEE International Symposium on Information Theory},
  year = {2020}
}""",
    "asoodeh2021three": """@article{asoodeh2021three,
  title = {Three Variants of Differential Privacy: Lossless Conversion and Applications},
  author = {Asoodeh, Shahab and Liao, Jiachun and Calmon, Flavio P. and Kosut, Oliver and Sankar, Lalitha},
  journal = {IEEE Journal on Selected Areas in Information Theory},
  volume = {2},
  number = {1},
  pages = {208--222},
  year = {2021},
  doi = {10.1109/JSAIT.2021.3054692}
}""",
    "balle2018improving": """@inproceedings{balle2018improving,
  title = {Improving the {Gaussian} Mechanism for Differential Privacy: Analytical Calibration and Optimal Denoising},
  author = {Balle, Borja and Wang, Yu-Xiang},
  booktitle = {Proceedings of the 35th International Conference on Machine Learning},
  series = {Proceedings of Machine Learning Research},
  volume = {80},
  pages = {394--403},
  year = {2018}
}""",
    "balle2018privacy": """@inproceedings{balle2018privacy,
  title = {Privacy Amplification by Subsampling: Tight Analyses via Couplings and Divergences},
  author = {Balle, Borja and Barthe, Gilles and Gaboardi, Marco},
  booktitle = {Advances in Neural Information Processing Systems},
  volume = {31},
  year = {2018}
}""",
    "balle2019mixing": """@inproceedings{balle2019mixing,
  title = {Privacy Amplification by Mixing and Diffusion Mechanisms},
  author = {Balle, Borja and Barthe, Gilles and Gaboardi, Marco and Geumlek, Joseph},
  booktitle = {Advances in Neural Information Processing Systems},
  volume = {32},
  year = {2019}
}""",
    "bichsel2021dp": """@inproceedings{bichsel2021dp,
  title = {{DP-Sniper}: Black-Box Discovery of Differential Privacy Violations using Classifiers},
  author = {Bichsel, Benjamin and Steffen, Samuel and Bogunovic, Ilija and Vechev, Martin},
  booktitle = {2021 IEEE Symposium on Security and Privacy},
  pages = {391--409},
  year = {2021}
}""",
    "bok2024shifted": """@inproceedings{bok2024shifted,
  title = {Shifted Interpolation for Differential Privacy},
  author = {Bok, Jinho and Su, Weijie J. and Altschuler, Jason},
  booktitle = {Proceedings of the 41st International Conference on Machine Learning},
  series = {Proceedings of Machine Learning Research},
  volume = {235},
  year = {2024}
}""",
    "bun2016concentrated": """@inproceedings{bun2016concentrated,
  title = {Concentrated Differential Privacy: Simplifications, Extensions, and Lower Bounds},
  author = {Bun, Mark and Steinke, Thomas},
  booktitle = {Theory of Cryptography Conference},
  pages = {635--658},
  year = {2016}
}""",
    "canonne2020discrete": """@inproceedings{canonne2020discrete,
  title = {The Discrete {Gaussian} for Differential Privacy},
  author = {Canonne, Cl{\\'e}ment L. and Kamath, Gautam and Steinke, Thomas},
  booktitle = {Advances in Neural Information Processing Systems},
  volume = {33},
  pages = {15676--15688},
  year = {2020}
}""",
    "chua2024private": """@inproceedings{chua2024private,
  title = {How Private are {DP-SGD} Implementations?},
  author = {Chua, Lynn and Ghazi, Badih and Kamath, Pritish and Kumar, Ravi and Manurangsi, Pasin and Sinha, Amer and
    Zhang, Chiyuan},
  booktitle = {Proceedings of the 41st International Conference on Machine Learning},
  series = {Proceedings of Machine Learning Research},
  volume = {235},
  year = {2024}
}""",
    "clopper1934use": """@article{clopper1934use,
  title = {The Use of Confidence or Fiducial Limits Illustrated in the Case of the Binomial},
  author = {Clopper, C. J. and Pearson, E. S.},
  journal = {Biometrika},
  volume = {26},
  number = {4},
  pages = {404--413},
  year = {1934}
}""",
    "dong2020optimal": """@inproceedings{dong2020optimal,
  title = {Optimal Differential Privacy Composition for Exponential Mechanisms},
  author = {Dong, Jinshuo and Durfee, David and Rogers, Ryan},
  booktitle = {Proceedings of the 37th International Conference on Machine Learning},
  series = {Proceedings of Machine Learning Research},
  volume = {119},
  pages = {2597--2606},
  year = {2020}
}""",
    "dong2022gaussian": """@article{dong2022gaussian,
  title = {Gaussian Differential Privacy},
  author = {Dong, Jinshuo and Roth, Aaron and Su, Weijie J.},
  journal = {Journal of the Royal Statistical Society Series B: Statistical Methodology},
  volume = {84},
  number = {1},
  pages = {3--37},
  year = {2022},
  doi = {10.1111/rssb.12454}
}""",
    "doroshenko2022connect": """@article{doroshenko2022connect,
  title = {Connect the Dots: Tighter Discrete Approximations of Privacy Loss Distributions},
  author = {Doroshenko, Vadym and Ghazi, Badih and Kamath, Pritish and Kumar, Ravi and Manurangsi, Pasin},
  journal = {Proceedings on Privacy Enhancing Technologies},
  volume = {2022},
  number = {4},
  pages = {552--570},
  year = {2022},
  doi = {10.56553/popets-2022-0122}
}""",
    "dwork2006calibrating": """@inproceedings{dwork2006calibrating,
  title = {Calibrating Noise to Sensitivity in Private Data Analysis},
  author = {Dwork, Cynthia and McSherry, Frank and Nissim, Kobbi and Smith, Adam},
  booktitle = {Theory of Cryptography Conference},
  pages = {265--284},
  year = {2006}
}""",
    "dwork2014algorithmic": """@article{dwork2014algorithmic,
  title = {The Algorithmic Foundations of Differential Privacy},
  author = {Dwork, Cynthia and Roth, Aaron},
  journal = {Foundations and Trends in Theoretical Computer Science},
  volume = {9},
  number = {3--4},
  pages = {211--407},
  year = {2014},
  doi = {10.1561/0400000042}
}""",
    "feldman2018privacy": """@inproceedings{feldman2018privacy,
  title = {Privacy Amplification by Iteration},
  author = {Feldman, Vitaly and Mironov, Ilya and Talwar, Kunal and Thakurta, Abhradeep},
  booktitle = {59th Annual IEEE Symposium on Foundations of Computer Science},
  pages = {521--532},
  year = {2018}
}""",
    "ghosh2009universally": """@inproceedings{ghosh2009universally,
  title = {Universally Utility-Maximizing Privacy Mechanisms},
  author = {Ghosh, Arpita and Roughgarden, Tim and Sundararajan, Mukund},
  booktitle = {Proceedings of the 41st Annual ACM Symposium on Theory of Computing},
  pages = {351--360},
  year = {2009}
}""",
    "jagielski2020auditing": """@inproceedings{jagielski2020auditing,
  title = {Auditing Differentially Private Machine Learning: How Private is Private {SGD}?},
  author = {Jagielski, Matthew and Ullman, Jonathan and Oprea, Alina},
  booktitle = {Advances in Neural Information Processing Systems},
  volume = {33},
  pages = {22205--22216},
  year = {2020}
}""",
    "kairouz2015composition": """@inproceedings{kairouz2015composition,
  title = {The Composition Theorem for Differential Privacy},
  author = {Kairouz, Peter and Oh, Sewoong and Viswanath, Pramod},
  booktitle = {Proceedings of the 32nd International Conference on Machine Learning},
  series = {Proceedings of Machine Learning Research},
  volume = {37},
  pages = {1376--1385},
  year = {2015}
}""",
    "kong2024dp": """@inproceedings{kong2024dp,
  title = {{DP-Auditorium}: A Large-Scale Library for Auditing Differential Privacy},
  author = {Kong, William and Mu{\\~n}oz Medina, Andr{\\'e}s and Ribero, M{\\'o}nica and Syed, Umar},
  booktitle = {2024 IEEE Symposium on Security and Privacy},
  year = {2024}
}""",
    "mahloujifar2024auditing": """@article{mahloujifar2024auditing,
  title = {Auditing $f$-Differential Privacy in One Run},
  author = {Mahloujifar, Saeed and Melis, Luca and Chaudhuri, Kamalika},
  journal = {arXiv preprint arXiv:2410.22235},
  year = {2024}
}""",
    "mcsherry2007mechanism": """@inproceedings{mcsherry2007mechanism,
  title = {Mechanism Design via Differential Privacy},
  author = {McSherry, Frank and Talwar, Kunal},
  booktitle = {48th Annual IEEE Symposium on Foundations of Computer Science},
  pages = {94--103},
  year = {2007}
}""",
    "mironov2017renyi": """@inproceedings{mironov2017renyi,
  title = {R{\\'e}nyi Differential Privacy},
  author = {Mironov, Ilya},
  booktitle = {2017 IEEE 30th Computer Security Foundations Symposium},
  pages = {263--275},
  year = {2017}
}""",
    "nasr2023tight": """@inproceedings{nasr2023tight,
  title = {Tight Auditing of Differentially Private Machine Learning},
  author = {Nasr, Milad and Hayes, Jamie and Steinke, Thomas and Balle, Borja and Tram{\\`e}r, Florian and Jagielski, Matthew and
    Carlini, Nicholas and Terzis, Andreas},
  booktitle = {32nd USENIX Security Symposium},
  pages = {1631--1648},
  year = {2023}
}""",
    "papernot2022hyperparameter": """@inproceedings{papernot2022hyperparameter,
  title = {Hyperparameter Tuning with {R{\\'e}nyi} Differential Privacy},
  author = {Papernot, Nicolas and Steinke, Thomas},
  booktitle = {International Conference on Learning Representations},
  year = {2022}
}""",
    "sordello2021shuffled": """@inproceedings{sordello2021shuffled,
  title = {Privacy Amplification via Iteration for Shuffled and Online {PNSGD}},
  author = {Sordello, Matteo and Bu, Zhiqi and Dong, Jinshuo},
  booktitle = {Machine Learning and Knowledge Discovery in Databases},
  year = {2021}
}""",
    "steinke2023privacy": """@inproceedings{steinke2023privacy,
  title = {Privacy Auditing with One (1) Training Run},
  author = {Steinke, Thomas and Nasr, Milad and Jagielski, Matthew},
  booktitle = {Advances in Neural Information Processing Systems},
  volume = {36},
  year = {2023}
}""",
    "warner1965randomized": """@article{warner1965randomized,
  title = {Randomized Response: A Survey Technique for Eliminating Evasive Answer Bias},
  author = {Warner, Stanley L.},
  journal = {Journal of the American Statistical Association},
  volume = {60},
  number = {309},
  pages = {63--69},
  year = {1965}
}""",
    "xiang2025privacy": """@article{xiang2025privacy,
  title = {Privacy Audit as Bits Transmission: (Im)possibilities for Audit by One Run},
  author = {Xiang, Zihang and Wang, Tianhao and Wang, Di},
  journal = {arXiv preprint arXiv:2501.17750},
  year = {2025}
}""",
    "zanella2023bayesian": """@inproceedings{zanella2023bayesian,
  title = {Bayesian Estimation of Differential Privacy},
  author = {Zanella-B{\\'e}guelin, Santiago and Wutschitz, Lukas and Tople, Shruti and Salem, Ahmed and R{\\"u}hle, Victor and
    Paverd, Andrew and Naseri, Mohammad and K{\\"o}pf, Boris and Jones, Daniel},
  booktitle = {Proceedings of the 40th International Conference on Machine Learning},
  series = {Proceedings of Machine Learning Research},
  volume = {202},
  pages = {40624--40636},
  year = {2023}
}""",
    "zhu2022optimal": """@inproceedings{zhu2022optimal,
  title = {Optimal Accounting of Differential Privacy via Characteristic Function},
  author = {Zhu, Yuqing and Dong, Jinshuo and Wang, Yu-Xiang},
  booktitle = {Proceedings of the 25th International Conference on Artificial Intelligence and Statistics},
  series = {Proceedings of Machine Learning Research},
  volume = {151},
  pages = {4782--4817},
  year = {2022}
}""",
}
