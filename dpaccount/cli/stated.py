"""A run as the options state it: the guarantee, and the lines that describe it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from dpaccount.bestof import options_of
from dpaccount.cli.errors import translated
from dpaccount.cli.options import LOADED, RUN, read_run, settled
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpaccount.mechanisms.exponential import ExponentialMechanism
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.mechanisms.laplace import Laplace
from dpaccount.mechanisms.pure import ApproximateDP, PureDP
from dpaccount.mechanisms.response import RandomizedResponse
from dpaccount.pair import Guarantee, Step
from dpaccount.renyi import RenyiBound
from dpaccount.sampling.poisson import PoissonSampled
from dpaccount.serial import to_dict
from dpaccount.statement import RELATIONS, describe
from dpaccount.training import TrainingRun

_NOISE = {"noise_multiplier": ("noise_multiplier", True)}
# mechanism: class, and {its field: (option, required)}
_MADE: dict[str, tuple[Any, dict[str, tuple[str, bool]]]] = {
    "gaussian": (Gaussian, _NOISE),
    "laplace": (Laplace, _NOISE),
    "discrete-gaussian": (DiscreteGaussian, {**_NOISE, "sensitivity": ("sensitivity", False)}),
    "discrete-laplace": (DiscreteLaplace, {**_NOISE, "sensitivity": ("sensitivity", False)}),
    "randomized-response": (
        RandomizedResponse, {"epsilon": ("mechanism_epsilon", True), "num_categories": ("num_categories", False)},
    ),
    "exponential": (ExponentialMechanism, {"epsilon": ("mechanism_epsilon", True)}),
    "pure": (PureDP, {"epsilon": ("mechanism_epsilon", True)}),
    "approximate": (ApproximateDP, {"epsilon": ("mechanism_epsilon", True), "delta": ("mechanism_delta", True)}),
}
_ONLY = ("noise_multiplier", "mechanism_epsilon", "mechanism_delta", "num_categories", "sensitivity")
_SIZES = ("batch_size", "accumulation", "epochs")


def flag(name: str) -> str:
    """An option as it is typed."""
    return "--" + name.replace("_", "-")


@dataclass(frozen=True)
class Stated:
    """What the options say. `with_values` fills in what was left free."""

    values: dict[str, Any]
    loaded: Guarantee | None = None
    before: tuple[TrainingRun | Guarantee, ...] = ()
    typed: frozenset[str] = frozenset()  # what is on the command line, not in the run file

    @staticmethod
    def of(ctx: click.Context) -> Stated:
        """From a command's options, the run file and the --after files."""
        values = settled(ctx)
        loaded = ctx.meta.get(LOADED)
        typed = frozenset(name for name in values if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE)
        stated = Stated(values, loaded, tuple(spent(path, values["adjacency"]) for path in values["after"]), typed)
        stated._check()
        return stated

    def _check(self) -> None:
        """Refuse options that contradict each other or would be ignored."""
        given = [n for n in RUN if n not in ("adjacency", "method", "after") and self.values.get(n) is not None]
        if self.loaded is not None:
            if given:
                raise click.UsageError(f"The run file holds a whole composition: {flag(given[0])} cannot change it.")
            return
        for name in _ONLY:
            wanted = [option for option, _ in _MADE[self.mechanism][1].values()]
            if name in given and name not in wanted:
                raise click.UsageError(f"{flag(name)} does not belong to --mechanism {self.mechanism}.")
        if self.trained:
            if "sampling_probability" in given:
                raise click.UsageError("Give --sampling-probability, or --dataset-size with --batch-size, not both.")
            if self.mechanism != "gaussian":
                raise click.UsageError(
                    "--dataset-size and --batch-size describe DP-SGD, whose noise is Gaussian; "
                    f"for {self.mechanism} give --sampling-probability and --steps."
                )
        else:
            for name in _SIZES:
                if name in given:
                    raise click.UsageError(f"{flag(name)} needs --dataset-size.")
            if "sampler" in given and "sampling_probability" not in given and self.values.get("solve") != "sampling-probability":
                raise click.UsageError("--sampler needs --sampling-probability, or --dataset-size with --batch-size.")
        if self.values.get("sampler") not in (None, "poisson"):  # the one refusal, whichever way the run is stated
            TrainingRun(dataset_size=1, batch_size=1, steps=1, sampler=self.values["sampler"])

    @property
    def mechanism(self) -> str:
        return self.values.get("mechanism") or "gaussian"

    @property
    def trained(self) -> bool:
        """Whether the run is stated by its sizes."""
        return self.values.get("dataset_size") is not None

    def with_values(self, **values: Any) -> Stated:
        """The same run with some options filled in."""
        return replace(self, values={**self.values, **values})

    def one_target(self, command: str) -> dict[str, float]:
        """One delta, or else one epsilon: what is typed wins, and of a run file that has both, delta is meant."""
        held = [name for name in ("delta", "epsilon") if self.values.get(name) is not None]
        typed = [name for name in held if name in self.typed]
        if len(typed) == 2:
            raise click.UsageError(f"Give --delta or --epsilon, not both: `{command}` computes the other one.")
        if not held:
            raise click.UsageError("Missing option '--delta' (or '--epsilon').")
        name = (typed or held)[0]
        if len(self.values[name]) != 1:
            raise click.UsageError(f"`{command}` is about one --{name}; got {len(self.values[name])}.")
        return {name: self.values[name][0]}

    def need(self, name: str) -> Any:
        value = self.values.get(name)
        if value is None:
            raise click.UsageError(f"Missing option '{flag(name)}'.")
        return value

    # what it builds

    @property
    def training(self) -> TrainingRun:
        """The run, if it is stated by its sizes."""
        names = ("noise_multiplier", "epochs", "steps", "accumulation", "sampler")
        if self.values.get("epochs") is None and self.values.get("steps") is None:
            raise click.UsageError("Missing option '--epochs' or '--steps'.")
        given = {name: self.values[name] for name in names if self.values.get(name) is not None}
        return TrainingRun(
            dataset_size=self.need("dataset_size"), batch_size=self.need("batch_size"),
            adjacency=self.values["adjacency"], **given,
        )

    @property
    def step(self) -> Step:
        """One release."""
        made, fields = _MADE[self.mechanism]
        arguments = {
            field: self.need(option) if required else self.values[option]
            for field, (option, required) in fields.items()
            if required or self.values.get(option) is not None
        }
        step: Step = made(**arguments)
        q = self.values.get("sampling_probability")
        return step if q is None else PoissonSampled(step, q)

    @property
    def run(self) -> Guarantee:
        """The run itself, without what came before."""
        if self.loaded is not None:
            return self.loaded
        if self.trained:
            self.need("noise_multiplier")
            return self.training.guarantee
        return (1 if self.values.get("steps") is None else self.values["steps"]) * self.step

    @property
    def guarantee(self) -> Guarantee:
        """Everything that is spent on the records."""
        return reduce(add, (*self.spent, self.run))

    @property
    def spent(self) -> tuple[Guarantee, ...]:
        """What came before the run."""
        return tuple(part.guarantee if isinstance(part, TrainingRun) else part for part in self.before)

    @property
    def profile(self) -> PrivacyProfile:
        return self.profile_of(self.guarantee)

    def profile_of(self, guarantee: Guarantee) -> PrivacyProfile:
        """Any guarantee, read as the options say; options without an effect on it are refused."""
        v, options = self.values, options_of(guarantee)
        if "conversion" in self.typed and not any(isinstance(option, RenyiBound) for option in options):
            raise click.UsageError("--conversion has no effect: no Renyi bound is part of this run.")
        if "method" in self.typed and v["method"] != "auto" and all(isinstance(option, RenyiBound) for option in options):
            raise click.UsageError("--method has no effect: of this run only Renyi bounds are known, which --conversion converts.")
        return PrivacyProfile(guarantee, v["adjacency"], method=v["method"], conversion=v["conversion"])

    @property
    def subject(self) -> TrainingRun | Guarantee:
        """The run as it is described: by its sizes, if they were given."""
        return self.training if self.trained else self.run

    def notes(self, delta: Any) -> tuple[str, ...]:
        """Warnings about a delta, where the size of the data is known."""
        return self.training.notes(delta) if self.trained else ()

    # what it says

    def lines(self) -> list[tuple[str, str]]:
        """Mechanism, sampling, steps, adjacency."""
        found = describe(self.subject)
        for part in self.before:
            found += [("after", f"{name.lower()}: {text}") for name, text in describe(part)]
        one = not (self.trained or self.loaded is not None) and self.values.get("steps") is None
        if one and self.values.get("sampling_probability") is not None:
            found = [(name, f"{text} (--steps not given)" if name.lower() == "steps" else text) for name, text in found]
        adjacency = self.profile.adjacency
        return [(name.lower(), text) for name, text in found] + [("adjacency", f"{adjacency}: {RELATIONS[adjacency]}")]

    def record(self) -> dict[str, Any]:
        """The run for --json: what was stated, what follows from it, and the guarantee in its JSON form."""
        names = (*(n for n in RUN if n not in ("after", "epochs")), "conversion")
        shown = {name: self.values[name] for name in names if self.values.get(name) is not None}
        if self.values.get("epochs") is not None:
            shown["epochs"] = float(self.values["epochs"])
        if self.trained:
            shown["steps"] = self.training.steps
            shown["sampling_probability"] = self.training.sampling_probability
        return {**shown, "guarantee": to_dict(self.guarantee)["guarantee"]}


def spent(path: Path, adjacency: str) -> TrainingRun | Guarantee:
    """The guarantee of an --after file; it must not speak of another relation."""
    found = read_run(path)
    if isinstance(found, Guarantee):
        return found
    if found.get("adjacency", adjacency) != adjacency:
        raise click.UsageError(f"{path} states adjacency {found['adjacency']!r}, this run {adjacency!r}: they do not add up.")
    with _PARSER.make_context("--after", [], default_map=found) as ctx:
        stated = Stated({**ctx.params, "conversion": "improved"})
    try:
        stated._check()
        _ = stated.run  # refuses what is missing or wrong
        return stated.subject
    except (ValueError, TypeError) as error:
        raise click.UsageError(f"{path}: {translated(error, 'after')}") from error
    except click.UsageError as error:
        raise click.UsageError(f"{path}: {error.message}") from error


_PARSER = click.Command("after")
for _option in RUN.values():
    _option(_PARSER)
