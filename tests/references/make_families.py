"""Write families.json: delta of compositions of discrete, Laplace and exponential mechanisms to 22 digits, in mpmath.

Run ``python tests/references/make_families.py``; it takes a few minutes. Independent of the package. `lattice` rows are exact
sums: the probabilities of a power of a polynomial by the recurrence of Euler (Miller), whose total must be 1 to 1e-40.
`line` rows are contour integrals with K from its definition, on two lines with different steps, which must agree to 1e-20.
Parameters are doubles, given exactly by their hexadecimal form.
"""

import json
import time
from pathlib import Path

import mpmath as mp

mp.mp.dps = 50
STEP = "1e-20"


# atoms: a list of (place on the lattice, probability), the lattice (offset, width), the mass at infinity


def response(e, k):
    norm = mp.exp(e) + k - 1
    if k == 2:
        return [(0, 1 / norm), (1, mp.exp(e) / norm)], -e, 2 * e, 0
    return [(0, 1 / norm), (1, (k - 2) / norm), (2, mp.exp(e) / norm)], -e, e, 0


def approximate(e, d):
    norm = mp.exp(e) + 1
    return [(0, (1 - d) / norm), (1, (1 - d) * mp.exp(e) / norm)], -e, 2 * e, d


def sampled_binary(e, q):
    """(1-q)Q + qP against Q for binary randomised response: losses log(1 - q + q e^{+-e})."""
    low, high = mp.log(1 - q + q * mp.exp(-e)), mp.log(1 - q + q * mp.exp(e))
    norm = mp.exp(e) + 1
    return [(0, mp.exp(e) / norm * mp.exp(low)), (1, mp.exp(high) / norm)], low, high - low, 0


def discrete_laplace(multiplier, width):
    b = multiplier * width
    a = mp.exp(-1 / b)
    p = [mp.exp(-width / b) / (1 + a), *((1 - a) / (1 + a) * mp.exp(-(width - j) / b) for j in range(1, width)), 1 / (1 + a)]
    return list(enumerate(p)), -width / b, 2 / b, 0


def discrete_gaussian(multiplier, width):
    s = multiplier * width
    reach = int(s * 20) + 1  # e^-200
    w = [mp.exp(-mp.mpf(k) ** 2 / (2 * s * s)) for k in range(-reach, reach + 1)]
    total = mp.fsum(w)
    step = width / s**2
    return [(k, v / total) for k, v in enumerate(w)], (mp.mpf(width) / 2 - reach) * step, step, 0


LATTICE = {"response": response, "approximate": approximate, "sampled binary": sampled_binary,
           "discrete laplace": discrete_laplace, "discrete gaussian": discrete_gaussian}


def power(atoms, count):
    """Coefficients of (sum p_k x^k)^count."""
    size = max(k for k, _ in atoms)
    p = [mp.mpf(0)] * (size + 1)
    for k, v in atoms:
        p[k] += v
    if size == 1:
        out, c = [], mp.power(p[0], count)
        for j in range(count + 1):
            out.append(c)
            c = c * (count - j) / (j + 1) * p[1] / p[0]
        return out
    if min(v for v in p if v) < 1e-20:  # the recurrence would cancel: multiply out
        c = [mp.mpf(1)]
        for _ in range(count):
            c = [mp.fsum(p[k] * c[j - k] for k in range(max(0, j - len(c) + 1), min(j, size) + 1)) for j in range(len(c) + size)]
        return c
    with mp.workdps(mp.mp.dps + 250):
        c = [mp.power(p[0], count)]
        for j in range(1, size * count + 1):
            top = min(j, size)
            c.append(mp.fsum((k * (count + 1) - j) * p[k] * c[j - k] for k in range(1, top + 1)) / (j * p[0]))
    total, mass = mp.fsum(c), mp.power(mp.fsum(p), count)
    assert abs(total / mass - 1) < mp.mpf("1e-40"), mp.nstr(total - mass, 5)
    return c


POWERS = {}


