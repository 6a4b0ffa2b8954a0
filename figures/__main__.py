"""Render figures as PNG and SVG, all or those named: ``python -m figures [NAME ...] [--quick] [--out DIR]``."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import time
from pathlib import Path
from types import ModuleType

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import figures
from figures._style import STYLE, save


def scripts() -> list[ModuleType]:
    """Every figure script, in the order of its name."""
    names = sorted(info.name for info in pkgutil.iter_modules(figures.__path__) if not info.name.startswith("_"))
    return [importlib.import_module(f"figures.{name}") for name in names]


def render(out: Path, quick: bool, names: list[str]) -> None:
    """Write ``<script>.png`` and ``<script>.svg`` for the scripts named, or for every one."""
    known = {script.__name__.removeprefix("figures."): script for script in scripts()}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"no figure is called {unknown[0]!r}; there are {', '.join(known)}")
    out.mkdir(parents=True, exist_ok=True)
    for name in names or known:
        start, script = time.perf_counter(), known[name]
        with mpl.rc_context(STYLE):
            figure = script.draw(script.data(quick=quick))
            if wrong := unclear(figure):
                raise SystemExit(f"{name}: {wrong}")
            save(figure, out, name)
        print(f"{name}: {time.perf_counter() - start:.1f} s")


def unclear(figure: Figure) -> str:
    """What keeps a reader from reading it: an axis without a name, a panel or a line with nothing on it."""
    for axes in figure.axes:
        if not axes.get_ylabel() or not (axes.get_xlabel() or "colorbar" in axes.get_label()):
            return "an axis has no name"
        if not (axes.lines or axes.collections):
            return "a panel is empty"
        if not all(np.isfinite(np.asarray(line.get_ydata(), dtype=float)).any() for line in axes.lines):
            return "a line has no finite point"
    return ""


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m figures", description="Render figures as PNG and SVG.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="figures by the name of their script (default: all)")
    parser.add_argument("--quick", action="store_true", help="fewer points, for continuous integration")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out", help="folder to write to")
    options = parser.parse_args()
    mpl.use("agg")
    render(options.out, options.quick, options.names)


if __name__ == "__main__":
    main()
