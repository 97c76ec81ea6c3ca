"""Data and measures behind Table 1 and the order of section 5, against plain code and exact statistics."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from foretrain.core.errors import InputError
from foretrain.core.streams import stream
from foretrain.data.latent_tree import LatentTree
from foretrain.measures import mean_alignment
from foretrain.models.causal_transformer import CausalTransformer, LabelledSequences
from foretrain.papers.joma import theory
from foretrain.papers.joma.claims import order as order_claims
from foretrain.papers.joma.claims import table1 as table1_claims
from foretrain.papers.joma.experiments import order, rank, table1
from foretrain.papers.joma.setting import TABLE1, OrderModel, Table1Data


def test_all_configurations_of_the_table_are_there():
    """Table 1: every combination of C, N_ch and (N_0, N_1)."""
    data = [Table1Data.named(name) for name in TABLE1]
    assert {(d.classes, d.children, d.latents) for d in data} == {
        (classes, children, latents)
        for classes in (20, 30, 50)
        for children in (2, 3)
        for latents in ((10, 20), (20, 30))
    }
    with pytest.raises(InputError, match="C20-ch2-10-20"):
        Table1Data.named("20/2")


@pytest.mark.parametrize("name", ["C20-ch2-10-20", "C20-ch3-20-30"])
def test_a_batch_of_set_unions_is_every_class_once(name):
    task = table1.SetUnionTask(Table1Data.named(name))
    draw = stream("test", 1)
    batch, latents = task.evaluation(draw)
    assert batch.labels.tolist() == list(range(20))
    again = task.sample(128, draw)
    assert torch.equal(again.tokens, batch.tokens)  # drawn once, the same ever after
    assert (128 * again.weights).round().sum() == 128
    hierarchy = task.hierarchy(draw)
    for label in range(20):
        on = set(hierarchy.members[2][label])
        below = set().union(*(hierarchy.members[1][k] for k in on))
        tokens = set().union(*(hierarchy.members[0][k] for k in below))
        assert set(np.flatnonzero(latents[1][label])) == on
        assert set(np.flatnonzero(latents[0][label])) == below
        assert set(batch.tokens[label].tolist()) - {table1.VOCAB - 1} == tokens
        pads = batch.tokens[label] == table1.VOCAB - 1
        weight = torch.exp(batch.key_bias[label][pads]).sum().item()
        assert weight == pytest.approx(table1.LENGTH - len(tokens), rel=1e-5)


def test_shuffled_labels_are_given_out_anew():
    task = table1.SetUnionTask(Table1Data.named("C20-ch2-10-20"), shuffled=True)
    draw = stream("test", 1)
    first, second = (task.sample(128, draw).labels for _ in range(2))
    assert sorted(first.tolist()) == list(range(20))
    assert not torch.equal(first, second)


def test_latent_tree_data_follows_its_tree():
    """Share of samples in which each latent is on, by class, against the exact probabilities."""
    task = table1.LatentTreeTask(Table1Data.named("C20-ch2-10-20"))
    draw = stream("test", 2)
    tree = task.tree(draw)
    drawn = tree.sample(20000, draw)
    assert tree.vocab == 80
    top = np.stack([drawn.values[drawn.classes == c][:, tree.top].mean(0) for c in range(20)], axis=1)
    assert np.abs(top - (1 - tree.p_zero)).max() < 5 * 0.5 / np.sqrt(900)
    assert set(np.round(tree.p_zero, 6).ravel()) == {0.05, 0.95}
    assert ((tree.p_zero < 0.5).sum(axis=0) == 2).all()
    batch, latents = task.evaluation(draw)
    assert [part.shape[1] for part in latents] == [40, 20]
    assert batch.tokens.shape == (table1.EVALUATED, table1.LENGTH)
    for row in batch.tokens.numpy():
        real = row[row < table1.VOCAB - 1]
        assert (np.diff(real) > 0).all()


def test_alignment_column_equals_a_network_evaluated_by_hand():
    """Table 1: NCorr of the untrained network."""
    run = table1.align("C20-ch2-10-20", "set union", (7,), steps=1, width=16, hidden=400)
    experiment = "joma/table1/set union"
    task = table1.SetUnionTask(Table1Data.named("C20-ch2-10-20"))
    batch, latents = task.evaluation(stream(experiment, 7, "data"))
    model = CausalTransformer(vocab=100, classes=20, width=16, hidden=400)
    hidden = model.forward(model.start([(experiment, 7, "start")]), LabelledSequences.stack([batch]))[1]
    for s in range(2):
        best = mean_alignment(latents[s][None], hidden[s].amax(-2))
        assert float(run["ncorr"].isel(time=0, seed=0, s=s)) == pytest.approx(best.item(), abs=1e-6)


def test_chance_is_the_best_of_as_many_normal_nodes():
    """On 256 samples a correlation with noise is normal of variance 1/255: the mean of the largest of 400 is known."""
    run = table1.align("C20-ch2-10-20", "HBLT", (1, 2), steps=1, width=4, hidden=400, batch=4)
    x = np.linspace(-6, 8, 20001)
    largest = np.trapezoid(x * np.gradient(norm.cdf(x) ** 400, x), x) / np.sqrt(table1.EVALUATED - 1)
    assert run["chance"].shape == (2, 2)
    # the largest varies by .025 from latent to latent, of which there are 40 and 20
    np.testing.assert_allclose(run["chance"], largest, atol=4 * 0.025 / 20**0.5)


def test_strings_of_a_tree_hold_the_tokens_that_occur():
    """With N_ch = 3 half of the samples have more than 33 tokens; no token is left out more than others."""
    task = table1.LatentTreeTask(Table1Data.named("C20-ch3-10-20"))
    draw = stream("test", 5)
    present = task.tree(draw).sample(2000, draw).token_sets
    kept = task._fitting(present, draw)
    assert present.sum(axis=1).max() > table1.LENGTH
    assert 1 - kept.sum() / present.sum() < 1e-3
    task.positions = 20
    kept = task._fitting(present, draw)
    np.testing.assert_array_equal(kept.sum(axis=1), np.minimum(present.sum(axis=1), 20))
    assert not (kept & ~present).any()
    early, late = (kept[:, part].sum() / present[:, part].sum() for part in (slice(0, 33), slice(66, 99)))
    assert early == pytest.approx(late, abs=0.02)


def test_gain_of_training_is_paired_by_seed_and_averaged_over_configurations():
    names, small = ("C20-ch2-10-20", "C20-ch3-10-20"), {"steps": 3, "width": 8, "hidden": 16}
    gain = table1_claims._gain(s=1, seeds=3, configurations=names, **small)
    np.testing.assert_allclose(gain["overall"].mean(), gain["gain"].mean(), atol=1e-12)
    runs = [table1.align(name, seeds=(1, 2, 3), **small)["ncorr"].sel(s=1).transpose("seed", "time") for name in names]
    pairs = np.array([run.values[:, -1] - run.values[:, 0] for run in runs])  # [configuration, seed]
    overall = pairs.mean(axis=0)
    np.testing.assert_allclose(gain["overall"], overall, atol=1e-12)
    np.testing.assert_allclose(gain["gain"], pairs.mean(axis=1), atol=1e-12)
    ends = [run.values[:, [0, -1]].mean(axis=0) for run in runs]
    np.testing.assert_allclose(gain["share_untrained"], [first / last for first, last in ends], atol=1e-12)


def test_every_cell_is_compared_with_the_one_printed_for_it():
    """Table 1: the printed means, with the rounding to two digits added to their spread."""
    printed = table1_claims._table(("C50-ch3-20-30",), seeds=5, steps=1, hidden=400)
    assert printed["ncorr"].values.tolist() == [[0.95, 0.61]]
    # ± .04 over five seeds, and .61 may have been anything from .605 to .615
    error = float(printed["ncorr_std"].sel(s=1)[0] / np.sqrt(printed["ncorr_seeds"]))
    assert error == pytest.approx(np.sqrt(0.04**2 / 5 + 0.01**2 / 12), rel=1e-12)


@settings(max_examples=5)
@given(rho=st.floats(0.3, 0.95), p_zero=st.floats(0.2, 0.95), salience=st.floats(0.5, 3.5))
def test_flow_follows_the_closed_forms(rho, p_zero, salience):
    """Theorem 4 and Theorem 5: half-way times of the flow with targets from co-occurrence."""
    run = order.order_flow(rho, 4, p_zero, salience, until=25.0)
    mu = salience * theory.cooccurrence(rho, 4, run["ancestor"].values, p_zero)
    np.testing.assert_allclose(run["half_time"], theory.salient_time(mu, 1 - 2**-0.5), rtol=2e-3)
    assert float(run["rank_correlation"]) == pytest.approx(1.0)


def test_matched_sequences_have_what_their_label_says():
    tree = LatentTree.regular(3, [2, 2, 2], 0.9, classes=2, p_zero=np.array([[0.1, 0.9], [0.9, 0.1]]))
    task = order.TreeSequences(tree, "match", 6)
    batch, values = task.with_latents(4000, stream("test", 3))
    present = values[:, tree.tokens]
    context, query, labels = batch.tokens[:, :-1].numpy(), batch.tokens[:, -1].numpy(), batch.labels.numpy()
    real = query < tree.vocab
    assert not (context == query[:, None])[real].any()
    rows = np.arange(len(query))
    for row in rows[:200]:
        tokens = context[row][context[row] < tree.vocab]
        assert present[row, tokens].all()
    assert present[rows[real & (labels == 1)], query[real & (labels == 1)]].all()
    # a query from another draw occurs here as often as tokens do at all, weighted by how often each is the query
    other = real & (labels == 0)
    chance = tree.marginals()[tree.tokens][query[other]].mean()
    share = present[rows[other], query[other]].mean()
    assert share == pytest.approx(chance, abs=4 * 0.5 / np.sqrt(other.sum()))


def test_lag_and_order_of_the_transformer_by_hand(monkeypatch):
    """Two seeds, three layers below the root; what never happens counts at the end, the root does not count."""
    times = np.array([[10.0, 30.0, 50.0, 1.0], [20.0, np.nan, 80.0, np.nan]])
    logits = xr.zeros_like(xr.DataArray(times, dims=("seed", "ancestor"))).expand_dims(time=2)
    run = xr.Dataset({"attended_time": (("seed", "ancestor"), times), "logits": logits}, {"ancestor": [1, 2, 3, 4]})
    monkeypatch.setattr(order_claims, "_run", lambda *setting: run)
    timed = order_claims._training(rho=0.9, seeds=2, depth=4, rate=1e-3, steps=100)
    np.testing.assert_allclose(timed["lag"], [20.0, 30.0])  # (50 − 10)/2 and (80 − 20)/2
    np.testing.assert_allclose(timed["lead"], -timed["lag"])
    assert float(timed["order"]) == pytest.approx(3**0.5 / 2)  # mean times 15, 65 and 65: two alike
    np.testing.assert_allclose(timed["times"][1], [20, 100, 80])


def test_layers_in_turn_leave_the_upper_one_as_it_was():
    sizes = {"vocab": 5, "classes": 2, "layers": 2, "width": 4, "hidden": 3}
    model = order.LayersInTurn(1, **sizes)
    start = model.start([("test", 1, "start")])
    tokens = torch.tensor([[[0, 1, 2], [3, 4, 0]]])
    batch = LabelledSequences(tokens, torch.tensor([[0, 1]]), torch.zeros(1, 2, 3))
    first, second = (model.gradient(start, batch) for _ in range(2))
    assert all(not value.any() for name, value in first.items() if name.endswith("_1"))
    assert first["upper_bias_0"].any()
    assert second["upper_bias_1"].any()
    assert not start["lower_0"].any()


def test_logits_by_ancestor_average_the_right_pairs():
    """The mean logit by common ancestor, from the first layer's matrices in plain loops."""
    setting = OrderModel(tops=2, depth=3, width=8, hidden=4)
    run = order.order_training(0.9, "class", (1,), 1, setting)
    tree = LatentTree.regular(3, [2, 2, 2], 0.9, classes=2)
    model = CausalTransformer(vocab=9, classes=2, layers=2, width=8, hidden=4)
    p = model.start([("joma/order/class", 1, "start")])
    q, k, _ = (p["embed"][0] @ p["qkv_0"][0]).split(8, dim=1)
    z = (q @ k.T / 8**0.5)[:8, :8]
    z = (z - z.mean(1, keepdim=True)).numpy()
    tokens = tree.tokens
    for layer in (1, 2, 3):
        pairs = [
            z[a, b]
            for a in range(8)
            for b in range(8)
            if a != b and tree.common_ancestor_layer(*tokens[[a, b]]) == layer
        ]
        mean = float(run["logits"].sel(ancestor=layer).isel(seed=0, time=0))
        assert mean == pytest.approx(np.mean(pairs), abs=1e-6)


