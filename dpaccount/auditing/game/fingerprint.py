"""What tells one game from another: names of callables with what is bound in them, and fingerprints of data."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import partial
from types import CodeType, ModuleType
from typing import Any

import numpy as np

DEEPEST = 20  # objects inside objects
MOST = 100_000  # objects in all


def name_of(function: Any) -> str | None:
    """The dotted name of a callable, or of its class, with a fingerprint of what is bound in it, where something is."""
    if function is None or isinstance(function, str):
        return function
    name, bound = _named(function)
    return name + (f"[{digest(bound)}]" if bound else "")


def digest(value: Any) -> str:
    """A fingerprint: arrays, numbers, text and containers by content, callables and other objects by name and what is in them."""
    found = _Feeder()
    found.feed(value)
    return found.hash.hexdigest()[:16]


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
    if not hasattr(function, "__qualname__") and getattr(function, "__dict__", None):
        parts.append(vars(function))
    return tuple(parts)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _code(code: CodeType) -> tuple[Any, ...]:
    return code.co_code, code.co_names, [item for item in code.co_consts if not isinstance(item, CodeType)]


class _Feeder:
    """Content into a hash. What holds itself, as functions may, is not entered again, and a large tangle not to its end."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self.left = MOST

    def feed(self, value: Any, within: tuple[int, ...] = ()) -> None:
        """`within` are the objects that hold this one."""
        if isinstance(value, np.ndarray) and value.dtype.kind != "O":
            self.hash.update(f"{value.dtype.str}{value.shape}".encode() + np.ascontiguousarray(value).tobytes())
            return
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
            self.hash.update(f"{type(value).__name__}:{value!r};".encode())
            return
        self.left -= 1
        if id(value) in within or len(within) > DEEPEST or self.left < 0:
            self.hash.update(b"again" if id(value) in within else b"deeper")
            return
        name, parts = _parts(value)
        self.hash.update(name.encode())
        for part in parts:
            self.feed(part, (*within, id(value)))


def _parts(value: Any) -> tuple[str, Iterable[Any]]:
    """What an object is called, and what it is made of."""
    kind = type(value)
    if isinstance(value, (list, tuple, np.ndarray)):
        return f"{kind.__name__}{len(value)}", value
    if isinstance(value, Mapping):
        return f"mapping{len(value)}", value.items()
    if isinstance(value, type):
        return f"type {value.__module__}.{value.__qualname__}", ()
    if isinstance(value, ModuleType):
        return f"module {value.__name__}", ()
    if callable(value):
        return _named(value)
    return f"{kind.__module__}.{kind.__qualname__}", (vars(value),) if getattr(value, "__dict__", None) else ()
