"""Messages of the library in the words of the command line."""

from __future__ import annotations

import re
from collections.abc import Collection

_OPTIONS = (
    "dataset_size", "batch_size", "accumulation", "epochs", "steps", "noise_multiplier", "sampling_probability", "sampler",
    "num_categories", "sensitivity", "adjacency", "method", "conversion", "advantage", "epsilon", "delta", "order", "gdp",
    "mechanism_epsilon", "mechanism_delta", "find", "progress", "num_records", "lipschitz", "smoothness", "strong_convexity",
    "step_size", "noise_scale", "diameter", "batches", "batch", "noise", "index", "passes", "gradient_step",
)
# parameters that are called otherwise here
_OTHERS = {
    "count": "--steps", "false_positive_rate": "--fpr", "false_negative_rate": "--fnr", "rho": "--zcdp", "orders": "--rdp",
    "values": "--rdp", "n_jobs": "--jobs",
}
# classes whose epsilon and delta are the mechanism's own, and how --mechanism calls all of them
_CLAIMS = ("RandomizedResponse", "ExponentialMechanism", "PureDP", "ApproximateDP")
_MECHANISMS = {
    "Gaussian": "gaussian", "Laplace": "laplace", "DiscreteGaussian": "discrete-gaussian", "DiscreteLaplace": "discrete-laplace",
    "RandomizedResponse": "randomized-response", "ExponentialMechanism": "exponential", "PureDP": "pure",
    "ApproximateDP": "approximate",
}
_READ = ("epsilon", "false_positive_rate", "order")  # where `curve` reads, which is --at


def option(owner: str, name: str, command: str) -> str | None:
    """The option that a parameter of the library is set by, if there is one."""
    if command == "curve" and name in _READ and owner not in _CLAIMS:
        return "--at"
    if owner in _CLAIMS and name in ("epsilon", "delta"):
        return "--dp" if command == "convert" else f"--mechanism-{name}"
    if name in _OPTIONS:
        return "--" + name.replace("_", "-")
    return _OTHERS.get(name)


def translated(error: Exception, command: str) -> str:
    """The message with options instead of parameters; what has no option stays as it is."""

    def of_parameter(found: re.Match[str]) -> str:
        return option(found[1], found[2], command) or found[0]

    def of_word(found: re.Match[str]) -> str:
        return option("", found[0], command) or found[0]

    def of_mechanism(found: re.Match[str]) -> str:
        return f"--mechanism {_MECHANISMS[found[1]]}" if found[1] in _MECHANISMS else found[0]

    text = re.sub(r"`([\w.]+)\((\w+)=\.\.\.\)`", of_parameter, str(error))
    text = re.sub(r"`(\w+)\([^`]*\)`(?= has no accounting)", of_mechanism, text)
    text = re.sub(r"`?\b(adjacency|method|conversion)='([\w-]+)'`?", r"--\1 \2", text)
    text = re.sub(r"\bPureDP\(([^)]*)\)", r"--mechanism pure --mechanism-epsilon \1", text)
    text = re.sub(r"\bsmoothness(?= \+ )", "--smoothness", text)  # an option in a formula; elsewhere it is a word
    return re.sub(r"\b(?<![-(])[a-z]+(?:_[a-z]+)+\b(?![(=])", of_word, text)


def of_claim(error: Exception, told: Collection[str] = ()) -> str:
    """A message about a claim: its fields by name, those that were told as --set, without the function that refused."""

    def of_field(found: re.Match[str]) -> str:
        return f"--set {found[1]}" if found[1] in told else found[1]

    text = re.sub(r"`\w+\(([\w\[\]]+)=\.\.\.\)`", of_field, str(error))
    text = re.sub(r"^`(?:check_claim|read_\w+|--set)` ", "", text)
    return re.sub(r"^has no field", "there is no field", text)
