"""The rules of others: each alarms where it should on a made-up run, and the probes measure what they say."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from benchmarks.early_warnings import published_rules as published
from benchmarks.early_warnings.model import WIDTH, SmallTransformer
from benchmarks.early_warnings.probes import activations, critical_multiple, near_unit_mass
from benchmarks.early_warnings.settings import Setting
from torch import Tensor, nn

STEPS, ONSET = 300, 200
SETTING = Setting("", 0, "decoder", "trouble", 2, rate=0.1, peak=0.1)
EARLY = {"history": 20.0, "hits": 3.0}


def run(**changed: Any) -> dict[str, Any]:
    """A quiet run whose norms vary by 1 %, with changes from step 200 on: a factor, or another value."""
    steps = range(STEPS)
    wave = [1 + 0.01 * (step % 3 - 1) for step in steps]
    records = [
        {
            "step": step,
            "activations": {"blocks.0": {"residual_norm": changed.get("residual", 1.0) if step >= ONSET else 1.0}},
            "one_sided": {"a": changed.get("one_sided", 0.5) if step >= ONSET else 0.5, "b": 1.0},
        }
        for step in range(0, STEPS, 10)
    ]
    return {
        "setting": SETTING.as_json(),
        "losses": wave,
        "gradients": [
            x * (changed.get("gradient", 1.0) if s >= ONSET else 1.0) for s, x in zip(steps, wave, strict=True)
        ],
        "updates": [
            x * SETTING.rate_of_others(s) * (changed.get("update", 1.0) if s >= ONSET else 1.0)
            for s, x in zip(steps, wave, strict=True)
        ],
        "critical_multiples": [[s, changed.get("multiple", 8.0) if s >= ONSET else 8.0] for s in range(0, STEPS, 20)],
        "near_unit_mass": changed.get("mass", 0.1),
        "records": records,
    }


CASES = [
    (published.update_spikes, {"factor": 2.0, **EARLY}, {"update": 3.0}, 202),  # the third spike
    (published.zclip, {"z": 4.0, "hits": 3.0}, {"gradient": 3.0}, 202),
    (published.autoclip, {"quantile": 1.0, "factor": 1.5, **EARLY}, {"gradient": 3.0}, None),  # soon it is usual
    (published.autoclip, {"quantile": 0.9, "factor": 1.5, **EARLY}, {"gradient": 3.0}, 202),
    (published.skip_step, {"sigma": 6.0, "hits": 1.0, "history": 32.0}, {"gradient": 3.0}, 200),
    (published.spectral_alignment, {"level": 0.98, "times": 2.0, "matrices": 0.0}, {"one_sided": 0.99}, 210),
    (published.critical_sharpness, {"multiple": 1.0, "times": 2.0, "after": 0.0}, {"multiple": 0.5}, 220),
    (published.near_unit_mass, {"level": 0.8}, {"mass": 0.9}, 0),
    (published.residual_growth, {"factor": 2.0, "history": 5.0}, {"residual": 3.0}, 200),
]


@pytest.mark.parametrize(("rule", "candidate", "changed", "step"), CASES)
def test_each_rule_sees_its_change_and_nothing_else(rule: Any, candidate: Any, changed: Any, step: int | None) -> None:
    assert rule(candidate, run(**changed)) == step
    assert rule(candidate, run()) is None


def test_every_rule_is_one_of_these_and_survives_its_own_grid_on_short_and_broken_runs() -> None:
    assert {rule for _, _, _, rule in published.PUBLISHED} == {case[0] for case in CASES}
    broken = run(residual=float("nan"), one_sided=float("nan"), multiple=float("nan"))
    broken["gradients"][-1] = broken["updates"][-1] = broken["losses"][-1] = float("nan")
    short = {**run(), **{name: run()[name][:3] for name in ("losses", "gradients", "updates", "records")}}
    for _, _, grid, rule in published.PUBLISHED:
        candidate = {name: values[0] for name, values in grid.items()}
        assert rule(candidate, broken) is None or rule(candidate, broken) < STEPS
        rule(candidate, short)


class Line(nn.Module):
    """A quadratic loss c·w²/2 of one weight."""

    def __init__(self, w: float) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor([w]))


@pytest.mark.parametrize("rate", [0.01, 0.5, 1.9, 3.0])
@pytest.mark.parametrize("guess", [1.0, 100.0])
def test_the_critical_multiple_of_a_parabola_is_2_over_curvature_and_rate(rate: float, guess: float) -> None:
    model = Line(2.0)
    before = [p.detach().clone() for p in model.parameters()]
    passes = []

    def loss() -> Tensor:
        passes.append(1)
        return model.w.square().sum() / 2

    with torch.no_grad():
        model.w.sub_(rate * model.w)  # a step down the gradient, whose curvature is 1
    after = model.w.detach().clone()
    multiple = critical_multiple(loss, list(model.parameters()), before, guess)
    assert multiple == pytest.approx(2 / rate, rel=0.5)
    assert torch.equal(model.w, after)
    assert len(passes) <= 9


class Blocks(nn.Module):
    def __init__(self, *scales: float) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(8, 8, bias=False) for _ in scales)
        for block, scale in zip(self.blocks, scales, strict=True):
            nn.init.orthogonal_(block.weight)
            with torch.no_grad():
                block.weight.mul_(scale)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def test_near_unit_mass_counts_the_eigenvalues_of_known_maps() -> None:
    states = torch.randn(1, 500, 8, generator=torch.Generator().manual_seed(0))
    assert near_unit_mass(Blocks(1.0), states) == 1.0
    assert near_unit_mass(Blocks(1.0, 1.2, 0.5, 0.95), states) == 0.5


def test_what_the_probe_reads_of_a_block() -> None:
    torch.manual_seed(0)
    model = SmallTransformer(SETTING, 10, 10, 8)
    inputs = torch.randint(10, (4, 8))
    before = [p.clone() for p in model.parameters()]
    read = activations(model, inputs)
    assert list(read["activations"]) == ["blocks.0", "blocks.1"]
    assert "blocks.1.attention.query" in read["one_sided"]
    assert all(0.5 <= share <= 1 for share in read["one_sided"].values())
    assert all(not module._forward_hooks for module in model.modules())
    assert all(torch.equal(p, q) for p, q in zip(before, model.parameters(), strict=True))
    with torch.no_grad():
        model.blocks[1].up.weight.zero_()
        model.blocks[1].up.bias.fill_(-1.0)
        model.blocks[0].norm1.bias.copy_(100 * torch.linalg.svd(model.blocks[0].attention.query.weight).Vh[0])
    read = activations(model, inputs)
    assert read["activations"]["blocks.1"]["dead_units"] == 1.0
    assert read["one_sided"]["blocks.0.attention.query"] == 1.0
    assert model.blocks[0].up.in_features == WIDTH
