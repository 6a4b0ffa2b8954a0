"""DP-SGD runs as people state them: records, batch, epochs, noise."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, final

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from dpaccount.adjacency import Adjacency, parse
from dpaccount.calibration import UnreachableTarget, calibrate, refuse_if_spent
from dpaccount.curves.multiples import epsilon_of_multiples
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.pair import Guarantee
from dpaccount.results import Bounds, Calibration
from dpaccount.sampling.poisson import PoissonSampled

OWNER = "TrainingRun"


class PrivacyWarning(UserWarning):
    """A figure that is right but promises less than its reader may think."""


@final
@dataclass(frozen=True)
class TrainingRun:
    """A DP-SGD run: every step clips, sums and noises the gradients of a Poisson-sampled batch.

    ``steps * PoissonSampled(Gaussian(noise_multiplier), q)`` with ``q = batch_size * accumulation / dataset_size``
    and ``steps = ceil(epochs * dataset_size / (batch_size * accumulation))``: a started step is paid in full.

    Parameters
    ----------
    dataset_size : int
        Records in the training set, >= 1.
    batch_size : int
        The expected batch between two noisy updates, >= 1. With `accumulation` it is the physical batch
        and the logical one is ``batch_size * accumulation``, at most dataset_size.
    noise_multiplier : float, optional
        Noise standard deviation over the clipping norm, >= 0; None while it is being calibrated.
    epochs : int, float or Fraction, optional
        > 0. A float is read as the decimal number it prints as, so 0.1 is one tenth.
    steps : int, optional
        Noisy updates, >= 1. Give exactly one of `epochs` and `steps`; afterwards `steps` is always there.
    accumulation : int
        Physical batches per noisy update, >= 1.
    sampler : {"poisson"}
        How batches are drawn. Other schemes are refused: Poisson's figure does not hold for them.
    adjacency : {"add-or-remove", "replace-one", "zero-out"}
        The relation on data sets.

    Guarantee
    ---------
    That of `PrivacyProfile` for the composition, if each record joins each batch independently with
    probability q and the clipped gradients are summed, noised, and divided by a number that is public.

    References
    ----------
    Abadi et al. (2016), Algorithm 1.

    Examples
    --------
    >>> from dpaccount.training import TrainingRun
    >>> run = TrainingRun(dataset_size=60000, batch_size=256, epochs=60, noise_multiplier=1.1)
    >>> run.steps, round(run.sampling_probability, 9)
    (14063, 0.004266667)
    >>> 2.1 < float(run.epsilon(delta=1e-5)) < 2.9
    True
    """

    dataset_size: int
    batch_size: int
    noise_multiplier: float | None = None
    epochs: Any = None
    steps: int = None  # type: ignore[assignment]  # filled in from epochs
    accumulation: int = 1
    sampler: str = "poisson"
    adjacency: str = Adjacency.ADD_OR_REMOVE

    def __post_init__(self) -> None:
        n = _check.count(OWNER, "dataset_size", self.dataset_size)
        batch = _check.count(OWNER, "batch_size", self.batch_size)
        parts = _check.count(OWNER, "accumulation", self.accumulation)
        if batch * parts > n:
            shown = f"{batch}" if parts == 1 else f"{batch} * {parts} = {batch * parts}"
            _check.refuse(
                OWNER, "batch_size", f"at most dataset_size = {n}, accumulation included", batch,
                f"A batch of {shown} from {n} records is a sampling probability of {batch * parts / n:.6g}, outside [0, 1].",
            )
        for name, value in (("dataset_size", n), ("batch_size", batch), ("accumulation", parts)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "adjacency", parse(OWNER, self.adjacency))
        _check_sampler(self.sampler)
        self._settle_length()
        if self.noise_multiplier is not None:
            object.__setattr__(self, "noise_multiplier", Gaussian(self.noise_multiplier).noise_multiplier)

    def _settle_length(self) -> None:
        """Fill in `steps`; both are only accepted where they agree, so that `dataclasses.replace` works."""
        if self.epochs is None and self.steps is None:
            _check.refuse(OWNER, "epochs", "given, or steps instead of it", None, "Pass exactly one of them.", TypeError)
        steps = self.steps
        if self.epochs is not None:
            steps = steps_of(self.epochs, self.dataset_size, self.logical_batch_size)
            if self.steps is not None and self.steps != steps:
                _check.refuse(
                    OWNER, "steps", f"{steps}, which {self.epochs} epochs are, if epochs is given too", self.steps,
                    "Pass exactly one of epochs and steps.",
                )
        object.__setattr__(self, "steps", _check.count(OWNER, "steps", steps))

    # what the run is

    @property
    def logical_batch_size(self) -> int:
        """Expected records per noisy update, ``batch_size * accumulation``."""
        return self.batch_size * self.accumulation

    @property
    def sampling_probability(self) -> float:
        """q, the logical batch over the data size."""
        return self.logical_batch_size / self.dataset_size

    @property
    def step(self) -> PoissonSampled:
        """One noisy update."""
        if self.noise_multiplier is None:
            _check.refuse(
                OWNER, "noise_multiplier", "a number >= 0 before the run can be accounted for", None,
                "`TrainingRun.calibrate` finds the least one for a budget.", TypeError,
            )
        return PoissonSampled(Gaussian(self.noise_multiplier), self.sampling_probability)

    @property
    def guarantee(self) -> Guarantee:
        """The whole run as a composition."""
        return self.steps * self.step

    def profile(self, *, method: str = "auto") -> PrivacyProfile:
        """The run's privacy profile, from which every curve is read."""
        return PrivacyProfile(self.guarantee, self.adjacency, method=method)

    # what it costs

    def epsilon(self, delta: Any, *, method: str = "auto") -> Bounds:
        """The least epsilon at delta (array); warns with `PrivacyWarning` where delta >= 1/dataset_size."""
        delta = _check.reals(f"{OWNER}.epsilon", "delta", delta, low=0.0, high=1.0)[()]
        notes = self.notes(delta)
        for note in notes:
            warnings.warn(note, PrivacyWarning, stacklevel=2)
        return _noted(self.profile(method=method).epsilon(delta=delta), notes)

    def delta(self, epsilon: Any, *, method: str = "auto") -> Bounds:
        """delta(epsilon) of the run (array), with a note where it is at least 1/dataset_size."""
        epsilon = _check.reals(f"{OWNER}.delta", "epsilon", epsilon, infinite=True)[()]
        found = self.profile(method=method).delta(epsilon=epsilon)
        return _noted(found, self.notes(found.upper))

    def per_epoch(self, delta: float, *, method: str = "auto") -> Bounds:
        """epsilon at delta after each epoch, as one `Bounds` of arrays of length ceil(epochs).

        Entry i belongs to the first ``epoch_steps[i]`` steps; the last one is the whole run.
        """
        delta = _check.real(f"{OWNER}.per_epoch", "delta", delta, low=0.0, high=1.0, hint="One delta a call.")
        return _noted(epsilon_of_multiples(self.step, self.epoch_steps, delta, self.adjacency, method), self.notes(delta))

    @property
    def epoch_steps(self) -> npt.NDArray[np.int64]:
        """Steps done at the end of each epoch, rounded up; the last entry is `steps`."""
        passes = math.ceil(Fraction(self.steps * self.logical_batch_size, self.dataset_size))
        if self.epochs is not None:
            passes = math.ceil(exact(self.epochs))
        ends = (steps_of(k, self.dataset_size, self.logical_batch_size) for k in range(1, max(passes, 1) + 1))
        return np.array([min(t, self.steps) for t in ends], dtype=np.int64)

    def notes(self, delta: Any) -> tuple[str, ...]:
        """What a reader must hear about this delta: 1/dataset_size or more protects nobody in particular."""
        largest = float(np.max(_check.reals(f"{OWNER}.notes", "delta", delta), initial=0.0))
        if largest < 1.0 / self.dataset_size:
            return ()
        return (
            f"delta = {largest:.3g} is not below 1/dataset_size = {1.0 / self.dataset_size:.3g}: "
            "publishing one whole record at random would meet it",
        )

    # what may be left free

    def calibrate(self, *, method: str = "auto", after: Guarantee | None = None, **target: Any) -> Calibration:
        """The least noise multiplier of this run for a target (see `dpaccount.calibrate`), `after` included.

        Parameters
        ----------
        after : DominatingPair, RenyiBound or BestOf, optional
            What has already been spent on the same records.
        **target
            ``epsilon`` and ``delta``; or ``advantage``; or ``false_positive_rate`` and ``false_negative_rate``.

        Examples
        --------
        >>> from dpaccount.training import TrainingRun
        >>> run = TrainingRun(dataset_size=60000, batch_size=256, epochs=1)
        >>> found = run.calibrate(epsilon=2.0, delta=1e-5)
        >>> round(float(found), 5), found.achieved.upper <= 2.0
        (0.65641, True)
        """
        return self._search("no noise is enough", lambda s: replace(self, noise_multiplier=s).guarantee, target, method, after)

    def most_steps(self, *, method: str = "auto", after: Guarantee | None = None, **target: Any) -> Calibration:
        """The most steps of this kind that a target leaves, whatever this run's own length; `after` as in `calibrate`."""
        return self._longest("0 steps are left", target, method, after)

    def remaining_epochs(self, *, method: str = "auto", after: Guarantee | None = None, **target: Any) -> Calibration:
        """The most epochs of this kind that a target leaves, after a prefix that was already run.

        The value may be fractional; its steps, rounded up, are the most that fit.
        """
        found = self._longest("0 epochs are left, that is 0 steps", target, method, after)
        value = self.epochs_of(int(found))
        return replace(found, value=value, infeasible=None if found.infeasible is None else self.epochs_of(int(found.infeasible)))

    def epochs_of(self, steps: int) -> float:
        """The epochs that so many steps make, rounded down so that they never need one step more."""
        steps = _check.count(f"{OWNER}.epochs_of", "steps", steps)
        value = steps * self.logical_batch_size / self.dataset_size
        while steps_of(value, self.dataset_size, self.logical_batch_size) > steps:
            value = math.nextafter(value, 0.0)
        return value

    def largest_batch(self, *, method: str = "auto", after: Guarantee | None = None, **target: Any) -> Calibration:
        """The largest `batch_size` that meets a target, at the run's epochs (or steps, if it was stated in steps).

        The next larger batch was seen to fail (``infeasible``). Because steps are rounded up, epsilon can
        fall a little from one batch size to the next, so a much larger batch is not excluded.
        """
        free_steps: Any = None if self.epochs is not None else self.steps

        def family(batch: int) -> Guarantee:
            return replace(self, batch_size=batch, steps=free_steps).guarantee

        top = self.dataset_size // self.accumulation
        if top == 1:
            return self._search("no batch is small enough", family, target, method, after, integer=True)
        return self._search("no batch is small enough", family, target, method, after, integer=True, bracket=(1, top))

    def _longest(self, left: str, target: dict[str, Any], method: str, after: Guarantee | None) -> Calibration:
        step = self.step  # a run without noise is refused here, not as a value of the search
        try:
            return self._search(left, lambda t: t * step, target, method, after, depth=1, integer=True, bracket=(1, 1e9))
        except UnreachableTarget as error:
            if left in str(error):
                raise
            raise UnreachableTarget(f"{error} So {left}.") from None

    def _search(
        self, left: str, family: Callable[[Any], Guarantee], target: dict[str, Any], method: str, after: Guarantee | None,
        depth: int = 0, **limits: Any,
    ) -> Calibration:
        whole = family
        if after is not None:
            _check.instance(
                OWNER, "after", after, Guarantee, "a guarantee, such as 100 * Gaussian(2.0)", "Of a TrainingRun pass its `guarantee`."
            )
            refuse_if_spent(PrivacyProfile(after, self.adjacency, method=method), f", so {left}", **target)
            whole = lambda value: after + family(value)  # type: ignore[operator]  # noqa: E731
        found = calibrate(whole, adjacency=self.adjacency, method=method, **limits, **target)
        notes = self.notes(target["delta"]) if target.get("delta") is not None else ()
        for note in notes:
            warnings.warn(note, PrivacyWarning, stacklevel=3 + depth)
        return replace(found, notes=found.notes + notes)


