"""Write contours.json: delta of random compositions of sampled Gaussians to 25 digits, by a contour integral in mpmath.

Run ``python tests/references/make_contours.py``; it takes a few minutes. Independent of the package: no saddle point is
solved for, nodes are plain, and every value is computed on two lines with different steps, which must agree to 1e-22.
Parameters are doubles, given exactly by their hexadecimal form.
"""

import json
import random
from pathlib import Path

import mpmath as mp

mp.mp.dps = 40


def log_mgf(terms, z, reverse, points):
    """Sum of n log E[e^{zL}] over (sigma, q, n), by the trapezoid rule over outcomes."""
    w = -z if reverse else z + 1
    total = mp.mpf(0)
    for sigma, q, count in terms:
        low, high = min(mp.mpf(0), mp.re(w)) - 14 * sigma, max(mp.mpf(0), mp.re(w)) + 14 * sigma
        h = (high - low) / points
        nodes = []
        for k in range(points + 1):
            x = low + k * h
            base = 1 - q + q * mp.exp((2 * x - 1) / (2 * sigma**2)) if q < 1 else mp.exp((2 * x - 1) / (2 * sigma**2))
            nodes.append(mp.npdf(x, 0, sigma) * mp.exp(w * mp.log(base)))
        total += count * mp.log(mp.fsum(nodes) * h)
    return total


def delta(terms, eps, reverse, c, step, reach, points):
    """(1/pi) integral of Re e^{K(z) - eps z}/(z (z+1)) over Im z >= 0 by the trapezoid rule, on Re z = c."""
    parts = []
    for k in range(int(reach / step) + 1):
        z = mp.mpc(c, k * step)
        value = mp.re(mp.exp(log_mgf(terms, z, reverse, points) - eps * z) / (z * (z + 1)))
        parts.append(value / 2 if k == 0 else value)
    return mp.fsum(parts) * step / mp.pi


def moments(terms, c, reverse, points):
    d = mp.mpf("1e-12")
    k = [log_mgf(terms, c + s * d, reverse, points) for s in (-1, 0, 1)]
    return (k[2] - k[0]) / (2 * d), (k[2] - 2 * k[1] + k[0]) / d**2


def draw(rng):
    """One composition whose contour is plain: several samples, an epsilon a few spreads above the mean."""
    terms = []
    for _ in range(rng.choice([1, 1, 2])):
        sigma = mp.mpf(float(f"{10 ** rng.uniform(-0.2, 0.9):.3g}"))
        q = mp.mpf(float(f"{10 ** rng.uniform(-2.5, -0.3):.3g}")) if rng.random() < 0.9 else mp.mpf(1)
        count = int(10 ** rng.uniform(1.3, 6))
        terms.append((sigma, q, count))
    return terms, rng.random() < 0.4, rng.uniform(1.0, 6.0)


def solve(terms, reverse, spreads):
    points = 220
    mean, variance = moments(terms, mp.mpf(0), reverse, points)
    c = spreads / mp.sqrt(variance)
    mean, variance = moments(terms, c, reverse, points)
    eps = mp.mpf(float(mean - 1 / c - 1 / (c + 1)))
    if not (0.01 < eps < 60 and c < 60):
        return None
    spread = mp.sqrt(variance)
    period = max(60 / c, 30 * spread)
    found = [delta(terms, eps, reverse, c * f, 2 * mp.pi / (period * g), 16 / spread, n)
             for f, g, n in ((1, 1, 260), (mp.mpf("0.93"), mp.mpf("1.17"), 330))]
    if not found[0] > 0 or abs(found[0] / found[1] - 1) > mp.mpf("1e-22"):
        return None
    return eps, found[0]


def main():
    rng = random.Random(7)
    rows = []
    while len(rows) < 40:
        terms, reverse, spreads = draw(rng)
        answer = solve(terms, reverse, spreads)
        if answer is None:
            continue
        eps, value = answer
        rows.append({
            "terms": [[float(s).hex(), float(q).hex(), n] for s, q, n in terms], "reverse": reverse,
            "epsilon": float(eps).hex(), "delta": mp.nstr(value, 22),
        })
        print(len(rows), [(float(s), float(q), n) for s, q, n in terms], reverse, float(eps), mp.nstr(value, 6), flush=True)
        Path(__file__).with_name("contours.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
