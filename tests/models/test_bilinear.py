"""The vectorised model against the plain one: one-hot tokens [batch, T, M], autograd, one run at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from foretrain import InputError
from foretrain.core.streams import stream
from foretrain.data import SequenceBatch, SequenceClasses
from foretrain.models import Bilinear
from foretrain.models.bilinear import Samples
from foretrain.models.parameters import start_keys


def plain_loss(Y: Tensor, Z: Tensor, batch: SequenceBatch, residual: bool = False) -> Tensor:
    vocab = batch.task.vocab
    X = one_hot(torch.from_numpy(batch.sequences), vocab).to(Y.dtype)
    query = torch.from_numpy(batch.queries)
    attention = torch.softmax(torch.einsum("btm,bm->bt", X, Z[query]), dim=1)
    u = torch.einsum("bt,btm->bm", attention, X)
    f = u / u.norm(dim=1, keepdim=True)
    if residual:
        f = f + one_hot(query, vocab).to(Y.dtype)
        f = f / f.norm(dim=1, keepdim=True)
    return cross_entropy(f @ Y, torch.from_numpy(batch.labels))


def plain_gradient(model: Bilinear, Y: Tensor, Z: Tensor, batch: SequenceBatch) -> tuple[Tensor, Tensor]:
    Y, Z = Y.clone().requires_grad_(), Z.clone().requires_grad_()
    gY, gZ = torch.autograd.grad(plain_loss(Y, Z, batch, model.residual), (Y, Z))
    return gY, gZ


def random_task(seed: int, classes: int) -> SequenceClasses:
    """Tokens shared by any number of classes, classes without distinct tokens, queries with several classes."""
    draw = np.random.default_rng(seed)
    context, queries = 9, 3
    table = np.zeros((classes, context + queries))
    table[:, :context] = draw.random((classes, context)) * (draw.random((classes, context)) < 0.4)
    table[np.arange(classes), draw.integers(context, size=classes)] += 0.5
    table /= table.sum(axis=1, keepdims=True)
    return SequenceClasses(
        table,
        context + draw.integers(queries, size=classes),
        draw.permutation(context + queries)[:classes],
        length=7,
        class_weights=draw.dirichlet(np.ones(classes)),
    )


def scattered(model: Bilinear, seeds: int, settings: int, scale: float = 1.0) -> dict[str, Tensor]:
    """Random parameters [setting, seed, …], zero where a slot is only there to fill a row."""
    start = model.start(start_keys("test", range(1, seeds + 1)))
    draw = torch.Generator().manual_seed(0)
    real = torch.from_numpy(model._slots[1])
    made = {
        name: scale * torch.randn(settings, *value.shape, generator=draw, dtype=model.dtype)
        for name, value in start.items()
    }
    made["Y_distinct"] *= real[..., None]
    made["Z_distinct"] *= real
    return made


@given(seed=st.integers(0, 10**6), classes=st.integers(1, 5), residual=st.booleans())
def test_gradient_equals_autograd_for_any_task(seed, classes, residual):
    """Lemma 1, for several settings and seeds at once, over the whole vocabulary."""
    _check_gradient(random_task(seed, classes), residual, seed)


@pytest.mark.parametrize("classes", [2, 3])
def test_gradient_equals_autograd_where_every_token_is_common(classes):
    table = np.random.default_rng(classes).dirichlet(np.ones(4), size=classes)
    _check_gradient(SequenceClasses(table, [0] * classes, length=7), residual=False, seed=1)


def _check_gradient(task: SequenceClasses, residual: bool, seed: int) -> None:
    model = Bilinear(task, residual=residual, dtype=torch.float64)
    parameters = scattered(model, seeds=2, settings=3)
    batches = [task.sample(11, seed + s, sequences=True) for s in range(2)]
    found = model.full(model.gradient(parameters, model.prepare(batches), samples=11))
    Y, Z = model.full(parameters)
    for setting in range(3):
        for s, batch in enumerate(batches):
            gY, gZ = plain_gradient(model, Y[setting, s], Z[setting, s], batch)
            assert torch.allclose(found[0][setting, s], gY, rtol=0, atol=1e-12)
            assert torch.allclose(found[1][setting, s], gZ, rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", [300.0, 3000.0])
def test_huge_logits_do_not_overflow(size):
    task = SequenceClasses.syn_medium(2)
    model = Bilinear(task)
    parameters = scattered(model, seeds=1, settings=2)
    parameters["Y_common"][1] *= size
    batch = task.sample(64, 1, sequences=True)
    found = model.full(model.gradient(parameters, model.prepare([batch]), samples=64))
    Y, Z = (x.double() for x in model.full(parameters))
    for setting, tolerance in ((0, 1e-6), (1, 1e-6 * size)):
        gY, gZ = plain_gradient(model, Y[setting, 0], Z[setting, 0], batch)
        assert torch.allclose(found[0][setting, 0].double(), gY, rtol=0, atol=1e-6)
        assert torch.allclose(found[1][setting, 0].double(), gZ, rtol=0, atol=tolerance)
    alone = model.gradient({k: v[:1] for k, v in parameters.items()}, model.prepare([batch]), samples=64)
    assert torch.equal(found[0][:1], model.full(alone)[0])


def test_several_steps_are_prepared_as_one_by_one():
    task = random_task(3, 4)
    model = Bilinear(task)
    drawn = [task.sample(15, seed) for seed in range(2)]
    for step, together in enumerate(model.prepare_steps(drawn, 3)):
        now = slice(5 * step, 5 * (step + 1))
        alone = model.prepare([SequenceBatch(task, b.classes[now], b.support_counts[now]) for b in drawn])
        for name in Samples.__dataclass_fields__:
            assert torch.equal(getattr(together, name), getattr(alone, name)), name


def test_huge_attention_logits_do_not_overflow():
    task = SequenceClasses.syn_small()
    model = Bilinear(task)
    parameters = scattered(model, seeds=1, settings=1)
    parameters["Z_common"] += 500
    parameters["Z_distinct"] += 500
    f = model.features(parameters, model.prepare([task.sample(16, 1)]))
    assert torch.allclose(f.square().sum(-1), torch.ones(1, 16))


@pytest.mark.parametrize("gap", [60.0, 120.0, 1000.0])
def test_samples_without_the_attended_tokens_stay_finite(gap):
    """Nearly all attention is on one token that a short sample may lack; float32 then follows float64."""
    task = SequenceClasses.syn_small(length=6)
    batch, model, exact = task.sample(32, 1), Bilinear(task), Bilinear(task, dtype=torch.float64)
    parameters = scattered(model, seeds=1, settings=1)
    parameters["Z_common"][..., 0] += gap
    f = model.features(parameters, model.prepare([batch]))
    doubled = exact.features({k: v.double() for k, v in parameters.items()}, exact.prepare([batch]))
    assert torch.isfinite(f).all()
    assert torch.allclose(f.double(), doubled, atol=1e-4)


def test_attention_is_the_limit_of_long_sequences():
    """Eq. 5, against the counts of one very long sequence of each class."""
    task = SequenceClasses.syn_medium(2, length=1_000_000)
    model = Bilinear(task, start="uniform", dtype=torch.float64)
    parameters = {k: v[None] for k, v in model.start(start_keys("test", [1])).items()}
    batch = task.sample(40, 1)
    Z = model.full(parameters)[1][0, 0].numpy()
    weights = batch.counts * np.exp(Z[batch.queries])
    c = weights / weights.sum(axis=1, keepdims=True)
    limit = model.attention(parameters)[0, 0].numpy()
    assert np.abs(c - limit[batch.classes]).max() < 6 * 0.5 / np.sqrt(task.length)
    assert limit.sum(axis=1) == pytest.approx(1)


def test_starts():
    task = SequenceClasses.syn_medium(3)
    assert all(not value.any() for value in Bilinear(task).start(start_keys("test", [1, 2])).values())
    model = Bilinear(task, start="uniform", dtype=torch.float64)
    start = model.start(start_keys("test", [1, 2]))
    Y = model.full({name: value[None] for name, value in start.items()})[0]
    bound = task.vocab**-0.5
    assert Y.abs().max() <= bound
    assert Y[0, 0, task.common_tokens].std() == pytest.approx(bound / np.sqrt(3), rel=0.05)
    assert not torch.equal(start["Z_distinct"][0], start["Z_distinct"][1])
    # exactly the entries that a stream gives for the whole matrices, so that one seed means one start
    full = stream("test", 1, "start").uniform(-bound, bound, (task.vocab, task.vocab))
    assert np.array_equal(Y[0, 0, task.common_tokens], full[task.common_tokens])


def test_only_entries_that_can_move_are_kept():
    """Autograd over the whole matrices: no other entry has a gradient."""
    task = SequenceClasses.syn_medium(2)
    model = Bilinear(task, start="uniform", dtype=torch.float64)
    parameters = {k: v[None] for k, v in model.start(start_keys("test", [1])).items()}
    Y, Z = model.full(parameters)
    batch = task.sample(256, 1, sequences=True)
    gY, gZ = plain_gradient(model, Y[0, 0], Z[0, 0], batch)
    kept = sum(value.numel() for value in parameters.values())
    assert int((gY != 0).sum() + (gZ != 0).sum()) <= kept < Y.numel() + Z.numel()
    ones = model.full({k: torch.ones_like(v) for k, v in parameters.items()})
    assert not gY[ones[0][0, 0] == 0].any()
    assert not gZ[ones[1][0, 0] == 0].any()


def test_bad_input_is_refused_in_one_sentence():
    task = SequenceClasses.syn_small()
    with pytest.raises(InputError, match="no start 'normal'"):
        Bilinear(task, start="normal")
    mixed = SequenceClasses([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]], (1, 1))
    with pytest.raises(InputError, match="query tokens must not occur"):
        Bilinear(mixed, residual=True)
