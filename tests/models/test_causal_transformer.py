"""The small causal transformer against torch's own modules, its short padding, and its run axes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from foretrain.core.errors import InputError
from foretrain.models.causal_transformer import CausalTransformer, LabelledSequences
from foretrain.models.parameters import start_keys
from foretrain.papers.joma.experiments.table1 import LENGTH, VOCAB, with_short_padding

SIZES = {"vocab": 11, "classes": 3, "layers": 2, "width": 8, "hidden": 12}


def some_batch(seeds: int = 2, samples: int = 4, length: int = 5) -> LabelledSequences:
    draw = torch.Generator().manual_seed(0)
    tokens = torch.randint(11, (seeds, samples, length), generator=draw)
    return LabelledSequences(tokens, torch.randint(3, (seeds, samples), generator=draw), torch.zeros(tokens.shape))


def reference_logits(parameters: dict[str, torch.Tensor], tokens: torch.Tensor, activation: str) -> torch.Tensor:
    """One run, sample by sample, through torch's functions."""
    d = SIZES["width"]
    out = []
    for sequence in tokens:
        x = parameters["embed"][sequence]
        for layer in range(SIZES["layers"]):
            q, k, v = (x @ parameters[f"qkv_{layer}"]).split(d, dim=1)
            mask = torch.ones(len(sequence), len(sequence)).tril().log()
            x = x + torch.softmax(q @ k.T / d**0.5 + mask, dim=1) @ v
            x = nn.functional.layer_norm(
                x, (d,), parameters[f"first_scale_{layer}"], parameters[f"first_shift_{layer}"]
            )
            h = x @ parameters[f"lower_{layer}"] + parameters[f"lower_bias_{layer}"]
            h = torch.relu(h) if activation == "relu" else h
            x = x + h @ parameters[f"upper_{layer}"] + parameters[f"upper_bias_{layer}"]
            x = nn.functional.layer_norm(
                x, (d,), parameters[f"second_scale_{layer}"], parameters[f"second_shift_{layer}"]
            )
        out.append(x[-1] @ parameters["read"] + parameters["read_bias"])
    return torch.stack(out)


@pytest.mark.parametrize("activation", ["relu", "linear"])
def test_forward_and_gradient_equal_a_plain_network(activation):
    model = CausalTransformer(**SIZES, activation=activation)
    batch = some_batch()
    start = model.start(start_keys("test", [1, 2]))
    settings = {name: torch.stack([value, 1.1 * value]) for name, value in start.items()}  # [setting, seed, …]
    logits = model.forward(settings, batch)[0]
    short = model.forward(settings, batch, last_only=True)[0]
    gradient = model.gradient(settings, batch)
    for setting in range(2):
        for seed in range(2):
            own = {name: value[setting, seed].clone().requires_grad_() for name, value in settings.items()}
            wanted = reference_logits(own, batch.tokens[seed], activation)
            assert torch.allclose(logits[setting, seed], wanted, atol=2e-5)
            assert torch.allclose(short[setting, seed], wanted, atol=2e-5)
            loss = nn.functional.cross_entropy(wanted, batch.labels[seed])
            assert torch.allclose(model.loss(settings, batch)[setting, seed], loss, atol=2e-5)
            for name, value in zip(own, torch.autograd.grad(loss, list(own.values())), strict=True):
                assert torch.allclose(gradient[name][setting, seed], value, atol=5e-5), name


def test_short_padding_gives_the_same_network_output():
    """One pad with ln n on its logit for n pads: exact, in every layer and for every number of pads."""
    model = CausalTransformer(vocab=VOCAB, classes=4, width=16, hidden=20)
    parameters = {name: value * 1.5 for name, value in model.start(start_keys("test", [3])).items()}
    draw = np.random.default_rng(0)
    sequences = np.full((4, LENGTH), VOCAB - 1)
    for row, tokens in enumerate((1, 3, 6, 7)):
        sequences[row, -tokens:] = np.sort(draw.choice(VOCAB - 1, tokens, replace=False))
    long, short = (with_short_padding(sequences, np.arange(4), positions) for positions in (LENGTH, 8))
    assert short.tokens.shape == (4, 8)
    assert long.key_bias.abs().max() == 0
    outputs = [model.forward(parameters, LabelledSequences.stack([batch])) for batch in (long, short)]
    assert torch.allclose(outputs[0][0], outputs[1][0], atol=1e-5)
    for first, second in zip(outputs[0][1], outputs[1][1], strict=True):
        assert torch.allclose(first.amax(-2), second.amax(-2), atol=1e-5)


def test_weights_stand_for_equal_samples():
    model = CausalTransformer(**SIZES)
    parameters, batch = model.start(start_keys("test", [1, 2])), some_batch()
    counts = torch.tensor([[2, 0, 1, 3], [1, 1, 1, 3]])
    weighted = replace(batch, weights=counts / 6)
    rows = [torch.repeat_interleave(torch.arange(4), count) for count in counts]
    repeated = LabelledSequences.stack(
        [LabelledSequences(batch.tokens[s][r], batch.labels[s][r], batch.key_bias[s][r]) for s, r in enumerate(rows)]
    )
    assert torch.allclose(model.loss(parameters, weighted), model.loss(parameters, repeated), atol=1e-6)
    gradients = [model.gradient(parameters, b) for b in (weighted, repeated)]
    assert all(torch.allclose(gradients[0][name], gradients[1][name], atol=1e-6) for name in parameters)


def test_start_follows_the_seed_and_lower_start_scales_one_matrix():
    model, small = CausalTransformer(**SIZES), CausalTransformer(**SIZES, lower_start=0.1)
    together, alone, shrunk = (
        model.start(start_keys("test", [1, 2])),
        model.start(start_keys("test", [2])),
        small.start(start_keys("test", [2])),
    )
    for name in together:
        assert torch.equal(together[name][1], alone[name][0])
        factor = 0.1 if name.startswith("lower_") and "bias" not in name else 1.0
        assert torch.allclose(shrunk[name], factor * alone[name])


@pytest.mark.parametrize(
    ("bad", "words"), [({"layers": 0}, "layers must be"), ({"activation": "gelu"}, "no activation")]
)
def test_bad_input_is_refused(bad, words):
    with pytest.raises(InputError, match=words):
        CausalTransformer(**{**SIZES, **bad})
