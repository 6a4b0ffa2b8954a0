"""The claims of whatever a user hands over: tables, TOML or JSON text, paths, histories, events."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpaccount.auditing.claims import OWNER, Claim, claim_of
from dpaccount.auditing.readers.events import is_event, read_event
from dpaccount.auditing.readers.opacus import is_history, read_opacus
from dpaccount.auditing.readers.text import read_text


def read_claims(spec: Any) -> tuple[list[Claim], bool]:
    """The claims of a spec, and whether there may be several of them."""
    if isinstance(spec, (Claim, Mapping)):
        return _of_data(spec)
    if isinstance(spec, (list, tuple)) and not is_history(spec):
        return [claim for item in spec for claim in read_claims(item)[0]], True
    if isinstance(spec, Path):
        return _of_file(spec)
    if isinstance(spec, str):
        if is_event(spec):
            return [read_event(spec)], False
        if "\n" not in spec and spec.endswith((".toml", ".json", ".txt")):
            return _of_file(Path(spec))
        return _of_text(spec, "the text", spec.lstrip().startswith(("{", "[{", "[[", "[(")) and not spec.lstrip().startswith("[[claim"))
    return _of_data(spec)


def _of_file(path: Path) -> tuple[list[Claim], bool]:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(
            f"`{OWNER}` could not read {path}: it is no text. Pickles and checkpoints are never opened: write the accountant's history "
            "as JSON."
        ) from None
    if path.suffix == ".txt":
        found = read_text(text)
        return found, len(found) > 1
    return _of_text(text, str(path), path.suffix == ".json")


def _of_text(text: str, where: str, as_json: bool) -> tuple[list[Claim], bool]:
    try:
        data = json.loads(text) if as_json else tomllib.loads(text)
    except ValueError as error:
        raise ValueError(
            f"`{OWNER}` could not read {where}: {error}. A claim is TOML, or JSON; a line of plain text is read by `read_text`."
        ) from None
    return _of_data(data, where)


def _of_data(data: Any, where: str = "the table") -> tuple[list[Claim], bool]:
    """Tables of claims, of Opacus' state, or of dp-accounting's events; objects of the latter two."""
    if is_event(data):
        return [read_event(data)], False
    if is_history(data) or (not isinstance(data, (Mapping, list, str, Claim)) and hasattr(data, "history")):
        return [read_opacus(data)], False
    if isinstance(data, list):
        return [claim for item in data for claim in _of_data(item)[0]], True
    if isinstance(data, Mapping) and isinstance(data.get("claim"), list):
        if set(data) != {"claim"}:
            raise ValueError(f"`{OWNER}` found both [[claim]] tables and fields outside them in {where}: {sorted(set(data) - {'claim'})}.")
        return [claim_of(item) for item in data["claim"]], True
    return [claim_of(data)], False
