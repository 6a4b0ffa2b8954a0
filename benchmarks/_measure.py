"""Clocks and files that the scripts share."""

from __future__ import annotations

import json
import math
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """Processor time of this process, which other processes on the machine hardly disturb, and what came out."""
    start = time.process_time()
    value = call()
    return time.process_time() - start, value


def median_seconds(call: Callable[[], Any], rounds: int) -> tuple[float, Any]:
    """The median over rounds, after one that is not counted; every call makes its own objects."""
    value = call()
    return statistics.median(seconds(call)[0] for _ in range(rounds)), value


def in_turn(one: Callable[[], Any], other: Callable[[], Any], rounds: int, times: int = 5) -> tuple[float, float, Any, Any]:
    """Medians of both, `times` of one for each of the other, in turn, so that a slow moment of the machine meets both."""
    value = one()
    first, second, answer = [], [], None
    for _ in range(rounds):
        for _ in range(times):
            taken, value = seconds(one)
            first.append(taken)
        taken, answer = seconds(other)
        second.append(taken)
    return statistics.median(first), statistics.median(second), value, answer


def first_number(usual: int) -> int:
    """The whole number after ``python -m benchmarks.<script>``, for a shorter run; not that of ``python -m benchmarks``."""
    return int(sys.argv[1]) if len(sys.argv) == 2 and sys.argv[1].isdigit() else usual


def machine() -> dict[str, str]:
    """What the figures were measured on."""
    return {"machine": platform.machine(), "python": platform.python_version(), "clock": "process time"}


def write(name: str, content: dict[str, Any]) -> None:
    """``benchmarks/<name>.json``; infinities and NaN are null."""
    text = json.dumps(_plain(machine() | content), indent=1, allow_nan=False)
    text = re.sub(r"\[\s+([^][{}]*?)\s+\]", lambda row: "[" + re.sub(r",\s+", ", ", row[1]) + "]", text)  # a row is one line
    FOLDER.joinpath(f"{name}.json").write_text(text + "\n", encoding="utf-8")


def read(name: str) -> dict[str, Any]:
    """What was written last."""
    found: dict[str, Any] = json.loads(FOLDER.joinpath(f"{name}.json").read_text(encoding="utf-8"))
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
