"""Write twins.json: delta of compositions of several mechanisms to 32 digits, in mpmath, for the ball engine to be compared with.

``python tests/references/make_twins.py`` writes all of it in one run, about two minutes of one core, or nothing if two values
differ. Independent of the package: contours are plain trapezoid sums
without a saddle point solved for, nodes are plain, few steps are nested integrals, integer noise is convolved. Every value is
computed twice, with other steps and orders, and the two must agree to 1e-31. Parameters are doubles, given exactly in hexadecimal.
"""

import itertools
import json
from functools import cache
from pathlib import Path

import mpmath as mp

mp.mp.dps = 50


def hexed(x):
    return float(x).hex()


# K(z) by nodes: (loss, log density of P) at outcomes


def gaussian_nodes(sigma, p, q, width, points):
    """Mixtures of shifted Gaussians: p and q map shifts to probabilities; a trapezoid rule."""
    h = mp.mpf(width) / points
    rows = []
    for k in range(-points, points + 1):
        x = k * h
        top = mp.fsum(w * mp.npdf(x, s, sigma) for s, w in p.items())
        bottom = mp.fsum(w * mp.npdf(x, s, sigma) for s, w in q.items())
        rows.append((mp.log(top / bottom), top * h))
    return rows


@cache
def legendre(order):
    found = []
    for k in range(order):
        x = mp.cos(mp.pi * (k + mp.mpf(3) / 4) / (order + mp.mpf(1) / 2))
        for _ in range(8):
            value, before = mp.legendre(order, x), mp.legendre(order - 1, x)
            x -= value * (1 - x * x) / (order * (before - x * value))
        found.append((x, 2 * (1 - x * x) / (order * mp.legendre(order - 1, x)) ** 2))
    return found


def sampled_laplace_nodes(b, q, panels, order):
    """(1-q) Lap(0) + q Lap(1) against Lap(0): panels on [0, 1] and an atom at either side."""
    r = 1 / b
    rows = []
    for high in (False, True):
        ratio = 1 - q + q * mp.exp(r if high else -r)
        mass = mp.exp(-r) / 2 if high else mp.mpf(1) / 2
        rows.append((mp.log(ratio), ratio * mass))
    for i in range(panels):
        for x, w in legendre(order):
            at = (i + (x + 1) / 2) / mp.mpf(panels)
            ratio = 1 - q + q * mp.exp(r * (2 * at - 1))
            rows.append((mp.log(ratio), ratio * r / 2 * mp.exp(-r * at) * w / (2 * panels)))
    return rows


def contour(terms, eps, c, step, reach):
    """(1/pi) integral of Re e^{K(z) - eps z}/(z (z+1)) on Re z = c by the trapezoid rule; terms are (nodes, count)."""
    total = mp.mpf(0)
    turns = [[(w * mp.exp(c * loss), mp.expj(step * loss), mp.mpc(1)) for loss, w in rows] for rows, _ in terms]
    for k in range(int(reach / step) + 1):
        z = mp.mpc(c, k * step)
        value = mp.exp(-eps * z) / (z * (z + 1))
        for i, (_, count) in enumerate(terms):
            value *= mp.fsum(w * e for w, _, e in turns[i]) ** count
            turns[i] = [(w, u, e * u) for w, u, e in turns[i]]
        total += value.real / 2 if k == 0 else value.real
    return total * step / mp.pi


def swapped(rows):
    return [(-loss, w * mp.exp(-loss)) for loss, w in rows]


def two_contours(make, counts, eps, c, period, reach, reverse=False):
    """With two sets of nodes, steps and lines."""
    found = []
    for coarse, f, g in ((0, mp.mpf(1), mp.mpf(1)), (1, mp.mpf("0.94"), mp.mpf("1.13"))):
        rows = [m(coarse) for m in make]
        rows = [swapped(r) for r in rows] if reverse else rows
        found.append(contour(list(zip(rows, counts, strict=True)), eps, c * f, 2 * mp.pi / (period * g), reach * (1 + coarse / 8)))
    return found


# few steps: delta_{t+1}(eps) = E_P delta_t(eps - L)


def gaussian_delta(eps, mu):
    return mp.ncdf(mu / 2 - eps / mu) - mp.exp(eps) * mp.ncdf(-mu / 2 - eps / mu)


def laplace_delta(eps, r):
    return mp.mpf(0) if eps >= r else 1 - mp.exp(eps) if eps <= -r else 1 - mp.exp((eps - r) / 2)


def range_delta(eps, e):
    return mp.mpf(0) if eps >= e else 1 - mp.exp(eps) if eps <= -e else (1 - mp.exp((eps - e) / 2)) ** 2 / (1 - mp.exp(-e))


def quad(function, low, high, cuts, pieces):
    """Gauss-Legendre between cuts, each stretch in so many pieces."""
    ends = sorted({low, high, *(x for x in cuts if low < x < high)})
    total = mp.mpf(0)
    for a, b in itertools.pairwise(ends):
        for i in range(pieces):
            left, right = a + (b - a) * i / pieces, a + (b - a) * (i + 1) / pieces
            total += (right - left) / 2 * mp.fsum(w * function((left + right + x * (right - left)) / 2) for x, w in legendre(30))
    return total


def after_laplace(inner, kinks, eps, r, pieces):
    """E over one Laplace step of inner(eps - L)."""
    atoms = inner(eps - r) / 2 + mp.exp(-r) / 2 * inner(eps + r)
    return atoms + quad(lambda x: mp.exp((x - r) / 2) / 4 * inner(eps - x), -r, r, [eps - k for k in kinks], pieces)


def after_range(inner, kinks, eps, e, pieces):
    """E over one step of the exponential mechanism's pair of inner(eps - L)."""
    return quad(lambda x: mp.exp(x / 2) / (4 * mp.sinh(e / 2)) * inner(eps - x), -e, e, [eps - k for k in kinks], pieces)


