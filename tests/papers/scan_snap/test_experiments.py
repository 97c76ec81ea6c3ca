"""The experiments of Scan and Snap against plain loops and brute force; whole and cut runs give the same numbers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
import xarray as xr
from torch.nn.functional import cross_entropy, one_hot

from foretrain import InputError, papers
from foretrain.core.streams import stream
from foretrain.data import SequenceClasses
from foretrain.dynamics.train import STEPS_AT_ONCE
from foretrain.papers.scan_snap import figures, theory
from foretrain.papers.scan_snap.experiments import training as experiments
from foretrain.papers.scan_snap.experiments.curves import fig3, fig8, fig9
from foretrain.papers.scan_snap.experiments.training import fig4, fig5, fig6, fig11, fig12
from foretrain.papers.scan_snap.experiments.training_map import training_map
from foretrain.papers.scan_snap.setting import published_fig4, published_fig6
from foretrain.papers.scan_snap.simulations.full_gradient import shared_token_classes

BY_NAME = {e.id.split("/")[1]: e for e in papers.experiments("scan_snap").values()}
QUICK = {"queries": (1, 2), "eta_z": (1.0, 3.0), "ratio": (1.0, 2.0), "seeds": 2, "steps": 5}


@pytest.fixture(scope="module")
def fast() -> dict[str, xr.Dataset]:
    return {name: e.run(**e.arguments("fast")) for name, e in BY_NAME.items()}


def plain_syn_medium(queries: int, eta_z: float, ratio: float, seed: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """One run of Syn-Medium: one-hot tokens, autograd, torch.optim. Returns Z and P(l|n)·exp(z) scaled to sum 1."""
    task = SequenceClasses.syn_medium(queries)
    key, vocab = f"scan_snap/syn_medium/{queries}", task.vocab
    draw, bound = stream(key, seed, "start"), vocab**-0.5
    Y, Z = (torch.tensor(draw.uniform(-bound, bound, (vocab, vocab)), requires_grad=True) for _ in range(2))
    groups = [{"params": [Y], "lr": ratio * eta_z}, {"params": [Z], "lr": eta_z}]
    optimizer = torch.optim.SGD(groups, momentum=0.9)
    drawn = task.sample(128 * STEPS_AT_ONCE, stream(key, seed, "data"), sequences=True)
    for step in range(steps):
        now = slice(128 * step, 128 * (step + 1))
        X = one_hot(torch.from_numpy(drawn.sequences[now]), vocab).double()
        b = torch.softmax(torch.einsum("btm,bm->bt", X, Z[torch.from_numpy(drawn.queries[now])]), dim=1)
        c = torch.einsum("bt,btm->bm", b, X)
        loss = cross_entropy((c / c.norm(dim=1, keepdim=True)) @ Y, torch.from_numpy(drawn.labels[now]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    logits = Z.detach().numpy()
    weights = task.probabilities * np.exp(logits[task.query])
    return logits, weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(("eta_z", "ratio", "seed"), [(1.0, 2.0, 2), (3.0, 1.0, 1)])
def test_fig6_and_the_recall_equal_a_plain_loop(eta_z, ratio, seed):
    task = SequenceClasses.syn_medium(2)
    Z, attention = plain_syn_medium(2, eta_z, ratio, seed, steps=8)
    own = np.stack([attention[n, tokens] for n, tokens in enumerate(task.distinct_tokens)])
    own /= own.sum(axis=1, keepdims=True)
    entropy = -(own * np.log(own)).sum(axis=1).mean()
    cell = {"queries": 2, "eta_z": eta_z, "ratio": ratio, "seed": seed}
    run = experiments.syn_medium((1, 2), (1.0, 3.0), (1.0, 2.0), 2, steps=8).sel(cell)
    assert float(run["entropy"]) == pytest.approx(entropy, abs=2e-5)
    # entries of Z that no sample can move count as 0 in the softmax, not as their start
    moves = np.zeros(Z.shape, dtype=bool)
    np.maximum.at(moves, task.query, task.occurs)
    softmax = np.exp(np.where(moves, Z, 0))
    softmax /= softmax.sum(axis=1, keepdims=True)
    values = np.concatenate([softmax[task.query[n], tokens] for n, tokens in enumerate(task.distinct_tokens)])
    recall = [(values > cut / task.vocab).mean() for cut in run["threshold"].values]
    near = [np.abs(values * task.vocab - cut).min() < 1e-4 for cut in run["threshold"].values]
    assert np.abs(run["recall"].values - recall)[~np.array(near)].max() < 1e-12


def test_fig6_axes_and_start():
    run = fig6(**{**QUICK, "steps": 0})
    assert run["entropy"].dims == ("queries", "eta_z", "ratio", "seed")
    assert run["queries"].values.tolist() == [1, 2]
    weights = np.linspace(0.1, 1, 10) / 5.5
    from_zero = experiments.syn_medium((2,), (1.0,), (1.0,), 1, steps=0, start="zero")["entropy"]
    assert float(from_zero.squeeze()) == pytest.approx(-(weights * np.log(weights)).sum(), abs=1e-12)
    assert run["entropy"].std(["eta_z", "ratio"]).max() < 1e-12  # nothing has been learned yet
    assert run["entropy"].std("seed").min() > 0  # every seed has its own start


def test_seeds_may_be_named():
    run = fig6(**{**QUICK, "queries": (1,), "seeds": 3})
    named = fig6(**{**QUICK, "queries": (1,), "seeds": [3]})
    assert np.array_equal(run["entropy"].sel(seed=[3]), named["entropy"])


def test_fig4_starts_where_the_published_runs_start():
    run = fig4(seeds=2, steps=3)
    start = run.isel(time=0)
    assert start["mass"].values == pytest.approx(5.5 / 15.5)  # .355
    assert start["top"].values == pytest.approx(1 / 15.5)  # .0645
    assert start["entropy"].values == pytest.approx(2.1513, abs=5e-5)
    assert run["attention"].sum("token").values == pytest.approx(1)
    assert run["time"].size == 4
    last = run.isel(time=-1)
    own = last["attention"].sel({"class": 2, "token": range(20, 30)})
    share = own / own.sum("token")
    assert last["mass"].sel({"class": 2}).values == pytest.approx(own.sum("token").values)
    assert last["top"].sel({"class": 2}).values == pytest.approx(own.max("token").values)
    assert last["entropy"].sel({"class": 2}).values == pytest.approx(-(share * np.log(share)).sum("token").values)


@pytest.mark.parametrize("chosen", [1, 4, 10])
def test_fig5_overlap_is_that_of_the_top_tokens(chosen):
    run = fig5(rate=(0.1, 0.7), seeds=2, steps=10, chosen=chosen)
    for seed, n in itertools.product((1, 2), (1, 2)):
        own = run["attention"].isel(time=-1).sel({"seed": seed, "class": n, "token": range(10 * n, 10 * n + 10)})
        tops = [set(np.argsort(own.sel(rate=rate).values)[-chosen:].tolist()) for rate in (0.1, 0.7)]
        overlap = run["overlap"].sel({"pair": "0.1 and 0.7", "seed": seed, "class": n})
        assert float(overlap) == pytest.approx(len(tops[0] & tops[1]) / chosen)


def test_fig3_and_fig9_are_theorem_4_from_the_data_and_the_flow_of_training():
    """Fig 3 and Fig 9: χ by Theorems 3 and 4 with C0 from the data, printed and corrected, and by the flow."""
    P = shared_token_classes(10, 1000, common=0.2)
    run = fig3(eta_y=(0.1, 1.0), until=4000.0)
    panels = [note.text for note in figures.fig3(run).layout.annotations]
    assert panels == ["Theorem 4 as printed", "Theorem 4 with all corrections", "flow of training"]
    curves = run["growth_factor"].sel(eta_y=0.1).isel(time=-1)
    assert float(curves.sel(formula="as printed")) == pytest.approx(34.27, rel=1e-3)
    assert float(curves.sel(formula="with all corrections")) == pytest.approx(1.280, abs=1e-3)
    assert float(curves.sel(formula="flow of training")) == pytest.approx(1.0070, abs=1e-4)
    fixed = fig9(eta_z=(0.2, 0.4), ratio=2.0, until=400.0)
    assert float(fixed["logit_at_snap"].std("eta_z").max()) < 1e-7
    assert float(fixed["logit"].sel(formula="flow of training").isel(time=0).max()) == 0
    t0 = float(fixed["snap_time"].sel(eta_z=0.2))
    z = theory.predicted_logits(P, eta_y=0.4, eta_z=0.2, times=[t0])[0, 1]
    assert float(fixed["logit_at_snap"].sel(eta_z=0.2, formula="flow of training")) == pytest.approx(z, rel=1e-6)


def test_the_map_compares_every_prediction_with_training():
    """With the rates of each class halved, the flow comes twice as near to training."""
    setting = {"overlap": (0.3,), "classes": (3,), "vocab": (30,), "ratio": (1.0, 100.0), "at": (1.0,)}
    errors = []
    for rate in (0.2, 0.1):
        run = training_map.run(**setting, rate=rate)
        assert run["predicted"].dims == ("overlap", "classes", "vocab", "ratio", "at", "prediction")
        factor = (run["predicted"] / run["trained"]).squeeze()
        errors.append(float(abs(factor.sel(prediction="flow") - 1).max()))
        assert float(factor.sel(prediction="flow without memory", ratio=1.0)) > 1.5
        assert float(factor.sel(prediction="flow without memory", ratio=100.0)) < 1.1
        assert float(factor.sel(prediction="Theorem 4").min()) > 1.5
    assert errors[0] / errors[1] == pytest.approx(2, abs=0.4)
    drawn = training_map.run(**{**setting, "ratio": (100.0,)}, rate=0.2, length=2000)
    assert float(drawn["trained"].squeeze()) == pytest.approx(float(drawn["predicted"][..., 0].squeeze()), rel=0.2)


def test_fig8_gap_stays_within_lemma_7():
    """Fig 8 and Lemma 7: 0 ≤ h* − h ≤ 2η_Y/M."""
    run = fig8(eta_y=(0.5, 1.0), vocab=100, steps=50)
    assert (run["gap"] >= -1e-15).all()
    assert (run["gap"] <= 2 * run["eta_y"] / 100).all()
    assert (run["h_discrete"].isel(time=1) == run["eta_y"] / 100).all()


def test_recall_curves_fall_and_their_area_is_above_one_over_M():
    """Fig 11 and Fig 12."""
    run = fig11(queries=(2,), ratio=(1.0, 5.0), seeds=1, steps=10)
    assert run["recall"].dims == ("queries", "ratio", "seed", "threshold")
    assert (run["recall"].isel(threshold=0) == 1).all()
    assert (run["recall"].diff("threshold") <= 0).all()
    flat = xr.DataArray(np.ones(41), dims="threshold", coords={"threshold": run["threshold"]})
    assert float(experiments.recall_area(flat)) == pytest.approx(3)
    assert fig12(queries=(2,), eta_z=(1.0,), seeds=1, steps=1)["area"].dims == ("queries", "eta_z", "seed")


def test_published_numbers():
    """Fig 4 and Fig 6: some of the published cells, and how many there are."""
    fig_6, fig_4 = published_fig6(), published_fig4()
    assert int(fig_6["entropy"].notnull().sum()) == 36
    assert float(fig_6["entropy"].sel(queries=5, eta_z=3.0, ratio=2.0)) == 1.718
    assert float(fig_6["entropy_std"].sel(queries=1, eta_z=3.0, ratio=10.0)) == 0.331
    assert float(fig_4["top"].sel({"eta_y": 1.0, "class": 2})) == 0.1577


@pytest.mark.parametrize("name", figures.FIGURES)
def test_every_figure_is_drawn_with_named_axes(name, fast):
    figure = papers.figure_of(f"scan_snap/{name}")(fast[name])
    assert not name.startswith("fig") or figure.layout.title.text.startswith(name.replace("fig", "Fig "))
    named = [axis.title.text for axis in (*figure.select_xaxes(), *figure.select_yaxes()) if axis.title.text]
    assert len(named) >= 2
    assert all(len(trace.x) for trace in figure.data)


def test_figures_name_every_experiment():
    assert set(figures.FIGURES) == set(BY_NAME)


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("run", "arguments", "words"),
    [
        (fig6, {"queries": ()}, "queries must name at least one"),
        (fig6, {"queries": (0,)}, "queries must be a whole number of at least 1; got 0"),
        (fig6, {"eta_z": (1, 1)}, "eta_z must not name a value twice"),
        (fig6, {"eta_z": ()}, "eta_z must be a list of numbers"),
        (fig6, {"ratio": (-1.0,)}, "finite number above 0"),
        (fig6, {"seeds": 0}, "seeds must be at least 1"),
        (fig6, {"steps": -1}, "steps must be a whole number of at least 0"),
        (fig5, {"optimizer": "lion"}, "no optimizer 'lion'"),
        (fig5, {"chosen": 11}, "chosen must be between 1 and 10"),
        (fig8, {"steps": 0}, "steps must be at least 1"),
        (fig3, {"eta_y": (0.0,)}, "eta_y"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(run, arguments, words):
    with pytest.raises(InputError, match=words):
        run(**arguments)


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("name", "argument", "text", "value"),
    [
        ("fig3", "vocab", "3", 3),
        ("fig3", "until", "0", 0.0),
        ("fig3", "common", "1", 1.0),
        ("fig3", "classes", "1", 1),
        ("fig4", "eta_z", "0", 0.0),
        ("fig5", "rate", "0.5", (0.5,)),
        ("fig5", "optimizer", "lion", "lion"),
        ("fig5", "chosen", "11", 11),
        ("fig6", "queries", "1,0", (1, 0)),
        ("fig6", "ratio", "1,-2", (1.0, -2.0)),
        ("fig6", "steps", "-1", -1),
        ("fig8", "vocab", "1", 1),
        ("fig8", "steps", "0", 0),
        ("fig9", "ratio", "0", 0.0),
    ],
)
def test_the_command_line_refuses_what_the_function_refuses(name, argument, text, value):
    experiment = BY_NAME[name]
    with pytest.raises(InputError, match=argument):
        experiment.parameters()[argument].read(text)
    with pytest.raises(InputError):
        experiment.run(**{**experiment.arguments("fast"), argument: value})