def test_two_columns_that_are_one_tree_are_trained_once():
    small = {"seeds": (1,), "steps": 1, "width": 4, "hidden": 4, "batch": 4}
    assert Table1Data.named("C20-ch3-10-20").as_tree(99) == Table1Data(20, 3, (33, 11))
    first, again = (table1.align(name, "HBLT", **small) for name in ("C20-ch3-10-20", "C20-ch3-20-30"))
    assert again is first


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: order.order(depth=1), "depth must be a whole number of at least 3; got 1"),
        (lambda: order.order_training(steps=0), "steps must be a whole number of at least 1; got 0"),
        (lambda: rank.rank(steps=0), "steps must be a whole number of at least 1; got 0"),
        (lambda: rank.rank(steps=1, transformer_steps=0), "steps must be a whole number of at least 1; got 0"),
        (lambda: table1.EXPERIMENTS[0].run(steps=0), "steps takes a whole number of at least 1; got 0"),
        (lambda: table1.align("C20-ch12-10-20", "HBLT"), "ask for N_ch of at most 4 and N_1 of at least N_ch"),
    ],
)
def test_sizes_that_show_nothing_are_refused(call, words):
    with pytest.raises(InputError, match=words):
        call()


@pytest.mark.usefixtures("as_users_run_it")
def test_unknown_names_are_refused():
    with pytest.raises(InputError, match="no objective 'guess'"):
        order.order_training(objective="guess")
    with pytest.raises(InputError, match="no generator 'trees'"):
        table1.align("C20-ch2-10-20", "trees")