def lattice_delta(terms, eps):
    """Exact sums; two families must share the width."""
    masses, offset, width, seen = [mp.mpf(1)], mp.mpf(0), None, mp.mpf(1)
    for kind, parameters, count in terms:
        atoms, low, h, infinite = LATTICE[kind](*parameters)
        key = kind, parameters, count
        if key not in POWERS:
            POWERS[key] = power(atoms, count)
        own = POWERS[key]
        scale = 1
        if width is None:
            width = h
        else:  # the second lattice is `scale` times as wide as the first
            scale = int(mp.nint(h / width))
            assert abs(h / width - scale) < mp.mpf("1e-40")
        new = [mp.mpf(0)] * (len(masses) + scale * (len(own) - 1))
        for i, a in enumerate(masses):
            for j, b in enumerate(own):
                new[i + scale * j] += a * b
        masses, offset, seen = new, offset + count * low, seen * mp.power(1 - infinite, count)
    parts = [m * -mp.expm1(eps - offset - width * j) for j, m in enumerate(masses) if offset + width * j > eps]
    return 1 - seen + mp.fsum(parts)


# K(z) of steps with a density


def laplace_k(b):
    r = 1 / b
    return lambda z: mp.log((z + 1) / (2 * z + 1) * mp.exp(r * z) + z / (2 * z + 1) * mp.exp(-r * (z + 1)))


def exponential_k(eta):
    return lambda z: mp.log(mp.sinh(eta * (z + mp.mpf(1) / 2)) / ((2 * z + 1) * mp.sinh(eta / 2)))


def sampled(law, density, end, q, reverse):
    """E_Q of (1 - q + q e^l)^w over atoms and a density of l under Q, w = z + 1 or -z."""
    nodes = []
    pieces = max(1, int(2 * end / mp.mpf("0.8")))
    x, w = LEGENDRE
    for k in range(pieces):
        low, high = -end + 2 * end * k / pieces, -end + 2 * end * (k + 1) / pieces
        for a, b in zip(x, w, strict=True):
            at = low + (a + 1) / 2 * (high - low)
            nodes.append((mp.log(1 - q + q * mp.exp(at)), density(at) * b * (high - low) / 2))
    nodes += [(mp.log(1 - q + q * mp.exp(at)), mass) for at, mass in law]
    return lambda z: mp.log(mp.fsum(m * mp.exp((-z if reverse else z + 1) * loss) for loss, m in nodes))


def legendre(order):
    """Nodes and weights of Gauss-Legendre's rule, by Newton's method on the three-term recurrence."""

    def at(t):
        before, value = mp.mpf(1), t
        for n in range(2, order + 1):
            before, value = value, ((2 * n - 1) * t * value - (n - 1) * before) / n
        return value, order * (before - t * value) / (1 - t * t)

    x = [mp.cos(mp.pi * (4 * i + 3) / (4 * order + 2)) for i in range(order)]
    for _ in range(7):
        x = [t - at(t)[0] / at(t)[1] for t in x]
    w = [2 / ((1 - t * t) * at(t)[1] ** 2) for t in x]
    assert abs(mp.fsum(w) - 2) < mp.mpf("1e-40")
    return x, w


LEGENDRE = legendre(48)


def sampled_laplace_k(b, q, reverse):
    r = 1 / b
    return sampled([(-r, mp.mpf(1) / 2), (r, mp.exp(-r) / 2)], lambda x: mp.exp(-(x + r) / 2) / 4, r, q, reverse)


def sampled_exponential_k(eta, q, reverse):
    return sampled([], lambda x: mp.exp(-x / 2) / (4 * mp.sinh(eta / 2)), eta, q, reverse)


def response_k(e, k):
    atoms, low, h, _ = response(e, int(k))
    return lambda z: mp.log(mp.fsum(p * mp.exp(z * (low + h * j)) for j, p in atoms))


LINE = {"laplace": laplace_k, "exponential": exponential_k, "sampled laplace": sampled_laplace_k,
        "sampled exponential": sampled_exponential_k, "response": response_k}


def line_delta(terms, eps):
    ks = [(LINE[kind](*parameters), count) for kind, parameters, count in terms]

    def total(z):
        return mp.fsum(count * k(z) for k, count in ks)

    d = mp.mpf("1e-12")

    def moments(c):
        a, b, e = total(c - d), total(c), total(c + d)
        return (e - a) / (2 * d), (e - 2 * b + a) / d**2

    c = mp.mpf(1) / mp.sqrt(moments(mp.mpf("0.01"))[1])
    for _ in range(60):
        mean, variance = moments(c)
        slope = variance + 1 / c**2 + 1 / (c + 1) ** 2
        c = max(c - (mean - eps - 1 / c - 1 / (c + 1)) / slope, c / 3)
    spread = mp.sqrt(moments(c)[1])
    found = []
    for f, g in ((1, 1), (mp.mpf("0.94"), mp.mpf("1.13"))):
        line, period = c * f, g * max(60 / c, 40 * spread)
        step, parts, top = 2 * mp.pi / period, [], None
        for k in range(4000):
            z = mp.mpc(line, k * step)
            value = mp.exp(total(z) - eps * z) / (z * (z + 1))
            parts.append(mp.re(value) / (2 if k == 0 else 1))
            top = abs(value) if top is None else top
            if k > 30 and abs(value) < top * mp.mpf("1e-32") and k * step * spread > 12:
                break
        found.append(mp.fsum(parts) * step / mp.pi)
    assert abs(found[0] / found[1] - 1) < mp.mpf(STEP), (terms, eps, mp.nstr(found[0], 25), mp.nstr(found[1], 25))
    return found[0]


