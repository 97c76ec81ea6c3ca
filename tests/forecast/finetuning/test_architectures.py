"""Gradients of the architectures people use: equal to automatic differentiation, whatever their layers do."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor, nn

from foretrain.core.errors import InputError
from foretrain.forecast.finetuning import samples
from foretrain.forecast.finetuning.classifier import HeadedModel, from_module
from foretrain.forecast.finetuning.tangent import linearise, sampled
from foretrain.forecast.finetuning.texts import from_body, padded, tokenised

ALL = 10**9
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
ENDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
BODIES = {
    "bert": lambda: hf.BertModel(hf.BertConfig(vocab_size=50, max_position_embeddings=1100, **SMALL)),
    "distilbert": lambda: hf.DistilBertModel(
        hf.DistilBertConfig(vocab_size=50, dim=16, n_layers=2, n_heads=2, hidden_dim=24)
    ),
    "modernbert": lambda: hf.ModernBertModel(hf.ModernBertConfig(vocab_size=50, **SMALL, **ENDS)),
    "gpt2": lambda: hf.GPT2Model(hf.GPT2Config(vocab_size=50, n_embd=16, n_layer=2, n_head=2, n_positions=1025)),
    "gpt_neo": lambda: hf.GPTNeoModel(
        hf.GPTNeoConfig(
            vocab_size=50, hidden_size=16, num_layers=2, num_heads=2, attention_types=[[["global", "local"], 1]]
        )
    ),
    "opt": lambda: hf.OPTModel(
        hf.OPTConfig(
            vocab_size=50, word_embed_proj_dim=16, ffn_dim=24, hidden_size=16, num_hidden_layers=2,
            num_attention_heads=2, **ENDS,
        )
    ),
    "llama": lambda: hf.LlamaModel(hf.LlamaConfig(vocab_size=50, num_key_value_heads=1, **SMALL)),
    "gemma": lambda: hf.GemmaModel(
        hf.GemmaConfig(vocab_size=50, head_dim=8, num_key_value_heads=1, **SMALL, **ENDS)
    ),
    "t5": lambda: hf.T5Model(
        hf.T5Config(vocab_size=50, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2, decoder_start_token_id=0)
    ),
}  # fmt: skip
DECODERS = {"gpt2", "gpt_neo", "opt", "llama", "gemma"}


class Numbers:
    """A tokenizer of one's own: texts are numbers, separated by spaces."""

    pad_token_id = 0

    def __call__(self, text: str) -> list[int]:
        return [int(each) for each in text.split()]


def seeded(make: Any) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        body = make()
        with torch.no_grad():
            for parameter in body.parameters():  # so that norms and biases are not at 1 and 0
                parameter.add_(0.05 * torch.randn_like(parameter))
    return body.eval()


def texts(rows: int = 5) -> list[str]:
    random = torch.Generator().manual_seed(1)
    lengths = [7, 3, 5, 7, 2][:rows]
    return [" ".join(map(str, torch.randint(3, 50, (n,), generator=random).tolist())) for n in lengths]


def agrees(classifier: HeadedModel, monkeypatch: pytest.MonkeyPatch) -> Any:
    """All trained coordinates, compared with automatic differentiation row by row."""
    monkeypatch.setattr(samples, "EMBEDDING_COLUMNS", ALL)
    monkeypatch.setattr(samples, "QUARTER", ALL)
    tangent = linearise(classifier, coordinates=ALL)
    own = samples.trained_parameters(classifier.module)
    assert set(tangent.samples) == set(own)
    for row in range(len(classifier)):
        outputs = classifier(torch.tensor([row]))
        gradients = torch.autograd.grad(outputs[0, 0], list(own.values()), materialize_grads=True)
        exact = sampled(dict(zip(own, gradients, strict=True)), tangent.samples)
        size = float(exact.norm())
        assert float((tangent.jacobian[row, 0] - exact).norm()) < 2e-4 * size
        for name, gradient in zip(own, gradients, strict=True):  # no gradient lies outside the sample
            assert tangent.samples[name].of(gradient).norm() == pytest.approx(float(gradient.norm()), rel=1e-4)
    return tangent


