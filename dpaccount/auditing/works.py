"""Which works the statistics rest on: keys of `dpaccount._bibliography.BIBLIOGRAPHY`, with what was taken from them."""

from __future__ import annotations

Works = tuple[tuple[str, str], ...]

_LIMITS = ("clopper1934use", "exact binomial limits")
_GAUSSIAN = ("nasr2023tight", "the parameter of a family from both error rates")
WORKS: dict[str, Works] = {
    "cp": (_LIMITS, ("jagielski2020auditing", "epsilon from the error rates of a distinguisher")),
    "bayes": (("zanella2023bayesian", "the joint posterior region of both error rates"),),
    "gdp": (_LIMITS, _GAUSSIAN, ("dong2022gaussian", "Gaussian differential privacy")),
    "curve": (_LIMITS, _GAUSSIAN, ("dong2022gaussian", "trade-off functions")),
    "steinke": (("steinke2023privacy", "auditing in one run, Theorem 5.2"),),
    "fdp": (("mahloujifar2024auditing", "auditing f-DP in one run, Algorithm 3"), ("dong2022gaussian", "Gaussian differential privacy")),
    "order": (("xiang2025privacy", "order statistics of one run"), ("dong2022gaussian", "Gaussian differential privacy")),
    "hockey-stick": (_LIMITS, ("kong2024dp", "the hockey-stick divergence from a classifier's accuracy")),
    "total-variation": (_LIMITS,),
    "renyi": (_LIMITS, ("mironov2017renyi", "the Renyi divergence of an event, by data processing")),
    "game": (("nasr2021adversary", "the game of telling two data sets apart"),),
    "looks": (("lan1983discrete", "alpha spent over several looks"),),
    "classifier": (("bichsel2021dp", "the search for an event by a classifier"),),
    "once-per-epoch": (
        ("chua2024private", "the lower bound for shuffled batches"),
        ("dong2022gaussian", "composition of Gaussian mechanisms, Corollary 3.3"),
    ),
    "shuffled": (
        ("chua2024private", "the lower bound for shuffled batches"),
        ("annamalai2024shuffle", "auditing shuffled training that is accounted as Poisson-sampled"),
        ("dong2022gaussian", "composition of Gaussian mechanisms, Corollary 3.3"),
    ),
    "poisson": (("zhu2022optimal", "the dominating pair of a Poisson-sampled mechanism, and composition"),),
    "fixed-size": (("balle2018privacy", "sampling without replacement under replace-one, Theorem 9; advanced joint convexity, Theorem 2"),),
    "fixed-order": (("dong2022gaussian", "composition of Gaussian mechanisms, Corollary 3.3"),),
    "full-batch": (("dong2022gaussian", "composition of Gaussian mechanisms, Corollary 3.3"),),
    "tuning": (("papernot2022hyperparameter", "the best of a random number of runs, Theorem 2"),),
}
