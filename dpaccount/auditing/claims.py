"""A claim on paper: its fields, and how it is read and refused."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

from dpaccount import _check
from dpaccount.adjacency import Adjacency
from dpaccount.mechanisms.gaussian import noise_multiplier
from dpaccount.training import exact, steps_of

OWNER = "check_claim"
CHOICES: dict[str, tuple[str, ...]] = {
    "mechanism": ("dp-sgd",),
    "sampler": ("poisson", "shuffled", "fixed-order", "once-per-epoch", "fixed-size", "full-batch"),
    "order": ("random", "stored"),
    "batch_count": ("public", "from-data"),
    "adjacency": ("add-or-remove", "replace-one", "zero-out"),
    "unit": ("record", "user"),
    "epsilon_of": ("run", "epoch", "step"),
    "released": ("final-model", "all-iterates"),
    "analysis": ("composition", "last-iterate"),
    "clipping": ("per-example", "microbatch", "average", "none"),
    "normaliser": ("public", "realised-batch", "dataset-size"),
    "accountant": (
        "pld", "rdp", "rdp-classic", "moments", "gdp", "clt", "gaussian-formula", "advanced-composition", "basic-composition",
    ),
}
ALIASES = {
    "sampler": {"shuffle": "shuffled", "shuffling": "shuffled", "without-replacement": "fixed-size", "none": "full-batch"},
    "adjacency": {"add/remove": "add-or-remove", "add-remove": "add-or-remove", "replace": "replace-one", "substitution": "replace-one"},
    "accountant": {"prv": "pld", "saddle-point": "pld", "renyi": "rdp", "moments-accountant": "moments"},
}
COUNTS = ("dataset_size", "training_size", "batch_size", "accumulation", "steps", "records_per_user", "microbatch_size")
FLAGS = ("convex", "batch_norm", "tuning_charged")
INSTEAD = ("noise_multiplier", "noise_std", "batch_size", "accumulation", "sampling_probability", "epochs", "steps")  # of phases
REQUIRED = ("noise_multiplier", "dataset_size", "batch_size", "steps", "sampler", "adjacency", "delta", "epsilon")


@dataclass(frozen=True)
class Claim:
    """What was claimed and done, as far as it was said; what was not said is None.

    ==================  ==========================================================================================
    epsilon, delta      the claim itself; ``epsilon_of`` says what for: "run", "epoch" or "step"
    mechanism           "dp-sgd": Gaussian noise on sums of clipped gradients
    noise_multiplier    noise standard deviation over the clipping norm, as accounted
    clipping_norm,      the two as they are in the code: the norm, and the standard deviation of the noise on the
    noise_std           *sum* of clipped gradients
    clipping            "per-example", "microbatch", "average" (the batch's mean is clipped), "none"
    microbatch_size     examples that are averaged before clipping
    batch_norm          whether an example's gradient depends on the rest of the batch
    normaliser          what the noisy sum is divided by: "public" (a constant), "realised-batch", "dataset-size"
    dataset_size        n, by which the accountant divided the batch
    training_size       records that are really trained on, without validation rows, copies and padding
    batch_size,         expected records between two updates, batch_size * accumulation, or q itself
    accumulation,
    sampling_probability
    epochs, steps       passes over the data; noisy updates
    phases              instead of noise, sizes and steps, where they changed: [[noise_multiplier, q, steps], ...]
    sampler             "poisson", "shuffled" (uniformly, anew every epoch), "fixed-order", "once-per-epoch" (in an order
                        that is not said), "fixed-size" (drawn anew every step without replacement), "full-batch"
    order               of a fixed order: "stored" (the other records keep theirs when one is added), "random" (drawn
                        uniformly, and kept secret)
    batch_count         batches of an epoch, n/B rounded down or up: "public" (a constant, so that batches may be short or
                        empty where a neighbour has fewer records), "from-data"
                        (as many as the records fill)
    adjacency           "add-or-remove", "replace-one", "zero-out"
    unit,               whose privacy: "record" or "user", who owns so many records
    records_per_user
    released            "final-model" or "all-iterates" (checkpoints, gradients, curves)
    analysis, convex    "composition" or "last-iterate"; whether the loss is convex and smooth, batches in fixed order
    tuning_runs,        trainings on the same records that the result was chosen among, and whether epsilon counts them
    tuning_charged
    data_dependent      what was fitted to the data outside the budget: ["scaler", "vocabulary"]; [] if nothing was
    noise_seed_bits     random bits that the noise generator was seeded with; 0 for a fixed seed
    accountant          "pld", "rdp", "rdp-classic", "moments", "gdp", "clt", "gaussian-formula",
                        "advanced-composition", "basic-composition"
    name                what to call the claim
    ==================  ==========================================================================================
    """

    epsilon: Any = None
    delta: Any = None
    name: Any = None
    mechanism: Any = None
    noise_multiplier: Any = None
    clipping_norm: Any = None
    noise_std: Any = None
    clipping: Any = None
    microbatch_size: Any = None
    batch_norm: Any = None
    normaliser: Any = None
    dataset_size: Any = None
    training_size: Any = None
    batch_size: Any = None
    accumulation: Any = None
    sampling_probability: Any = None
    epochs: Any = None
    steps: Any = None
    phases: Any = None
    sampler: Any = None
    order: Any = None
    batch_count: Any = None
    adjacency: Any = None
    unit: Any = None
    records_per_user: Any = None
    epsilon_of: Any = None
    released: Any = None
    analysis: Any = None
    convex: Any = None
    tuning_runs: Any = None
    tuning_charged: Any = None
    data_dependent: Any = None
    noise_seed_bits: Any = None
    accountant: Any = None

    def __post_init__(self) -> None:
        for name, options in CHOICES.items():
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _check.choice(OWNER, name, plain_word(name, value), options))
        for name in COUNTS:
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _check.count(OWNER, name, getattr(self, name)))
        for name in FLAGS:
            if getattr(self, name) is not None:
                _check.flag(OWNER, name, getattr(self, name))
        self._check_numbers()
        self._check_phases()
        self._check_sizes()

    def _check_numbers(self) -> None:
        limits: dict[str, dict[str, Any]] = {
            "epsilon": {"low": 0.0, "hint": "Without a claimed epsilon, leave it out."},
            "delta": {"low": 0.0, "high": 1.0},
            "sampling_probability": {"low": 0.0, "high": 1.0, "open_low": True, "hint": "Did you pass batch size over data size?"},
            "clipping_norm": {"low": 0.0, "open_low": True},
            "noise_std": {"low": 0.0},
        }
        for name, limit in limits.items():
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _check.real(OWNER, name, getattr(self, name), **limit))
        if self.noise_multiplier is not None:
            object.__setattr__(self, "noise_multiplier", noise_multiplier(OWNER, self.noise_multiplier))
        if self.epochs is not None:
            number = float(self.epochs) if isinstance(self.epochs, Fraction) else self.epochs
            _check.real(OWNER, "epochs", number, low=0.0, open_low=True)
        for name, least in (("tuning_runs", 1), ("noise_seed_bits", 0)):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _check.count(OWNER, name, getattr(self, name), minimum=least))
        if self.data_dependent is not None:
            listed = self.data_dependent
            if isinstance(listed, str) or not isinstance(listed, Sequence) or not all(isinstance(item, str) for item in listed):
                _check.refuse(OWNER, "data_dependent", "a list of names, [] if nothing was fitted to the data", listed, kind=TypeError)
            object.__setattr__(self, "data_dependent", tuple(listed))
        if self.name is not None:
            _check.instance(OWNER, "name", self.name, str, "text")
        for name, texts in (("name", (self.name or "",)), ("data_dependent", self.data_dependent or ())):
            for text in texts:
                if not text.isprintable():
                    _check.refuse(OWNER, name, "text without line breaks and control characters", text, "It is printed as it is.")

    def _check_phases(self) -> None:
        """Rows of noise multiplier, sampling probability and steps; equal ones are one."""
        if self.phases is None:
            return
        for name in INSTEAD:
            if getattr(self, name) is not None:
                self._clash("phases", list(self.phases), name, getattr(self, name), "phases say it for each part of the run")
        if self.epsilon_of in ("step", "epoch"):
            self._clash("phases", list(self.phases), "epsilon_of", self.epsilon_of, "with several phases the claim is about the run")
        counts: dict[tuple[float, float], int] = {}
        shape = "a list of [noise_multiplier, sampling_probability, steps]"
        if isinstance(self.phases, str) or not isinstance(self.phases, Sequence) or not self.phases:
            _check.refuse(OWNER, "phases", shape, self.phases, kind=TypeError)
        for i, row in enumerate(self.phases):
            if isinstance(row, str) or not isinstance(row, Sequence) or len(row) != 3:
                _check.refuse(OWNER, f"phases[{i}]", shape[len("a list of "):], row, kind=TypeError)
            key = noise_multiplier(OWNER, row[0]), _check.real(OWNER, f"phases[{i}]", row[1], low=0.0, high=1.0, open_low=True)
            counts[key] = counts.get(key, 0) + _check.count(OWNER, f"phases[{i}]", row[2])
            if self.sampler == "full-batch" and key[1] != 1.0:
                self._clash(f"phases[{i}]", list(row), "sampler", "full-batch", "a full batch has sampling probability 1")
        object.__setattr__(self, "phases", tuple((sigma, q, count) for (sigma, q), count in counts.items()))

    def _check_sizes(self) -> None:
        """Fields that contradict each other; every message names both."""
        n, batch, q = self.dataset_size, self.batch_size, self.sampling_probability
        if self.accumulation is not None and batch is None:
            _check.refuse(OWNER, "accumulation", "left out without batch_size", self.accumulation, "accumulation multiplies batch_size.")
        logical = None if batch is None else batch * (self.accumulation or 1)
        if n is not None and logical is not None and logical > n:
            self._clash("batch_size", logical, "dataset_size", n, "a batch is part of the data set, accumulation included")
        if n is not None and self.training_size is not None and self.training_size > n:
            self._clash("training_size", self.training_size, "dataset_size", n, "what is trained on is part of the data set")
        if self.sampler == "full-batch":
            if q is not None and q != 1.0:
                self._clash("sampling_probability", q, "sampler", "full-batch", "a full batch has sampling probability 1")
            if n is not None and logical is not None and logical != n:
                self._clash("batch_size", logical, "sampler", "full-batch", f"a full batch is the whole data set of {n}")
        if q is not None and n is not None and logical is not None:
            rate = logical / n
            if abs(q - rate) > max(5e-3 * rate, 0.0) and not (self.accumulation is None and logical == round(q * n)):
                self._clash(
                    "sampling_probability", q, "batch_size", logical, f"{logical} of dataset_size = {n} is {rate:.6g}, not {q:.6g}"
                )
        self._check_steps(logical)
        if self.order == "stored" and self.sampler == "shuffled":
            self._clash("order", "stored", "sampler", "shuffled", "shuffled batches come in a random order")
        if self.order is not None and self.sampler in ("poisson", "fixed-size", "full-batch"):
            self._clash("order", self.order, "sampler", self.sampler, "only batches that are cut from passes over the data have an order")
        if self.microbatch_size is not None and self.clipping not in (None, "microbatch"):
            self._clash("microbatch_size", self.microbatch_size, "clipping", self.clipping, "only clipping='microbatch' has microbatches")
        if self.unit == "record" and self.records_per_user is not None and self.records_per_user > 1:
            self._clash("records_per_user", self.records_per_user, "unit", "record", "users with several records are unit='user'")

    def _check_steps(self, logical: int | None) -> None:
        """Steps that the epochs do not make, in whole or started batches of an epoch or of the run."""
        if self.steps is None or self.epochs is None:
            return
        passes, sizes = exact(self.epochs), [size for size in (self.dataset_size, self.training_size) if size is not None]
        if self.sampler == "full-batch":
            per_epoch = [Fraction(1)]
        elif logical is not None and sizes:
            per_epoch = [Fraction(size, logical) for size in sizes]
        elif self.sampling_probability is not None:
            per_epoch = [1 / exact(self.sampling_probability)]
        else:
            return
        ends = [(math.floor(passes * math.floor(per)), math.ceil(passes * math.ceil(per))) for per in per_epoch]
        if not any(low <= self.steps <= high for low, high in ends):
            of = f"dataset_size = {self.dataset_size}, batch_size = {logical}" if logical else f"q = {self.sampling_probability}"
            whole = passes * per_epoch[0]
            self._clash("epochs", self.epochs, "steps", self.steps, f"with {of} these epochs are {float(whole):.10g} steps")

    @staticmethod
    def _clash(name: str, value: Any, other: str, against: Any, why: str) -> None:
        raise ValueError(f"`{OWNER}` was told {name} = {value!r} and {other} = {against!r}, which contradict each other: {why}.")

    # what follows from the fields

    @property
    def logical_batch(self) -> int | None:
        """Expected records per update."""
        if self.batch_size is not None:
            return int(self.batch_size) * int(self.accumulation or 1)
        if self.sampling_probability is not None and self.dataset_size is not None:
            return max(math.ceil(float(self.sampling_probability) * int(self.dataset_size) * (1.0 - 1e-12)), 1)
        return int(self.dataset_size) if self.sampler == "full-batch" and self.dataset_size is not None else None

    @property
    def rate(self) -> float | None:
        """q as it was accounted: batch over dataset_size, or what is stated beside it, if that is larger."""
        if self.sampler == "full-batch":
            return 1.0
        if self.batch_size is not None and self.dataset_size is not None:
            return max(float(self.logical_batch or 0) / float(self.dataset_size), float(self.sampling_probability or 0.0))
        return self.sampling_probability  # type: ignore[no-any-return]

    @property
    def expected_steps(self) -> int | None:
        """ceil(epochs n / B): a started step is paid in full."""
        if self.epochs is None:
            return None
        if self.dataset_size is not None and self.logical_batch is not None and self.batch_size is not None:
            return steps_of(self.epochs, self.dataset_size, self.logical_batch)
        return math.ceil(exact(self.epochs) / Fraction(repr(self.rate))) if self.rate else None

    @property
    def updates(self) -> int | None:
        """The steps that count: those stated, else those that the epochs make."""
        if self.phases is not None:
            return int(sum(count for *_, count in self.phases))
        return self.expected_steps if self.steps is None else int(self.steps)

    @property
    def passes(self) -> int | None:
        """Whole epochs in which a record can take part; a started one counts."""
        if self.epochs is not None:
            return int(max(math.ceil(exact(self.epochs)), 1))
        if self.steps is not None and self.rate:
            return int(max(math.ceil(self.steps / math.floor(1.0 / self.rate + 1e-9)), 1))  # if each drops a started batch
        return None

    @property
    def whole_passes(self) -> int | None:
        """Epochs that are stated and whole; None where only steps are stated."""
        return None if self.epochs is None else math.floor(exact(self.epochs))

    @property
    def relation(self) -> Adjacency:
        return Adjacency(self.adjacency)

    @property
    def missing(self) -> tuple[str, ...]:
        """Fields without which nothing can be decided."""
        asked = (*REQUIRED, "records_per_user") if self.unit == "user" else REQUIRED
        told = self.phases is not None
        have = {"steps": self.updates is not None, "batch_size": told or self.rate is not None,
                "dataset_size": told or self.dataset_size is not None or self.rate is not None,
                "noise_multiplier": told or self.noise_multiplier is not None}
        return tuple(
            {"steps": "epochs or steps", "batch_size": "batch_size or sampling_probability"}.get(name, name)
            for name in asked if not have.get(name, getattr(self, name, None) is not None)
        )


NAMES = tuple(field.name for field in fields(Claim))


def plain_word(name: str, value: Any) -> Any:
    """A field's word as it is known: small letters, hyphens, and the usual other names; what is not known stays as it is."""
    if name not in CHOICES or not isinstance(value, str):
        return value
    word = re.sub(r"[\s_]+", "-", value.strip().lower())
    word = ALIASES.get(name, {}).get(word, word)
    return word if word in CHOICES[name] else value


def claim_of(table: Any) -> Claim:
    """A claim from a table of fields; an unknown one is refused with the nearest valid name."""
    if isinstance(table, Claim):
        return table
    if not isinstance(table, Mapping):
        _check.refuse(OWNER, "spec", "a table of fields, TOML or JSON text, a path to either, or a list of them", table, kind=TypeError)
    known: dict[str, Any] = {}
    for key, value in table.items():
        name = str(key).replace("-", "_")
        if name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, 1, 0.5)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ValueError(f"`{OWNER}` has no field {str(key)!r}: {hint}Known are {', '.join(NAMES)}.")
        if name in known:
            raise ValueError(f"`{OWNER}` was given {name!r} twice, once with a hyphen.")
        known[name] = value
    return Claim(**known)


