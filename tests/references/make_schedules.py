"""delta(eps) of a schedule of 30 noise multipliers in 33 digits: the contour integral with every K by the trapezoid rule in x.

Run ``python tests/references/make_schedules.py`` (it needs python-flint); it writes ``schedules.json``. It shares nothing with the
package: each step has its own integral over outcomes, and no noise multiplier stands for another. Two lines must agree.
"""

from __future__ import annotations

import json
from pathlib import Path

from flint import acb, arb, ctx

ctx.prec = 110
NOISE = [1.0 + 0.25 * i / 29 for i in range(30)]
COUNT, Q = 40, 0.01
EPSILONS = (0.4, 1.0, 2.0)


def table(noise: float) -> list[tuple[arb, arb]]:
    """log A and the weights of Q on a grid of outcomes."""
    s, q = arb(noise), arb(Q)
    h, rows = s / 14, []
    for k in range(-14 * 12, 14 * 19):
        x = h * k
        rows.append(((1 - q + q * ((x - arb(1) / 2) / s**2).exp()).log(), h * (-((x / s) ** 2) / 2).exp() / (s * (2 * arb.pi()).sqrt())))
    return rows


def log_mgf(tables: list[list[tuple[arb, arb]]], z: acb, swapped: bool) -> acb:
    """K of the composition at z; any branch will do, since the counts are whole."""
    w = -z if swapped else z + 1
    total = acb(0)
    for rows in tables:
        total += sum((weight * (w * log_a).exp() for log_a, weight in rows), acb(0)).log()
    return COUNT * total


def delta(tables: list[list[tuple[arb, arb]]], swapped: bool, c: int, step: str) -> dict[str, arb]:
    """Every epsilon on one line through c: (1/pi) int Re e^{K - eps z}/(z (z+1)) ds."""
    found, k, largest, h = {epsilon: arb(0) for epsilon in EPSILONS}, 0, 0.0, arb(step)
    while True:
        z = acb(c, h * k)
        value = log_mgf(tables, z, swapped).exp() / (z * (z + 1)) / (2 if k == 0 else 1)
        for epsilon in EPSILONS:
            found[epsilon] += (value * (-arb(epsilon) * z).exp()).real * h / arb.pi()
        size = float(abs(value).mid())
        largest, k = max(largest, size), k + 1
        if size < largest * 1e-24 and k > 10:
            return {str(epsilon): v for epsilon, v in found.items()}


def main() -> None:
    """Both orders."""
    tables, rows = [table(s) for s in NOISE], {}
    for name, swapped in (("remove", False), ("add", True)):
        first, second = (
            delta(tables, swapped, c, h) for c, h in ((5, "0.5" if swapped else "0.25"), (6, "0.44" if swapped else "0.22"))
        )
        for epsilon in first:
            assert float(abs(first[epsilon] / second[epsilon] - 1).mid()) < 1e-14, (name, epsilon, first, second)
        rows[name] = {epsilon: v.mid().str(20, radius=False) for epsilon, v in first.items()}
    facts = {"noise_multipliers": NOISE, "count": COUNT, "sampling_probability": Q, "delta": rows}
    Path(__file__).with_name("schedules.json").write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
