"""The empirical kernel of Hugging Face models and recurrent networks, against gradients formed one by one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor, nn

from foretrain.core.errors import InputError
from foretrain.kernels.empirical import empirical_ntk, ntk_product
from foretrain.kernels.layer_signals import layer_signals

WIDTHS = {"hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 6}
SMALL = {"vocab_size": 5, "max_position_embeddings": 8, **WIDTHS}


class Recurrent(nn.Module):
    """Embedding, a recurrent layer, and a linear layer on its last state."""

    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.embed, self.layer, self.read = nn.Embedding(5, 3), kind(3, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.read(self.layer(self.embed(tokens))[0][:, -1])


class ByName(nn.Module):
    """A layer that is given its input by name."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(input=x).tanh()


HUGGING_FACE = {
    "encoder": lambda: hf.BertForSequenceClassification(hf.BertConfig(**SMALL)),
    "decoder": lambda: hf.GPT2ForSequenceClassification(
        hf.GPT2Config(vocab_size=5, n_embd=4, n_layer=1, n_head=2, n_positions=8, pad_token_id=0, bos_token_id=1,
                      eos_token_id=1)),
    "tied decoder": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**SMALL, tie_word_embeddings=True)),
    "tied encoder": lambda: hf.BertForMaskedLM(hf.BertConfig(**SMALL)),
}  # fmt: skip


def gradients(module: nn.Module, rows: dict[str, Tensor] | Tensor) -> Tensor:
    """[row, output, parameter]: each row on its own, one backward pass per output."""
    flat = []
    count = len(rows["input_ids"]) if isinstance(rows, dict) else len(rows)
    for i in range(count):
        if isinstance(rows, dict):
            outputs = module(**{name: value[i : i + 1] for name, value in rows.items()}).logits.reshape(-1)
        else:
            outputs = module(rows[i : i + 1]).reshape(-1)
        for out in outputs:
            parts = torch.autograd.grad(out, list(module.parameters()), retain_graph=True, materialize_grads=True)
            flat.append(torch.cat([part.reshape(-1) for part in parts]))
    return torch.stack(flat).reshape(count, len(outputs), -1)


def padded_tokens() -> dict[str, Tensor]:
    mask = torch.tensor([[1, 1, 1], [1, 1, 0], [1, 0, 0]])
    return {"input_ids": torch.tensor([[3, 2, 4], [2, 3, 0], [4, 0, 0]]), "attention_mask": mask}


def check(module: nn.Module, rows: Any, first_two: Any) -> None:
    J = gradients(module, rows)
    expected = torch.einsum("xop,yqp->xyoq", J, J)
    torch.testing.assert_close(empirical_ntk(module, rows), expected)
    torch.testing.assert_close(empirical_ntk(module, rows, first_two, chunk=2), expected[:, :2])
    vector = torch.randn(2, J.shape[1], dtype=torch.float64)
    torch.testing.assert_close(
        ntk_product(module, rows, vector, first_two), torch.einsum("xyoq,yq->xo", expected[:, :2], vector)
    )


@pytest.mark.parametrize("name", HUGGING_FACE)
def test_hugging_face_models(name: str) -> None:
    """With masks, shared embeddings, and positions that all rows share."""
    torch.manual_seed(0)
    module, rows = HUGGING_FACE[name]().double().eval(), padded_tokens()
    check(module, rows, {key: value[:2] for key, value in rows.items()})


def test_the_mask_counts_and_a_tokenizers_own_dictionary_is_taken() -> None:
    torch.manual_seed(0)
    module, rows = HUGGING_FACE["encoder"]().double().eval(), padded_tokens()
    without = empirical_ntk(module, {"input_ids": rows["input_ids"]})
    with_mask = empirical_ntk(module, hf.BatchEncoding(rows))
    assert not torch.allclose(without[1, 1], with_mask[1, 1])
    torch.testing.assert_close(without[0, 0], with_mask[0, 0])  # no padding there


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_networks(kind: type[nn.RNNBase]) -> None:
    torch.manual_seed(0)
    tokens = torch.randint(0, 5, (3, 4))
    check(Recurrent(kind).double(), tokens, tokens[:2])


def test_encoders_need_jacobians_only_for_norms_and_positions() -> None:
    module = HUGGING_FACE["encoder"]().double().eval()
    left = {name for name, _ in module.named_parameters()} - set(layer_signals(module, padded_tokens()))
    assert all("LayerNorm" in name or "position" in name or "token_type" in name for name in left), left


def test_a_layer_with_its_input_given_by_name_goes_the_long_way() -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 3, dtype=torch.float64)
    check(ByName().double(), x, x[:2])


@pytest.mark.usefixtures("as_users_run_it")
def test_what_cannot_be_told_is_refused_in_a_sentence() -> None:
    rows = padded_tokens()
    encoder = HUGGING_FACE["encoder"]()
    with pytest.raises(InputError, match=r"in training mode.*call module\.eval\(\)"):
        empirical_ntk(encoder, rows)
    encoder.eval()
    with pytest.raises(InputError, match=r"without `logits`.*wrap it in a module that returns one tensor"):
        empirical_ntk(encoder.bert, rows)
    with pytest.raises(InputError, match="returns a tuple"):
        empirical_ntk(nn.LSTM(3, 2, batch_first=True), torch.randn(2, 4, 3))
    with pytest.raises(InputError, match="must return one row of outputs per row of inputs"):
        empirical_ntk(nn.Sequential(nn.Linear(2, 1), nn.Flatten(0)), torch.randn(2, 3, 2))
    with pytest.raises(InputError, match=r"x\['input_ids'\] must be a tensor.*return_tensors='pt'"):
        empirical_ntk(encoder, {"input_ids": [[1, 2], [3, 4]]})
    with pytest.raises(InputError, match="same number of rows"):
        empirical_ntk(encoder, {**rows, "attention_mask": rows["attention_mask"][:2]})
    with pytest.raises(InputError, match="x must be a tensor of rows, or a dictionary"):
        empirical_ntk(encoder, ["a text"])
    with pytest.raises(InputError, match="y must have at least one row"):
        empirical_ntk(nn.Linear(2, 1), torch.randn(3, 2), torch.randn(0, 2))