@pytest.mark.parametrize("kind", BODIES)
def test_gradients_are_those_of_autograd(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    classifier = from_body(seeded(BODIES[kind]), Numbers(), texts(), 2)
    assert classifier.module.pool == ("last" if kind in DECODERS else "mean")
    tangent = agrees(classifier, monkeypatch)
    assert tangent.left_out == ()
    assert len(tangent.one_by_one) < len(tangent.samples) / 2  # most layers have a formula


class Odd(nn.Module):
    """Attention of torch, a parameter outside of any layer, and one weight in two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.factor = nn.Parameter(torch.full((8,), 1.3))
        self.up, self.down = nn.Linear(8, 20, bias=False), nn.Linear(20, 8)
        self.up.weight = self.words.weight
        self.head = nn.Linear(8, 3, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.head((self.down(torch.tanh(self.up(x))) * self.factor).mean(1))


def test_layers_without_a_formula_are_differentiated_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    module = seeded(Odd)
    module.down.bias.requires_grad_(False)  # frozen: neither trained nor followed
    classifier = from_module(module, torch.randint(0, 20, (6, 4), generator=torch.Generator().manual_seed(2)), 3)
    tangent = agrees(classifier, monkeypatch)
    assert {"factor", "words.weight"} <= set(tangent.one_by_one)
    assert any("attention" in name for name in tangent.one_by_one)
    assert "down.bias" not in tangent.samples


class Experts(nn.Module):
    """Every position goes to one of three experts."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.gate = nn.Linear(4, 8), nn.Linear(8, 3)
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.head = nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.up(x).flatten(0, 1)
        weights = self.gate(hidden).softmax(-1)
        mixed = torch.zeros_like(hidden)
        for k, expert in enumerate(self.experts):
            own = (weights.argmax(-1) == k).nonzero()[:, 0]
            if len(own):
                mixed = mixed.index_add(0, own, expert(hidden[own]) * weights[own, k : k + 1])
        return self.head(torch.tanh(mixed).view(*x.shape[:2], -1).mean(1))


class Columns(nn.Module):
    """A table: one category and some numbers per row."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds, self.body, self.head = nn.Embedding(7, 5), nn.Linear(8, 8), nn.Linear(8, 1)

    def forward(self, kind: Tensor, numbers: Tensor) -> Tensor:
        return self.head(torch.tanh(self.body(torch.cat([self.kinds(kind), numbers], -1))))


def images() -> nn.Module:
    layers = (nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 5, 3), nn.GroupNorm(1, 5), nn.Flatten())
    return nn.Sequential(*layers, nn.Linear(5 * 4 * 4, 1))


@pytest.mark.parametrize("kind", ["experts", "columns", "images"])
def test_rows_that_take_different_ways(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = torch.Generator().manual_seed(3)
    made: dict[str, tuple[Any, Any]] = {
        "experts": (Experts, 2 * torch.randn(40, 3, 4, generator=draw)),
        "columns": (
            Columns,
            {"kind": torch.randint(0, 7, (40,), generator=draw), "numbers": torch.randn(40, 3, generator=draw)},
        ),
        "images": (images, torch.randn(40, 1, 8, 8, generator=draw)),
    }
    module, inputs = made[kind]
    agrees(from_module(seeded(module), inputs, 2), monkeypatch)


def test_the_budget_of_coordinates_is_kept() -> None:
    classifier = from_body(seeded(BODIES["bert"]), Numbers(), texts(), 2)
    whole = sum(parameter.numel() for parameter in classifier.module.parameters())
    for budget in (400, 1000, 3000):
        assert whole > 2 * budget
        assert linearise(classifier, coordinates=budget).jacobian.shape[-1] < 1.3 * budget + 100


def test_the_model_of_the_user_is_not_touched() -> None:
    body = seeded(BODIES["bert"]).train()
    before = {name: value.clone() for name, value in body.state_dict().items()}
    tokenizer = Numbers()
    classifier = from_body(body, tokenizer, texts(), 2)
    linearise(classifier)
    assert body.training
    assert not classifier.module.training
    assert all(torch.equal(value, before[name]) for name, value in body.state_dict().items())
    assert all(parameter.grad is None for parameter in body.parameters())
    assert vars(tokenizer) == {}


@pytest.mark.parametrize(
    ("outputs", "classes", "words"), [(3, 2, "2 classes need 1 or 2"), (2, 4, "4 classes need 4"), (1, 3, "need 3")]
)
def test_heads_that_do_not_fit_are_refused(outputs: int, classes: int, words: str) -> None:
    with pytest.raises(InputError, match=words):
        from_module(nn.Sequential(nn.Linear(3, outputs)), torch.zeros(4, 3), classes)


def test_models_without_a_linear_head_are_refused() -> None:
    with pytest.raises(InputError, match="no linear head"):
        from_module(nn.Sequential(nn.ReLU()), torch.zeros(4, 3), 2)
    module = nn.Sequential(nn.Linear(3, 2))
    with pytest.raises(InputError, match="not a linear layer of the model"):
        from_module(module, torch.zeros(4, 3), 2, head=nn.Linear(3, 2))


def test_a_tokenizer_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="tokens up to 70, but the model has embeddings for 50"):
        from_body(seeded(BODIES["bert"]), Numbers(), ["3 70", "4"], 2)
    with pytest.raises(InputError, match="1 texts have no tokens, such as ''"):
        from_body(seeded(BODIES["bert"]), Numbers(), ["3 4", ""], 2)
    with pytest.raises(InputError, match="got int"):
        tokenised(3, ["a"], 5)


def test_padding_is_on_the_right() -> None:
    inputs = padded([[5, 6, 7], [8]], 9)
    assert inputs["input_ids"].tolist() == [[5, 6, 7], [8, 9, 9]]
    assert inputs["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]
