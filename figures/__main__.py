"""Render every figure as PNG and SVG: ``python -m figures [--quick] [--out DIR]``."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import time
from pathlib import Path
from types import ModuleType

import matplotlib as mpl

import figures
from figures._style import STYLE, save


def scripts() -> list[ModuleType]:
    """Every figure script, in the order of its name."""
    names = sorted(info.name for info in pkgutil.iter_modules(figures.__path__) if not info.name.startswith("_"))
    return [importlib.import_module(f"figures.{name}") for name in names]


def render(out: Path, quick: bool) -> None:
    """Write ``<script>.png`` and ``<script>.svg`` for every script."""
    out.mkdir(parents=True, exist_ok=True)
    for script in scripts():
        start = time.perf_counter()
        name = script.__name__.removeprefix("figures.")
        with mpl.rc_context(STYLE):
            save(script.draw(script.data(quick=quick)), out, name)
        print(f"{name}: {time.perf_counter() - start:.1f} s")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m figures", description="Render every figure as PNG and SVG.")
    parser.add_argument("--quick", action="store_true", help="fewer points, for continuous integration")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out", help="folder to write to")
    options = parser.parse_args()
    mpl.use("agg")
    render(options.out, options.quick)


if __name__ == "__main__":
    main()
