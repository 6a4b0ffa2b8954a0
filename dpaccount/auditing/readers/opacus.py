"""Claims from the history of an Opacus accountant: (noise multiplier, sample rate, steps) for each phase."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dpaccount import _check
from dpaccount.auditing.claims import Claim
from dpaccount.auditing.readers.phases import merged, run_fields
from dpaccount.mechanisms.gaussian import noise_multiplier

OWNER = "read_opacus"
ACCOUNTANTS = {"rdp": "rdp", "prv": "pld", "gdp": "gdp"}
CHECKPOINT = "privacy_accountant_state_dict"


def read_opacus(history: Any, **fields: Any) -> Claim:
    """A claim from an Opacus accountant, its state, or its history; nothing is ever unpickled.

    Opacus does not record how batches were drawn, the relation, delta or epsilon: these stay missing unless given as `fields`.

    Parameters
    ----------
    history : accountant, dict, list or JSON text
        An object with ``history``; ``accountant.state_dict()``, also inside a checkpoint under
        "privacy_accountant_state_dict"; or ``[(noise_multiplier, sample_rate, steps), ...]``.
    **fields
        More fields of `Claim`: delta, epsilon, sampler, adjacency...

    Returns
    -------
    Claim
        Several different phases become `phases`.

    Examples
    --------
    >>> from dpaccount.auditing import check_claim, read_opacus
    >>> claim = read_opacus([(1.1, 256 / 60000, 14062)], delta=1e-5, epsilon=2.9)
    >>> claim.steps, check_claim(claim).missing
    (14062, ('sampler', 'adjacency'))
    """
    if isinstance(history, (str, bytes)):
        history = _json(history)
    read: dict[str, Any] = {}
    if isinstance(history, Mapping):
        history, read = _state(history)
    elif not isinstance(history, Sequence):
        mechanism = getattr(history, "mechanism", None)
        read = {} if mechanism is None else {"accountant": _accountant(mechanism)}
        history = getattr(history, "history", history)
    if isinstance(history, str) or not isinstance(history, Sequence) or not history:
        _check.refuse(OWNER, "history", "a list of (noise_multiplier, sample_rate, steps), at least one", history, kind=TypeError)
    return merged(OWNER, {**run_fields(_row(i, row) for i, row in enumerate(history)), **read}, fields)


def is_history(data: Any) -> bool:
    """Whether plain data has the shape of a history or of a state."""
    if isinstance(data, Mapping):
        return CHECKPOINT in data or "history" in data
    return isinstance(data, Sequence) and not isinstance(data, str) and bool(data) and all(
        isinstance(row, Sequence) and not isinstance(row, str) and len(row) == 3 and all(_is_number(x) for x in row) for row in data
    )


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool)


def _json(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(
            f"`{OWNER}` could not read the text: {error}. A history is JSON; a checkpoint of torch is a pickle, and is not opened: "
            "load it yourself and pass accountant.state_dict()."
        ) from None


def _state(state: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    state = state.get(CHECKPOINT, state)
    if not isinstance(state, Mapping) or "history" not in state:
        _check.refuse(OWNER, "history", "a state with the key 'history'", dict(state) if isinstance(state, Mapping) else state)
    unknown = sorted(set(map(str, state)) - {"history", "mechanism"})
    if unknown:
        raise ValueError(f"`{OWNER}` found {', '.join(map(repr, unknown))} in the state, and knows 'history' and 'mechanism' only.")
    mechanism = state.get("mechanism")
    return state["history"], {} if mechanism is None else {"accountant": _accountant(mechanism)}


def _accountant(mechanism: Any) -> str:
    """Opacus stores the class's method in memory, and its word in JSON."""
    word = mechanism() if callable(mechanism) else mechanism
    if word not in ACCOUNTANTS:
        _check.refuse(OWNER, "mechanism", f"one of {', '.join(map(repr, ACCOUNTANTS))}", word)
    return ACCOUNTANTS[word]


def _row(i: int, row: Any) -> tuple[float, float, int]:
    if isinstance(row, str) or not isinstance(row, Sequence) or len(row) != 3:
        _check.refuse(OWNER, f"history[{i}]", "(noise_multiplier, sample_rate, steps)", row, kind=TypeError)
    q = _check.real(OWNER, f"history[{i}]", row[1], low=0.0, high=1.0, open_low=True, hint="The second number is the sample rate.")
    return noise_multiplier(OWNER, row[0]), q, _check.count(OWNER, f"history[{i}]", row[2], hint="The third number counts steps.")
