"""Write mixed.json: log delta where a Gaussian body competes with jumps (many steps, delta below 1e-25), by ball arithmetic.

Run ``python tests/references/make_mixed.py`` (needs python-flint; some minutes). Nothing is split off: the plain contour of the
remove direction is summed at 160 digits, so many that the far cluster under its tilt costs none of the answer. Every value
is computed on two lines with different steps and nodes, which must agree to 1e-15.
"""

import json
import math
from pathlib import Path

from flint import acb, arb, ctx

ctx.prec = 540
CASES = [
    ("1.69", "0.000467", 610000, "5.21"), ("1.41", "2.56e-05", 18300000, "1.202"), ("1.22", "0.000568", 37200, "2.087"),
    ("2.51", "0.000707", 119000, "2.459"), ("1.67", "4.36e-05", 6660000, "0.874"), ("2", "0.001", 100000, "3"),
    ("2.2", "0.000127", 687000, "0.9276"), ("3", "1.98e-05", 1200000, "0.1394"),
]


class Line:
    """The integrand on Re z = c for one kind of step, with trapezoid nodes of spacing sigma/density."""

    def __init__(self, sigma, q, count, c, density):
        self.count, self.c = count, c
        h = sigma / density
        low, high = -40 * sigma, c + 1 + 40 * sigma
        norm = h / (sigma * (2 * arb.pi()).sqrt())
        self.loss, self.weight = [], []
        for k in range(int(float((high - low) / h)) + 1):
            x = low + k * h
            loss = (1 - q + q * ((2 * x - 1) / (2 * sigma * sigma)).exp()).log()
            self.loss.append(loss.mid())
            self.weight.append((norm * (-x * x / (2 * sigma * sigma) + (c + 1) * loss).exp()).mid())
        total = sum(self.weight, arb(0))
        keep = [i for i, w in enumerate(self.weight) if w > total * arb(10) ** -155]
        self.loss = [self.loss[i] for i in keep]
        self.weight = [self.weight[i] for i in keep]

    def delta(self, eps, step, stop):
        turns = [acb(0, step * loss).exp() for loss in self.loss]
        here = [acb(w) for w in self.weight]
        total, k, small = arb(0), 0, 0
        while True:
            moment = sum(here, acb(0))
            z = acb(self.c, k * step)
            value = ((moment.log() * self.count - eps * z).exp() / (z * (z + 1))).real.mid()
            total += value / 2 if k == 0 else value
            small = small + 1 if abs(value) < abs(total) * stop else 0
            if small > 300:
                return total * step / arb.pi()
            k += 1
            here = [(a * b).mid() for a, b in zip(here, turns, strict=True)]


def tilt(sigma, q, count, eps):
    """Where K(c) - c eps - log c(c+1) is least, roughly, in doubles on logarithms."""

    def height(c):
        best = []
        for k in range(4000):
            x = -12 * sigma + k * (c + 1 + 24 * sigma) / 4000
            y = (2 * x - 1) / (2 * sigma * sigma)
            loss = math.log1p(q * math.expm1(y)) if y < 600 else y + math.log(q)
            best.append(-x * x / (2 * sigma * sigma) + (c + 1) * loss)
        top = max(best)
        total = sum(math.exp(b - top) for b in best) * (c + 1 + 24 * sigma) / 4000 / (sigma * math.sqrt(2 * math.pi))
        return count * (top + math.log(total)) - c * eps - math.log(c * (c + 1))

    low, high = math.log(0.1), math.log(3000.0)
    for _ in range(60):
        a, b = low + 0.382 * (high - low), low + 0.618 * (high - low)
        low, high = (low, b) if height(math.exp(a)) < height(math.exp(b)) else (a, high)
    return math.exp(low)


def main():
    rows = []
    for sigma, q, count, eps in CASES:
        s, p, e = (arb(float(v)) for v in (sigma, q, eps))
        c = tilt(float(sigma), float(q), count, float(eps))
        found = []
        for shift, density, fold in ((0.6, 26, 1.0), (0.5, 31, 1.13)):
            line = Line(s, p, count, arb(c * shift), density)
            found.append(line.delta(e, arb(2 * math.pi * c / (700 * fold)), arb(10) ** -24))
        gap = abs(float(found[0] / found[1] - 1))
        print(sigma, q, count, eps, "tilt", c, found[0].log().str(20), gap, flush=True)
        assert gap < 1e-15
        rows.append({
            "noise_multiplier": float(sigma).hex(), "sampling_probability": float(q).hex(), "steps": count,
            "epsilon": float(eps).hex(), "log_delta": found[0].log().mid().str(20, radius=False),
        })
        Path(__file__).with_name("mixed.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
