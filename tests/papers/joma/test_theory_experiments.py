"""Figures 4 and 9, phase portraits, computational graphs and the planar reference."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.special import softmax

from foretrain import InputError, papers
from foretrain.data import LatentTree
from foretrain.measures import entropy
from foretrain.papers.joma import theory
from foretrain.papers.joma.claims.hierarchy import caterpillar
from foretrain.papers.joma.experiments.theory import FIG4_TARGETS, fig4, fig9, phase
from foretrain.papers.joma.simulations.cdag import (
    angle_sum,
    graph_correlations,
    premise_met,
    summed_over_parents,
)
from foretrain.papers.joma.simulations.plane import plane_flow, plane_moments


def test_fig4_has_the_published_dip():
    """Fig 4: the entropy at its start, its lowest point and its end."""
    data = fig4(steps=4999)
    published = data["entropy"].sel(variant="published")
    assert float(published[0]) == pytest.approx(np.log(10), abs=1e-6)
    assert int(published.argmin("time")) == 669
    assert float(published.min()) == pytest.approx(0.9416, abs=5e-5)
    assert float(published[-1]) == pytest.approx(1.5493, abs=5e-5)
    assert float(data["entropy"].sel(variant="eq. 6").min()) == pytest.approx(0.137, abs=5e-4)
    linear = data["entropy"].sel(variant="linear").values
    assert np.all(np.diff(linear) <= 1e-12)
    assert np.all(np.isfinite(data["v"].values))


def test_eq6_as_a_flow_falls_to_150_and_ends_at_its_targets():
    """Fig 4, along the flow of eq. 6."""
    mu = np.array(FIG4_TARGETS)
    times = np.geomspace(1e-3, 20, 2000)
    flow = solve_ivp(
        lambda _, v: theory.attention_flow(v, mu), (0, 20), np.zeros(10), "LSODA", times, rtol=1e-9, atol=1e-11
    )
    curve = entropy(softmax(flow.y.T**2 / 2, axis=1))
    assert curve.min() == pytest.approx(0.150, abs=5e-4)
    assert curve[-1] == pytest.approx(entropy(softmax(mu**2 / 2)), abs=1e-3)


def test_fig4_tells_which_variant_overflows_and_when():
    with pytest.warns(
        UserWarning, match=r"^eq\. 6 diverged at step \d+: steps of 0\.002 are too long for a target of 60"
    ):
        data = fig4(targets=(60.0, 1.0), variants=("published", "eq. 6"), steps=2000)
    stable, diverged = data["diverged_at"].values
    assert np.isnan(stable)
    last = data["v"].sel(variant="eq. 6", time=int(diverged) - 1).values
    with np.errstate(over="ignore"):
        assert not np.isfinite((last + 0.002 * (np.array([60.0, 1.0]) - last) * np.exp(last**2 / 2)) ** 2).all()
    for name in ("v", "entropy"):
        assert data[name].sel(variant="eq. 6", time=slice(diverged, None)).isnull().all()
        assert data[name].sel(variant="eq. 6", time=slice(0, diverged - 1)).notnull().all()
        assert data[name].sel(variant="published").notnull().all()


def test_fig9_counts_critical_points_where_the_ratio_turns():
    """Fig 9 and Lemma 4: there are critical points where G(y)/y does not rise everywhere."""
    data = fig9(points=99)
    turns = (data["G_over_y"].diff("y") < -1e-9).any("y")
    assert dict(zip(data["density"].values.tolist(), turns.values.tolist(), strict=True)) == {
        "Gaussian": False,
        "uniform": False,
        "Laplace": False,
        "Student-t(3)": True,
        "Student-t(1.5)": True,
        "Gaussian of scales 1 and 10": True,
    }
    assert np.array_equal(data["critical_points"].values > 0, turns.values)


def test_phase_paths_end_at_the_target_unless_the_activation_is_linear():
    data = phase(grid=5)
    ends = data["path"].isel(time=-1)
    target = data["target"].values
    assert np.abs(ends.isel(portrait=[0, 1]).values - target).max() < 1e-3
    assert (ends.isel(portrait=2, component=0).values > 50).all()
    assert (ends.isel(portrait=2, component=1).values < 2).all()


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: phase(targets=(1.0, -1.0)), "two numbers above 0"),
        (lambda: phase(grid=1), "grid must be at least 2"),
        (lambda: phase(starts=1), "starts must be at least 2"),
        (lambda: fig9(densities=()), r"densities must name at least one of Gaussian, uniform, .*; got none\."),
        (lambda: fig9(densities=("Cauchy",)), "There is no density of Fig 9 'Cauchy'"),
        (lambda: fig9(points=0), "points must be at least 1"),
        (lambda: fig9(distance=-1.0), "distance must be a finite number above 0"),
        (lambda: fig4(steps=-5), "steps must be at least 1"),
        (lambda: fig4(targets=(0.0, 1.0)), "none of them 0"),
        (lambda: fig4(variants=("eq. 7",)), "There is no variant 'eq. 7'"),
        (lambda: graph_correlations(steps=(-1,)), "steps must name whole numbers of at least 0"),
        (lambda: theory.critical_points(2.0, reach=0), "reach must be a finite number above 0"),
        (lambda: theory.cooccurrence([], 5, 2, 0.9), "rho must hold at least one number"),
        (lambda: theory.cooccurrence(0.9, 5, 2, []), "p_zero must hold at least one number"),
        (lambda: LatentTree.regular(2, classes=3, class_weights=[1.0]), r"one number per class \(3\); got 1"),
        (lambda: graph_correlations(rho=1.5), "rho must lie between -1 and 1"),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(call, words):
    with pytest.raises(InputError, match=words):
        call()


@pytest.mark.parametrize("name", ["gaussian", "uniform_ball", "student_t", "laplace", "gaussian_mixture"])
def test_the_planar_reference_by_sampling(name):
    """Lemma 1 in the plane, by integration over directions and by sampling."""
    draw = np.random.default_rng(8)
    n = 200_000
    direction = draw.standard_normal((n, 2))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    radius = {
        "gaussian": lambda: np.sqrt(draw.chisquare(2, n)),
        "uniform_ball": lambda: np.sqrt(draw.random(n)),
        "student_t": lambda: np.sqrt(draw.chisquare(2, n) / (draw.chisquare(3, n) / 3)),
        "laplace": lambda: draw.gamma(2, size=n),
        "gaussian_mixture": lambda: np.sqrt(draw.chisquare(2, n)) * draw.choice([1.0, 10.0], n),
    }[name]()
    mean, v, bias = np.array([0.3, -0.2]), np.array([0.5, 0.4]), -0.15
    x = mean + radius[:, None] * direction
    active = np.where(x @ v + bias > 0, 1.0, 0.2)
    drawn = np.concatenate([x * active[:, None], active[:, None]], axis=1)
    first, total = plane_moments(mean, v, bias, name, (0.2, 1.0))
    assert np.all(np.abs(drawn.mean(0) - [*first, total]) < 4 * drawn.std(0) / np.sqrt(n))


@given(st.floats(0.01, 1), st.floats(0.01, 1), st.floats(0.01, 1), st.integers(0, 10_000))
def test_no_vectors_beat_the_bound_on_c4(c1, c2, c3, seed):
    """Multi-layer Theorem 1, corrected: a, z_α, z_β, f with these cosines, otherwise random, in four dimensions."""
    draw = np.random.default_rng(seed)

    def at_cosine(of: np.ndarray, cosine: float) -> np.ndarray:
        side = draw.standard_normal(4)
        side -= (side @ of) * of
        return cosine * of + np.sqrt(1 - cosine**2) * side / np.linalg.norm(side)

    z_alpha = at_cosine(np.eye(4)[0], draw.uniform(-1, 1))
    a, z_beta = at_cosine(z_alpha, c1), at_cosine(z_alpha, c3)
    f = at_cosine(z_beta, c2)
    assert (f @ a) * (z_beta @ a) >= theory.gradient_correlation_bound(c1, c2, c3) - 1e-12


@given(st.floats(0.01, 0.99), st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_a_plane_reaches_the_bound(c1, c2, c3):
    """Multi-layer Theorem 1: the corrected bound cannot be improved."""
    A, B, C = np.arccos([c1, c2, c3])
    if (np.pi - B) / 2 < A + C:  # then the worst case has a larger c1 or c3 than asked for
        return
    angles = np.array([0.0, A, A + C, A + B + C])  # a, z_α, z_β, f
    a, _, z_beta, f = np.stack([np.cos(angles), np.sin(angles)], 1)
    assert (f @ a) * (z_beta @ a) == pytest.approx(float(theory.gradient_correlation_bound(c1, c2, c3)), abs=1e-12)


def test_equal_correlations_must_exceed_cos_30():
    """Multi-layer Theorem 1, corrected."""
    edge = np.cos(np.pi / 6)
    assert theory.gradient_correlation_bound(edge + 1e-6, edge + 1e-6, edge + 1e-6) > 0
    assert theory.gradient_correlation_bound(edge - 1e-6, edge - 1e-6, edge - 1e-6) < 0
    with pytest.raises(InputError, match="c2 is a correlation"):
        theory.gradient_correlation_bound(0.5, 1.5, 0.5)


def test_the_shares_of_the_cdag_erratum():
    """Multi-layer Theorem 1: how often C4 is negative although C1, C2 and C3 are positive."""
    data = graph_correlations(steps=(0, 100))  # the claim's own graphs
    for step, threshold, negative in ((0, 0.1, 0.18), (0, 0.5, 0.02), (100, 0.1, 0.41), (100, 0.5, 0.38)):
        now = data.sel(step=step)
        met = premise_met(now, threshold)
        assert float((met & (now["C4"] < 0)).sum() / met.sum()) == pytest.approx(negative, abs=0.005)
    first = data.sel(step=0)
    inside = first["C4"].where(angle_sum(first) < 90)
    assert inside.notnull().sum() > 1000
    assert float(inside.min()) > 0
    # the corrected premise is met only with α = β or where f_k is z_β itself
    bound = theory.gradient_correlation_bound(
        *(first[name].broadcast_like(first["C1"] * first["C2"]) for name in ("C1", "C2")),
        abs(first["C3"]).clip(0, 1).broadcast_like(first["C1"] * first["C2"]),
    )
    at = (first["C1"] * first["C2"]).copy(data=bound).where(first["C4"].notnull())
    best, positive = at.fillna(-9).argmax("alpha"), (at.max("alpha") > 0) & first["C4"].notnull()
    assert int(first["C4"].notnull().sum()) == 36134
    assert int(positive.sum()) == 2056
    other = positive & (best != xr.DataArray(np.arange(14), dims="beta"))
    assert not (other & (first["C2"] < 1 - 1e-9)).any()


def test_the_shares_of_the_sums_over_parents():
    """Multi-layer analysis: how often the whole gradient is against the latent although every parent is for it."""
    for threshold, whole, onward in ((0.1, 0.184, 0.196), (0.5, 0.019, 0.019)):
        run = summed_over_parents(threshold=threshold)
        met = run["met"].values
        assert float((run["whole"].values[met] < 0).mean()) == pytest.approx(whole, abs=0.005)
        assert float((run["next"].values[met] < 0).mean()) == pytest.approx(onward, abs=0.005)


def test_where_the_bias_of_a_critical_point_turns_negative():
    """Appendix A.4: y₋ < ½ < y₊ needs means that are far enough apart."""

    def distances(density: theory.RadialDensity, apart: float) -> tuple[float, float]:
        point = next(p for p in theory.critical_points(apart, density) if p.sign > 0)
        return point.r_plus, point.r_minus

    heavy, light = theory.student_t(2, 1.5), theory.student_t(2)
    assert distances(heavy, 0.65)[1] > 0 > distances(heavy, 0.8)[1]
    assert distances(light, 0.85)[0] < 0 < distances(light, 1.0)[0]


@pytest.mark.parametrize(("share", "grows"), [(0.95, True), (1.05, False)])
def test_beside_the_critical_ratio_v_does_not_settle(share, grows):
    """Theorem 3 in training: five per cent beside its ratio of weights v grows without end or goes to 0."""
    mean = np.array([1.2, 1.6])
    point = next(p for p in theory.critical_points(2.0, theory.student_t(2, 1.5)) if p.sign > 0)
    weights = [1.0, -share * point.weight_ratio]

    def field(_: float, state: np.ndarray) -> np.ndarray:
        v, bias = plane_flow(state[:2], state[2], [mean, np.zeros(2)], weights, "student_t_1.5", theory.RELU)
        return np.append(v, bias)

    def gone(_: float, state: np.ndarray) -> float:
        return float(np.linalg.norm(state[:2])) - 1e-2

    gone.terminal = True
    mu, bias = point.at(mean)
    solved = solve_ivp(field, (0, 20), np.append(mu, bias), rtol=1e-6, atol=1e-8, events=gone, t_eval=[5, 10, 20])
    sizes = np.linalg.norm(solved.y[:2], axis=0)
    if grows:
        assert sizes[2] - sizes[1] == pytest.approx(2 * (sizes[1] - sizes[0]), rel=0.02)  # in proportion to time
        assert sizes[2] > 2
    else:
        assert solved.t_events[0].size == 1


def test_correlations_by_hand():
    """One edge of one graph, with plain inner products."""
    data = graph_correlations(graphs=3, samples=64, steps=(0,))
    assert np.abs(data["C3"].values[:, np.arange(14), np.arange(14)] - 1).max() < 1e-12
    C1, C4 = data["C1"].values[0], data["C4"].values[0]
    graph, j, k, beta = np.argwhere(np.isfinite(C4))[17]
    other = (beta + 3) % 14
    # C4 is w_jk·C1[j, β]: its ratio between two latents is that of C1
    assert C4[graph, j, k, beta] * C1[graph, j, other] == pytest.approx(C4[graph, j, k, other] * C1[graph, j, beta])
    assert np.abs(data["C2"].values[0, :, :8, 6:] - data["C3"].values[:, 6:, 6:]).max() < 1e-12  # inputs are leaves


@pytest.mark.parametrize(("depth", "ancestor"), [(2, 1), (5, 2), (5, 4), (4, 0)])
def test_caterpillars_have_their_ancestor_where_it_should_be(depth, ancestor):
    """Theorem 5: the trees on which it is enumerated have their ancestor at layer H."""
    tree = caterpillar(0.5, depth, ancestor, [0.5], [1.0])
    first, last = tree.tokens[0], tree.tokens[-1]
    assert tree.nodes == depth + ancestor
    assert int(tree.level.max()) == depth - 1
    assert tree.common_ancestor_layer(first, last) == ancestor


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("id", "argument", "text", "value"),
    [
        ("joma/fig2", "kind", "rough", ("rough",)),
        ("joma/fig2", "points", "1", 1),
        ("joma/fig2", "dimension", "0", 0),
        ("joma/fig3", "activation", "tanh", "tanh"),
        ("joma/fig4", "variants", "eq. 7", ("eq. 7",)),
        ("joma/fig4", "steps", "0", 0),
        ("joma/fig9", "distance", "0", 0.0),
        ("joma/phase", "targets", "1,-1", (1.0, -1.0)),
        ("joma/phase", "starts", "1", 1),
        ("joma/cdag", "steps", "0,-1", (0, -1)),
        ("joma/cdag", "graphs", "0", 0),
        ("joma/order", "rhos", "1.5", (1.5,)),
        ("joma/order", "depth", "2", 2),
        ("joma/rank", "transformer_steps", "0", 0),
        ("joma/table1", "configuration", "20/2", ("20/2",)),
        ("joma/table1", "generator", "trees", ("trees",)),
        ("joma/table1", "hidden", "0", (0,)),
    ],
)
def test_the_command_line_refuses_what_the_function_refuses(id, argument, text, value):
    experiment = papers.experiments(id)[id]
    with pytest.raises(InputError, match=argument):
        experiment.parameters()[argument].read(text)
    with pytest.raises(InputError):
        experiment.run(**{**experiment.arguments("fast"), argument: value})
