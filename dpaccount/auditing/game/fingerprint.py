"""What tells one game from another: names of callables with what is bound in them, and fingerprints of data."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Mapping
from functools import partial
from types import CodeType, ModuleType
from typing import Any, NamedTuple

import numpy as np

GENERATORS = (np.random.Generator, np.random.BitGenerator, np.random.RandomState, random.Random)
DEEPEST = 40  # objects inside objects
MOST = 100_000  # objects in all


def name_of(function: Any) -> str | None:
    """The dotted name of a callable, or of its class, with a fingerprint of what is bound in it, where something is."""
    if function is None or isinstance(function, str):
        return function
    name, bound = _named(function)
    return name + (f"[{_fed(bound, states=False).hash.hexdigest()[:16]}]" if bound else "")


def digest(value: Any) -> str:
    """A fingerprint: arrays, numbers, text and containers by content, callables by name and what is in them, other objects as pickled."""
    return _fed(value).hash.hexdigest()[:16]


def unseen(value: Any) -> list[str]:
    """The kinds of objects in a value whose content a fingerprint does not show."""
    return sorted(_fed(value, states=False).unseen)


def _fed(value: Any, states: bool = True) -> _Feeder:
    found = _Feeder(states)
    found.feed(value)
    return found


def _named(function: Any) -> tuple[str, tuple[Any, ...]]:
    """Its dotted name, and what is bound in it."""
    if isinstance(function, partial):
        inner, bound = _named(function.func)
        return inner, (*bound, function.args, function.keywords)
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}", _bound(function)


def _bound(function: Any) -> tuple[Any, ...]:
    """Closures, defaults, the object of a method, the fields of a callable object; its code where it has no name of its own."""
    parts: list[Any] = []
    if getattr(function, "__self__", None) is not None and not isinstance(function.__self__, ModuleType):
        parts.append(function.__self__)
    plain = getattr(function, "__func__", function)
    if getattr(plain, "__closure__", None):
        parts.append([_content(cell) for cell in plain.__closure__])
    parts += [item for item in (getattr(plain, "__defaults__", None), getattr(plain, "__kwdefaults__", None)) if item]
    if getattr(plain, "__name__", "") == "<lambda>":
        parts.append(_code(plain.__code__))
    if not hasattr(function, "__qualname__"):
        parts.append(_Instance(function))
    return tuple(parts)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _code(code: CodeType) -> tuple[Any, ...]:
    return code.co_code, code.co_names, [_code(item) if isinstance(item, CodeType) else item for item in code.co_consts]


class _Instance(NamedTuple):
    """A callable object, to be taken apart as an object."""

    value: Any


class _Feeder:
    """Content into a hash. What holds itself, as functions may, is not entered again, and a large tangle not to its end."""

    def __init__(self, states: bool = True) -> None:
        self.hash = hashlib.sha256()
        self.left = MOST
        self.states = states  # of generators; what is bound in a mechanism may draw from one, and its state moves
        self.unseen: set[str] = set()

    def feed(self, value: Any, within: tuple[int, ...] = ()) -> None:
        """`within` are the objects that hold this one."""
        if isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray) and not value.dtype.hasobject:
            self.hash.update(f"{value.dtype.str}{value.shape}".encode() + np.ascontiguousarray(value).tobytes())
            return
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
            self.hash.update(f"{type(value).__name__}:{value!r};".encode())
            return
        if isinstance(value, (bytearray, memoryview)):
            self.hash.update(f"{type(value).__name__}:{bytes(value)!r};".encode())
            return
        self.left -= 1
        if id(value) in within or len(within) > DEEPEST or self.left < 0:
            self.hash.update(b"again" if id(value) in within else b"deeper")
            if id(value) not in within:
                self.unseen.add(f"{type(value).__module__}.{type(value).__qualname__}, too deep or too much")
            return
        inside = (*within, id(value))
        if isinstance(value, (set, frozenset, Mapping)):  # in no order
            items: Iterable[Any] = value.items() if isinstance(value, Mapping) else value
            kind = "mapping" if isinstance(value, Mapping) else "set"
            self.hash.update(f"{kind}{len(value)}".encode() + b"".join(sorted(self._apart(item, inside) for item in items)))
            return
        try:
            name, parts = self._parts(value)
        except Exception:  # whatever an object's own reduction raises
            name, parts = f"{type(value).__module__}.{type(value).__qualname__}", ()
            self.unseen.add(name)
        self.hash.update(name.encode())
        for part in parts:
            self.feed(part, inside)

    def _apart(self, value: Any, within: tuple[int, ...]) -> bytes:
        """A hash of its own."""
        whole, self.hash = self.hash, hashlib.sha256()
        self.feed(value, within)
        own, self.hash = self.hash.digest(), whole
        return own

    def _parts(self, value: Any) -> tuple[str, Iterable[Any]]:
        if isinstance(value, _Instance):
            return _reduced(value.value)
        if not self.states and isinstance(value, GENERATORS):
            return type(value).__qualname__, ()
        return _parts(value)


def _reduced(value: Any) -> tuple[str, Iterable[Any]]:
    """Name and parts as pickle takes an object apart: what makes it, of what, its state, its items."""
    kind, made = type(value), value.__reduce_ex__(4)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(made, str):
        return name, (made,)
    return name, (*made[:3], *(None if items is None else list(items) for items in made[3:5]))


def _parts(value: Any) -> tuple[str, Iterable[Any]]:
    """What an object is called, and what it is made of."""
    kind = type(value)
    if isinstance(value, np.ma.MaskedArray):
        return f"masked{value.fill_value!r}", (np.asarray(value.data), np.ma.getmaskarray(value))
    if isinstance(value, (list, tuple, np.ndarray)):
        return f"{kind.__name__}{len(value)}", value
    if isinstance(value, type):
        return f"type {value.__module__}.{value.__qualname__}", ()
    if isinstance(value, ModuleType):
        return f"module {value.__name__}", ()
    if callable(value):
        return _named(value)
    return _reduced(value)
