"""Fingerprints of data and callables: other content is another digest, the same content the same."""

from __future__ import annotations

import datetime
import threading
from collections import OrderedDict
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from dpaccount.auditing import audit_game
from dpaccount.auditing.game.fingerprint import digest, name_of, unseen


class Slots:
    __slots__ = ("x",)

    def __init__(self, x):
        self.x = x

    def __call__(self, data, rng):
        return rng.normal() + self.x


@dataclass(frozen=True)
class Held:
    x: object


def masked(*mask):
    return np.ma.masked_array([1.0, 2.0], mask)


@pytest.mark.parametrize(("make", "one", "two"), [
    (set, [1, 2], [3]), (frozenset, [1], [2]), (range, 3, 5), (bytearray, b"a", b"b"), (Fraction, "1/3", "1/2"), (Decimal, "1", "2"),
    (datetime.date.fromisoformat, "2020-01-01", "2021-01-01"), (Slots, 1, 2), (Held, 1, 2), (Held, {1}, {2}),
    (np.random.default_rng, 1, 2), (lambda x: masked(*x), [0, 1], [1, 0]), (lambda x: np.array([x], dtype=object), 1, 2),
    (lambda x: [{"a": Slots(x)}], 1, 2),
])
def test_other_content_is_another_digest(make, one, two):
    assert digest(make(one)) == digest(make(one)) != digest(make(two))
    assert unseen(make(one)) == []


def test_sets_and_mappings_have_no_order():
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) != digest({"a": 2, "b": 1})
    words = [f"word {i}" for i in range(50)]
    assert digest(set(words)) == digest(dict.fromkeys(reversed(words)).keys() | set())
    assert digest(OrderedDict(a={1, 2})) != digest(OrderedDict(a={1, 3}))


def test_callables_differ_by_what_is_nested_or_in_slots():
    twice, thrice = (lambda x: sum(v * 2 for v in x)), (lambda x: sum(v * 3 for v in x))
    assert name_of(twice) != name_of(thrice)
    assert name_of(Slots(1)) == name_of(Slots(1)) != name_of(Slots(2))


def test_a_generator_in_a_mechanism_may_have_moved():
    assert name_of(Slots(np.random.default_rng(1))) == name_of(Slots(np.random.default_rng(2)))


def test_what_cannot_be_looked_into_has_no_store_unless_runs_repeat(tmp_path):
    assert unseen(Held(threading.Lock())) == ["_thread.lock"]
    options = {"pair": ([0.0], Held(threading.Lock())), "delta": 1e-5, "runs": 200, "threshold": 0.0, "selection": "fixed"}
    with pytest.raises(ValueError, match=r"store.*lock.*Nothing would tell"):
        audit_game(Slots(1), store=tmp_path / "game.json", reproducible=False, **options)
    audit_game(Slots(1), reproducible=False, **options)
    audit_game(Slots(1), store=tmp_path / "game.json", seed=1, **options)
