"""Sampled gradients: equal to autograd where all are kept, right on average where they are sampled."""

from __future__ import annotations

import pytest
import torch

from forecast.finetuning.models import smooth, tiny
from foretrain.forecast.finetuning import samples
from foretrain.forecast.finetuning import tangent as t

ALL = 10**9


@pytest.mark.parametrize("kind", ["bert", "gpt2", "llama"])
@pytest.mark.parametrize("classes", [2, 3])
def test_all_coordinates_are_the_gradients_of_autograd(
    kind: str, classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "EMBEDDING_COLUMNS", ALL)
    classifier = tiny(kind, classes)
    tangent = t.linearise(classifier, coordinates=ALL)
    assert tangent.left_out == ()
    assert bool((tangent.shares == 1).all())
    own = dict(classifier.module.named_parameters())
    for row in range(len(classifier)):
        outputs = classifier(torch.tensor([row]))
        torch.testing.assert_close(outputs[0], tangent.outputs[row], atol=1e-5, rtol=1e-5)
        for o in range(classifier.outputs):
            wanted = [own[name] for name in tangent.samples]
            gradients = torch.autograd.grad(outputs[0, o], wanted, retain_graph=True, materialize_grads=True)
            exact = t.sampled(dict(zip(tangent.samples, gradients, strict=True)), tangent.samples)
            torch.testing.assert_close(tangent.jacobian[row, o], exact, atol=2e-5, rtol=1e-4)


def test_sampled_kernels_are_right_on_average() -> None:
    classifier, _ = smooth(rows=8, width=12, hidden=48)
    full = t.linearise(classifier, coordinates=ALL)
    exact = (full.jacobian[:, 0] @ full.jacobian[:, 0].T).double()
    draws = [t.linearise(classifier, coordinates=200, seed=seed) for seed in range(60)]
    kernels = torch.stack([((d.jacobian[:, 0] / d.shares) @ d.jacobian[:, 0].T).double() for d in draws])
    error = (kernels.mean(0) - exact) / (kernels.std(0) / 60**0.5)
    assert float(error.abs().max()) < 4.5
    assert float((kernels.std(0) / exact.abs().clamp(min=1e-9)).median()) > 0.001  # it is a sample


def test_nothing_about_the_model_changes() -> None:
    classifier = tiny("bert")
    classifier.module.train()
    before = {name: value.clone() for name, value in classifier.module.state_dict().items()}
    state = torch.get_rng_state()
    t.linearise(classifier)
    assert all(torch.equal(value, before[name]) for name, value in classifier.module.state_dict().items())
    assert all(parameter.requires_grad for parameter in classifier.module.parameters())
    assert classifier.module.training
    assert torch.equal(state, torch.get_rng_state())
    assert not any(module._forward_hooks for module in classifier.module.modules())