ROWS = [
    ("lattice", [("response", (0.4, 2), 7)], (0.05, 0.3, 1.3, 2.5)),
    ("lattice", [("response", (0.05, 7), 300)], (0.01, 0.4, 2.0, 9.0)),
    ("lattice", [("response", (5.0, 2), 60)], (1.0, 250.0, 285.0, 299.5)),
    ("lattice", [("response", (1e-3, 2), 20_000)], (0.003, 0.2, 1.0)),
    ("lattice", [("approximate", (0.1, 1e-6), 400)], (0.03, 1.0, 8.0, 30.0)),
    ("lattice", [("sampled binary", (1.0, 0.01), 5000)], (0.05, 1.0, 4.0)),
    ("lattice", [("discrete laplace", (1.5, 3), 200)], (0.1, 20.0, 60.0, 120.0)),
    ("lattice", [("discrete laplace", (20.0, 40), 60)], (0.1, 0.7, 2.0)),
    ("lattice", [("discrete gaussian", (1.5, 1), 40)], (0.2, 12.0, 40.0, 90.0)),
    ("lattice", [("response", (0.25, 3), 30), ("response", (0.5, 2), 20)], (0.1, 5.0, 14.0)),
    ("line", [("laplace", (1000.0,), 1_000_000)], (0.1, 1.0, 3.0, 10.0)),
    ("line", [("laplace", (3e4,), 1_000_000_000)], (0.1, 1.0, 3.0)),
    ("line", [("laplace", (50.0,), 10_000)], (0.1, 3.0, 15.0)),
    ("line", [("laplace", (0.7,), 200)], (20.0, 120.0, 200.0)),
    ("line", [("exponential", (0.3,), 10)], (0.05, 0.6, 1.2)),
    ("line", [("exponential", (0.003,), 1_000_000)], (0.05, 1.0, 6.0)),
    ("line", [("sampled laplace", (1.0, 0.01, False), 1000)], (0.03, 0.5, 3.0)),
    ("line", [("sampled laplace", (1.0, 0.01, True), 1000)], (0.03, 0.5, 3.0)),
    ("line", [("sampled laplace", (0.3, 0.001, False), 1_000_000)], (0.5, 5.0, 30.0)),
    ("line", [("sampled laplace", (0.3, 0.001, True), 1_000_000)], (0.5, 5.0, 30.0)),
    ("line", [("sampled laplace", (300.0, 0.1, False), 30_000_000)], (0.05, 1.0, 6.0)),
    ("line", [("sampled exponential", (1.0, 0.1, False), 300)], (0.1, 1.0, 5.0)),
    ("line", [("sampled exponential", (1.0, 0.1, True), 300)], (0.1, 1.0, 5.0)),
    ("line", [("sampled laplace", (1.0, 0.05, False), 300), ("response", (0.1, 7), 20)], (0.1, 1.0, 5.0)),
    ("line", [("laplace", (10.0,), 2000), ("exponential", (0.05,), 500)], (0.5, 12.0)),
]


def exact(value):
    return mp.mpf(value) if isinstance(value, float) else value


def hexed(value):
    return value.hex() if isinstance(value, float) else value


def main():
    rows = []
    for engine, terms, epsilons in ROWS:
        for epsilon in epsilons:
            start = time.time()
            given = [(kind, tuple(map(exact, parameters)), count) for kind, parameters, count in terms]
            value = (lattice_delta if engine == "lattice" else line_delta)(given, mp.mpf(epsilon))
            rows.append({
                "engine": engine, "terms": [[kind, [hexed(p) for p in parameters], count] for kind, parameters, count in terms],
                "epsilon": float(epsilon).hex(), "delta": mp.nstr(value, 22),
            })
            print(terms, epsilon, mp.nstr(value, 12), f"{time.time() - start:.1f}s", flush=True)
            Path(__file__).with_name("families.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
