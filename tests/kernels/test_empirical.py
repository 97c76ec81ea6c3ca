"""The empirical kernel against gradients formed one by one, for modules of every kind and for functions."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from foretrain.core.errors import InputError
from foretrain.kernels import layer_signals
from foretrain.kernels.empirical import empirical_ntk, kernel_movement, ntk_product, relative_movement

F64 = torch.float64


class Tied(nn.Module):
    """Embedding and output layer share their weight."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.out(torch.tanh(self.embed(tokens).sum(1)))


class Twice(nn.Module):
    """One layer called twice, its weight also used by hand, an activation in place, and a parameter of its own."""

    def __init__(self, by_hand: bool) -> None:
        super().__init__()
        self.layer, self.scale, self.by_hand = nn.Linear(3, 3), nn.Parameter(torch.tensor(1.5)), by_hand

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu_(self.layer(x))
        hidden = self.layer(hidden) * self.scale
        return hidden @ self.layer.weight.mT if self.by_hand else hidden


class Transposed(nn.Module):
    """The batch is the second axis inside."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.layer(x.transpose(0, 1))).sum(0)


class Coupled(nn.Module):
    """Texts with padding through a layer norm and an attention that uses its weights without calling them."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(6, 4, padding_idx=0)
        self.attend = nn.MultiheadAttention(4, 2, batch_first=True)
        self.norm, self.read = nn.LayerNorm(4), nn.Linear(4, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        e = self.embed(tokens)
        return self.read(self.norm(self.attend(e, e, e)[0])).tanh().sum(1)


class SecondOutputByHand(nn.Module):
    """The weight is used by hand in the second output alone."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.layer(x)
        return torch.stack([hidden.sum(1), (hidden @ self.layer.weight.mT).tanh().sum(1)], dim=1)


class SoftmaxOfTheBatch(nn.Module):
    """Rows see each other, and the outputs of a row add up to 1 whatever they are."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.layer(x)
        return torch.softmax(hidden - 2 * hidden.mean(0), dim=1)


def gradients(module: nn.Module, rows: Tensor) -> Tensor:
    """[row, output, parameter], one backward pass each."""
    flat = []
    for row in rows:
        outputs = module(row.unsqueeze(0)).reshape(-1)
        for out in outputs:
            found = torch.autograd.grad(out, list(module.parameters()), retain_graph=True, materialize_grads=True)
            flat.append(torch.cat([g.ravel() for g in found]))
    return torch.stack(flat).reshape(len(rows), len(outputs), -1)


def dense(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=F64)


MODULES = {
    "layers": (lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)), lambda: dense(3, 3)),
    "long texts": (lambda: nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Flatten(), nn.Linear(10, 1)),
                   lambda: dense(4, 5, 2)),
    "tokens": (lambda: nn.Sequential(nn.Embedding(6, 3, padding_idx=0), nn.Flatten(), nn.Tanh(), nn.Linear(12, 2)),
               lambda: torch.randint(0, 6, (4, 4))),
    "tied": (Tied, lambda: torch.randint(0, 5, (3, 2))),
    "twice": (lambda: Twice(False), lambda: dense(3, 3)),
    "by hand": (lambda: Twice(True), lambda: dense(3, 3)),
    "second output": (SecondOutputByHand, lambda: dense(3, 3)),
    "transposed": (Transposed, lambda: dense(3, 3, 3)),
    "attention": (Coupled, lambda: torch.randint(0, 6, (3, 4))),
    "convolution": (lambda: nn.Sequential(nn.Conv1d(2, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(9, 2)),
                    lambda: dense(3, 2, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_kernel_is_the_product_of_gradients(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    make, draw = MODULES[name]
    module = make().to(F64)
    x, y = draw(), draw()[:2]
    expected = torch.einsum("xop,yqp->xyoq", gradients(module, x), gradients(module, y))
    torch.testing.assert_close(empirical_ntk(module, x, y), expected)
    torch.testing.assert_close(empirical_ntk(module, x, y, chunk=2), expected)
    own = torch.einsum("xop,yqp->xyoq", gradients(module, x), gradients(module, x))
    torch.testing.assert_close(empirical_ntk(module, x), own)
    monkeypatch.setattr(layer_signals, "_LARGEST", 1)  # pairs of positions in the smallest blocks
    torch.testing.assert_close(empirical_ntk(module, x), own)
    vector = torch.randn(len(y), expected.shape[3], dtype=F64)
    torch.testing.assert_close(ntk_product(module, x, vector, y), torch.einsum("xyoq,yq->xo", expected, vector))


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("layers", 4),
        ("long texts", 4),
        ("tokens", 3),
        ("tied", 0),
        ("twice", 2),
        ("by hand", 1),
        ("second output", 0),
        ("transposed", 0),
    ],
)
def test_layers_go_the_short_way_only_where_it_is_right(name: str, known: int) -> None:
    torch.manual_seed(0)
    make, draw = MODULES[name]
    assert len(layer_signals.layer_signals(make().to(F64), draw())) == known


def test_rows_that_see_each_other_are_noticed() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).to(F64)
    assert set(layer_signals.layer_signals(module, dense(5, 3))) == {"2.weight", "2.bias"}
    module.eval()
    assert len(layer_signals.layer_signals(module, dense(5, 3))) == 4
    assert not layer_signals.layer_signals(SoftmaxOfTheBatch().to(F64), dense(5, 3))


def test_frozen_parameters_do_not_count() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).to(F64)
    module[0].requires_grad_(False)
    x = dense(3, 3)
    hidden = module[1](module[0](x))
    torch.testing.assert_close(empirical_ntk(module, x)[..., 0, 0], hidden @ hidden.T + 1)