TEMPLATE = """\
# A claim for `dpaccount audit`. Fill in what is known, and delete the lines of what is not: nothing is guessed.
# Several claims in one file: start each with [[claim]].

name = "worked example"
mechanism = "dp-sgd"            # Gaussian noise on sums of clipped gradients

# the claim
epsilon = 2.9
delta = 1e-5
epsilon_of = "run"              # "run", "epoch" or "step"
accountant = "rdp"              # "pld", "rdp", "rdp-classic", "moments", "gdp", "clt", "gaussian-formula",
                                # "advanced-composition", "basic-composition"
adjacency = "add-or-remove"     # or "replace-one", "zero-out"
unit = "record"                 # or "user", with records_per_user

# the run
noise_multiplier = 1.1          # noise standard deviation over clipping norm
dataset_size = 60000            # what the accountant divided by
training_size = 60000           # records really trained on: no validation rows, copies or padding
batch_size = 256                # records between two noisy updates; accumulation = 4 if in parts
epochs = 60                     # or steps = 14063
sampler = "poisson"             # "poisson", "shuffled" (anew every epoch), "fixed-order", "once-per-epoch" (order not
                                # said), "fixed-size" (drawn anew every step), "full-batch"
# order = "random"              # of a fixed order: "random" and secret, or "stored" (the others keep their places)
# batch_count = "public"        # of an epoch, under add-or-remove: "public" (a constant), or "from-data"

# the code
clipping = "per-example"        # "per-example", "microbatch", "average" (the batch's mean is clipped), "none"
clipping_norm = 1.0
noise_std = 1.1                 # of the noise on the SUM of clipped gradients
batch_norm = false              # does an example's gradient depend on the rest of the batch?
normaliser = "public"           # the noisy sum is divided by: "public" (a constant), "realised-batch", "dataset-size"
noise_seed_bits = 128           # random bits behind the noise; 0 for a fixed seed

# around the run
released = "final-model"        # or "all-iterates": checkpoints, gradients, curves
analysis = "composition"        # or "last-iterate", which needs convex = true
tuning_runs = 1                 # trainings on these records that the result was chosen among
data_dependent = []             # fitted to the data outside the budget: ["scaler", "vocabulary"]
"""
