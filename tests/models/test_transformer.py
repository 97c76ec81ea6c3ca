"""The batched transformer against the ordinary module, gradients included, for every option; and the baselines."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from foretrain.core.errors import InputError
from foretrain.models.parameters import stacked
from foretrain.models.sequence_baselines import LSTM, MLP, MLP_XX, RNN, BaselineRuns
from foretrain.models.stacked.transformer_runs import LastLayerRuns, TransformerRuns
from foretrain.models.transformer import Attention, Transformer, TransformerShape

SMALL = {"tokens": 20, "length": 3, "heads": 3, "embedding": 8, "head": 5, "mlp": 7}
OPTIONS = [
    {},
    {"depth": 1},
    {"depth": 3},
    {"norm": "post"},
    {"readout": "last", "output": "token", "tied": True, "score_scale": 0.3},
    {"readout": "last", "output": "token"},
    {"residual": False, "mlp": 0},
    {"positions": False},
    {"attention_multiplier": 3.0},
    {"scaling_multiplier": 3.0, "depth": 3},
]
IDENTITIES = [{}, {"identity_kq": True}, {"identity_vo": True}, {"identity_kq": True, "identity_vo": True}]


def moved(shape: TransformerShape, runs: int) -> list[Transformer]:
    """Networks in float64 whose scalings and norms are not at their start, where mistakes would not show."""
    modules = [Transformer(shape, torch.Generator().manual_seed(seed)).double() for seed in range(runs)]
    for seed, module in enumerate(modules):
        draw = torch.Generator().manual_seed(100 + seed)
        for name, parameter in module.named_parameters():
            if name.endswith((".a", ".b", "norm.bias", "norm.weight")):
                parameter.data = torch.randn(parameter.shape, generator=draw, dtype=torch.float64)
    return modules


@pytest.mark.parametrize("identities", IDENTITIES, ids=str)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_runs_equal_the_module_with_gradients(options, identities):
    shape = TransformerShape(**{**SMALL, **identities, **options})
    modules = moved(shape, 2)
    p = {name: value.requires_grad_() for name, value in stacked([module.state_dict() for module in modules]).items()}
    strings = torch.randint(20, (2, 6, 3), generator=torch.Generator().manual_seed(0))
    model = TransformerRuns(shape)
    outputs = model.outputs(p, model.prepare(strings))
    weights = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    gradients = torch.autograd.grad((outputs * weights).sum(), list(p.values()), materialize_grads=True)
    for run, module in enumerate(modules):
        wanted = module(strings[run])
        torch.testing.assert_close(outputs[run], wanted, rtol=1e-10, atol=1e-10)
        own = torch.autograd.grad((wanted * weights[run]).sum(), list(module.parameters()), materialize_grads=True)
        for name, ours, theirs in zip(p, gradients, own, strict=True):
            torch.testing.assert_close(ours[run], theirs, rtol=1e-9, atol=1e-9, msg=name)


@pytest.mark.parametrize("options", [{}, {"norm": "post"}, {"identity_kq": True, "identity_vo": True}], ids=str)
@pytest.mark.parametrize(
    ("strings", "slots"),
    [
        ([[0, 1, 2], [0, 3, 2], [0, 1, 2]], 1),
        ([[4, 5, 6]], 1),
        ([[5, 5, 5]], 1),
        ([[0, 1, 2], [1, 2, 0], [5, 6, 7]], 3),
        ([[0, 1, 0], [1, 2, 2], [5, 5, 5]], 2),
    ],
    ids=["fixed places", "one string", "one token", "none fixed", "tokens repeat"],
)
def test_first_layer_by_the_distinct_tokens_of_each_string(strings, slots, options):
    shape = TransformerShape(**SMALL, **options)
    modules = moved(shape, 2)
    p = {name: value.requires_grad_() for name, value in stacked([module.state_dict() for module in modules]).items()}
    both = torch.stack([torch.tensor(strings), 8 + torch.tensor(strings)])  # fixed tokens differ between runs
    model = TransformerRuns(shape)
    rows = model.prepare(both)
    assert rows.slot_part.shape[2] == slots
    outputs = model.outputs(p, rows)
    gradients = torch.autograd.grad(outputs.square().sum(), list(p.values()), materialize_grads=True)
    for run, module in enumerate(modules):
        wanted = module(both[run])
        torch.testing.assert_close(outputs[run], wanted, rtol=1e-10, atol=1e-10)
        own = torch.autograd.grad(wanted.square().sum(), list(module.parameters()), materialize_grads=True)
        for name, ours, theirs in zip(p, gradients, own, strict=True):
            torch.testing.assert_close(ours[run], theirs, rtol=1e-9, atol=1e-9, msg=name)


@pytest.mark.parametrize("identities", IDENTITIES, ids=str)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_shape_knows_how_many_parameters_there_are(options, identities):
    shape = TransformerShape(**{**SMALL, **identities, **options})
    assert shape.parameters == sum(value.numel() for value in Transformer(shape).parameters())


@pytest.mark.parametrize("token", [-1, SMALL["tokens"]])
def test_tokens_that_the_network_does_not_know_are_refused(token):
    model = TransformerRuns(TransformerShape(**SMALL))
    with pytest.raises(InputError, match=f"contain token {token}; the network knows 0 to {SMALL['tokens'] - 1}"):
        model.prepare(torch.tensor([[[0, 1, token]]]))
    with pytest.raises(IndexError):
        Transformer(TransformerShape(**SMALL))(torch.tensor([[0, 1, token]]))


def test_strings_of_another_length_are_refused():
    with pytest.raises(InputError, match="Strings have 4 tokens; the network reads 3"):
        Transformer(TransformerShape(**SMALL))(torch.zeros(2, 4, dtype=torch.int64))


@pytest.mark.parametrize("identities", IDENTITIES, ids=str)
def test_attention_is_its_formula_head_by_head(identities):
    shape = TransformerShape(**SMALL, **identities, attention_multiplier=2.0, scaling_multiplier=3.0)
    attention = Attention(shape, torch.Generator().manual_seed(0)).double()
    draw = np.random.default_rng(0)
    a, b = (draw.normal(size=3) if name in identities else np.zeros(3) for name in ("identity_kq", "identity_vo"))
    for name, value in zip(("a", "b"), (a, b), strict=True):
        if hasattr(attention, name):
            getattr(attention, name).data = torch.from_numpy(value)
    x = draw.normal(size=(4, 8))
    wanted = np.zeros((4, 8))
    for head in range(3):
        own = slice(5 * head, 5 * head + 5)
        query, key, value = (getattr(attention, name).detach().numpy()[:, own] for name in ("query", "key", "value"))
        logits = x @ (2 / np.sqrt(5) * query @ key.T + 3 * a[head] * np.eye(8)) @ x.T
        weights = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        wanted += weights @ x @ (value @ attention.out.detach().numpy()[own] + 3 * b[head] * np.eye(8))
    assert {name for name in ("a", "b") if hasattr(attention, name)} == {
        {"identity_kq": "a", "identity_vo": "b"}[name] for name in identities
    }
    np.testing.assert_allclose(attention(torch.from_numpy(x)[None])[0].detach().numpy(), wanted, atol=1e-12)


def test_scalings_at_0_change_nothing_and_a_adds_the_products_of_normed_rows():
    plain = Transformer(TransformerShape(**SMALL), torch.Generator().manual_seed(1))
    scaled = Transformer(
        TransformerShape(**SMALL, identity_kq=True, identity_vo=True), torch.Generator().manual_seed(1)
    )
    strings = torch.randint(20, (5, 3), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(scaled(strings), plain(strings))
    x = torch.randn(2, 4, 8, generator=torch.Generator().manual_seed(2))
    attention = scaled.blocks[0].attention
    with torch.no_grad():
        attention.a[:] = 50.0  # every row then attends to itself, or to the row with the largest product
        attention.b[:] = 1.0
        attention.out[:] = 0.0
        attended = (x @ x.mT).argmax(-1)
        copied = torch.stack([one[rows] for one, rows in zip(x, attended, strict=True)])
        torch.testing.assert_close(attention(x), 3 * copied, rtol=1e-3, atol=1e-3)


def test_selected_samples_and_runs_keep_their_outputs():
    shape = TransformerShape(**SMALL)
    model = TransformerRuns(shape)
    p = model.start([("test", seed) for seed in range(3)])
    strings = torch.randint(20, (3, 8, 3), generator=torch.Generator().manual_seed(0))
    rows = model.prepare(strings)
    whole = model.outputs(p, rows)
    chosen = torch.tensor([[3, 1], [0, 7], [2, 2]])
    torch.testing.assert_close(model.outputs(p, rows.select_samples(chosen)), whole.gather(1, chosen))
    kept = torch.tensor([2, 0])
    torch.testing.assert_close(
        model.outputs({name: value[kept] for name, value in p.items()}, rows.select_runs(kept)), whole[kept]
    )


def test_the_last_layer_alone_reads_the_same_features():
    shape = TransformerShape(**SMALL)
    whole, last = TransformerRuns(shape), LastLayerRuns(shape)
    p = whole.start([("test", 3)])
    strings = torch.randint(20, (1, 9, 3), generator=torch.Generator().manual_seed(0))
    last.strings_at_once = 4
    torch.testing.assert_close(last.outputs(p, last.prepare(strings, p)), whole.outputs(p, whole.prepare(strings)))
    with pytest.raises(InputError, match="tied"):
        LastLayerRuns(TransformerShape(**SMALL, output="token", tied=True, readout="last"))


@pytest.mark.parametrize(("kind", "module"), [(RNN, nn.RNN), (LSTM, nn.LSTM)])
def test_recurrent_baselines_equal_torch(kind, module):
    model = BaselineRuns(kind, tokens=9, length=4, embedding=5, hidden=6)
    p = model.start([("test", seed) for seed in range(2)])
    strings = torch.randint(9, (2, 7, 4), generator=torch.Generator().manual_seed(0))
    outputs = model.outputs(p, model.prepare(strings))
    for run in range(2):
        net = module(5, 6, num_layers=2, batch_first=True)
        with torch.no_grad():
            for layer in range(2):
                getattr(net, f"weight_ih_l{layer}").copy_(p[f"in_{layer}"][run].T)
                getattr(net, f"weight_hh_l{layer}").copy_(p[f"again_{layer}"][run].T)
                getattr(net, f"bias_ih_l{layer}").copy_(p[f"bias_{layer}"][run])
                getattr(net, f"bias_hh_l{layer}").zero_()
            states = net(p["tokens"][run][strings[run]])[0][:, -1]
            wanted = (states @ p["read"][run] + p["read_bias"][run])[:, 0]
        torch.testing.assert_close(outputs[run], wanted)


@pytest.mark.parametrize("kind", [MLP, MLP_XX])
def test_connected_baselines_equal_their_formula_sample_by_sample(kind):
    model = BaselineRuns(kind, tokens=9, length=3, hidden=6)
    p = {name: value.double() for name, value in model.start([("test", 0), ("test", 1)]).items()}
    strings = torch.randint(9, (2, 7, 3), generator=torch.Generator().manual_seed(0))
    outputs = model.outputs(p, model.prepare(strings)).numpy()
    cut = 0  # entries that the rectification sets to 0
    for run in range(2):
        own = {name: value[run].numpy() for name, value in p.items()}
        for sample in range(7):
            x = np.eye(9)[strings[run, sample].numpy()]
            related = [x[i] @ x[j] for i in range(3) for j in range(3)] if kind == MLP_XX else []
            hidden = np.array([*x.ravel(), *related]) @ own["in"] + own["bias"]
            cut += (hidden < 0).sum()
            wanted = np.maximum(hidden, 0) @ own["read"][:, 0] + own["read_bias"][0]
            assert outputs[run, sample] == pytest.approx(wanted, rel=1e-12)
    assert cut > 0


@pytest.mark.parametrize("kind", [MLP, MLP_XX, RNN, LSTM])
def test_baselines_begin_within_the_bounds_of_torch(kind):
    model = BaselineRuns(kind, tokens=50, length=4, embedding=30, hidden=40)
    p = model.start([("test", 0)])
    assert model.parameters == sum(value[0].numel() for value in p.values())
    for name, value in p.items():
        if name == "tokens":
            assert float(value.std()) == pytest.approx(1.0, abs=0.1)
            continue
        inputs = 4 * 50 + (16 if kind == MLP_XX else 0) if name in ("in", "bias") else 40
        assert float(value.abs().max()) <= inputs**-0.5
        if value.numel() > 100:
            assert float(value.abs().max()) >= 0.95 * inputs**-0.5


@pytest.mark.parametrize("kind", [MLP, RNN])
@pytest.mark.parametrize(("strings", "says"), [([[[0, 7]]], "token 7"), ([[[0, 1, 2]]], "network reads 2")])
def test_baselines_refuse_strings_that_do_not_fit(kind, strings, says):
    with pytest.raises(InputError, match=says):
        BaselineRuns(kind, tokens=5, length=2).prepare(torch.tensor(strings))


@pytest.mark.parametrize("kind", [MLP, MLP_XX])
def test_only_relations_tell_strings_apart_when_tokens_are_not_read(kind):
    model = BaselineRuns(kind, tokens=6, length=2, hidden=8)
    p = model.start([("test", 1)])
    p["in"][:, : 2 * 6] = 0.0  # what is read of the tokens themselves
    same, different = model.outputs(p, model.prepare(torch.tensor([[[2, 2], [2, 3]]])))[0]
    assert bool(same != different) == (kind == MLP_XX)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"heads": 0}, "heads must be a whole number of at least 1; got 0"),
        ({"mlp": -1}, "mlp must be"),
        ({"attention_multiplier": float("nan")}, "attention_multiplier must be a finite number above 0"),
        ({"readout": "first"}, "no readout 'first'"),
        ({"tied": True}, "output"),
    ],
)
def test_refuses_shapes_that_cannot_be(change, sentence):
    with pytest.raises(InputError, match=sentence):
        TransformerShape(**{**SMALL, **change})


@pytest.mark.parametrize(("tokens", "length", "says"), [(19, 3, "token 19"), (20, 4, "reads 4")])
def test_strings_that_do_not_fit_are_refused(tokens, length, says):
    model = TransformerRuns(TransformerShape(**{**SMALL, "tokens": tokens, "length": length}))
    with pytest.raises(InputError, match=says):
        model.prepare(torch.tensor([[[0, 1, 19]]]))


@settings(max_examples=20, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 2), st.integers(1, 5), st.integers(1, 5)),
    alphabet=st.integers(1, 6),
    norm=st.sampled_from(["pre", "post"]),
    identities=st.sampled_from(IDENTITIES),
    seed=st.integers(0, 2**31),
)
def test_any_strings_give_the_numbers_of_the_module(shape, alphabet, norm, identities, seed):
    runs, _, length = shape
    options = TransformerShape(**{**SMALL, "length": length, "norm": norm, **identities})
    modules = moved(options, runs)
    strings = torch.randint(alphabet, shape, generator=torch.Generator().manual_seed(seed))
    model = TransformerRuns(options)
    outputs = model.outputs(stacked([module.state_dict() for module in modules]), model.prepare(strings))
    for ours, module, own in zip(outputs, modules, strings, strict=True):
        torch.testing.assert_close(ours, module(own), rtol=1e-10, atol=1e-10)