def exact(epochs: Any) -> Fraction:
    """A number of epochs as the fraction that was meant: a float is the shortest decimal that denotes it."""
    if isinstance(epochs, Fraction):
        if epochs <= 0:
            _check.refuse(OWNER, "epochs", "a number > 0", epochs)
        return epochs
    value = _check.real(OWNER, "epochs", epochs, low=0.0, open_low=True)
    return Fraction(repr(value)) if not isinstance(epochs, int) else Fraction(epochs)


def steps_of(epochs: Any, dataset_size: int, logical_batch_size: int) -> int:
    """ceil(epochs * dataset_size / logical_batch_size) in whole-number arithmetic.

    Examples
    --------
    >>> from dpaccount.training import steps_of
    >>> steps_of(60, 60000, 256), steps_of(0.1, 60000, 6000)
    (14063, 1)
    """
    records = _check.count("steps_of", "dataset_size", dataset_size)
    return math.ceil(exact(epochs) * records / _check.count("steps_of", "logical_batch_size", logical_batch_size))


def _check_sampler(sampler: Any) -> None:
    if sampler == "poisson":
        return
    _check.refuse(
        OWNER, "sampler", "'poisson'", sampler,
        f"Poisson's figure would not be valid for {sampler!r} batches: it can be several times too small. Draw batches by "
        "Poisson sampling; or, if every record is in exactly one batch of each epoch, account for them without amplification "
        "as epochs * Gaussian(noise_multiplier) under adjacency='zero-out'.",
        ValueError if isinstance(sampler, str) else TypeError,
    )


def _noted(found: Bounds, notes: tuple[str, ...]) -> Bounds:
    return replace(found, notes=found.notes + notes) if notes else found
