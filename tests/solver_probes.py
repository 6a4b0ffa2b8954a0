"""What the tests do at the gate: record, replay, spoil. See `solver_registry` for who is tested."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dpaccount import ExponentialMechanism, Gaussian, Laplace, PoissonSampled
from dpaccount.auditing.intervals import rate_lower, rate_upper
from solvers.gate import Gate
from solvers.random import InsecureRandomnessWarning, RandomSource


def seeded(seed: int) -> RandomSource:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InsecureRandomnessWarning)
        return RandomSource.seeded_for_tests_only(seed)


class Query(NamedTuple):
    """One number, or vector, that went out, and what was claimed about it."""

    kind: str
    value: Any
    sensitivity: float
    noise: float
    sampling: float


@dataclass
class Recorder(Gate):
    """Keeps every query; answers with noise, or, to make two runs comparable, with the answers of another run."""

    seed: int = 0
    replay: list[Any] | None = None
    noise_off: bool = False
    loudness: float = 1.0  # of noise and choices, to look where a run seldom goes
    queries: list[Query] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(seeded(self.seed))
        self.batches, self.sampling = 0, 1.0

    def _answer(self, kind: str, value: Any, sensitivity: float, noise: float, fresh: Callable[[], Any]) -> Any:
        self.queries.append(Query(kind, np.array(value, dtype=float), sensitivity, noise, self.sampling))
        answer = fresh() if self.replay is None else self.replay[len(self.answers)]
        self.answers.append(answer)
        return answer

    def _noisy(self, kind: str, plain: Callable[..., Any], value: Any, sensitivity: float, noise_multiplier: float) -> Any:
        scale = 0.0 if self.noise_off else noise_multiplier * self.loudness
        fresh = partial(plain, self, value, sensitivity=sensitivity, noise_multiplier=scale)
        return self._answer(kind, value, sensitivity, noise_multiplier, fresh)

    def gaussian(self, value, *, sensitivity, noise_multiplier):
        return self._noisy("gaussian", Gate.gaussian, value, sensitivity, noise_multiplier)

    def laplace(self, value, *, sensitivity, noise_multiplier):
        return self._noisy("laplace", Gate.laplace, value, sensitivity, noise_multiplier)

    def hidden(self, value, *, sensitivity, noise_multiplier, law, steps):
        return self._noisy(law, partial(Gate.hidden, law=law, steps=steps), value, sensitivity, noise_multiplier)

    def select(self, scores, *, sensitivity, epsilon):
        def fresh():
            return int(np.argmax(scores)) if self.noise_off else Gate.select(self, scores, sensitivity=sensitivity, epsilon=epsilon)

        return self._answer("select", scores, sensitivity, epsilon, fresh)

    def select_count(self, counts, *, epsilon):
        def fresh():
            return int(np.argmax(counts)) if self.noise_off else Gate.select_count(self, counts, epsilon=epsilon)

        return self._answer("count", counts, 1.0, epsilon, fresh)

    def prefix_sums(self, factorisation, participation, dimension, *, sensitivity, noise_multiplier):
        """A stream that is recorded as what it is: one Gaussian query of C G, asked when the last step is in."""
        scale = 0.0 if self.noise_off else noise_multiplier
        plain = Gate.prefix_sums(self, factorisation, participation, dimension, sensitivity=sensitivity, noise_multiplier=scale)
        return RecordedSums(self, plain, least_encoder(plain.decoder), plain.sensitivity, noise_multiplier)

    def objective_noise(self, gradient, dimension, *, sensitivity, noise_multiplier, law, blocks=1):
        """Compares what the noise hides: the gradient at several points, for a theorem about all of them; as columns, one a block."""
        points = np.random.default_rng(dimension).standard_normal((6, dimension)) * np.array([0.0, 0.1, 1.0, 3.0, 30.0, 300.0])[:, None]

        def fresh():
            scale = 1e-12 if self.noise_off else noise_multiplier
            return Gate.objective_noise(self, gradient, dimension, sensitivity=sensitivity, noise_multiplier=scale, law=law, blocks=blocks)

        return self._answer("objective", [gradient(point).reshape(-1, blocks) for point in points], sensitivity, noise_multiplier, fresh)

    def covered(self, value, *, error, noise_multiplier, law):
        """The numerical error is what is covered, and is measured where it arises: there is nothing to compare."""
        scale = 0.0 if self.noise_off else noise_multiplier
        return self._answer("covered", 0.0, error, noise_multiplier, lambda: Gate.covered(
            self, value, error=error, noise_multiplier=scale, law=law,
        ))  # fmt: skip

    def sample(self, target, *, sensitivity, epsilon):
        return self._answer("sample", target.probe(), sensitivity, epsilon, lambda: Gate.sample(
            self, target, sensitivity=sensitivity, epsilon=epsilon,
        ))  # fmt: skip

    def poisson_batch(self, size, probability):
        """The same for the records that two data sets share, whatever their number."""
        self.batches, self.sampling = self.batches + 1, probability
        return np.random.default_rng([self.seed, self.batches]).random(size) < max(probability, 0.5)

    def ledger(self, adjacency: str) -> Any:
        """The composition of what was asked, each query as its docstring at the gate says."""
        double = 2 if adjacency == "replace-one" else 1
        kinds = {"gaussian": Gaussian, "laplace": Laplace}
        kinds |= dict.fromkeys(("select", "count", "sample"), lambda e: ExponentialMechanism(double * e))
        steps = [kinds[q.kind](q.noise) if q.sampling == 1.0 else PoissonSampled(kinds[q.kind](q.noise), q.sampling) for q in self.queries]
        return sum(steps[1:], start=steps[0])


def least_encoder(decoder):
    """C of least norms with B C = the prefix sums: what B Z protects."""
    return np.linalg.pinv(decoder) @ np.tril(np.ones((len(decoder),) * 2))


@dataclass
class RecordedSums:
    """Prefix sums on their way through a `Recorder`."""

    gate: Recorder
    plain: Any
    encoder: Any
    sensitivity: float
    noise: float
    rows: list[Any] = field(default_factory=list)

    def release(self, value):
        self.rows.append(value)
        fresh = self.plain.release(value)
        answer = fresh if self.gate.replay is None else self.gate.replay[len(self.gate.answers)]
        self.gate.answers.append(answer)
        if len(self.rows) == self.encoder.shape[1]:
            encoded = self.encoder @ np.array(self.rows)
            self.gate.queries.append(Query("gaussian", encoded.ravel(), self.sensitivity, self.noise, 1.0))
        return answer


class Halved(Gate):
    """A planted fault: half the noise that is claimed."""

    def gaussian(self, value, *, sensitivity, noise_multiplier):
        return super().gaussian(value, sensitivity=sensitivity, noise_multiplier=noise_multiplier / 2)

    def laplace(self, value, *, sensitivity, noise_multiplier):
        return super().laplace(value, sensitivity=sensitivity, noise_multiplier=noise_multiplier / 2)

    def hidden(self, value, *, noise_multiplier, **options):
        return super().hidden(value, noise_multiplier=noise_multiplier / 2, **options)

    def select(self, scores, *, sensitivity, epsilon):
        return super().select(scores, sensitivity=sensitivity, epsilon=2 * epsilon)

    def select_count(self, counts, *, epsilon):
        return super().select_count(counts, epsilon=2 * epsilon)

    def prefix_sums(self, factorisation, participation, dimension, *, sensitivity, noise_multiplier):
        return super().prefix_sums(factorisation, participation, dimension, sensitivity=sensitivity, noise_multiplier=noise_multiplier / 2)

    def sample(self, target, *, sensitivity, epsilon):
        return super().sample(target, sensitivity=sensitivity, epsilon=2 * epsilon)

    def objective_noise(self, gradient, dimension, *, sensitivity, noise_multiplier, law, blocks=1):
        half = noise_multiplier / 2
        return super().objective_noise(gradient, dimension, sensitivity=sensitivity, noise_multiplier=half, law=law, blocks=blocks)

    def covered(self, value, *, error, noise_multiplier, law):
        return super().covered(value, error=error, noise_multiplier=noise_multiplier / 2, law=law)


class Quartered(Halved):
    """A quarter, where the claim is a mean over what the worst case knows and half would drown in it."""

    def gaussian(self, value, *, sensitivity, noise_multiplier):
        return super().gaussian(value, sensitivity=sensitivity, noise_multiplier=noise_multiplier / 2)

    def hidden(self, value, *, noise_multiplier, **options):
        return super().hidden(value, noise_multiplier=noise_multiplier / 2, **options)


def moved(first: list[Query], second: list[Query]) -> float:
    """The largest change of a query over its claimed sensitivity; both runs must have asked the same things."""
    assert [q[0:1] + q[2:] for q in first] == [q[0:1] + q[2:] for q in second], "what is asked depends on the data"
    worst = 0.0
    for a, b in zip(first, second, strict=True):
        change = a.value - b.value
        size = {
            "gaussian": lambda d: np.linalg.norm(d), "laplace": lambda d: np.abs(d).sum(), "select": lambda d: np.abs(d).max(),
            "count": lambda d: np.ptp(np.append(d, 0.0)),
            "objective": lambda d: np.linalg.norm(d, axis=1).sum(axis=1).max(), "sample": np.ptp, "covered": np.abs,
        }[a.kind](change)  # fmt: skip
        worst = max(worst, float(size) / a.sensitivity)
    return worst


def hostile_rows(rng: np.random.Generator, columns: int) -> Iterator[np.ndarray]:
    """Rows that break careless code: zero, huge, tiny, one entry, all equal, spread over the whole range of doubles."""
    yield np.zeros(columns)
    for size in (1e300, -1e300, 1e-310, 1.0, -1.0, 1e6):
        yield np.eye(columns)[rng.integers(columns)] * size
        yield np.full(columns, size)
        yield rng.standard_normal(columns) * size
    yield 10.0 ** rng.uniform(-300, 300, columns)


def neighbours(rng: np.random.Generator, columns: int, labels: tuple[float, ...], size: int = 6) -> Iterator[tuple[Any, ...]]:
    """(rows, labels, rows', labels', relation): a record joins at the end, is exchanged there, or contributes nothing; dense and sparse."""
    base = rng.standard_normal((size, columns)) * rng.choice([0.3, 3.0], (size, 1))
    base[0] = base[1]  # a duplicate
    y = rng.choice(labels, size)
    rows = [*hostile_rows(rng, columns), base[1], -base[1]]
    for k, row in enumerate(rows):
        label = labels[k % len(labels)]
        wider = np.vstack([base, row]), np.append(y, label)
        if k % 2:
            other = -row if rng.random() < 0.7 else rng.standard_normal(columns)
            yield *wider, np.vstack([base, other]), np.append(y, rng.choice(labels)), "replace-one"
        else:
            yield base, y, *wider, "add-or-remove"
            if k % 4 == 0:
                yield *wider, base, y, "zero-out"  # what contributes nothing is not there; only the size is public
    thin = sparse.random_array((size, columns), density=0.4, rng=rng, format="csr")
    for row in rows[:8:2]:
        yield thin, y, sparse.csr_array(sparse.vstack([thin, sparse.csr_array(row[None, :])])), np.append(y, labels[-1]), "add-or-remove"


def aimed(theta: Any, columns: int, labels: tuple[float, ...]) -> Iterator[tuple[np.ndarray, float]]:
    """Records that pull hardest where a run ended: rows along theta's columns and against them, with every label."""
    theta = np.asarray(theta, dtype=float)
    outputs = max(theta.size // columns, 1) if theta.size % columns == 0 else 1
    for direction in theta[: columns * outputs].reshape(columns, outputs).T if theta.size >= columns else []:
        for sign in (1e6, -1e6):
            yield from ((sign * direction, label) for label in labels)


def lower_bound(statistic: Callable[[bool, int], float], runs: int, delta: float, alpha: float = 0.05) -> float:
    """A lower bound on epsilon at level 1 - alpha from `runs` runs of each kind: ``ln((TPR - delta)/FPR)``, Clopper-Pearson limits.

    The first third chooses the rule, which is a threshold, its side and the direction of the pair; the others judge it alone.
    """
    found = [np.array([statistic(inside, k) for k in range(runs)]) for inside in (True, False)]
    cut = runs // 3
    rules = [(turn, sign) for turn in (1, -1) for sign in (1.0, -1.0)]
    levels = {sign: np.quantile(sign * np.concatenate([x[:cut] for x in found]), np.linspace(0.01, 0.99, 60)) for sign in (1.0, -1.0)}
    choices = [(turn, sign, level) for turn, sign in rules for level in levels[sign]]

    def bound(rule: tuple[int, float, float], part: slice) -> float:
        turn, sign, level = rule
        return _bound([sign * x[part] for x in found[::turn]], level, delta, alpha)

    best = max(choices, key=lambda rule: bound(rule, slice(None, cut)))
    return bound(best, slice(cut, None))


def _bound(scores: list[np.ndarray], threshold: float, delta: float, alpha: float) -> float:
    hits, alarms = (int((x > threshold).sum()) for x in scores)
    sure, at_most = rate_lower(hits, len(scores[0]), alpha / 2), rate_upper(alarms, len(scores[1]), alpha / 2)
    return max(np.log((sure - delta) / at_most), 0.0) if sure > delta else 0.0
