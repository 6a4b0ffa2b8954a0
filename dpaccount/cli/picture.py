"""Pictures that commands write: a file that cannot be written is refused before anything is computed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click


def check_plot(path: Path) -> None:
    """Refuse a file that could not be written before anything is computed."""
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError as error:
        raise click.UsageError(f"--plot needs matplotlib: {error}.") from error
    known = FigureCanvasBase.get_supported_filetypes()
    if path.suffix.lstrip(".").lower() not in known:
        raise click.UsageError(f"--plot {path}: the name must end in one of {', '.join('.' + name for name in sorted(known))}.")
    check_folder("--plot", path)


def check_folder(flag: str, path: Path) -> None:
    """Refuse a file whose folder does not exist, or that may not be written."""
    if not path.parent.is_dir():
        raise click.UsageError(f"{flag} {path}: there is no folder {str(path.parent)!r}.")
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise click.UsageError(f"{flag} {path}: it cannot be written.")


def write_picture(figure: Any, path: Path) -> None:
    """Save a figure as the file's ending says."""
    try:
        figure.savefig(path, dpi=160)
    except (OSError, ValueError) as error:
        raise click.UsageError(f"--plot {path}: {error}") from error
