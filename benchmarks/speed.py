"""The times of ordinary questions against each peer at its default grid; ``speed.json`` has medians and ratios.

The times are ours in both directions, with fresh objects each time. ``wanted`` are the goals of the project.
``python -m benchmarks.speed 3`` takes at most three rounds of each.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from benchmarks._measure import first_number, in_turn, median_seconds, write
from benchmarks._peers import Peer, Run, ours, peers
from dpaccount import Gaussian, PoissonSampled, calibrate

SHORT, LONG = Run(1.0, 0.01, 1000), Run(0.5, 1e-4, 10**6)
Question = tuple[Callable[[], Any], Callable[[Peer], Callable[[], Any]] | None, float | None, int]


def _by_noise(sigma: float) -> Any:
    return 1000 * PoissonSampled(Gaussian(sigma), 0.01)


def _peer_calibration(peer: Peer) -> Callable[[], Any]:
    """dp-accounting's own search; the others' are private or answer another relation."""
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    if peer.name != "dp-accounting":
        raise NotImplementedError("not asked to calibrate")

    def event(sigma: float) -> Any:
        sampled = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(sigma))
        return dp_accounting.SelfComposedDpEvent(sampled, 1000)

    return lambda: dp_accounting.calibrate_dp_mechanism(PLDAccountant, event, 2.0, 1e-5)


# name: (ours, a peer's, ratio to dp-accounting that is wanted, rounds)
QUESTIONS: dict[str, Question] = {
    "delta (1, 0.01, 1000) at epsilon 1": (
        lambda: ours(SHORT).delta(epsilon=1.0), lambda peer: lambda: peer.delta(SHORT, 1.0, peer.grid), 100, 7),
    "delta (0.5, 1e-4, 10^6) at epsilon 3": (
        lambda: ours(LONG).delta(epsilon=3.0), lambda peer: lambda: peer.delta(LONG, 3.0, peer.grid), 100, 5),
    "estimated delta (1, 0.01, 1000) at epsilon 1": (
        lambda: ours(SHORT, "estimate").delta(epsilon=1.0), lambda peer: lambda: peer.delta(SHORT, 1.0, peer.grid), 300, 7),
    "estimated delta (0.5, 1e-4, 10^6) at epsilon 3": (
        lambda: ours(LONG, "estimate").delta(epsilon=3.0), lambda peer: lambda: peer.delta(LONG, 3.0, peer.grid), 500, 5),
    "epsilon (1, 0.01, 1000) at delta 1e-5": (
        lambda: ours(SHORT).epsilon(delta=1e-5), lambda peer: lambda: peer.epsilon(SHORT, 1e-5, peer.grid), 200, 7),
    "noise multiplier for (2, 1e-5), 0.01, 1000": (
        lambda: calibrate(_by_noise, epsilon=2.0, delta=1e-5), _peer_calibration, 1000, 3),
}
ALONE: dict[str, tuple[Callable[[], Any], float]] = {
    "noise multiplier for advantage 0.1, 0.01, 1000": (lambda: calibrate(_by_noise, advantage=0.1), 0.1),
    "noise multiplier for (fpr 0.01, fnr 0.9), 0.01, 1000": (
        lambda: calibrate(_by_noise, false_positive_rate=0.01, false_negative_rate=0.9), 0.1),
}


def _answer(value: Any) -> dict[str, Any]:
    """The bracket, whoever gives it."""
    ends = {side: getattr(value, side) for side in ("lower", "estimate", "upper") if hasattr(value, side)}
    certified = getattr(value, "certified", getattr(getattr(value, "achieved", None), "certified", None))
    return (ends or {"value": float(value)}) | ({} if certified is None else {"certified": certified})


def side_by_side(question: Question, known: list[Peer]) -> dict[str, Any]:
    """One question to us and to every peer, in turn."""
    mine, theirs, wanted, rounds = question
    row: dict[str, Any] = {"wanted_ratio": wanted, "peers": {}}
    for peer in known:
        try:
            assert theirs is not None
            call = theirs(peer)
            own, other, answer, its = in_turn(mine, call, rounds)
        except Exception as error:
            row["peers"][peer.name] = {"note": f"{type(error).__name__}: {error}"}
            continue
        row |= {"seconds": min(own, row.get("seconds", own)), "answer": _answer(answer)}
        row["peers"][peer.name] = {"seconds": other, "ratio": other / own, "rounds": rounds, "answer": _answer(its)}
    if "seconds" not in row:
        own, answer = median_seconds(mine, 5 * rounds)
        row |= {"seconds": own, "answer": _answer(answer)}
    return row


def import_times(rounds: int = 7) -> dict[str, float]:
    """Medians of whole-process times: importing dpaccount against scipy.special with scipy.optimize."""
    found: dict[str, list[float]] = {"dpaccount": [], "scipy": []}
    for _ in range(rounds):
        for name, code in (("dpaccount", "import dpaccount"), ("scipy", "import scipy.special, scipy.optimize")):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            found[name].append(time.perf_counter() - start)
    a, b = median(found["dpaccount"]), median(found["scipy"])
    return {"dpaccount_seconds": a, "scipy_seconds": b, "ratio": a / b}


def main() -> None:
    """Measure everything; the results are written after each question, since some peers take their time."""
    most_rounds = first_number(10**6)
    known, notes = peers()
    rows: dict[str, Any] = {"peers": notes, "questions": {}}
    for name, (mine, theirs, wanted, rounds) in QUESTIONS.items():
        row = rows["questions"][name] = side_by_side((mine, theirs, wanted, min(rounds, most_rounds)), known)
        ratios = ", ".join(f"{peer} {found['ratio']:.0f}x" for peer, found in row["peers"].items() if "ratio" in found)
        print(f"{name}: {row['seconds'] * 1e3:.2f} ms; {ratios} (wanted {row['wanted_ratio']}x of dp-accounting)", flush=True)
        write("speed", rows)
    for name, (call, most) in ALONE.items():
        taken, answer = median_seconds(call, min(3, most_rounds))
        rows["questions"][name] = {"seconds": taken, "wanted_seconds": most, "answer": _answer(answer), "peers": {}}
        print(f"{name}: {taken * 1e3:.1f} ms (wanted {most * 1e3:.0f} ms)", flush=True)
        write("speed", rows)
    rows["import"] = import_times()
    print(f"import: {rows['import']['ratio']:.2f}x of scipy.special and scipy.optimize")
    write("speed", rows)


if __name__ == "__main__":
    main()
