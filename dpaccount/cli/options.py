"""Options that commands share, and the run file that can stand for them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from dpaccount._check import spelled
from dpaccount.adjacency import Adjacency
from dpaccount.conversions import CONVERSIONS
from dpaccount.engines.auto import METHODS
from dpaccount.pair import Guarantee
from dpaccount.serial import from_json

LOADED = "dpaccount.guarantee"  # where a run file in the JSON form of `serial` is kept


class Number(click.ParamType[Any]):
    """One number; text and numbers of a run file alike."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            self.fail(f"{value!r} is not a number", param, ctx)
        try:
            return float(value)
        except ValueError:
            hint = spelled(str(value))
            self.fail(f"{value!r} is not a number" + (f": {hint[0].lower()}{hint[1:-1]}" if hint else ""), param, ctx)


class Whole(Number):
    """A whole number; 256.0 and 1e6 pass, 256.5 does not."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, str) and value.strip().lstrip("+-").isdigit():
            return int(value)
        number = super().convert(value, param, ctx)
        if not number.is_integer():
            self.fail(f"{value!r} is not a whole number", param, ctx)
        return int(number)


class Epochs(Number):
    """Epochs as the decimal that was written, so that no rounding adds a step."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if number != number or number in (float("inf"), float("-inf")):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return Fraction(value.strip() if isinstance(value, str) else repr(value))


class Numbers(Number):
    """A comma list of numbers, or a list in a run file."""

    name = "number[,number...]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        items = value if isinstance(value, (list, tuple)) else value.split(",") if isinstance(value, str) else [value]
        numbers = tuple(super(Numbers, self).convert(item, param, ctx) for item in items)
        return numbers if numbers else self.fail("the list is empty", param, ctx)


MECHANISMS = (
    "gaussian", "laplace", "discrete-gaussian", "discrete-laplace", "randomized-response", "exponential", "pure", "approximate",
)
_Decorator = Callable[[Any], Any]

RUN: dict[str, _Decorator] = {
    "dataset_size": click.option("--dataset-size", type=Whole(), help="Records in the training set."),
    "batch_size": click.option("--batch-size", type=Whole(), help="Expected batch (physical, if --accumulation is given)."),
    "accumulation": click.option("--accumulation", type=Whole(), help="Physical batches per noisy update."),
    "epochs": click.option("--epochs", type=Epochs(), help="Passes over the data; steps are rounded up."),
    "steps": click.option("--steps", type=Whole(), help="Noisy updates, or repeated releases."),
    "noise_multiplier": click.option("--noise-multiplier", type=Number(), help="Noise scale over sensitivity (clipping norm)."),
    "sampling_probability": click.option(
        "--sampling-probability", type=Number(), help="Poisson sampling probability, instead of the two sizes."
    ),
    "sampler": click.option("--sampler", help="How batches are drawn; only 'poisson' has an accounting here."),
    "mechanism": click.option("--mechanism", type=click.Choice(MECHANISMS), help="What one step releases (default: gaussian)."),
    "mechanism_epsilon": click.option(
        "--mechanism-epsilon", type=Number(), help="Of randomized-response, exponential, pure, approximate."
    ),
    "mechanism_delta": click.option("--mechanism-delta", type=Number(), help="Of approximate."),
    "num_categories": click.option("--num-categories", type=Whole(), help="Of randomized-response (default: 2)."),
    "sensitivity": click.option("--sensitivity", type=Whole(), help="Of the discrete mechanisms (default: 1)."),
    "adjacency": click.option(
        "--adjacency", type=click.Choice([str(a) for a in Adjacency]), default=str(Adjacency.ADD_OR_REMOVE), show_default=True,
        help="Which data sets are neighbours.",
    ),
    "method": click.option(
        "--method", type=click.Choice(METHODS), default="auto", show_default=True, help="Engine; lattice certifies, balls verifies."
    ),
    "after": click.option(
        "--after", type=click.Path(exists=True, dir_okay=False, path_type=Path), multiple=True, metavar="FILE",
        help="A run file of what was already spent on the same records; repeatable.",
    ),
}
TARGETS: dict[str, _Decorator] = {
    "epsilon": click.option("--epsilon", type=Numbers(), help="Target epsilon, or a comma list."),
    "delta": click.option("--delta", type=Numbers(), help="Target delta, or a comma list."),
    "advantage": click.option("--advantage", type=Numbers(), help="Target attacker's advantage, or a comma list."),
    "false_positive_rate": click.option(
        "--fpr", "--false-positive-rate", "false_positive_rate", type=Numbers(), help="With --fnr: a point no attack may beat."
    ),
    "false_negative_rate": click.option(
        "--fnr", "--false-negative-rate", "false_negative_rate", type=Numbers(), help="With --fpr."
    ),
}
OTHERS = ("conversion", "solve")
_WORDS = ("sampler", "mechanism", "adjacency", "method", "conversion", "solve")
KEYS = (*(k for k in RUN if k != "after"), *TARGETS, *OTHERS)
# what is given on the command line replaces its alternatives in the file
ALTERNATIVES = (
    (("epochs",), ("steps",)),
    (("sampling_probability",), ("dataset_size", "batch_size", "accumulation", "epochs")),
    (("advantage",), ("epsilon", "delta", "false_positive_rate", "false_negative_rate")),
    (("false_positive_rate", "false_negative_rate"), ("epsilon", "delta", "advantage")),
    (("epsilon", "delta"), ("advantage", "false_positive_rate", "false_negative_rate")),
)


