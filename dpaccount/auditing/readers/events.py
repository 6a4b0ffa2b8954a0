"""Claims from the events of dp-accounting: objects, their text, or plain tables; the package itself is not needed."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from dpaccount import _check
from dpaccount.auditing.claims import Claim
from dpaccount.auditing.readers.phases import merged, run_fields
from dpaccount.mechanisms.gaussian import noise_multiplier

OWNER = "read_event"
DEEPEST = 50
FIELDS = {
    "GaussianDpEvent": ("noise_multiplier",), "SelfComposedDpEvent": ("event", "count"), "ComposedDpEvent": ("events",),
    "PoissonSampledDpEvent": ("sampling_probability", "event"), "NoOpDpEvent": (),
    "SampledWithoutReplacementDpEvent": ("source_dataset_size", "sample_size", "event"),
}


@dataclass(frozen=True)
class _Part:
    """Equal steps: how they draw, with what noise, how often."""

    sigma: float
    sampler: str
    rate: float
    count: int
    sizes: tuple[int, int] | None = None  # sample and data, where they are fixed


def read_event(event: Any, **fields: Any) -> Claim:
    """A claim from a ``DpEvent``: an object, ``str(event)``, ``event.to_named_tuple()``, or a table with "class_name".

    Read are Gaussian events, sampled or not, composed; any other is named and refused. An event says nothing of the relation, delta
    or epsilon: these stay missing unless given as `fields`.

    Parameters
    ----------
    event : DpEvent, str or dict
    **fields
        More fields of `Claim`.

    Examples
    --------
    >>> from dpaccount.auditing import check_claim, read_event
    >>> text = "SelfComposedDpEvent(event=PoissonSampledDpEvent(sampling_probability=0.01, event=GaussianDpEvent(1.0)), count=1000)"
    >>> claim = read_event(text, delta=1e-5, epsilon=2.2)
    >>> claim.sampler, claim.steps, check_claim(claim).missing
    ('poisson', 1000, ('adjacency',))
    """
    parts = list(_parts(_node(event), 1, 0))
    if not parts:
        _check.refuse(OWNER, "event", "an event that releases something", event)
    return merged(OWNER, _fields(parts), fields)


def is_event(data: Any) -> bool:
    """Whether an object, a table or a text is an event."""
    if isinstance(data, str):
        return data.lstrip().split("(")[0].endswith(("DpEvent", "DpEventNamedTupleWrapper"))
    return _class(data) is not None


def _fields(parts: list[_Part]) -> dict[str, Any]:
    samplers = {part.sampler for part in parts}
    if samplers == {"full-batch"}:
        return {**run_fields((p.sigma, 1.0, p.count) for p in parts), "sampler": "full-batch"}
    if samplers <= {"full-batch", "poisson"}:
        return {**run_fields((p.sigma, p.rate, p.count) for p in parts), "sampler": "poisson"}
    if len({(p.sigma, p.sampler, p.sizes) for p in parts}) > 1 or parts[0].sizes is None:
        raise ValueError(f"`{OWNER}` reads samples of a fixed size only where all steps are alike; got {len(parts)} different ones.")
    sample, size = parts[0].sizes
    return {
        "noise_multiplier": parts[0].sigma, "batch_size": sample, "dataset_size": size, "steps": sum(p.count for p in parts),
        "sampler": "fixed-size",
    }


def _class(data: Any) -> str | None:
    if isinstance(data, Mapping):
        name = data.get("class_name")
    else:
        name = getattr(data, "class_name", None) or type(data).__name__
    name = name.decode() if isinstance(name, bytes) else name
    return name if isinstance(name, str) and name.endswith("DpEvent") else None


def _parts(node: tuple[str, dict[str, Any]], count: int, depth: int) -> Iterator[_Part]:
    """The steps of an event, each so many times."""
    name, values = node
    if depth > DEEPEST:
        raise ValueError(f"`{OWNER}` reads events nested at most {DEEPEST} deep.")
    if name == "SelfComposedDpEvent":
        yield from _parts(_node(values["event"]), count * _check.count(OWNER, "count", values["count"]), depth + 1)
    elif name == "ComposedDpEvent":
        for event in _listed(values["events"]):
            yield from _parts(_node(event), count, depth + 1)
    elif name == "GaussianDpEvent":
        yield _Part(noise_multiplier(OWNER, values["noise_multiplier"]), "full-batch", 1.0, count)
    elif name == "PoissonSampledDpEvent":
        limits = {"low": 0.0, "high": 1.0, "open_low": True}
        q = _check.real(OWNER, "sampling_probability", values["sampling_probability"], **limits)
        yield _Part(_sigma(values["event"], name, depth), "poisson", q, count)
    elif name == "SampledWithoutReplacementDpEvent":
        size = _check.count(OWNER, "source_dataset_size", values["source_dataset_size"])
        sample = _check.count(OWNER, "sample_size", values["sample_size"], maximum=size)
        yield _Part(_sigma(values["event"], name, depth), "fixed-size", sample / size, count, (sample, size))
    elif name != "NoOpDpEvent":
        _cannot(name)


def _sigma(event: Any, inside: str, depth: int) -> float:
    """The noise of the one Gaussian release of a sample."""
    parts = list(_parts(_node(event), 1, depth + 1))
    if len(parts) != 1 or parts[0].count != 1 or parts[0].sampler != "full-batch":
        raise ValueError(f"`{OWNER}` reads one GaussianDpEvent inside {inside}: several releases of one sample are not DP-SGD.")
    return parts[0].sigma


def _node(event: Any) -> tuple[str, dict[str, Any]]:
    """The class of an event and its fields, from an object, a table, or its text."""
    if isinstance(event, str):
        event = _parsed(event)
    name = _class(event)
    if name is None:
        _check.refuse(OWNER, "event", "a DpEvent: an object, its text, or a table with 'class_name'", event, kind=TypeError)
    if name not in FIELDS:
        _cannot(name)
    if isinstance(event, Mapping):
        given = {key: value for key, value in event.items() if key not in ("class_name", "module_name")}
    else:
        given = {field: getattr(event, field) for field in FIELDS[name] if hasattr(event, field)}
    for key in dict.fromkeys((*given, *FIELDS[name])):
        if key not in FIELDS[name] or key not in given:
            state = "lacks" if key not in given else "does not know"
            raise ValueError(f"`{OWNER}` {state} {key!r} of {name}, whose fields are {', '.join(FIELDS[name]) or 'none'}.")
    return name, given


def _cannot(name: str) -> NoReturn:
    raise ValueError(f"`{OWNER}` cannot read {name}: a claim about DP-SGD is made of {', '.join(FIELDS)}.")


def _listed(events: Any) -> Sequence[Any]:
    if isinstance(events, str) or not isinstance(events, Sequence):
        _check.refuse(OWNER, "events", "a list of events", events, kind=TypeError)
    return events


# the text of an event, as Python prints it; nothing of it is run


def _parsed(text: str) -> Any:
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"`{OWNER}` could not read the text of an event: {error}.") from None


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Call):
        return _call(node)
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_value(item) for item in node.elts]
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float, str)):
        return node.value
    raise ValueError(f"`{OWNER}` could not read {ast.unparse(node)[:80]!r}: an event's text holds events, numbers and lists.")


def _call(node: ast.Call) -> dict[str, Any]:
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    values = {word.arg: _value(word.value) for word in node.keywords if word.arg is not None}
    name = str(values.get("class_name", called))
    if not name.endswith("DpEvent"):
        raise ValueError(f"`{OWNER}` could not read {called!r}: it is no DpEvent.")
    if name not in FIELDS:
        _cannot(name)
    if len(node.args) > len(FIELDS[name]) or len(values) < len(node.keywords):
        raise ValueError(f"`{OWNER}` could not read the fields of {name}, which are {', '.join(FIELDS[name]) or 'none'}.")
    values.update(zip(FIELDS[name], map(_value, node.args), strict=False))
    return {**values, "class_name": name}
