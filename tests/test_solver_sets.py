"""Projections against the conditions that characterise them: exactness is a matter of KKT, not of iterates."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from solvers.sets import Box, HalfSpaces, L1Ball, L2Ball, Polytope, Simplex, WholeSpace
from solvers.sets.nearest import nearest_in_hull

CORNERS = np.array([[0.0, 0.0, 0.0], [2.0, 0.0, 0.1], [0.0, 1.0, 0.0], [0.3, 0.2, 3.0], [1.0, 1.0, 1.0], [0.5, 0.3, 0.2]])
SETS = {
    "l2 ball": L2Ball(1.5),
    "l1 ball": L1Ball(2.0),
    "small l1 ball": L1Ball(1e-6),
    "box": Box(-1.0, 0.5),
    "uneven box": Box([-1.0, 0.0, 2.0], [1.0, 0.0, 3.0]),
    "simplex": Simplex(1.5),
    "polytope": Polytope(CORNERS),
    "segment": Polytope([[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]]),
    "flat polytope": Polytope([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    "whole space": WholeSpace(),
}
BOUNDED = {name: kind for name, kind in SETS.items() if name != "whole space"}
HALVES = {
    "one": HalfSpaces([3.0, -4.0, 0.5], 2.0),
    "wedge": HalfSpaces([[1.0, 0.2, 0.0], [-0.9, 1.0, 0.1]], [0.5, -1.0]),
    "slab": HalfSpaces([[1.0, 1.0, 0.0], [-2.0, -2.0, 0.0]], [1.0, 3.0]),
    "line": HalfSpaces([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, -1.0, 0.0]], [0.5, -0.5, 0.0, 0.0]),
    "cone": HalfSpaces([[1.0, 0.2, 0.1], [0.1, 1.0, -0.2], [-0.3, 0.1, 1.0]], [0.0, 0.0, 0.0]),
    "tetrahedron": HalfSpaces([[1.0, 1.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, -1.0]], [2.0, 0.0, 0.0, 1.0]),
    "many": HalfSpaces(np.random.default_rng(1).normal(size=(12, 3)), np.linspace(0.5, 2.0, 12)),
}
POINTS = st.lists(st.one_of(st.floats(-50, 50), st.floats(-1e-9, 1e-9), st.sampled_from([0.0, 1.0, -1e8])), min_size=3, max_size=3)


@pytest.mark.parametrize("name", SETS)
@given(point=POINTS)
def test_a_projection_satisfies_the_variational_inequality(name, point):
    """x is the projection of z iff <z - x, s - x> <= 0 for every s of the set: the worst s is what `minimise_linear` finds."""
    kind, z = SETS[name], np.array(point)
    x = kind.project(z)
    assert kind.contains(x, 1e-12)
    if name == "whole space":
        assert_allclose(x, z, rtol=0)
        return
    size = kind.diameter(3) + float(np.linalg.norm(x))
    gap = float((z - x) @ (kind.minimise_linear(x - z) - x))
    assert gap <= 1e-11 * size * (np.linalg.norm(z) + size)
    assert_allclose(kind.project(x), x, rtol=0, atol=1e-12 * size)


@pytest.mark.parametrize("name", HALVES)
@given(point=POINTS)
def test_a_projection_on_half_spaces_satisfies_kkt(name, point):
    """z - x is a combination, with no negative weight, of the normals that x touches: by a solver of its own."""
    from scipy.optimize import nnls

    kind, z = HALVES[name], np.array(point)
    x, size = kind.project(z), 1.0 + float(np.abs(z).max())
    over = kind.normals @ x - kind.offsets
    assert over.max() <= 1e-11 * size
    assert name == "cone" or kind.contains(x, 1e-11)
    touched = kind.normals[over >= -1e-9 * size]
    off = float(np.linalg.norm(z - x)) if not len(touched) else nnls(touched.T, z - x)[1]
    assert off <= 1e-11 * size
    assert_allclose(kind.project(x), x, rtol=0, atol=1e-11 * size)


def test_what_half_spaces_say_of_themselves():
    """Inner radii are lower bounds, linear minima are minima, and no size is claimed."""
    rng = np.random.default_rng(3)
    for name, kind in HALVES.items():
        r = kind.inner_radius(3)
        assert (r == 0.0) if name == "line" else (r > 0.0)
        assert kind.radius(3) == kind.diameter(3) == np.inf
        inside = np.array([kind.project(p) for p in rng.standard_normal((200, 3)) * 4.0])
        for direction in -kind.normals[:2]:
            assert direction @ kind.minimise_linear(direction) <= (inside @ direction).min() + 1e-9
    assert HALVES["one"].inner_radius(3) == np.inf
    assert HALVES["tetrahedron"].inner_radius(3) == pytest.approx(3.0 / (3.0 + np.sqrt(3.0)), rel=1e-6)
    with pytest.raises(ValueError, match="no minimum"):
        HALVES["cone"].minimise_linear(np.array([1.0, 1.0, 1.0]))


@pytest.mark.parametrize("name", [*SETS, *HALVES])
@given(one=POINTS, other=POINTS)
def test_projections_bring_points_no_farther_apart(name, one, other):
    a, b = np.array(one), np.array(other)
    kind = (SETS | HALVES)[name]
    apart = np.linalg.norm(kind.project(a) - kind.project(b))
    assert apart <= np.linalg.norm(a - b) + 1e-13 * (np.linalg.norm(a) + np.linalg.norm(b) + 10.0)


@pytest.mark.parametrize("name", BOUNDED)
def test_sizes_and_linear_minimisers_against_many_points(name):
    kind, rng = BOUNDED[name], np.random.default_rng(3)
    inside = np.array([kind.project(p) for p in rng.standard_normal((300, 3)) * 8.0])
    far = max(float(np.linalg.norm(a - inside, axis=1).max()) for a in inside)
    assert far <= kind.diameter(3) * (1 + 1e-12)
    assert np.linalg.norm(inside, axis=1).max() <= kind.radius(3) * (1 + 1e-12)
    assert kind.contains(kind.start(3))
    for direction in rng.standard_normal((20, 3)):
        least = kind.minimise_linear(direction)
        assert kind.contains(least, 1e-12)
        assert direction @ least <= (inside @ direction).min() + 1e-12


@pytest.mark.parametrize("kind", [L2Ball(1.0), L1Ball(1.0), Box(-1.0, 1.0), Simplex(1.0)], ids=repr)
def test_diameters_and_inner_radii_are_reached(kind):
    p = 4
    corners = {
        "L2Ball": [np.eye(p)[0], -np.eye(p)[0]], "L1Ball": [np.eye(p)[0], -np.eye(p)[0]],
        "Box": [np.ones(p), -np.ones(p)], "Simplex": [np.eye(p)[0], np.eye(p)[1]],
    }[type(kind).__name__]  # fmt: skip
    assert all(kind.contains(c) for c in corners)
    assert_allclose(np.linalg.norm(corners[0] - corners[1]), kind.diameter(p), rtol=1e-15)
    r = kind.inner_radius(p)
    for direction in np.random.default_rng(0).standard_normal((50, p)) if r else []:
        assert kind.contains(r * direction / np.linalg.norm(direction), 1e-12)
    if r:
        assert any(not kind.contains(1.001 * r * s / np.linalg.norm(s), 1e-12) for s in (np.ones(p), np.eye(p)[0]))


def brute(vertices, z):
    """The nearest point of a hull: the best over all faces, each by least squares, whose weights are not negative."""
    best, found = np.inf, None
    for size in range(1, min(len(vertices), vertices.shape[1] + 1) + 1):
        for face in itertools.combinations(range(len(vertices)), size):
            points = vertices[list(face)]
            inner = np.linalg.lstsq((points[1:] - points[0]).T, z - points[0], rcond=None)[0] if size > 1 else np.empty(0)
            weights = np.concatenate([[1.0 - inner.sum()], inner])
            x = weights @ points
            if weights.min() >= -1e-12 and np.linalg.norm(x - z) < best:
                best, found = np.linalg.norm(x - z), x
    return found


@given(seed=st.integers(0, 10**6), count=st.integers(1, 7), scale=st.sampled_from([0.1, 1.0, 30.0]))
def test_the_nearest_point_of_a_hull_against_every_face(seed, count, scale):
    rng = np.random.default_rng(seed)
    vertices, z = rng.standard_normal((count, 3)), scale * rng.standard_normal(3)
    assert_allclose(nearest_in_hull(vertices, z), brute(vertices, z), atol=1e-10)


def test_hulls_of_repeated_and_collinear_points():
    vertices = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 1.0], [0.5, 0.5], [2.0, 2.0]])
    assert_allclose(nearest_in_hull(vertices, np.array([1.0, 0.0])), [0.5, 0.5], atol=1e-12)
    assert_allclose(nearest_in_hull(vertices, np.array([9.0, 9.0])), [2.0, 2.0], atol=1e-12)


@pytest.mark.parametrize("size", [1e-3, 1.0, 7.0])
@given(point=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30))
def test_the_l1_projection_keeps_its_norm_to_the_last_digits(size, point):
    """KKT: x_j = sign(z_j) max(|z_j| - t, 0) with one t >= 0, and the norm is R or nothing moves."""
    z = np.array(point)
    x = L1Ball(size).project(z)
    assert np.abs(x).sum() <= size * (1 + 1e-12)
    if np.abs(z).sum() <= size:
        assert_allclose(x, z, rtol=0)
        return
    kept = x != 0.0
    threshold = np.abs(z[kept]) - np.abs(x[kept])
    assert np.ptp(threshold) <= 1e-11 * (np.abs(z).max() + size)
    assert np.all(np.abs(z[~kept]) <= threshold.mean() + 1e-11 * (np.abs(z).max() + size))
    assert np.all(np.sign(x[kept]) == np.sign(z[kept]))


@pytest.mark.parametrize("kind", [L1Ball(2.0), Simplex(3.0), Polytope(CORNERS)], ids=repr)
def test_vertices_and_their_scores_agree(kind):
    direction = np.array([0.3, -1.0, 0.2])
    vertices = np.array([kind.vertex(k, 3) for k in range(kind.vertex_count(3))])
    assert_allclose(kind.vertex_scores(direction), vertices @ direction, rtol=1e-15, atol=1e-16)
    assert all(kind.contains(v) for v in vertices)
    assert np.abs(vertices).sum(axis=1).max() == pytest.approx(kind.l1_radius)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: L2Ball(0.0), r"`L2Ball\(size=...\)` must be"),
        (lambda: L1Ball(np.nan), "L1Ball"),
        (lambda: Box(1.0, 0.0), "wrong way round"),
        (lambda: Box([0.0], [1.0, 2.0]), "one length"),
        (lambda: Box(-np.inf, 1.0), "finite"),
        (lambda: Simplex(-1.0), "Simplex"),
        (lambda: Polytope([1.0, 2.0]), "one vertex a row"),
        (lambda: Polytope(np.empty((0, 2))), "one vertex a row"),
        (lambda: WholeSpace().minimise_linear(np.ones(2)), "no minimum"),
        (lambda: HalfSpaces([0.0, 0.0], 1.0), "not 0"),
        (lambda: HalfSpaces([[1.0, 0.0], [-1.0, 0.0]], [0.0, -1.0]), "not empty"),
        (lambda: HalfSpaces(np.eye(3), [1.0, 2.0]), "one number for each"),
        (lambda: HalfSpaces(np.ones((13, 2)), np.ones(13)), "at most 12"),
        (lambda: HalfSpaces([1e-300, 0.0], 1e300), "within reach"),
        (lambda: HalfSpaces([1.0, np.nan], 1.0), "finite"),
    ],
)
def test_what_is_no_set_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_box_knows_its_dimension_and_balls_serve_any():
    assert Box([0.0, 1.0], 2.0).dimension == 2
    assert Box(0.0, 1.0).dimension is None
    assert Polytope(CORNERS).dimension == 3
    assert L2Ball(1.0).dimension is None
