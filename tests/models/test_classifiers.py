from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from foretrain.core.errors import InputError
from foretrain.models.classifiers import ARCHITECTURES, Classifier

VOCAB, WIDTH = 6, 8


def made(architecture: str, **kwargs) -> tuple[Classifier, dict[str, torch.Tensor]]:
    network = Classifier(architecture, VOCAB, WIDTH, **{"activation": "gelu", **kwargs})
    return network, network.start_one(("test", 3), torch.float64)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@given(data=st.data())
def test_padding_adds_nothing(architecture: str, data: st.DataObject) -> None:
    network, parameters = made(architecture, padded=data.draw(st.booleans()) and architecture == "cnn")
    text = data.draw(st.lists(st.integers(0, VOCAB - 1), min_size=2, max_size=5))
    pad = data.draw(st.integers(1, 4))
    alone = network.scores(parameters, torch.tensor([text]))
    padded = network.scores(parameters, torch.tensor([text + [-1] * pad]))
    torch.testing.assert_close(padded, alone, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_text_without_tokens_scores_nothing_and_moves_nothing(architecture: str) -> None:
    network, parameters = made(architecture)
    leaves = {name: p.requires_grad_() for name, p in parameters.items()}
    text = [1, 2, 3]
    scores = network.scores(leaves, torch.tensor([text, [-1] * 3]))
    torch.testing.assert_close(scores[0], network.scores(leaves, torch.tensor([text]))[0])
    assert scores[1].item() == 0
    found = torch.autograd.grad(scores[1].sum(), list(leaves.values()), retain_graph=True, materialize_grads=True)
    assert not any(g.any() for g in found)
    both = torch.autograd.grad(scores.sum(), list(leaves.values()), materialize_grads=True)
    assert all(torch.isfinite(g).all() for g in both)


@pytest.mark.parametrize("architecture", ["mlp", "sa"])
def test_order_does_not_matter_to_additive_networks(architecture: str) -> None:
    network, parameters = made(architecture)
    first = network.scores(parameters, torch.tensor([[0, 1, 2, 2]]))
    torch.testing.assert_close(first, network.scores(parameters, torch.tensor([[2, 0, 2, 1]])))


@pytest.mark.parametrize("architecture", ["cnn", "mv", "mv_diagonal", "rnn_token", "rnn_shared"])
def test_order_matters_to_the_others(architecture: str) -> None:
    network, parameters = made(architecture)
    first = network.scores(parameters, torch.tensor([[0, 1, 2, 2]]))
    assert not torch.allclose(first, network.scores(parameters, torch.tensor([[2, 0, 2, 1]])))


def test_mlp_is_the_sum_of_its_tokens_and_mv_of_its_bigrams() -> None:
    network, parameters = made("mlp")
    tokens = network.scores(parameters, torch.arange(VOCAB)[:, None])
    torch.testing.assert_close(network.scores(parameters, torch.tensor([[0, 3, 3]]))[0], tokens[0] + 2 * tokens[3])
    network, parameters = made("mv")
    pairs = network.scores(parameters, torch.tensor([[0, 3], [3, 5]]))
    torch.testing.assert_close(network.scores(parameters, torch.tensor([[0, 3, 5]]))[0], pairs.sum(0))


def test_a_padded_cnn_gives_a_single_token_one_window_per_place() -> None:
    network, p = made("cnn", padded=True, window=2)
    z = torch.stack([p["embedding"][4] @ p["weight"][k].mT for k in range(2)]) / WIDTH**0.5
    expected = (torch.nn.functional.gelu(z).sum(0) @ p["readout"].mT) / WIDTH**0.5
    torch.testing.assert_close(network.scores(p, torch.tensor([[4]]))[0], expected)


@pytest.mark.parametrize(
    ("kwargs", "sentence"),
    [
        ({"architecture": "transformer"}, "no architecture 'transformer'"),
        ({"activation": "relu6"}, "no activation 'relu6'"),
        ({"width": 0}, "width must be at least 1"),
    ],
)
def test_refusals(kwargs: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Classifier(**{"architecture": "mlp", "vocab": 3, "width": 4, **kwargs})
    network, parameters = made("cnn", window=3)
    with pytest.raises(InputError, match="longer than the text"):
        network.scores(parameters, torch.tensor([[1, 2]]))
