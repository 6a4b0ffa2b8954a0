"""Claims from the privacy statement that TensorFlow Privacy prints: one for each epsilon in it.

The first epsilon of a level is for "each example occurring once per epoch", in an order of which the statement says only that it is
arbitrary; it takes no amplification. The second assumes Poisson sampling. Which of them the training deserves is not in it.
"""

from __future__ import annotations

import re
from typing import Any

OWNER = "read_text"
NUMBER = r"([\d.]+(?:e[+-]?\d+)?)"
RUN = re.compile(
    rf"DP-SGD performed over {NUMBER} examples with {NUMBER} examples per iteration, noise multiplier {NUMBER} for {NUMBER} epochs "
    r"(with|without) microbatching, and (?:no bound on number of examples per user|at most (\d+) examples per user)\."
)
LEVEL = re.compile(
    rf"(Example|User)-level DP with add-or-remove-one adjacency at delta = {NUMBER} computed (?:with|using) (\w+) accounting[^:]*:"
    rf" Epsilon with each example occurring once per epoch: (\S+)(?: \(\*\*\))? Epsilon assuming Poisson sampling \(\*\): (\S+)"
)
SAMPLERS = (("once-per-epoch", "if each example occurs once per epoch"), ("poisson", "if batches are Poisson-sampled"))


def is_statement(text: str) -> bool:
    """Whether a text is such a statement."""
    return "DP-SGD performed over" in text


def statement_claims(text: str) -> list[dict[str, Any]]:
    """The fields of each claim; an infinite epsilon claims nothing and is left out."""
    flat = " ".join(text.split())
    run, levels = RUN.search(flat), LEVEL.findall(flat)
    if run is None or not levels:
        raise ValueError(f"`{OWNER}` could not read this privacy statement: a paragraph of it is not as TensorFlow Privacy prints it.")
    size, batch, sigma, epochs, micro, owned = run.groups()
    common: dict[str, Any] = {
        "noise_multiplier": float(sigma), "dataset_size": int(float(size)), "batch_size": int(float(batch)), "epochs": float(epochs),
        "adjacency": "add-or-remove", "clipping": "microbatch" if micro == "with" else "per-example",
    }
    if "release of all model checkpoints" in flat:
        common["released"] = "all-iterates"
    found = []
    for level, delta, accountant, *epsilons in levels:
        unit = {"unit": "record"} if level == "Example" else {"unit": "user", "records_per_user": int(owned or 1)}
        for (sampler, name), epsilon in zip(SAMPLERS, epsilons, strict=True):
            if epsilon != "inf":
                found.append({
                    **common, **unit, "delta": float(delta), "accountant": accountant.lower(), "epsilon": float(epsilon),
                    "sampler": sampler, "name": f"{level.lower()} level, {name}",
                })
    return found
