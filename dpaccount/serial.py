"""Guarantees as JSON: a small documented form that round-trips exactly and refuses what it does not know.

A document is ``{"format": "dpaccount", "version": 1, "guarantee": NODE}``. A NODE has a ``kind`` and exactly the
fields of that kind (``null`` is never a value; numbers are doubles in their shortest decimal form):

=====================  ==========================================================================
kind                   fields
=====================  ==========================================================================
gaussian, laplace      noise_multiplier
discrete-gaussian      noise_multiplier, sensitivity
discrete-laplace       noise_multiplier, sensitivity
randomized-response    epsilon, num_categories
exponential-mechanism  epsilon
pure-dp                epsilon
gaussian-dp            mu; relation where it is not None
approximate-dp         epsilon, delta
finite-pair            p, q (lists)
curve-pair             epsilon, delta (lists), symmetric, relation, upper_bound, proved (optional)
poisson-sampled        step (NODE), sampling_probability
fixed-size-sampled     step (NODE), sample_size, dataset_size
reversed               step (NODE)
composition            parts, a list of {count, step (NODE)}
noise-schedule         noise_multipliers, counts (lists), sampling_probability, swapped
zcdp                   rho
rdp-table              orders, values (lists)
renyi-bound            sources, a list of {count, source (NODE zcdp or rdp-table)}, pair (NODE, optional)
best-of                options, a list of NODE
=====================  ==========================================================================
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from dpaccount import _check
from dpaccount.bestof import BestOf
from dpaccount.mechanisms.curve import CurvePair
from dpaccount.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpaccount.mechanisms.exponential import ExponentialMechanism
from dpaccount.mechanisms.finite import FinitePair
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.mechanisms.gdp import GaussianDP
from dpaccount.mechanisms.laplace import Laplace
from dpaccount.mechanisms.pure import ApproximateDP, PureDP
from dpaccount.mechanisms.response import RandomizedResponse
from dpaccount.pair import Composition, DominatingPair, Guarantee, Reversed, Step, compose
from dpaccount.renyi import ZCDP, OrderTable, RenyiBound, Source
from dpaccount.sampling.fixed_size import FixedSizeSampled
from dpaccount.sampling.poisson import PoissonSampled
from dpaccount.sampling.schedule import NoiseSchedule

FORMAT, VERSION = "dpaccount", 1
MAX_DEPTH = 32
LARGEST = sys.float_info.max

Read = Callable[[Any, str, int], Any]  # value, its path, its depth


def to_dict(guarantee: Guarantee) -> dict[str, Any]:
    """The document of a guarantee as plain dictionaries, lists, strings and numbers (see `to_json`)."""
    return {"format": FORMAT, "version": VERSION, "guarantee": _encode(guarantee)}


def to_json(guarantee: Guarantee, *, indent: int | None = None) -> str:
    """The JSON document of a guarantee; `from_json` gives back an equal one, every float bit for bit.

    Parameters
    ----------
    guarantee : DominatingPair, RenyiBound or BestOf
        Anything built from the mechanisms here. A Renyi bound given by a Python function is refused:
        tabulate it with `RenyiBound.from_table` first.
    indent : int, optional
        As in `json.dumps`.

    Examples
    --------
    >>> from dpaccount import Gaussian, PoissonSampled
    >>> from dpaccount.serial import from_json, to_json
    >>> run = 1000 * PoissonSampled(Gaussian(1.0), 0.01)
    >>> from_json(to_json(run)) == run
    True
    """
    return json.dumps(to_dict(guarantee), indent=indent, allow_nan=False)


def from_json(document: str | bytes | dict[str, Any]) -> Guarantee:
    """The guarantee of a JSON document (text, or the dictionary it parses to).

    Nothing but the listed kinds is ever built. Malformed JSON, unknown or missing fields, unknown kinds,
    duplicate keys, values outside a mechanism's domain and versions after 1 are refused.
    """
    data = _parse(document) if isinstance(document, (str, bytes)) else document
    if not isinstance(data, dict):
        _refuse("document", "a JSON object (text or dict)", data, kind=TypeError)
    if data.get("format") != FORMAT:
        _refuse("format", f"{FORMAT!r}", data.get("format"), "This is not a document made by `to_json`.")
    version = data.get("version")
    if type(version) is not int or version != VERSION:
        later = type(version) is int and version > VERSION
        _refuse("version", f"{VERSION}", version, "It was written by a later dpaccount: upgrade to read it." if later else "")
    _fields(data, "document", ("format", "version", "guarantee"))
    return _guarantee(data["guarantee"], "guarantee", 0)


# reading


def _refuse(name: str, domain: str, value: object, hint: str = "", kind: type[Exception] = ValueError) -> NoReturn:
    try:
        repr(value)
    except ValueError:
        value = f"a whole number of more than {sys.get_int_max_str_digits()} digits"
    _check.refuse("from_json", name, domain, value, hint, kind)


def _parse(text: str | bytes) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            key = next(key for i, (key, _) in enumerate(pairs) if key in dict(pairs[:i]))
            _refuse(key, "given once", [value for name, value in pairs if name == key])
        return found

    def constant(name: str) -> NoReturn:
        _refuse("document", "JSON without NaN and Infinity", name)

    try:
        return json.loads(text, object_pairs_hook=unique, parse_constant=constant)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        _refuse("document", "valid JSON", text, f"{error}.")
    except ValueError as error:
        if str(error).startswith("`"):  # refused above
            raise
        _refuse("document", f"JSON with whole numbers of at most {sys.get_int_max_str_digits()} digits", text)
    except RecursionError:
        _refuse("document", f"nested at most {MAX_DEPTH} deep", "a deeper one")


def _fields(node: Any, path: str, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> None:
    """Refuse a node that lacks a field or has one that is not known."""
    if not isinstance(node, dict):
        _refuse(path, "a JSON object", node, kind=TypeError)
    for name in node:
        if name not in required + optional:
            _refuse(f"{path}.{name}", "absent: only the fields " + ", ".join(required + optional) + " are known", node[name])
    for name in required:
        if name not in node:
            _refuse(f"{path}.{name}", "given", None, "The field is missing.")


def _number(value: Any, path: str, depth: int) -> float:
    if type(value) not in (int, float):
        _refuse(path, "a number", value, kind=TypeError)
    if not -LARGEST <= value <= LARGEST:
        _refuse(path, "a finite double", value)
    return float(value)


def _whole(value: Any, path: str, depth: int) -> int:
    if type(value) is not int:
        _refuse(path, "a whole number", value, kind=TypeError)
    if not -LARGEST <= value <= LARGEST:
        _refuse(path, "a whole number that fits a double", value)
    return value


def _count(value: Any, path: str) -> int:
    return _check.count("from_json", path, _whole(value, path, 0))


def _flag(value: Any, path: str, depth: int) -> bool:
    if type(value) is not bool:
        _refuse(path, "true or false", value, kind=TypeError)
    return value


def _word(value: Any, path: str, depth: int) -> str:
    if not isinstance(value, str):
        _refuse(path, "a word", value, kind=TypeError)
    return value


def _numbers(value: Any, path: str, depth: int) -> tuple[float, ...]:
    return tuple(_number(v, f"{path}[{i}]", depth) for i, v in enumerate(_list(value, path)))


def _wholes(value: Any, path: str, depth: int) -> tuple[int, ...]:
    return tuple(_count(v, f"{path}[{i}]") for i, v in enumerate(_list(value, path)))


def _list(value: Any, path: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        _refuse(path, "a non-empty list", value, kind=ValueError if value == [] else TypeError)
    return value


def _step(value: Any, path: str, depth: int) -> Step:
    found = _guarantee(value, path, depth)
    if not isinstance(found, Step):
        _refuse(path, "one step of a mechanism", value.get("kind"), "Sample each step before composing.")
    return found


def _pair(value: Any, path: str, depth: int) -> DominatingPair:
    found = _guarantee(value, path, depth)
    if not isinstance(found, DominatingPair):
        _refuse(path, "a mechanism or a composition", value.get("kind"))
    return found


def _guarantee(node: Any, path: str, depth: int) -> Guarantee:
    """Build one node; constructors check the domains."""
    if depth > MAX_DEPTH:
        _refuse(path, f"nested at most {MAX_DEPTH} deep", "a deeper one")
    kind = _kind(node, path)
    if kind in _STEPS:
        made, fields, optional = _STEPS[kind]
        _fields(node, path, ("kind", *fields), tuple(optional))
        given = {name: read for name, read in {**fields, **optional}.items() if name in node}
        return made(**{name: read(node[name], f"{path}.{name}", depth + 1) for name, read in given.items()})
    if kind == "composition":
        _fields(node, path, ("kind", "parts"))
        return compose(_counted(node["parts"], f"{path}.parts", "step", depth))
    if kind == "renyi-bound":
        return _renyi(node, path, depth)
    if kind == "best-of":
        _fields(node, path, ("kind", "options"))
        options = _list(node["options"], f"{path}.options")
        return BestOf(*(_guarantee(option, f"{path}.options[{i}]", depth + 1) for i, option in enumerate(options)))
    _refuse(f"{path}.kind", "one of " + ", ".join([*_STEPS, "composition", "renyi-bound", "best-of"]), kind)


def _kind(node: Any, path: str) -> str:
    if not isinstance(node, dict):
        _refuse(path, "a JSON object", node, kind=TypeError)
    kind = node.get("kind")
    if not isinstance(kind, str):
        _refuse(f"{path}.kind", "the name of a kind", kind, kind=TypeError)
    return kind


def _counted(value: Any, path: str, what: str, depth: int) -> list[tuple[Any, int]]:
    """A list of {count, step} or {count, source}."""
    found = []
    for i, entry in enumerate(_list(value, path)):
        here = f"{path}[{i}]"
        _fields(entry, here, ("count", what))
        inner = _step(entry[what], f"{here}.step", depth + 1) if what == "step" else _source(entry[what], f"{here}.source")
        found.append((inner, _count(entry["count"], f"{here}.count")))
    return found


def _renyi(node: dict[str, Any], path: str, depth: int) -> RenyiBound:
    _fields(node, path, ("kind", "sources"), ("pair",))
    pair = _pair(node["pair"], f"{path}.pair", depth + 1) if "pair" in node else None
    return RenyiBound(tuple(_counted(node["sources"], f"{path}.sources", "source", depth)), pair)


def _source(node: Any, path: str) -> Source:
    kind = _kind(node, path)
    if kind == "zcdp":
        _fields(node, path, ("kind", "rho"))
        return RenyiBound.zcdp(_number(node["rho"], f"{path}.rho", 0)).sources[0][0]
    if kind == "rdp-table":
        _fields(node, path, ("kind", "orders", "values"))
        orders, values = (_numbers(node[name], f"{path}.{name}", 0) for name in ("orders", "values"))
        return RenyiBound.from_table(orders, values).sources[0][0]
    _refuse(f"{path}.kind", "one of zcdp, rdp-table", kind)


def _finite_pair(p: tuple[float, ...], q: tuple[float, ...]) -> FinitePair:
    """Vectors that were normalised before keep their bits: normalising again can move the last one."""
    pair = FinitePair(p, q)
    for name, given in (("p", p), ("q", q)):
        if max(abs(a - b) for a, b in zip(getattr(pair, name), given, strict=True)) < 1e-15:
            object.__setattr__(pair, name, given)
    return pair


def _reversed(step: Step) -> DominatingPair:
    return step.reversed()


class _Form(NamedTuple):
    """How a step is built, and its fields in order."""

    made: Callable[..., DominatingPair]
    fields: dict[str, Read]
    optional: dict[str, Read] = {}  # noqa: RUF012  written where they differ from the default


_NOISE: dict[str, Read] = {"noise_multiplier": _number}
_STEPS: dict[str, _Form] = {
    "gaussian": _Form(Gaussian, _NOISE),
    "laplace": _Form(Laplace, _NOISE),
    "discrete-gaussian": _Form(DiscreteGaussian, {**_NOISE, "sensitivity": _whole}),
    "discrete-laplace": _Form(DiscreteLaplace, {**_NOISE, "sensitivity": _whole}),
    "randomized-response": _Form(RandomizedResponse, {"epsilon": _number, "num_categories": _whole}),
    "exponential-mechanism": _Form(ExponentialMechanism, {"epsilon": _number}),
    "gaussian-dp": _Form(GaussianDP, {"mu": _number}, {"relation": _word}),
    "pure-dp": _Form(PureDP, {"epsilon": _number}),
    "approximate-dp": _Form(ApproximateDP, {"epsilon": _number, "delta": _number}),
    "finite-pair": _Form(_finite_pair, {"p": _numbers, "q": _numbers}),
    "curve-pair": _Form(
        CurvePair, {"epsilon": _numbers, "delta": _numbers, "symmetric": _flag}, {"relation": _word, "upper_bound": _flag, "proved": _flag}
    ),
    "poisson-sampled": _Form(PoissonSampled, {"step": _step, "sampling_probability": _number}),
    "fixed-size-sampled": _Form(FixedSizeSampled, {"step": _step, "sample_size": _whole, "dataset_size": _whole}),
    "reversed": _Form(_reversed, {"step": _step}),
    "noise-schedule": _Form(
        NoiseSchedule, {"noise_multipliers": _numbers, "counts": _wholes, "sampling_probability": _number, "swapped": _flag}
    ),
}
_NAMES: dict[type, str] = {
    **{form.made: kind for kind, form in _STEPS.items() if isinstance(form.made, type)},
    FinitePair: "finite-pair",
    Reversed: "reversed",
}


# writing


def _encode(guarantee: Any) -> dict[str, Any]:
    if isinstance(guarantee, BestOf):
        return {"kind": "best-of", "options": [_encode(option) for option in guarantee.options]}
    if isinstance(guarantee, RenyiBound):
        sources = [{"count": n, "source": _encode_source(source)} for source, n in guarantee.sources]
        pair = {} if guarantee.pair is None else {"pair": _encode(guarantee.pair)}
        return {"kind": "renyi-bound", "sources": sources, **pair}
    if isinstance(guarantee, Composition):
        return {"kind": "composition", "parts": [{"count": n, "step": _encode(step)} for step, n in guarantee.parts]}
    kind = _NAMES.get(type(guarantee))
    if kind is None:
        _check.refuse(
            "to_json", "guarantee", "built from the mechanisms of the JSON form", guarantee,
            f"{type(guarantee).__name__} has no kind there: a mechanism of your own is stored by storing what it was built from "
            "(see the page \"extending\" of the documentation).", TypeError,
        )
    form = _STEPS[kind]
    usual = {field.name: field.default for field in dataclasses.fields(guarantee)} if form.optional else {}
    given = {name: getattr(guarantee, name) for name in form.optional}
    extra = {name: value for name, value in given.items() if value != usual[name]}
    return {"kind": kind, **{name: _plain(getattr(guarantee, name)) for name in form.fields}, **extra}


def _plain(value: Any) -> Any:
    if isinstance(value, Guarantee):
        return _encode(value)
    return list(value) if isinstance(value, tuple) else value


def _encode_source(source: Source) -> dict[str, Any]:
    if isinstance(source, ZCDP):
        return {"kind": "zcdp", "rho": source.rho}
    if not isinstance(source, OrderTable):
        _check.refuse(
            "to_json", "guarantee", "a Renyi bound known by zCDP or a table", source,
            "A Python function cannot be stored: tabulate it with RenyiBound.from_table(orders, values).",
        )
    return {"kind": "rdp-table", "orders": list(source.orders), "values": list(source.values)}