def convolved(masses, count):
    """The count-fold convolution of integer masses, a dict."""
    total = {0: mp.mpf(1)}
    for _ in range(count):
        new = {}
        for i, x in total.items():
            for j, y in masses.items():
                new[i + j] = new.get(i + j, mp.mpf(0)) + x * y
        total = new
    return total


def cases():
    """(description that the test builds the pair from, [value, value]), one after the other."""
    def sampled(sigma, q, count, eps, c, period, reach, reverse, widths):
        s, p = mp.mpf(sigma), mp.mpf(q)
        make = [lambda coarse: gaussian_nodes(s, {0: 1 - p, 1: p}, {0: mp.mpf(1)}, widths, 420 + 90 * coarse)]
        name = {"kind": "sampled", "parameters": [hexed(sigma), hexed(q)], "count": count, "epsilon": hexed(eps), "reverse": reverse}
        return name, two_contours(make, [count], mp.mpf(eps), mp.mpf(c), period, reach, reverse)

    yield sampled(1.5, 0.05, 3000, 4.0, 1.2, 70, 14, False, 30)
    yield sampled(1.0, 0.01, 1000, 1.0, 8, 14, 160, True, 22)
    yield sampled(0.8, 0.004, 10000, 3.0, 7, 18, 110, True, 20)
    yield sampled(4.0, 0.25, 500, 8.0, 4, 40, 24, False, 72)
    yield sampled(1.5, 0.05, 3000, 4.0, 1.2, 70, 14, True, 30)
    s, q = mp.mpf(2.0), mp.mpf(0.3)
    yield (
        {"kind": "exchanged", "parameters": [hexed(2.0), hexed(0.3)], "count": 60, "epsilon": hexed(5.0), "reverse": False},
        two_contours([lambda coarse: gaussian_nodes(s, {0: 1 - q, 1: q}, {0: 1 - q, -1: q}, 40, 420 + 90 * coarse)],
                     [60], mp.mpf(5), mp.mpf(2), 60, 26),
    )
    b, q = mp.mpf(0.9), mp.mpf(0.05)
    yield (
        {"kind": "sampled laplace", "parameters": [hexed(0.9), hexed(0.05)], "count": 400, "epsilon": hexed(2.0), "reverse": False},
        two_contours([lambda coarse: sampled_laplace_nodes(b, q, 6 + 2 * coarse, 40)], [400], mp.mpf(2), mp.mpf(2), 55, 60),
    )
    r, e, eps = 1 / mp.mpf(1.25), mp.mpf(0.8), mp.mpf(0.6)
    two = [after_laplace(lambda x: laplace_delta(x, r), (-r, r), eps, r, n) for n in (3, 4)]
    yield {"kind": "laplace", "parameters": [hexed(1.25)], "count": 2, "epsilon": hexed(0.6), "reverse": False}, two
    three = [
        after_laplace(lambda x: after_laplace(lambda y: laplace_delta(y, r), (-r, r), x, r, 2), (-2 * r, 0, 2 * r), eps, r, n)
        for n in (2, 3)
    ]
    yield {"kind": "laplace", "parameters": [hexed(1.25)], "count": 3, "epsilon": hexed(0.6), "reverse": False}, three
    two = [after_range(lambda x: range_delta(x, e), (-e, e), eps, e, n) for n in (3, 4)]
    yield {"kind": "exponential", "parameters": [hexed(0.8)], "count": 2, "epsilon": hexed(0.6), "reverse": False}, two
    two = [after_laplace(lambda x: gaussian_delta(x, 2 / mp.mpf(1.5)), (), mp.mpf(2.5), r, n) for n in (4, 6)]
    name = {"kind": "4 gaussians and laplace", "parameters": [hexed(1.5), hexed(1.25)]}
    yield {**name, "count": 1, "epsilon": hexed(2.5), "reverse": False}, two
    sigma, eps = mp.mpf(4.0), mp.mpf(3.0)
    found = []
    for reach in (56, 60):
        weights = {k: mp.exp(-mp.mpf(k) ** 2 / (2 * sigma**2)) for k in range(-reach, reach + 1)}
        whole = mp.fsum(weights.values())
        masses = convolved({k: w / whole for k, w in weights.items()}, 12)
        losses = {k: (k + mp.mpf(12) / 2) / sigma**2 for k in masses}
        found.append(mp.fsum(m * (1 - mp.exp(eps - losses[k])) for k, m in masses.items() if losses[k] > eps))
    yield {"kind": "discrete gaussian", "parameters": [hexed(4.0)], "count": 12, "epsilon": hexed(3.0), "reverse": False}, found
    e = mp.mpf(0.05)
    norm = mp.exp(e) + 6
    masses = convolved({-1: 1 / norm, 0: 5 / norm, 1: mp.exp(e) / norm}, 200)
    value = mp.fsum(m * (1 - mp.exp(mp.mpf(0.4) - k * e)) for k, m in masses.items() if k * e > mp.mpf(0.4))
    yield {"kind": "response", "parameters": [hexed(0.05), 7], "count": 200, "epsilon": hexed(0.4), "reverse": False}, [value, value]


def main():
    """All cases in one run; the file is written at the end, and only if the two values of every case agree."""
    rows = []
    for name, (one, two) in cases():
        agreement = abs(one / two - 1)
        print(name, mp.nstr(one, 20), mp.nstr(agreement, 3), flush=True)
        if not agreement < mp.mpf("1e-31"):
            raise ArithmeticError(f"the two values of {name} differ")
        rows.append({**name, "delta": mp.nstr(one, 34)})
    Path(__file__).with_name("twins.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