def load(ctx: click.Context, param: click.Parameter, path: Path | None) -> None:
    """Make a run file's values the defaults of the other options."""
    if path is None:
        return
    found = read_run(path)
    if isinstance(found, Guarantee):
        ctx.meta[LOADED] = found
    else:
        ctx.default_map = found


def read_run(path: Path) -> dict[str, Any] | Guarantee:
    """A run file: TOML or JSON with option names as keys, or a document made by `to_json`."""
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (ValueError, OSError) as error:
        raise click.UsageError(f"{path}: {error}. A run file is TOML, or JSON if its name ends in .json.") from error
    if not isinstance(data, dict):
        raise click.UsageError(f"{path}: a run file is a table of option names and values.")
    if "format" in data:
        try:
            return from_json(text if path.suffix == ".json" else data)
        except (ValueError, TypeError) as error:
            raise click.UsageError(f"{path}: {error}") from error
    known = {key.replace("-", "_"): value for key, value in data.items()}
    known = {{"fpr": "false_positive_rate", "fnr": "false_negative_rate"}.get(k, k): v for k, v in known.items()}
    for key, value in known.items():
        if key not in KEYS:
            raise click.UsageError(f"{path}: unknown key {key!r}. Known are: {', '.join(KEYS)}.")
        if key not in _WORDS and any(isinstance(item, str) for item in (value if isinstance(value, list) else [value])):
            raise click.UsageError(f"{path}: `{key}` must be a number; got {value!r}. Write numbers without quotes.")
        if key in _WORDS and not isinstance(value, str):
            raise click.UsageError(f"{path}: `{key}` must be a word in quotes; got {value!r}.")
    return known


RUN_FILE = click.option(
    "--run", type=click.Path(exists=True, dir_okay=False, path_type=Path), is_eager=True, expose_value=False, callback=load,
    metavar="FILE", help="TOML or JSON with any of these options; the command line wins.",
)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
CONVERSION = click.option(
    "--conversion", type=click.Choice(CONVERSIONS), default="improved", show_default=True, help="How Renyi bounds convert."
)


def run_options(*names: str) -> _Decorator:
    """The options that state a run, with the given targets."""

    def decorate(function: Any) -> Any:
        for option in reversed([RUN_FILE, *RUN.values(), CONVERSION, *(TARGETS[name] for name in names), AS_JSON]):
            function = option(function)
        return function

    return decorate


def settled(ctx: click.Context) -> dict[str, Any]:
    """The parameters, without those from the run file whose alternative is on the command line."""
    values = dict(ctx.params)

    def source(name: str) -> ParameterSource | None:
        return ctx.get_parameter_source(name) if values.get(name) is not None else None

    for pair in ALTERNATIVES:
        for ours, others in (pair, pair[::-1]):
            if any(source(name) is ParameterSource.COMMANDLINE for name in ours):
                for name in others:
                    if source(name) is ParameterSource.DEFAULT_MAP:
                        values[name] = None
    return values
