"""What an audit answers: a bound, what kind of statement it is, and what it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal

from dpaccount import _check
from dpaccount.statement import shown_down, shown_up

Kind = Literal["confidence", "credible", "model-based", "unproved", "computed"]
HOLDS, REFUTED, UNDECIDED = "holds", "refuted", "undecided"

KINDS: dict[str, str] = {
    "confidence": "a confidence bound: over repetitions of the experiment it is wrong with probability at most alpha, "
    "whatever the algorithm",
    "credible": "a credible bound: it holds with posterior probability 1 - alpha under the stated prior; no frequency is promised",
    "model-based": "a confidence bound inside a model: wrong with probability at most alpha if the algorithm belongs to the "
    "named family, and worth nothing if it does not",
    "unproved": "a bound without a proof: the rule that chose the threshold, or the number of guesses, is not covered by a theorem",
    "computed": "a computed bound: no chance is involved",
}


@dataclass(frozen=True)
class AuditResult:
    """A lower bound on what an algorithm leaks, with the statement that it makes.

    ``float(result)`` is `lower`, the safe side of an audit.

    Parameters
    ----------
    quantity : str
        What is bounded: "epsilon at delta = 1e-05", "delta at epsilon = 1", ...
    lower : float
        The audit's bound, >= 0.
    upper : float or None
        Where meaningful: the other end for what `upper_of` says; of an attack's rates it is never a bound on the
        algorithm, since a better attack may exist.
    level : float
        alpha: the probability that `lower` is too large (for `upper`: too small), each on its own.
    kind : {"confidence", "credible", "model-based", "unproved", "computed"}
        Which kind of statement it is; `KINDS` has the sentences.
    selection : str
        How the decision rule was chosen, and what was paid for the choice.
    assumptions : tuple of str
        What must be true for the bound to hold.
    method : str
        The statistic, with its source.
    details : mapping
        Rates, model parameters and thresholds along the way.
    verdict : {"refuted", "undecided"} or None
        Where a claim was given; no attack can show that a claim holds. Only a bound of kind "confidence" refutes.
    reason : str
        Why a bound above the claim leaves it undecided.
    upper_of : str
        What `upper` bounds.
    notes : tuple of str
        What looks wrong in the input, or what it could not have shown; no bound depends on it.
    works : tuple of (str, str)
        Keys of the works that `dpaccount.citations` has the BibTeX of, with what they are for.
    """

    quantity: str
    lower: float
    upper: float | None
    level: float
    kind: Kind
    selection: str
    assumptions: tuple[str, ...]
    method: str
    details: Mapping[str, Any] = field(default_factory=dict)
    verdict: str | None = None
    upper_of: str = "this attack, not the algorithm"
    works: tuple[tuple[str, str], ...] = ()
    reason: str = ""
    notes: tuple[str, ...] = ()

    def __float__(self) -> float:
        return float(self.lower)

    @property
    def confidence(self) -> float:
        """1 - level."""
        return 1.0 - self.level

    @property
    def mu(self) -> float | None:
        """The largest rejected GDP parameter, where the statistic has one."""
        return self.details.get("mu")

    @property
    def threshold(self) -> Any:
        """The threshold that was used, where scores were given."""
        return self.details.get("threshold")

    def lines(self) -> list[tuple[str, str]]:
        """Label and text: what a reader needs to judge the bound."""
        top = [] if self.upper is None else [("", f"at most {shown_up(self.upper, 7)} ({self.upper_of})")]
        risk = "" if self.kind == "computed" else f", alpha = {self.level:g}"
        verdict = [] if self.verdict is None else [("verdict", f"{self.verdict}: {self.reason}" if self.reason else self.verdict)]
        return [
            *verdict, (self.quantity, f"at least {shown_down(self.lower, 7)}"), *top, ("statement", KINDS[self.kind] + risk),
            ("method", self.method), ("selection", self.selection), *(("assumes", text) for text in self.assumptions),
            *(("note", text) for text in self.notes),
        ]

    def __str__(self) -> str:
        rows = self.lines()
        width = max(len(name) for name, _ in rows) + 2
        return "\n".join(f"{name:<{width}}{text}" for name, text in rows)

    def _repr_html_(self) -> str:
        body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in self.lines())
        return f"<table><caption>Audit</caption><tbody>{body}</tbody></table>"


def level(owner: str, alpha: Any) -> float:
    """Validate alpha in (0, 1)."""
    return _check.real(
        owner, "alpha", alpha, low=0.0, high=1.0, open_low=True, open_high=True,
        hint="It is the probability of a false alarm, such as 0.05, not the confidence.",
    )


def small_delta(owner: str, delta: Any) -> float:
    """Validate delta in [0, 1]."""
    return _check.real(owner, "delta", delta, low=0.0, high=1.0, hint="It is never guessed, since it changes the answer.")
