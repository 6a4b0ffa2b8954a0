"""Every public name, every parameter, every kind of wrong value: ValueError or TypeError in the one message shape."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dpaccount
from dpaccount.adjacency import Adjacency, UnsupportedAdjacency
from dpaccount.bestof import BestOf
from dpaccount.calibration import UnreachableTarget, calibrate
from dpaccount.curves.approximate import approximate_draw
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.engines.auto import select
from dpaccount.mechanisms.curve import CurvePair
from dpaccount.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpaccount.mechanisms.exponential import ExponentialMechanism
from dpaccount.mechanisms.finite import FinitePair
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.mechanisms.gdp import GaussianDP
from dpaccount.mechanisms.laplace import Laplace
from dpaccount.mechanisms.log_concave import StronglyLogConcave
from dpaccount.mechanisms.pure import ApproximateDP, PureDP
from dpaccount.mechanisms.response import RandomizedResponse
from dpaccount.pair import DominatingPair
from dpaccount.regularized import RegularizedExponentialMechanism
from dpaccount.renyi import RenyiBound
from dpaccount.sampling.fixed_size import FixedSizeSampled
from dpaccount.sampling.poisson import PoissonSampled, amplified, unamplified
from dpaccount.sampling.schedule import NoiseSchedule

SHAPE = re.compile(r"^`[A-Za-z_.]+\([a-z_]+=\.\.\.\)` must be .+; got .+\.", re.DOTALL)

NOT_NUMBERS: tuple[Any, ...] = (
    "1.0", None, True, 1 + 2j, ["a"], {"a": 1}, object(), [None], b"1", {1.0}, np.array(["x"]), [[1.0], [1.0, 2.0]],
)
NOT_FINITE: tuple[Any, ...] = (float("nan"), float("inf"), float("-inf"), 10**400, np.float64("nan"))
NOT_TEXT: tuple[Any, ...] = (None, True, 1.0, 1j, ["add-or-remove"], {"a": 1}, "", "add_or_remove", "REPLACE-ONE", b"zero-out")
NOT_PAIRS: tuple[Any, ...] = ("gaussian", None, True, 1.0, 1j, [1.0], {"a": 1}, Gaussian, object())

profile = PrivacyProfile(Gaussian(1.0))
mechanism = ExponentialMechanism(1.0)


Row = tuple[Callable[[Any], Any], tuple[Any, ...]]


def number(call: Callable[[Any], Any], *domain: Any, without: tuple[Any, ...] = ()) -> Row:
    """A numeric parameter: nothing that is no number, nothing infinite, nothing outside its domain; `without` is allowed."""
    drop = {repr(w) for w in without}
    return call, tuple(v for v in (*NOT_NUMBERS, *NOT_FINITE) if repr(v) not in drop) + domain


def whole(call: Callable[[Any], Any], *domain: Any) -> Row:
    return call, (*NOT_NUMBERS, *NOT_FINITE, 1.5, [1], np.array([1]), *domain)


def text(call: Callable[[Any], Any]) -> Row:
    return call, NOT_TEXT


def pair(call: Callable[[Any], Any]) -> Row:
    return call, NOT_PAIRS


def regularized(**changed: Any) -> RegularizedExponentialMechanism:
    given: dict[str, Any] = {"lipschitz": 1.0, "num_records": 10, "inverse_temperature": 1.0, "regularization": 1.0, **changed}
    return RegularizedExponentialMechanism(**given)


def asked(kind: str, name: str) -> Callable[[Any], Any]:
    """A calibration with one argument left open."""
    rest = {"epsilon": 1.0, "delta": 1e-5, "lipschitz": 1.0, "num_records": 10, "dimension": 2, "diameter": 1.0}
    return lambda v: getattr(RegularizedExponentialMechanism, kind)(**{**rest, name: v})


concave = StronglyLogConcave(1.0, 1.0)
INFINITE = (float("inf"), float("-inf"))
Table = dict[str, Row]
STEP_METHODS: tuple[Any, ...] = (
    Gaussian(1.0), Laplace(1.0), DiscreteGaussian(1.0), DiscreteLaplace(1.0), RandomizedResponse(1.0), mechanism,
    GaussianDP(1.0), PureDP(1.0),
    ApproximateDP(1.0, 0.1), FinitePair((0.5, 0.5), (0.2, 0.8)), CurvePair((0.0,), (0.1,)), PoissonSampled(Gaussian(1.0), 0.1),
    FixedSizeSampled(Gaussian(1.0), 1, 10), 2 * Gaussian(1.0) + Laplace(1.0), PoissonSampled(Gaussian(1.0), 0.1).reversed(),
)
TABLE: Table = {
    "Gaussian.noise_multiplier": number(Gaussian, -1.0, -1e-300, 1e101, 1e-101, [1.0]),
    "Laplace.noise_multiplier": number(Laplace, -1.0, 1e101, [1.0]),
    "DiscreteGaussian.noise_multiplier": number(DiscreteGaussian, -1.0, 0.0, [1.0]),
    "DiscreteGaussian.sensitivity": whole(lambda v: DiscreteGaussian(1.0, v), 0, -1),
    "DiscreteLaplace.noise_multiplier": number(DiscreteLaplace, -1.0, 0.0, [1.0]),
    "DiscreteLaplace.sensitivity": whole(lambda v: DiscreteLaplace(1.0, v), 0, -1),
    "RandomizedResponse.epsilon": number(RandomizedResponse, -0.1, 701.0, [1.0]),
    "RandomizedResponse.num_categories": whole(lambda v: RandomizedResponse(1.0, v), 1, 0, -3),
    "ExponentialMechanism.epsilon": number(ExponentialMechanism, 0.0, -1.0, 701.0, [1.0]),
    "ExponentialMechanism.probabilities.utility": number(mechanism.probabilities, [], [[1.0, 2.0]], 1.0, [0.0, float("nan")]),
    "ExponentialMechanism.probabilities.sensitivity": number(
        lambda v: mechanism.probabilities([1.0], sensitivity=v), 0.0, -1.0, [1.0]
    ),
    "ExponentialMechanism.probabilities.measure": number(
        lambda v: mechanism.probabilities([1.0, 2.0], measure=v), [0.0, 0.0], [1.0], [1.0, -1.0], 1.0, without=(None,)
    ),
    "GaussianDP.mu": number(GaussianDP, -0.1, 1e-101, 1e101, [1.0]),
    "GaussianDP.relation": (lambda v: GaussianDP(1.0, v), ("as-written", "both", 1.0, True, ["replace-one"])),
    "StronglyLogConcave.lipschitz": number(lambda v: StronglyLogConcave(v, 1.0), -0.1, 1e-101, 1e101, [1.0]),
    "StronglyLogConcave.strong_convexity": number(lambda v: StronglyLogConcave(1.0, v), 0.0, -0.1, 1e-101, 1e101, [1.0]),
    "StronglyLogConcave.relation": (lambda v: StronglyLogConcave(1.0, 1.0, v), ("as-written", "both", 1.0, True, ["replace-one"])),
    "StronglyLogConcave.renyi.order": number(concave.renyi, 1.0, -2.0),
    "StronglyLogConcave.deviation.distance": number(concave.deviation, -0.1),
    "StronglyLogConcave.deviation.around": text(lambda v: concave.deviation(1.0, around=v)),
    **{
        f"RegularizedExponentialMechanism.{name}": number(lambda v, name=name: regularized(**{name: v}), -0.1, 1e101, [1.0])
        for name in ("lipschitz", "inverse_temperature", "regularization", "strong_convexity")
    },
    "RegularizedExponentialMechanism.num_records": whole(lambda v: regularized(num_records=v), 0, -1),
    **{
        f"RegularizedExponentialMechanism.{kind}.{name}": row
        for kind in ("for_empirical_risk", "for_population_risk")
        for name, row in {
            **{name: number(asked(kind, name), 0.0, -1.0, [1.0]) for name in ("epsilon", "delta", "lipschitz", "diameter")},
            **{name: whole(asked(kind, name), 0) for name in ("num_records", "dimension")},
            "strong_convexity": number(asked(kind, "strong_convexity"), -1.0, [1.0]),
            "rule": text(asked(kind, "rule")),
        }.items()
    },
    **{
        f"RegularizedExponentialMechanism.{kind}.{name}": row
        for kind in ("empirical_risk", "population_risk")
        for name, row in {
            "dimension": whole(lambda v, kind=kind: getattr(regularized(), kind)(dimension=v, diameter=1.0), 0),
            "diameter": number(lambda v, kind=kind: getattr(regularized(), kind)(dimension=1, diameter=v), 0.0, -1.0, [1.0]),
        }.items()
    },
    "approximate_draw.guarantee": pair(lambda v: approximate_draw(v, 0.1)),
    "approximate_draw.total_variation": number(lambda v: approximate_draw(Gaussian(1.0), v), -0.1, 1.1, [0.1]),
    "approximate_draw.adjacency": text(lambda v: approximate_draw(Gaussian(1.0), 0.1, v)),
    "PureDP.epsilon": number(PureDP, -0.1, 701.0, [1.0]),
    "ApproximateDP.epsilon": number(lambda v: ApproximateDP(v, 0.1), -0.1, 701.0, [1.0]),
    "ApproximateDP.delta": number(lambda v: ApproximateDP(1.0, v), -0.1, 1.1, [0.1]),
    "FinitePair.p": number(lambda v: FinitePair(v, (0.5, 0.5)), (), (0.5, 0.4), (-0.5, 1.5), (1.0,), ((0.5, 0.5),), 0.5),
    "FinitePair.q": number(lambda v: FinitePair((0.5, 0.5), v), (), (0.5, 0.4), (-0.5, 1.5), (1.0,), 0.5),
    "CurvePair.epsilon": number(lambda v: CurvePair(v, (0.1, 0.05)), (), (1.0, 0.0), (0.0, 0.0), (0.0,), 1.0, (0.0, 701.0)),
    "CurvePair.delta": number(lambda v: CurvePair((0.0, 1.0), v), (), (0.1,), (-0.1, 0.0), (1.1, 0.0), 0.1),
    "CurvePair.symmetric": (lambda v: CurvePair((0.0,), (0.1,), v), ("yes", None, 1.0, 1, [True], 1j)),
    "CurvePair.relation": (lambda v: CurvePair((0.0,), (0.1,), True, v), ("as-written", "both", 1.0, True, ["replace-one"])),
    "CurvePair.proved": (lambda v: CurvePair((0.0,), (0.1,), proved=v), ("yes", None, 1.0, 1, [True], 1j)),
    "CurvePair.upper_bound": (lambda v: CurvePair((0.0,), (0.1,), upper_bound=v), ("yes", None, 1.0, 1, [True], 1j)),
    "CurvePair.from_function.delta": (
        lambda v: CurvePair.from_function(v, (0.0, 1.0)), (None, 1.0, "f", [0.1], True, 1j, {})
    ),
    "CurvePair.from_function.epsilon": number(lambda v: CurvePair.from_function(lambda e: 0.1, v), (), (1.0, 0.0), 1.0),
    "PoissonSampled.step": pair(lambda v: PoissonSampled(v, 0.1)),
    "PoissonSampled.step, composed": (
        lambda v: PoissonSampled(v, 0.1), (2 * Gaussian(1.0), RenyiBound.zcdp(1.0), BestOf(Gaussian(1.0)))
    ),
    "PoissonSampled.sampling_probability": number(lambda v: PoissonSampled(Gaussian(1.0), v), -0.01, 1.28, 1e-101, [0.1]),
    "NoiseSchedule.noise_multipliers": number(
        lambda v: NoiseSchedule(v, 0.1), [], [[1.0]], 1.0, [1.0, 0.0], [1.0, -1.0], [1.0, float("nan")], [1e101]
    ),
    "NoiseSchedule.sampling_probability": number(lambda v: NoiseSchedule([1.0], v), 0.0, 1.0, -0.1, 1e-101, [0.1]),
    "NoiseSchedule.counts": number(lambda v: NoiseSchedule([1.0, 2.0], 0.1, v), [1, 2, 3], [1, 0], [1, 1.5], 2, [1, "x"], without=((),)),
    "FixedSizeSampled.step": pair(lambda v: FixedSizeSampled(v, 1, 10)),
    "FixedSizeSampled.step, other": (lambda v: FixedSizeSampled(v, 1, 10), (Laplace(1.0), Gaussian(0.0), 2 * Gaussian(1.0))),
    "FixedSizeSampled.sample_size": whole(lambda v: FixedSizeSampled(Gaussian(1.0), v, 10), 0, 11, -1),
    "FixedSizeSampled.dataset_size": whole(lambda v: FixedSizeSampled(Gaussian(1.0), 1, v), 0, -1),
    "certified_delta.guarantee": pair(lambda v: dpaccount.certified_delta(v, 0.5)),
    "certified_delta.epsilon": number(lambda v: dpaccount.certified_delta(Gaussian(1.0), v), "x", [0.5], without=("1.0",)),
    "certified_delta.adjacency": text(lambda v: dpaccount.certified_delta(Gaussian(1.0), 0.5, adjacency=v)),
    "certified_delta.digits": whole(lambda v: dpaccount.certified_delta(Gaussian(1.0), 0.5, digits=v), 0, -1, 401),
    "certified_epsilon.guarantee": pair(lambda v: dpaccount.certified_epsilon(v, 0.5)),
    "certified_epsilon.delta": number(
        lambda v: dpaccount.certified_epsilon(Gaussian(1.0), v), 0.0, 1.0, -0.1, "x", [0.5], without=("1.0",)
    ),
    "certified_epsilon.adjacency": text(lambda v: dpaccount.certified_epsilon(Gaussian(1.0), 0.5, adjacency=v)),
    "certified_epsilon.digits": whole(lambda v: dpaccount.certified_epsilon(Gaussian(1.0), 0.5, digits=v), 0, -1, 401),
    "BestOf.options": pair(BestOf),
    "BestOf.options, none": (lambda v: BestOf(*v), ((),)),
    "RenyiBound.zcdp.rho": number(RenyiBound.zcdp, -0.1, [1.0]),
    "RenyiBound.from_table.orders": number(
        lambda v: RenyiBound.from_table(v, [1.0, 2.0]), [], [2.0], [3.0, 2.0], [1.0, 2.0], 2.0
    ),
    "RenyiBound.from_table.values": number(
        lambda v: RenyiBound.from_table([2.0, 3.0], v), [], [1.0], [-1.0, 1.0], [float("inf"), 1.0], 2.0
    ),
    "RenyiBound.from_function.function": (RenyiBound.from_function, (None, 1.0, "f", [1.0], True, 1j, {})),
    "RenyiBound.from_function.max_order": number(
        lambda v: RenyiBound.from_function(lambda a: a, max_order=v), 1.0, 0.5, [2.0], without=(float("inf"),)
    ),
    "RenyiBound.under.adjacency": text(RenyiBound.zcdp(1.0).under),
    "RenyiBound.rdp.order": number(RenyiBound.zcdp(1.0).rdp, 1.0, 0.0, -1.0, without=(float("inf"),)),
    "RenyiBound.rdp.adjacency": text(lambda v: RenyiBound.zcdp(1.0).rdp(2.0, v)),
    "DominatingPair.log_mgf.z": (Gaussian(1.0).log_mgf, ("1", None, ["a"], {"a": 1}, object(), float("nan"), complex("nan"))),
    "DominatingPair.__mul__": (
        lambda v: v * Gaussian(1.0), (0, -3, 2.5, float("nan"), float("inf"), 10**13, "3", None, True, 1j, [2], {})
    ),
    "RenyiBound.__mul__": (lambda v: v * RenyiBound.zcdp(1.0), (0, -3, 2.5, float("nan"), 10**13, "3", None, True, 1j, [2])),
    "BestOf.__mul__": (lambda v: v * BestOf(Gaussian(1.0)), (0, -3, 2.5, float("nan"), 10**13, "3", None, True, 1j, [2])),
    "PrivacyProfile.guarantee, empty": (PrivacyProfile, (sum(()), (), [])),
    "select.pair": pair(select),
    "select.pair, Renyi": (select, (RenyiBound.zcdp(1.0), BestOf(Gaussian(1.0)))),
    "PrivacyProfile.guarantee": pair(PrivacyProfile),
    "PrivacyProfile.adjacency": text(lambda v: PrivacyProfile(Gaussian(1.0), v)),
    "PrivacyProfile.method": text(lambda v: PrivacyProfile(Gaussian(1.0), method=v)),
    "PrivacyProfile.conversion": text(lambda v: PrivacyProfile(Gaussian(1.0), conversion=v)),
    "PrivacyProfile.delta.epsilon": number(lambda v: profile.delta(epsilon=v), [0.1, float("nan")], without=INFINITE),
    "PrivacyProfile.log_delta.epsilon": number(lambda v: profile.log_delta(epsilon=v), without=INFINITE),
    "PrivacyProfile.epsilon.delta": number(lambda v: profile.epsilon(delta=v), -1e-9, 1.5, [0.1, 2.0]),
    "PrivacyProfile.epsilon.log_delta": number(lambda v: profile.epsilon(log_delta=v), 0.1, [-1.0, 1.0]),
    "PrivacyProfile.epsilon, both": (lambda v: profile.epsilon(delta=v, log_delta=-1.0), (0.1,)),
    "PrivacyProfile.trade_off.false_positive_rate": number(profile.trade_off, -0.1, 1.1, without=(None,)),
    "PrivacyProfile.renyi.order": number(profile.renyi, 1.0, 0.5, -1.0, without=(None,)),
    "PrivacyProfile.bayes_error.prior": number(profile.bayes_error, 0.0, 1.0, -0.1, 1.1),
    "PrivacyProfile.group.size": whole(profile.group, 0, -1),
    "TradeOffFunction.__call__.false_positive_rate": number(profile.trade_off(), -0.1, 1.1),
    "TradeOffFunction.inverse.false_negative_rate": number(profile.trade_off().inverse, -0.1, 1.1),
    "RenyiCurve.__call__.order": number(profile.renyi(), 1.0, 0.5),
    "amplified.epsilon": number(lambda v: amplified(v, 0.1), -1.0, 701.0, [1.0]),
    "amplified.sampling_probability": number(lambda v: amplified(1.0, v), -0.1, 1.1, [0.1]),
    "unamplified.epsilon": number(lambda v: unamplified(v, 0.1, 0.1), -1.0, [1.0]),
    "unamplified.delta": number(lambda v: unamplified(1.0, v, 0.1), -0.1, 1.1, [0.1]),
    "unamplified.sampling_probability": number(lambda v: unamplified(1.0, 0.1, v), 0.0, -0.1, 1.1, [0.1]),
    "calibrate.family": (lambda v: calibrate(v, epsilon=1.0, delta=1e-5), (None, 1.0, "f", [1.0], True, Gaussian(1.0), {})),
    "calibrate.family, result": (lambda v: calibrate(lambda _: v, epsilon=1.0, delta=1e-5), NOT_PAIRS[:1] + NOT_PAIRS[3:]),
    "calibrate.epsilon": number(lambda v: calibrate(Gaussian, epsilon=v, delta=1e-5), -1.0, [1.0]),
    "calibrate.delta": number(lambda v: calibrate(Gaussian, epsilon=1.0, delta=v), -0.1, 1.1, [0.1]),
    "calibrate.false_positive_rate": number(
        lambda v: calibrate(Gaussian, false_positive_rate=v, false_negative_rate=0.5), -0.1, 0.6, 1.1, [0.1]
    ),
    "calibrate.false_negative_rate": number(
        lambda v: calibrate(Gaussian, false_positive_rate=0.5, false_negative_rate=v), -0.1, 0.6, 1.1, [0.1]
    ),
    "calibrate.advantage": number(lambda v: calibrate(Gaussian, advantage=v), -0.1, 1.1, [0.1]),
    "calibrate, two targets": (lambda v: calibrate(Gaussian, epsilon=1.0, delta=1e-5, advantage=v), (0.1,)),
    "calibrate.adjacency": text(lambda v: calibrate(Gaussian, epsilon=1.0, delta=1e-5, adjacency=v)),
    "calibrate.method": text(lambda v: calibrate(Gaussian, epsilon=1.0, delta=1e-5, method=v)),
    "calibrate.bracket": (
        lambda v: calibrate(Gaussian, epsilon=1.0, delta=1e-5, bracket=v),
        (1.0, "ab", (1.0,), (2.0, 1.0), (-1.0, 1.0), (1.0, float("nan")), ("a", "b"), {}, (None, 1.0), (1.0, 2.0, 3.0), True),
    ),
    "calibrate.integer": (lambda v: calibrate(Gaussian, epsilon=1.0, delta=1e-5, integer=v), ("yes", None, 1.5, [True])),
    **{f"{type(step).__name__}.under.adjacency": text(step.under) for step in STEP_METHODS},
}

# public names that hold no parameter a user could get wrong, with the reason
EXEMPT = {
    "Adjacency": "an enumeration; a wrong string is refused where it is used",
    "Bounds": "an answer, made by the package",
    "Calibration": "an answer, made by the package",
    "DominatingPair": "abstract",
    "Enclosure": "an answer, made by the package",
    "Sweep": "an answer, made by the package",
    "sweep": "tests/test_sweep_grid.py walks its parameters",
    "dp_sgd": "tests/test_sweep_grid.py walks its parameters",
    "NumericalFailure": "an exception",
    "Status": "an enumeration",
    "UnreachableTarget": "an exception",
    "PrivacyWarning": "a warning",
    "TrainingRun": "tests/test_training.py walks its parameters",
    "citations": "tests/test_statement.py",
    "from_json": "tests/test_serial.py walks malformed documents",
    "to_json": "tests/test_serial.py",
    "UnsupportedAdjacency": "an exception",
}
# public methods that take no argument, or whose argument the class's own checks cover
PLAIN = {
    "reversed", "scaled", "total_variation", "advantage", "tails", "atoms", "density", "nodes", "step_log_mgf",
    "reversed_log_delta", "loss_error", "atom_rounding", "slip", "reversed_slip", "above", "reversed_above", "with_atoms",
}
COVERED_BY_BASE = {"log_mgf", "under", "log_delta", "noise_log_density", "noise_log_ratio", "noise_log_tails", "noise_support"}


def wrong() -> Iterator[Any]:
    for name, (call, values) in TABLE.items():
        for index, value in enumerate(values):
            yield pytest.param(call, value, id=f"{name}-{index}")


@pytest.mark.parametrize(("call", "value"), list(wrong()))
def test_bad_input_is_refused_in_the_one_shape(call: Callable[[Any], Any], value: Any) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        call(value)
    message = str(caught.value)
    assert SHAPE.match(message), message
    assert len(message) < 600
    assert not isinstance(caught.value, (UnsupportedAdjacency, UnreachableTarget))


def public_names() -> list[str]:
    return [name for name in vars(dpaccount) if not name.startswith("_") and not inspect.ismodule(vars(dpaccount)[name])]


def test_every_public_name_has_an_entry() -> None:
    covered = {re.split(r"[.,]", key)[0] for key in TABLE} | set(EXEMPT)
    assert set(public_names()) - covered == set()


def test_no_exemption_is_stale() -> None:
    assert set(EXEMPT) <= set(public_names())


def public_methods() -> Iterator[tuple[str, str]]:
    for name in public_names():
        item = getattr(dpaccount, name)
        if not inspect.isclass(item) or name in EXEMPT:
            continue
        for method, function in inspect.getmembers(item, callable):
            if not method.startswith("_") and function is not type:
                yield name, method


def test_every_public_method_has_an_entry() -> None:
    missing = [
        f"{name}.{method}"
        for name, method in public_methods()
        if method not in PLAIN and method not in COVERED_BY_BASE and not any(key.startswith(f"{name}.{method}.") for key in TABLE)
    ]
    assert missing == []


@pytest.mark.parametrize("other", ["x", None, 1.0, 0, [1], Gaussian])
@pytest.mark.parametrize("left", [Gaussian(1.0), RenyiBound.zcdp(1.0), BestOf(Gaussian(1.0))])
def test_adding_something_else_is_a_type_error(left: Any, other: Any) -> None:
    with pytest.raises(TypeError):
        left + other
    with pytest.raises(TypeError):
        other + left


@pytest.mark.parametrize(
    ("left", "right"),
    [(Gaussian(1.0), Gaussian(1.0)), (RenyiBound.zcdp(1.0), Gaussian(1.0)), (Gaussian(1.0), BestOf(Laplace(1.0)))],
)
def test_multiplying_two_guarantees_is_a_type_error(left: Any, right: Any) -> None:
    with pytest.raises(TypeError):
        left * right


def test_an_abstract_pair_cannot_be_made() -> None:
    with pytest.raises(TypeError):
        DominatingPair()  # type: ignore[abstract]


def test_the_domain_and_the_value_are_in_the_message() -> None:
    with pytest.raises(ValueError, match=re.escape(
        "`PoissonSampled(sampling_probability=...)` must be in [0, 1]; got 1.28. Did you pass batch size over data size?"
    )):
        PoissonSampled(Gaussian(1.0), 1.28)


def test_mixed_relations_are_refused_with_the_mechanism_and_the_relation() -> None:
    with pytest.raises(UnsupportedAdjacency, match=r"RandomizedResponse\(.*add-or-remove"):
        PrivacyProfile(Gaussian(1.0) + RandomizedResponse(1.0), Adjacency.ADD_OR_REMOVE)


def test_numpy_scalars_and_arrays_are_numbers() -> None:
    assert Gaussian(np.float32(0.5)) == Gaussian(0.5)
    assert np.int64(3) * Gaussian(1.0) == 3 * Gaussian(1.0)  # type: ignore[operator]
    assert profile.delta(epsilon=np.array([[0.1, 0.2]])).estimate.shape == (1, 2)
    assert profile.delta(epsilon=[]).estimate.shape == (0,)
