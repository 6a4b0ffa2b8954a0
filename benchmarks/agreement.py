"""The whole sweep of 2,000 random compositions: every engine's bracket against every other's; ``agreement.json`` is written.

Run ``python -m benchmarks.agreement``: about an hour of one core, shared by all (it needs pytest and python-flint). The compositions and
the rule are those of ``tests/test_agreement.py``, which asks every 80th of them. Every case is a line of ``agreement.jsonl`` beside
this file (not committed) as soon as it is asked, so that a run that was stopped goes on where it was; delete that file to begin anew.
"""

from __future__ import annotations

import collections
import json
import multiprocessing
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks._measure import FOLDER, first_number, write

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import test_agreement as sweep

from dpaccount.engines import auto
from dpaccount.results import NumericalFailure

JOURNAL = FOLDER / "agreement.jsonl"


def asked(index: int) -> dict[str, Any]:
    """One case: what every engine, and the choice among them, says in every direction, and what disagrees."""
    case = sweep.draw(index)
    start, sides = time.process_time(), []
    for side in case.pair.under(case.adjacency):
        epsilon = sweep.epsilon_of(side, case.spreads)
        found = sweep.brackets(side, epsilon)
        seconds = time.process_time()
        try:
            found["auto"] = auto.log_delta(side, epsilon)
        except NumericalFailure as error:
            sides.append({"violations": [f"{side!r} at {epsilon}: no answer: {error}"]})
            continue
        sides.append({
            "epsilon": epsilon,
            "auto seconds": round(time.process_time() - seconds, 4),
            "answers": {name: [a.lower, a.upper, a.certified, a.method] for name, a in found.items()},
            "violations": list(sweep.violations(side, epsilon, found)),
        })
    return {
        "index": index, "mechanism": sweep.NAMES[index % len(sweep.NAMES)], "terms": len(case.pair.terms),
        "relation": case.adjacency.value, "seconds": round(time.process_time() - start, 3), "sides": sides,
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts by mechanism, relation and engine; every violation in words."""
    sides = [side for row in rows for side in row["sides"]]
    spoken, certified, narrow, pairs = (collections.Counter[str]() for _ in range(4))
    for side in sides:
        answers = side.get("answers", {})
        for name, (low, up, proved, _) in answers.items():
            spoken[name] += 1
            certified[name] += proved
            narrow[name] += proved and up - low < 1e-6
        sure = [name for name, answer in answers.items() if answer[2] and name != "auto"]
        pairs.update(f"{a}, {b}" for i, a in enumerate(sorted(sure)) for b in sorted(sure)[i + 1 :])
    return {
        "seed": sweep.SEED, "compositions": len(rows), "mixtures": sum(row["terms"] > 1 for row in rows), "directions": len(sides),
        "by mechanism": collections.Counter(row["mechanism"] for row in rows),
        "by relation": collections.Counter(row["relation"] for row in rows),
        "answers": spoken, "certified": certified, "certified, narrower than 1e-6": narrow, "both certified": pairs,
        "compositions with balls": sum(any("balls" in side.get("answers", {}) for side in row["sides"]) for row in rows),
        "violations": [text for side in sides for text in side["violations"]],
        "core hours": round(sum(row["seconds"] for row in rows) / 3600, 2),
    }


def main() -> None:
    """Ask what has not been asked, and write the summary; a number asks so many of the compositions."""
    rows = [json.loads(line) for line in JOURNAL.read_text().splitlines()] if JOURNAL.exists() else []
    done = {row["index"] for row in rows}
    with JOURNAL.open("a", encoding="utf-8") as journal, multiprocessing.Pool() as workers:
        for row in workers.imap_unordered(asked, [i for i in range(first_number(sweep.CASES)) if i not in done]):
            rows.append(row)
            journal.write(json.dumps(rows[-1]) + "\n")
            journal.flush()
            for text in (text for side in rows[-1]["sides"] for text in side["violations"]):
                print(f"{row['index']}: {text}", flush=True)
            if len(rows) % 50 == 0:
                print(f"{len(rows)} asked", flush=True)
    found = summary(sorted(rows, key=lambda row: row["index"]))
    print(json.dumps(found, indent=1))
    write("agreement", found)


if __name__ == "__main__":
    main()
