"""Write few.json: delta of two Poisson-sampled Gaussian steps to 18 digits, step by step in mpmath.

Run ``python tests/references/make_few.py``; it takes a few minutes. delta_{t+1}(eps) = E_P delta_t(eps - L(x)) over the exact
one-step curve, by Gauss-Legendre panels of two widths that must agree to 1e-18. Nothing is shared with the package: no contour,
no lattice, no tails but erfc. Parameters are doubles, given exactly by their hexadecimal form.
"""

import json
import random
from pathlib import Path

import mpmath as mp
import numpy as np

mp.mp.dps = 32


def phi(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def gaussian(eps, sigma):
    """The Gaussian mechanism's curve."""
    mu = 1 / sigma
    return phi(mu / 2 - eps / mu) - mp.exp(eps) * phi(-mu / 2 - eps / mu)


def one(eps, sigma, q, reverse):
    """One sampled step: ((1-q) Q + q P, Q), or the swapped pair by reflection without cancellation."""
    if not reverse:
        v = (mp.exp(eps) - 1 + q) / q
        return q * gaussian(mp.log(v), sigma) if v > 0 else 1 - mp.exp(eps)
    v = (mp.exp(-eps) - 1 + q) / q
    return mp.exp(eps) * q * v * gaussian(-mp.log(v), sigma) if v > 0 else mp.mpf(0)


def composed(count, eps, sigma, q, reverse, width, nodes):
    """delta of `count` steps by panels of `width` over the outcome of the first."""
    if count == 1:
        return one(eps, sigma, q, reverse)
    centre = sigma**2 * mp.log((mp.exp(abs(eps)) - 1 + q) / q) + mp.mpf(1) / 2
    low, high = -14 * sigma, max(centre, 1) + 14 * sigma
    panels = int((high - low) / width) + 1
    half = (high - low) / (2 * panels)
    total = mp.mpf(0)
    for k in range(panels):
        middle = low + half * (2 * k + 1)
        for t, w in nodes:
            x = middle + half * t
            ratio = 1 - q + q * mp.exp((2 * x - 1) / (2 * sigma**2))
            base = mp.npdf(x, 0, sigma)
            loss = -mp.log(ratio) if reverse else mp.log(ratio)
            weight = base if reverse else base * ratio
            total += half * w * weight * composed(count - 1, eps - loss, sigma, q, reverse, width, nodes)
    return total


def rule(order):
    found = []
    for guess in np.polynomial.legendre.leggauss(order)[0]:
        x = mp.mpf(float(guess))
        for _ in range(3):
            value, before = mp.legendre(order, x), mp.legendre(order - 1, x)
            slope = order * (before - x * value) / (1 - x * x)
            x -= value / slope
        found.append((x, 2 * (1 - x * x) / (order * mp.legendre(order - 1, x)) ** 2))
    return found


def draw(rng, count):
    sigma = mp.mpf(float(f"{10 ** rng.uniform(-0.45, 1.3):.3g}"))
    q = mp.mpf(float(f"{10 ** rng.uniform(-9, -0.3):.3g}"))
    reverse = rng.random() < 0.45
    top = -count * mp.log(1 - q)
    eps = top * rng.uniform(0.03, 0.97) if reverse else mp.mpf(10) ** rng.uniform(-0.5, 1.0) * max(q, mp.mpf(10) ** rng.uniform(-3, 0))
    return sigma, q, reverse, mp.mpf(float(eps))


def main():
    rng, rows, nodes = random.Random(11), [], rule(26)
    while len(rows) < 16:
        count = 2
        sigma, q, reverse, eps = draw(rng, count)
        scale = min(sigma, sigma**2)
        found = [composed(count, eps, sigma, q, reverse, scale * f, nodes) for f in (mp.mpf(2), mp.mpf("1.5"))]
        if not found[0] > mp.mpf("1e-60") or abs(found[0] / found[1] - 1) > mp.mpf("1e-18"):
            continue
        rows.append({
            "noise_multiplier": float(sigma).hex(), "sampling_probability": float(q).hex(), "steps": count, "reverse": reverse,
            "epsilon": float(eps).hex(), "delta": mp.nstr(found[1], 18),
        })
        print(len(rows), float(sigma), float(q), count, reverse, float(eps), mp.nstr(found[1], 6), flush=True)
        Path(__file__).with_name("few.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
