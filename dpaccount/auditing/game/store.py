"""A file that a game is resumed from: one line of settings, then one line a chunk, only ever appended to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from dpaccount.auditing.game.protocol import OWNER, Chunk, Game, Played

Array = npt.NDArray[np.float64]
FORMAT = "dpaccount game 1"
UNREPEATED = (
    "the first run came out otherwise when it was repeated: not all randomness is drawn from rng, so the seed repeats nothing; say "
    "reproducible=False"
)


class Store:
    """Chunks that are known, in memory and, where a path is given, on disk; a line that was torn by a kill is dropped.

    Raises
    ------
    ValueError
        For a file of other settings, naming the first that differs, for one that is no store, and for a damaged one.
    """

    def __init__(self, path: Any, settings: Mapping[str, Any]) -> None:
        self.path = None if path is None else Path(path)
        self.known: dict[int, Played] = {}
        if self.path is None:
            return
        header = {"format": FORMAT, **json.loads(json.dumps(settings))}
        line = json.dumps(header) + "\n"
        raw = self.path.read_bytes() if self.path.exists() else b""
        whole = raw[: raw.rfind(b"\n") + 1]
        if not whole and not line.encode().startswith(raw):
            _check.refuse(OWNER, "store", "a file of this game, or one that does not exist", str(self.path), "It is something else.")
        if whole:
            found, self.known = _read(self.path, whole)
            _same(header, found)
        if len(whole) < len(raw):
            with self.path.open("r+b") as file:
                file.truncate(len(whole))
        self._file = self.path.open("a", encoding="utf-8")
        if not whole:
            self._write(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.path is not None:
            self._file.close()

    def add(self, played: Played) -> None:
        """Keep a chunk; it is on disk before the next one is waited for."""
        self.known[played.chunk.number] = played
        if self.path is not None:
            row = {"chunk": played.chunk.number, "without": played.without.tolist(), "within": played.within.tolist()}
            self._write(json.dumps(row) + "\n")

    def _write(self, line: str) -> None:
        self._file.write(line)
        self._file.flush()


def seed_of(path: Any) -> int | None:
    """The seed of a store that exists, so that a game without one goes on with its own."""
    file = None if path is None else Path(path)
    if file is None or not file.exists():
        return None
    try:
        with file.open(encoding="utf-8") as lines:
            found = json.loads(lines.readline())
        return int(found["seed"])
    except (ValueError, KeyError, TypeError):
        return None  # whatever it is, opening the store says so


def game_scores(store: Any) -> tuple[Array, Array]:
    """The scores of a stored game, without the record and with it, for any other statistic of the same runs.

    Parameters
    ----------
    store : str or Path
        The file given to `audit_game`.

    Returns
    -------
    (array, array)
        In the order of the chunks, up to the first that is missing. Outputs that trained a classifier are left out.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from dpaccount.auditing import audit_game, game_scores
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "game.jsonl")
    ...     found = audit_game(lambda mean, rng, size: rng.normal(mean, 1.0, size), (0.0, 1.0), batch=True, runs=2000, delta=1e-5,
    ...                        threshold=1.5, seed=1, store=file)
    ...     without, within = game_scores(file)
    >>> without.shape, bool(within.mean() > without.mean())
    ((2000,), True)
    """
    path = Path(store)
    raw = path.read_bytes()
    _, known = _read(path, raw[: raw.rfind(b"\n") + 1])
    kept = []
    for index in range(len(known)):
        if index not in known:
            break
        kept.append(known[index])
    scores = [(played.without, played.within) for played in kept if played.without.ndim == 1]
    if not scores:
        return np.empty(0), np.empty(0)
    return np.concatenate([a for a, _ in scores]), np.concatenate([b for _, b in scores])


def _read(path: Path, raw: bytes) -> tuple[dict[str, Any], dict[int, Played]]:
    """The settings and the chunks of whole lines."""
    known: dict[int, Played] = {}
    header: dict[str, Any] = {}
    for number, text in enumerate(raw.decode("utf-8", "replace").splitlines()):
        try:
            row = json.loads(text)
            if number == 0:
                if row["format"] != FORMAT:
                    raise ValueError(row["format"])
                header = row
                continue
            without, within = (np.asarray(row[name], dtype=float) for name in ("without", "within"))
            if without.shape != within.shape or not without.size or np.isnan(without).any() or np.isnan(within).any():
                raise ValueError("scores of both kinds, as many of one as of the other")
            played = Played(Chunk(int(row["chunk"]), len(without)), without, within)
        except (ValueError, KeyError, TypeError) as error:
            what = "a file of this game, or one that does not exist" if number == 0 else "whole"
            _check.refuse(OWNER, "store", what, str(path), f"Line {number + 1} cannot be read ({type(error).__name__}).")
        known[played.chunk.number] = played
    if not header:
        _check.refuse(OWNER, "store", "a file of a game", str(path), "It is empty.")
    return header, known


def _same(mine: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    for name in (*mine, *found):
        if mine.get(name) != found.get(name):
            _check.refuse(
                OWNER, "store", f"a file of this game, with {name} = {mine.get(name)!r}", found.get(name),
                f"Its {name} is another; chunks of different games are not to be mixed.",
            )


def repeats(game: Game, store: Store) -> bool:
    """Whether the first run comes out again from the same stream."""
    if not store.known:
        return True
    known = store.known[min(store.known)]
    again = game.world(Chunk(known.chunk.number, known.chunk.size if game.batch else 1), 1)
    return bool(np.allclose(again, known.within[: len(again)], rtol=1e-6, atol=1e-9, equal_nan=True))


def same_game(game: Game, store: Store) -> None:
    """Play again the first known chunk: another mechanism, score or data set would give other scores.

    The tolerance is for sums that other machines or numbers of threads round otherwise.
    """
    if not store.known:
        return
    known = store.known[min(store.known)]
    for kind, before in enumerate((known.without, known.within)):
        again = game.world(known.chunk, kind)
        if again.shape != before.shape or not np.allclose(again, before, rtol=1e-6, atol=1e-9):
            _check.refuse(
                OWNER, "store", "a file of this game", str(store.path),
                "The first chunk came out otherwise: the mechanism, the score or the data have changed, or not all randomness is drawn "
                "from the generator that the mechanism is given (then say reproducible=False).",
            )
