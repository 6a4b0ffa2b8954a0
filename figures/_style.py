"""One look for all figures: colours that colour-blind readers can tell apart, readable fonts, reproducible files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

# Okabe and Ito (2008), darkest first so that they also differ in grey
BLACK, BLUE, VERMILION, GREEN, ORANGE, SKY, PURPLE = (
    "#000000", "#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7",
)  # fmt: skip

STYLE: Any = {
    "font.size": 12,
    "axes.labelsize": 13,
    "axes.titlesize": 13,
    "legend.fontsize": 11,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 2.0,
    "figure.figsize": (7.2, 4.6),
    "figure.constrained_layout.use": True,
    "figure.dpi": 100,
    "savefig.dpi": 160,
    "savefig.facecolor": "white",
    "svg.hashsalt": "dpaccount",
    "mathtext.fontset": "cm",
}


def save(figure: Figure, out: Path, name: str) -> None:
    """PNG and SVG without dates, so that the same numbers give the same files."""
    figure.savefig(out / f"{name}.png", metadata={"Software": None})
    figure.savefig(out / f"{name}.svg", metadata={"Date": None})