def test_movement_along_training() -> None:
    """f = a·x: the kernel x·y does not move; f = a²x: it moves with a²."""
    x, states = dense(4, 1), [{"a": torch.tensor([k], dtype=F64)} for k in (1.0, 2.0)]
    assert kernel_movement(lambda w, row: w["a"] * row, states, x) == [0, 0]
    assert kernel_movement(lambda w, row: w["a"] ** 2 * row, states, x) == pytest.approx([0, 3])
    assert relative_movement(dense(2, 2).fill_(1), dense(2, 2).fill_(3)) == pytest.approx(2.0)


@pytest.mark.parametrize(
    "layer",
    [nn.Dropout(0.1), nn.BatchNorm1d(3), nn.TransformerEncoderLayer(3, 1, 4, dropout=0.1, batch_first=True)],
    ids=["dropout", "batch norm", "attention"],
)
def test_networks_in_training_mode_are_refused_and_left_as_they_are(layer: nn.Module) -> None:
    module = nn.Sequential(nn.Linear(3, 3), layer, nn.Linear(3, 1))
    with pytest.raises(InputError, match=r"'1.*is in training mode.*call module\.eval\(\) first"):
        empirical_ntk(module, torch.randn(4, 3))
    with pytest.raises(InputError, match=r"call module\.eval\(\) first"):
        ntk_product(module, torch.randn(4, 3), torch.randn(4, 1))
    assert all(one.training for one in module.modules())
    if not isinstance(layer, nn.TransformerEncoderLayer):  # torch warns of its own attention under vmap
        assert empirical_ntk(module.eval(), torch.randn(4, 3)).shape == (4, 4, 1, 1)
    no_dropout = nn.Sequential(nn.Linear(3, 1), nn.Dropout(0.0))
    assert empirical_ntk(no_dropout, torch.randn(2, 3)).shape == (2, 2, 1, 1)


def test_refusals() -> None:
    with pytest.raises(InputError, match="pass parameters"):
        empirical_ntk(lambda w, row: row, dense(2, 1))
    with pytest.raises(InputError, match="has its own weights"):
        empirical_ntk(nn.Linear(1, 1), dense(2, 1), parameters={})
    with pytest.raises(InputError, match="chunk must be at least 1"):
        empirical_ntk(nn.Linear(1, 1), dense(2, 1), chunk=0)
