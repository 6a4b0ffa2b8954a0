"""delta(eps) of a schedule of 30 noise multipliers in 30 digits: the contour integral with every K by the trapezoid rule in x.

Run ``python tests/references/make_schedules.py``; it writes ``schedules.json``. It shares nothing with the package: each step has
its own integral over outcomes, and no noise multiplier stands for another.
"""

from __future__ import annotations

import json
from pathlib import Path

from mpmath import mp, mpf

mp.dps = 30
NOISE = [1.0 + 0.25 * i / 29 for i in range(30)]
COUNT, Q = 40, 0.01
EPSILONS = (0.4, 1.0, 2.0)


def table(noise: float) -> tuple[list, list]:
    """log A and the weights of Q on a grid of outcomes."""
    s, q, h = mpf(noise), mpf(Q), mpf(noise) / 14
    x = [h * k for k in range(-14 * 13, 14 * 20)]
    weight = [h * mp.exp(-(v / s) ** 2 / 2) / (s * mp.sqrt(2 * mp.pi)) for v in x]
    return [mp.log(1 - q + q * mp.exp((v - mpf(1) / 2) / s**2)) for v in x], weight


def log_mgf(tables: list, z, swapped: bool):
    """K of the composition at z, with every logarithm on its own branch near the last."""
    w = -z if swapped else z + 1
    return COUNT * sum(mp.log(mp.fsum(p * mp.exp(w * a) for a, p in zip(*one, strict=True))) for one in tables)


def delta(tables: list, swapped: bool, c, step) -> dict[str, str]:
    """Every epsilon on one line through c: (1/pi) int Re e^{K - eps z}/(z (z+1)) ds."""
    found, k, largest = dict.fromkeys(EPSILONS, mpf(0)), 0, mpf(0)
    while True:
        z = mp.mpc(c, k * step)
        value = mp.exp(log_mgf(tables, z, swapped)) / (z * (z + 1)) * (mpf(1) / 2 if k == 0 else 1)
        for epsilon in EPSILONS:
            found[epsilon] += mp.re(value * mp.exp(-mpf(epsilon) * z)) * step / mp.pi
        largest = max(largest, abs(value))
        k += 1
        if abs(value) < largest * mpf(10) ** -24 and k > 10:
            return {str(epsilon): mp.nstr(v, 20) for epsilon, v in found.items()}


def main() -> None:
    """Both orders, each on two lines that must agree."""
    tables, rows = [table(s) for s in NOISE], {}
    for name, swapped in (("remove", False), ("add", True)):
        first, second = (delta(tables, swapped, mpf(c), mpf(h)) for c, h in ((5, "0.5" if swapped else "0.25"), (6, "0.44" if swapped else "0.22")))
        for epsilon in first:
            assert abs(mpf(first[epsilon]) / mpf(second[epsilon]) - 1) < mpf(10) ** -15, (name, epsilon, first, second)
        rows[name] = first
    facts = {"noise_multipliers": NOISE, "count": COUNT, "sampling_probability": Q, "delta": rows}
    Path(__file__).with_name("schedules.json").write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
