"""What tells one game from another: names of callables with what is bound in them, and fingerprints of data."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import partial
from types import CodeType, ModuleType
from typing import Any

import numpy as np

DEEPEST = 20  # objects inside objects


def name_of(function: Any) -> str | None:
    """The dotted name of a callable, or of its class, with a fingerprint of what is bound in it, where something is."""
    if function is None or isinstance(function, str):
        return function
    if isinstance(function, partial):
        return f"{name_of(function.func)}[{digest((function.args, function.keywords))}]"
    named = function if hasattr(function, "__qualname__") else type(function)
    bound = _bound(function)
    return f"{named.__module__}.{named.__qualname__}" + (f"[{digest(bound)}]" if bound else "")


def digest(value: Any) -> str:
    """A fingerprint: arrays, numbers, text and containers by content, callables and other objects by name and what is in them."""
    found = hashlib.sha256()
    _feed(found, value, 0)
    return found.hexdigest()[:16]


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


def _feed(found: Any, value: Any, depth: int) -> None:
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        found.update(f"{value.dtype.str}{value.shape}".encode() + np.ascontiguousarray(value).tobytes())
    elif value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
        found.update(f"{type(value).__name__}:{value!r};".encode())
    elif depth > DEEPEST:
        found.update(b"deeper")
    elif isinstance(value, (list, tuple, np.ndarray)):
        found.update(f"{type(value).__name__}{len(value)}".encode())
        for item in value:
            _feed(found, item, depth + 1)
    elif isinstance(value, Mapping):
        found.update(f"mapping{len(value)}".encode())
        for key, item in value.items():
            _feed(found, (key, item), depth + 1)
    elif callable(value) and not isinstance(value, type):
        found.update(str(name_of(value)).encode() if depth < DEEPEST // 2 else b"callable")
    else:
        found.update(f"{type(value).__module__}.{type(value).__qualname__}".encode())
        if getattr(value, "__dict__", None):
            _feed(found, vars(value), depth + 1)
