"""What the monitor says about weights equals what plain torch says, and nothing is left behind."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from foretrain.measures import effective_rank, stable_rank
from foretrain.monitor.monitor import Monitor
from foretrain.monitor.weights import ENTRIES
from monitor.models import NanoGPT


def _loss(model: nn.Module) -> Tensor:
    tokens = torch.randint(0, 50, (4, 9))
    return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def test_ranks_gradients_and_updates_equal_a_direct_calculation() -> None:
    torch.manual_seed(0)
    model = NanoGPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    monitor = Monitor(model, every=1)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    for _ in range(2):  # two batches are accumulated
        (_loss(model) / 2).backward()
    gradients = {name: p.grad.norm().item() for name, p in model.named_parameters() if p.grad is not None}
    nn.utils.clip_grad_norm_(model.parameters(), 0.01)  # the record has the gradient before this
    optimizer.step()
    optimizer.zero_grad()
    monitor.step()
    dataset = monitor.dataset().isel(step=0)
    matrices = [name for name, p in model.named_parameters() if p.ndim == 2]
    assert dataset.matrix.values.tolist() == matrices
    for name in matrices:
        values, W = dataset.sel(matrix=name), dict(model.named_parameters())[name].detach()
        moved = W - before[name]
        np.testing.assert_allclose(values.norm, W.norm(), rtol=1e-5)
        np.testing.assert_allclose(values.stable_rank, stable_rank(W), rtol=1e-5)
        np.testing.assert_allclose(values.effective_rank, effective_rank(W), rtol=1e-4)
        np.testing.assert_allclose(values.gradient_norm, gradients[name], rtol=1e-5)
        np.testing.assert_allclose(values.update_ratio, moved.norm() / before[name].norm(), rtol=1e-4)
    whole = np.sqrt(sum(norm**2 for norm in gradients.values()))
    np.testing.assert_allclose(dataset.total_gradient_norm, whole, rtol=1e-5)


def test_a_large_matrix_is_sampled_within_its_error() -> None:
    torch.manual_seed(0)
    model = nn.Linear(1200, 1000, bias=False)
    assert model.weight.numel() > ENTRIES
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    monitor, before = Monitor(model, every=1), model.weight.detach().clone()
    model(torch.randn(64, 1200)).square().mean().backward()
    optimizer.step()
    with pytest.warns(UserWarning, match="No attention was seen"):
        monitor.step()
    ratio = float(monitor.dataset().update_ratio.squeeze())
    assert ratio == pytest.approx(float((model.weight.detach() - before).norm() / before.norm()), rel=0.02)
    assert "effective_rank" in monitor.records[0]["weights"]["weight"]
    for _ in range(9):
        model(torch.randn(2, 1200))
        monitor.step()
    assert "effective_rank" not in monitor.records[1]["weights"]["weight"]  # expensive: every tenth time
    assert monitor.records[1]["weights"]["weight"]["update_ratio"] == 0.0  # there was no update


def test_a_matrix_with_nan_is_recorded_and_does_not_stop_training() -> None:
    model = NanoGPT()
    monitor = Monitor(model, every=1)
    with torch.no_grad():
        model.head.weight[0, 0] = torch.nan
    model(torch.zeros(1, 3, dtype=torch.long))
    monitor.step(loss=float("nan"))
    dataset = monitor.dataset().isel(step=0)
    assert np.isnan(dataset.stable_rank.sel(matrix="head.weight"))
    assert np.isfinite(dataset.stable_rank.sel(matrix="blocks.0.attention.qkv.weight"))


def test_a_dropped_monitor_lets_go_of_the_weights() -> None:
    model = NanoGPT()
    monitor = Monitor(model, every=1)
    _loss(model).backward()
    monitor.step()
    alive = weakref.ref(model.head.weight)
    del model
    gc.collect()
    assert alive() is None  # though the monitor is still there
    assert monitor.records


def test_updates_are_seen_whoever_makes_them() -> None:
    """A closure that runs the model inside the optimizer's step, and an update by hand."""
    for by_hand in (False, True):
        torch.manual_seed(0)
        model = NanoGPT()
        optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=2)
        monitor = Monitor(model, every=1)
        before = model.head.weight.detach().clone()

        def closure(model: nn.Module = model, optimizer: torch.optim.Optimizer = optimizer) -> Tensor:
            optimizer.zero_grad()
            loss = _loss(model)
            loss.backward()
            return loss

        if by_hand:
            closure()
            with torch.no_grad():
                for p in model.parameters():
                    p -= 0.1 * p.grad
        else:
            optimizer.step(closure)
        monitor.step()
        moved = (model.head.weight.detach() - before).norm() / before.norm()
        recorded = float(monitor.dataset().update_ratio.sel(matrix="head.weight").squeeze())
        assert recorded == pytest.approx(float(moved), rel=1e-4)
        assert recorded > 0


def test_a_model_in_float64_trains() -> None:
    model = NanoGPT().double()
    monitor = Monitor(model, every=1)
    loss = _loss(model)
    loss.backward()
    gradient = model.head.weight.grad.norm()
    monitor.step(loss=loss)
    recorded = monitor.records[0]["weights"]["head.weight"]
    assert recorded["gradient_norm"] == pytest.approx(float(gradient))
    assert recorded["update_ratio"] == 0.0


def test_identity_shares_are_recorded_per_layer_and_head_on_request() -> None:
    model = NanoGPT()
    with torch.no_grad():
        qkv = model.blocks[1].attention.qkv.weight
        qkv[32:64] = qkv[:32]  # keys are queries: W_Q·W_Kᵀ is positive semi-definite
    monitor = Monitor(model, every=1, identity=True)
    model(torch.zeros(1, 3, dtype=torch.long))
    monitor.step()
    shares = monitor.dataset().identity_query_key.isel(step=0)
    assert shares.sizes == {"layer": 2, "head": 4}
    assert float(shares.sel(layer=1).min()) > 0.8
    assert float(np.abs(shares.sel(layer=0)).max()) < 0.4
    assert "identity_value_output" in monitor.dataset()
    by_default = Monitor(model, every=1)
    model(torch.zeros(1, 3, dtype=torch.long))
    by_default.step()
    assert set(by_default.records[0]) == {"step", "attention", "activations", "weights"}


def test_weights_can_be_left_out() -> None:
    model = NanoGPT()
    monitor = Monitor(model, every=1, weights=False)
    model(torch.zeros(1, 3, dtype=torch.long))
    monitor.step()
    assert set(monitor.records[0]) == {"step", "attention", "activations"}


def test_a_stack_of_matrices_has_norms_but_no_ranks() -> None:
    """As mixtures of experts keep the weights of all experts in one tensor."""

    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = nn.Parameter(torch.randn(3, 8, 16))

        def forward(self, x: Tensor) -> Tensor:
            return torch.einsum("bi,eio->beo", x, self.up)

    torch.manual_seed(0)
    model = Experts()
    optimizer, before = torch.optim.SGD(model.parameters(), lr=0.1), model.up.detach().clone()
    monitor = Monitor(model, every=1, attention=False)
    model(torch.randn(4, 8)).square().mean().backward()
    assert model.up.grad is not None
    gradient = float(model.up.grad.norm())
    optimizer.step()
    monitor.step()
    measures = monitor.records[0]["weights"]["up"]
    assert measures.keys() == {"norm", "gradient_norm", "update_ratio"}
    assert measures["norm"] == pytest.approx(float(model.up.detach().norm()))
    assert measures["gradient_norm"] == pytest.approx(gradient)
    assert measures["update_ratio"] == pytest.approx(float((model.up.detach() - before).norm() / before.norm()))
