"""delta(eps) of a directed pair in a ball of a relative width that was asked for."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import reduce

from flint import arb

from dpaccount.engines.balls import single, sums
from dpaccount.engines.balls.contour import Problem
from dpaccount.engines.balls.jump import split
from dpaccount.engines.balls.law import gaussian_law, grid, law
from dpaccount.engines.balls.numbers import LN2, NotHere, accuracy, exact, precision, rough, rough_log
from dpaccount.engines.balls.plan import Term
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.pair import DominatingPair, Step

TRIES = 6
MAX_BITS = 6000
CHEAP = 1_500_000  # nodes times points of a plain contour, beyond which a big jump is looked for


class Question:
    """A directed pair at one epsilon, an exact number."""

    def __init__(self, pair: DominatingPair, epsilon: Fraction) -> None:
        self.pair, self.epsilon = pair, epsilon
        plain = [(s, n) for s, n in pair.terms if isinstance(s, Gaussian) and s.noise_multiplier > 0.0]
        self.plain = [(Fraction(s.noise_multiplier), n) for s, n in plain]
        self.steps: list[tuple[Step, int]] = [(s, n) for s, n in pair.terms if (s, n) not in plain]
        self.count = sum(n for _, n in pair.terms)
        self._fall = math.nan
        self._line = self._jumps = False  # whether a contour was needed, and whether a plain one lost its digits

    def delta(self, digits: float) -> arb:
        """A ball whose width is at most 10^-digits of its lower end; raises `NotHere` if there is none to be had."""
        wanted = digits * math.log(10.0)
        goal, bits, best = wanted + 4.0, int(wanted / LN2) + 96 + 2 * self.count.bit_length(), None
        guess: float | None = None
        for _ in range(TRIES):
            with precision(bits):
                found = self._once(goal, bits, guess)
                reached = accuracy(found)
            if best is None or reached > accuracy(best):
                best = found
            if reached >= wanted:
                return best
            self._jumps = self._jumps or reached < 0.1 * wanted
            if not self._line and not found > 0 and found.abs_upper() < arb(2) ** (-bits // 2):
                return found.max(arb(0))  # zero, or below everything
            with precision(64):
                guess = rough_log(found.abs_upper()) if found.abs_upper() > 0 else None
            missing = wanted - reached if math.isfinite(reached) else goal
            goal, bits = goal + min(missing, goal) + 3.0, min(int(1.3 * bits + missing / LN2), MAX_BITS)
        raise NotHere("the digits cancel faster than precision grows")

    def infinite(self) -> arb:
        """The probability of an infinite loss, at the precision in force."""
        return _infinite([Term(law(step), n) for step, n in self.steps])

    def fall(self) -> float:
        """-d log delta/d eps, an estimate: the contour knows it, formulas are asked a second time."""
        if math.isnan(self._fall):
            step = Fraction(1, 2**20)
            here, there = (Question(self.pair, e).delta(12.0) for e in (self.epsilon, self.epsilon + step))
            with precision(64):
                gap = rough_log(here) - rough_log(there)
            return gap / float(step)
        return self._fall

    def _once(self, goal: float, bits: int, guess: float | None) -> arb:
        laws = [Term(law(step), n) for step, n in self.steps]
        infinite = _infinite(laws)
        if any(not t.law.finite and not t.law.pieces for t in laws):
            return infinite
        spread = sum((n / exact(sigma) ** 2 for sigma, n in self.plain), arb(0))
        epsilon = exact(self.epsilon)
        alone = _alone(laws, spread, bool(self.plain))
        if alone is not None:
            return single.delta(alone.law, epsilon, bits)
        if not self.plain:
            composition = sums.composed(laws)
            if composition is not None:
                return infinite + sums.delta(composition, epsilon)
        if self.epsilon < 0:
            return self._mirrored(laws, spread, goal, bits, guess)
        high = sum(t.count * single.ends(t.law)[1] for t in laws) if not self.plain else math.inf
        if float(self.epsilon) > high + 1e-9 * abs(high):
            return infinite
        return infinite + self._contour(laws, spread, infinite, self.epsilon, goal, guess)

    def _mirrored(self, laws: list[Term], spread: arb, goal: float, bits: int, guess: float | None) -> arb:
        """E_gamma(P||Q) = 1 - gamma + gamma E_{1/gamma}(Q||P)."""
        zero, one = arb(0), arb(1)
        swapped = [Term(t.law.mixed(zero, one, one, zero, keeps=False), t.count) for t in laws]
        infinite = _infinite(swapped)
        gamma = exact(self.epsilon).exp()
        high = sum(t.count * single.ends(t.law)[1] for t in swapped) if not self.plain else math.inf
        rest = infinite
        if -float(self.epsilon) <= high + 1e-9 * abs(high):
            rest = infinite + self._contour(swapped, spread, infinite, -self.epsilon, goal, None)
        total = 1 - gamma + gamma * rest
        inner = 0.0 if math.isnan(self._fall) else self._fall
        self._fall = rough(gamma * (1 - rest) / total) - inner * rough(gamma * rest / total)
        return total

    def _contour(
        self, laws: list[Term], spread: arb, infinite: arb, epsilon: Fraction, goal: float, guess: float | None
    ) -> arb:
        grids = [grid(step) for step, _ in self.steps]
        lattice = None
        if not self.plain and all(g is not None for g in grids):
            known = [(g, n) for g, (_, n) in zip(grids, self.steps, strict=True) if g is not None]
            offset = sum((g[0] * n for g, n in known), Fraction(0))
            if epsilon != self.epsilon:
                offset = -offset
            spacing = reduce(_common, (g[1] for g, _ in known))
            lattice = (offset, spacing) if spacing else None
        problem = Problem(laws, spread, epsilon, infinite, lattice)
        self._line = True
        if lattice is not None:
            found = problem.delta(goal, guess)
        else:
            found, problem = self._split(problem, goal, guess)
        self._fall = rough(exact(problem.fall) / (found + infinite)) if found + infinite > 0 else math.nan
        return found


    def _split(self, problem: Problem, goal: float, guess: float | None) -> tuple[arb, Problem]:
        """By a plain contour if that is cheap, else with one big jump split off."""
        if not self._jumps:
            try:
                return problem.delta(goal, guess, most=CHEAP), problem
            except NotHere:
                pass
        try:
            found = split(problem.terms, problem.gaussian, exact(problem.epsilon), goal + 3.0)
            body = Problem(found.terms, problem.gaussian, problem.epsilon, found.missing, None)
            return found.jump + body.delta(goal, guess, rough_log(found.jump)), body
        except NotHere:
            return problem.delta(goal, guess), problem


def _infinite(laws: list[Term]) -> arb:
    return 1 - reduce(lambda a, t: a * (1 - t.law.p_only) ** t.count, laws, arb(1))


def _common(a: Fraction, b: Fraction) -> Fraction:
    """The greatest common divisor of two spacings."""
    return Fraction(math.gcd(a.numerator * b.denominator, b.numerator * a.denominator), a.denominator * b.denominator)


def _alone(laws: list[Term], spread: arb, plain: bool) -> Term | None:
    """The one step that is asked about, if there is but one; Gaussians make one step together."""
    if plain and not laws:
        return Term(gaussian_law(1 / spread), 1)
    if not plain and len(laws) == 1 and laws[0].count == 1:
        return laws[0]
    return None
