"""`audit_game`: a mechanism run with and without a record, until the verdict is settled or the budget spent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dpaccount._parallel import jobs
from dpaccount.adjacency import Adjacency
from dpaccount.auditing.game.budget import Clock, Player
from dpaccount.auditing.game.play import played
from dpaccount.auditing.game.protocol import OWNER
from dpaccount.auditing.game.question import checked
from dpaccount.auditing.game.store import UNREPEATED, Store, repeats, same_game
from dpaccount.auditing.outcome import AuditResult


def audit_game(
    mechanism: Callable[..., Any], pair: Any, *, delta: float | None = None, runs: int | None = None, seconds: float | None = None,
    batch: bool = False, score: Callable[..., Any] | None = None, step_score: Callable[..., Any] | None = None,
    combine: Callable[..., Any] | None = None, classifier: Any = None, epsilon: float | None = None, mu: float | None = None,
    claim: Any = None, alpha: float = 0.05, method: str = "cp", family: Callable[[Any], Any] | None = None,
    adjacency: str | Adjacency = Adjacency.ADD_OR_REMOVE, selection: str | None = None, threshold: Any = None, pilot: int | None = None,
    stop: bool = True, seed: int | None = None, chunk: int | None = None, store: Any = None, reproducible: bool = True,
    n_jobs: int | None = None, progress: bool | None = None,
) -> AuditResult:
    """Run a mechanism on two data sets again and again, and bound its epsilon by how well the runs can be told apart.

    Parameters
    ----------
    mechanism : callable
        ``mechanism(data, rng)`` returns what one run releases, or with `step_score` what is seen of its steps, one after the
        other: a list, an array or a generator. Its randomness comes from `rng`, a numpy Generator, or see `reproducible`.
    pair : two data sets
        Without the record and with it; whatever the mechanism takes. The worst pair finds most; see `gradient_canary`.
    delta : float
        In [0, 1], where epsilon is bounded; a claim may bring its own.
    runs : int
        Of each kind, those that choose a threshold included.
    seconds : float
        A budget of time, alone or beside `runs`. It costs confidence, since nobody knows beforehand how many runs it buys.
    batch : bool
        True: ``mechanism(data, rng, size)`` makes `size` runs at once, and scores have one entry a run.
    score : callable
        An output to a number, larger where the record seems to be in. Without it, the output itself must be one.
    step_score, combine : callable
        ``step_score(seen, t)`` is the score of step t, such as a log-likelihood ratio (`GaussianRatio`); they are added up, or
        combined by ``combine(scores)``, whose first axis is the step.
    classifier : callable or "logistic"
        Makes a score of outputs, trained on the pilot runs, as in `audit_samples`.
    epsilon, mu, claim : optional, at most one
        What is claimed, as in `audit_samples`: epsilon at `delta`, mu-GDP, or any guarantee, profile or training run, whose whole
        curve is then on trial. The result carries a verdict, *refuted* or *undecided*.
    alpha : float
        Probability of a false alarm, in (0, 1), over all looks together.
    method : {"cp", "gdp", "curve"}
        As in `audit_counts`, with `family` and `adjacency` for ``curve``.
    selection : {"split", "fixed", "bonferroni"}
        How the threshold is chosen: by `pilot` runs that are not counted (the default), as stated in `threshold`, or the best of
        several stated in `threshold`, or at stated ranks, each at alpha over their number.
    pilot : int, optional
        Runs of each kind that choose, whole chunks; by default a quarter of `runs`, or eight chunks.
    stop : bool
        Whether a game with a claim may end as soon as it is refuted, or can no longer be. False: one look, at the end, at all of alpha.
    seed : int, optional
        By default from the operating system; it is in ``details["seed"]``.
    chunk : int, optional
        Runs of each kind that are computed together: 1000 in batches, 20 else. Part of what the seed stands for.
    store : str or Path, optional
        A file to which finished chunks are appended. The same call with the same file goes on where it ended.
    reproducible : bool
        False for a mechanism that draws from elsewhere, such as the operating system's generator, as private code should. The seed
        then repeats nothing, and a stored game goes on without comparing its first run. True: the first run is played once more at
        the end, and a note says so if it comes out otherwise.
    n_jobs, progress
        As in `sweep`: processes through joblib, or whatever its context says, such as a Dask cluster; a bar on standard error.

    Returns
    -------
    AuditResult
        `details` has the counts, the threshold, the runs, the looks, the seed, and why it ended: ``settled``, ``hopeless``,
        ``runs`` or ``seconds``. With `runs` as the budget it depends neither on `n_jobs` nor on interruptions.

    Guarantee
    ---------
    ``cp`` exceeds the true epsilon, and refutes a true claim, with probability at most alpha for every mechanism, whenever the
    game is stopped: looks are stated beforehand and share alpha (union bound over exact Clopper-Pearson limits).

    Raises
    ------
    TypeError, ValueError
        For a question that makes no sense, scores that are no numbers, and a store of another game.

    References
    ----------
    Jagielski, Ullman, Oprea (2020); Nasr et al. (2021, 2023); Clopper, Pearson (1934); Lan, DeMets (1983).

    Examples
    --------
    >>> from dpaccount.auditing import audit_game
    >>> def noisy_mean(data, rng, size):  # claims to be 1-GDP, and adds half the noise that this takes
    ...     return sum(data) + rng.normal(0.0, 0.5, size)
    >>> found = audit_game(noisy_mean, ([0.3, 0.1], [0.3, 0.1, 1.0]), batch=True, mu=1.0, delta=1e-5, runs=100000, seed=0)
    >>> found.verdict, found.kind, found.details["ended"], found.details["runs"]
    ('refuted', 'confidence', 'settled', 26000)
    """
    question = checked(
        mechanism, pair, delta, runs, seconds, batch, score, step_score, combine, classifier, epsilon, mu, claim, alpha, method, family,
        adjacency, selection, threshold, pilot, stop, seed, chunk, store, reproducible,
    )
    hands, plan = jobs(OWNER, n_jobs), question.plan
    with Store(store, question.settings) as kept:
        if question.judge.reproducible:
            same_game(question.opening, kept)
        player = Player(plan.size, kept, hands, progress, Clock(plan.seconds), plan.runs)
        with player.bar:
            found = played(question, player)
        odd = question.judge.reproducible and not repeats(question.opening, kept)
        return replace(found, notes=(*found.notes, UNREPEATED)) if odd else found
