"""Training with a validated epoch, against a loop over the ordinary module; who leaves, who stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from foretrain.core.errors import InputError
from foretrain.core.progress import Progress, listening
from foretrain.core.streams import stream, torch_stream
from foretrain.core.trajectory import trajectory
from foretrain.data.template_examples import aba_abb, copying, majority_token
from foretrain.data.template_task import TemplateSplit, TemplateTask
from foretrain.dynamics.fused_adam import FusedAdam
from foretrain.dynamics.protocols import OutputModel
from foretrain.dynamics.validated import Schedule, best_rate, train_validated
from foretrain.models.stacked.transformer_runs import LastLayerRuns, TransformerRuns
from foretrain.models.strings import SampleRows
from foretrain.models.transformer import Transformer, TransformerShape

SHAPE = TransformerShape(tokens=12 + 40, length=3, heads=2, embedding=8, head=4, mlp=8)
NAME = "test"


def every(*arguments, **named) -> Schedule:
    return Schedule(*arguments, **named, validate_every=1)


def splits(count: int, n: int = 12):
    return [aba_abb().split(n, seed, held_out=20, held_out_alphabet=20) for seed in range(1, count + 1)]


@dataclass(frozen=True)
class Case:
    """What is trained, and on what."""

    make: Callable[[TransformerShape], OutputModel] = TransformerRuns
    shape: TransformerShape = SHAPE
    task: Callable[[], TemplateTask] = aba_abb

    def split(self, seed: int) -> TemplateSplit:
        return self.task().split(12, seed, held_out=20, held_out_alphabet=20)


SYMBOLS = replace(SHAPE, output="token", readout="last")
CASES = {
    "whole network": Case(),
    "last layer": Case(make=LastLayerRuns),
    "next token": Case(shape=SYMBOLS, task=lambda: majority_token(3)),
    "next token, tied": Case(shape=replace(SYMBOLS, tied=True, score_scale=0.3), task=lambda: majority_token(3)),
}


def looped(case: Case, seed: int, rate: float, epochs: int, batch: int):
    """One run with torch.optim.Adam: by epoch validation loss, test loss and test accuracy; its first gradients."""
    model = Transformer(case.shape, torch_stream(NAME, seed, "start"))
    moving = [model.read, model.read_bias] if case.make is LastLayerRuns else list(model.parameters())
    optimizer = torch.optim.Adam(moving, lr=rate)
    order = stream(NAME, seed, "order")
    (strings, labels), validation, test = (
        (torch.from_numpy(b.tokens), torch.from_numpy(b.labels)) for b in vars(case.split(seed)).values()
    )

    def loss(strings, labels):
        if case.shape.output == "token":
            return torch.nn.functional.cross_entropy(model(strings), labels)
        return torch.nn.functional.mse_loss(model(strings), labels.float())

    def accuracy(strings, labels):
        outputs = model(strings)
        right = outputs.argmax(1) == labels if case.shape.output == "token" else outputs.sign() == labels
        return right.float().mean()

    curves, first = [], None
    for _ in range(epochs):
        rows = torch.arange(len(labels)) if len(labels) <= batch else torch.from_numpy(order.permutation(len(labels)))
        for some in rows.split(batch):
            optimizer.zero_grad()
            loss(strings[some], labels[some]).backward()
            first = first or [parameter.grad.clone() for parameter in moving]
            optimizer.step()
        with torch.no_grad():
            curves.append([loss(*validation).item(), loss(*test).item(), accuracy(*test).item()])
    return np.array(curves), first


@pytest.mark.parametrize(
    ("name", "batch"),
    [("whole network", 64), ("whole network", 5), ("last layer", 5), ("next token", 64), ("next token, tied", 5)],
)
def test_every_run_equals_a_plain_loop(name, batch, monkeypatch):
    case, rates, gradients = CASES[name], (1e-3, 1e-2), []
    update = FusedAdam.update
    monkeypatch.setattr(FusedAdam, "update", lambda self, *both: (gradients.append(both[1]), update(self, *both))[1])
    data = [case.split(seed) for seed in (1, 2)]
    found = train_validated(case.make(case.shape), data, rates=rates, schedule=every(5, batch), experiment=NAME)
    for run, rate, seed in ((0, 1e-3, 1), (3, 1e-2, 2)):
        curves, first = looped(case, seed, rate, 5, batch)
        for ours, theirs in zip(gradients[0], first, strict=True):  # steps of Adam would not show their scale
            torch.testing.assert_close(ours[run], theirs, rtol=1e-4, atol=1e-6)
        ours, best = found.sel(rate=rate, seed=seed), int(np.argmin(curves[:, 0]))
        np.testing.assert_allclose(ours.validation_curve, curves[:, 0], rtol=2e-5)
        assert int(ours.epoch) == 1 + best
        np.testing.assert_allclose(float(ours.test_loss), curves[best, 1], rtol=2e-5)
        np.testing.assert_allclose(float(ours.test_accuracy), curves[best, 2], rtol=1e-6)
    learnable = name != "next token"  # that is, scores of symbols never seen are not
    assert (0 < float(found.test_accuracy.mean()) < 1) == learnable


def test_runs_do_not_depend_on_how_many_go_together():
    arguments = {"rates": (1e-3, 1e-2), "schedule": Schedule(4), "experiment": NAME}
    together = train_validated(TransformerRuns(SHAPE), splits(2), **arguments)
    alone = train_validated(TransformerRuns(SHAPE), splits(2), runs_at_once=1, **arguments)
    np.testing.assert_allclose(together.validation_curve, alone.validation_curve, rtol=1e-5)


def test_a_run_that_is_not_finite_ends_and_the_others_go_on():
    found = train_validated(
        TransformerRuns(SHAPE), splits(2), rates=(1e-3, 1e30), schedule=Schedule(5), experiment=NAME
    )
    lost = found.sel(rate=1e30)
    assert (lost.diverged_at == 1).all()
    assert lost.test_loss.isnull().all()
    alone = train_validated(TransformerRuns(SHAPE), splits(2), rates=(1e-3,), schedule=Schedule(5), experiment=NAME)
    kept = found.sel(rate=[1e-3])
    np.testing.assert_allclose(kept.validation_curve, alone.validation_curve, rtol=1e-5)
    assert kept.diverged_at.isnull().all()
    assert (found.epochs_done.sel(rate=1e-3) == 5).all()


class Sinking:
    """Run r begins at r + 1.5 and falls by about the rate at each step: at a rate of 1 below 0 at its (r + 2)nd."""

    trained = None

    def start(self, keys):
        return {"height": torch.arange(len(keys))[:, None] + 1.5}

    def prepare(self, strings, start):
        return SampleRows(strings)

    def outputs(self, p, strings):
        return 100 + p["height"].log().expand(strings.values.shape[:2])


@pytest.mark.parametrize(
    "schedule", [Schedule(9, batch, validate_every=every) for batch in (12, 5, 3) for every in (1, 9)], ids=str
)
def test_runs_diverge_at_the_step_after_which_a_loss_is_not_finite(schedule):
    events: list[Progress] = []
    with listening(events.append):
        found = train_validated(Sinking(), splits(3), rates=(1.0,), schedule=schedule).isel(rate=0)
    np.testing.assert_array_equal(found.diverged_at, [2, 3, 4])
    assert events
    for event in events:  # means over the runs that are still finite
        assert (event.total, event.inner) == (9, True)
        now = found.sel(epoch_done=event.done)
        finite = np.isfinite(now.train_curve) & np.isfinite(now.validation_curve)
        train, validation = (float(curve.where(finite).mean()) for curve in (now.train_curve, now.validation_curve))
        losses = f"train loss {train:.3g}, validation loss {validation:.3g}, accuracy "
        message = losses if finite.any() else "no run has finite losses"
        assert event.doing.startswith(f"runs 1 to 3 of 3, epoch {event.done} of 9: {message}")


def test_runs_that_are_done_leave_with_their_best_epoch():
    whole = train_validated(TransformerRuns(SHAPE), splits(3), rates=(3e-2,), schedule=every(40), experiment=NAME).isel(
        rate=0
    )
    schedule = every(40, patience=4)
    short = train_validated(TransformerRuns(SHAPE), splits(3), rates=(3e-2,), schedule=schedule, experiment=NAME).isel(
        rate=0
    )
    for seed in (1, 2, 3):
        curve = whole.validation_curve.sel(seed=seed).values
        best = np.minimum.accumulate(curve)
        since = [e - np.argmin(curve[: e + 1]) for e in range(40)]
        end = next((e for e in range(40) if since[e] >= 4), 39)
        assert int(short.epochs_done.sel(seed=seed)) == end + 1
        np.testing.assert_allclose(float(short.validation_loss.sel(seed=seed)), best[end], rtol=1e-4)
        assert short.validation_curve.sel(seed=seed).isnull().sum() == 39 - end


def test_validation_passes_are_fewer_if_samples_are_few_and_see_the_same_runs():
    assert list(Schedule(40).validation_epochs(64, 20)) == list(range(3, 41, 3))
    assert list(Schedule(3).validation_epochs(800, 100)) == [1, 2, 3]
    assert list(Schedule(40).validation_epochs(1, 20)) == list(range(4, 41, 4))  # ten, where an eighth would be none
    assert list(Schedule(9).validation_epochs(1, 20)) == list(range(1, 10))
    assert list(Schedule(40, patience=3).validation_epochs(1, 20)) == list(range(3, 41, 3))
    model, arguments = TransformerRuns(SHAPE), {"rates": (3e-2,), "experiment": NAME}
    whole = train_validated(model, splits(2), schedule=every(31), **arguments)
    some = train_validated(model, splits(2), schedule=Schedule(31), **arguments)
    np.testing.assert_array_equal(whole.train_curve, some.train_curve)
    validated = np.isin(np.arange(1, 32), [1, *range(3, 31, 3), 31])
    np.testing.assert_array_equal(some.validation_curve, whole.validation_curve.where(validated))
    best = whole.validation_curve.where(validated).argmin("epoch_done")
    np.testing.assert_array_equal(some.epoch, best + 1)
    np.testing.assert_array_equal(some.train_loss, whole.train_curve.isel(epoch_done=best))


def test_next_token_accuracy_counts_the_right_symbols():
    split = copying().split(8, 1, held_out=10, held_out_alphabet=10)
    shape = TransformerShape(
        tokens=28, length=1, heads=2, embedding=64, head=8, mlp=16, output="token", tied=True, readout="last"
    )
    found = train_validated(TransformerRuns(shape), [split], rates=(1e-3,), schedule=Schedule(2), experiment=NAME)
    assert found.test_accuracy.item() == 1.0  # the residual stream holds the symbol itself


def test_the_best_rate_is_chosen_by_validation_and_never_a_diverged_one():
    validation, test = [[0.5, 0.6], [0.3, np.nan], [0.4, 0.4]], [[0.1, 0.1], [0.0, 0.0], [0.9, 0.7]]
    found = trajectory(
        {"validation_loss": (("rate", "seed"), validation), "test_loss": (("rate", "seed"), test)},
        {"rate": [1.0, 2.0, 3.0], "seed": [1, 2]},
    )
    chosen = best_rate(found)
    assert float(chosen["rate"]) == 3.0
    np.testing.assert_allclose(chosen.test_loss, [0.9, 0.7])
    some_lost = found.assign(validation_loss=(("rate", "seed"), [[np.nan, np.nan], [np.nan, 9.0], [9.5, np.nan]]))
    assert float(best_rate(some_lost)["rate"]) == 2.0  # the fewest diverged, then the least of the others


@pytest.mark.parametrize("rate", [0.0, -1.0, float("inf"), float("nan")])
def test_refuses_rates_that_are_not_finite(rate):
    with pytest.raises(InputError, match="finite number above 0"):
        train_validated(TransformerRuns(SHAPE), splits(1), rates=(rate,))


@pytest.mark.parametrize(
    ("rates", "wanted"),
    [
        ((), "at least one number"),
        ((1e-3, 1e-3), "rates must not repeat a value; .0.001. appears twice"),
        (np.ones((1, 1)), "must be a list"),
        (np.array(["a"]), "must be a list"),
        (np.array([True]), "must be a list"),
    ],
    ids=["none", "twice the same", "a matrix", "words", "yes"],
)
def test_refuses_rates_that_are_no_list(rates, wanted):
    with pytest.raises(InputError, match=wanted):
        train_validated(TransformerRuns(SHAPE), splits(1), rates=rates)


def test_rates_may_be_an_array():
    schedule = Schedule(1)
    found = train_validated(TransformerRuns(SHAPE), splits(1), rates=np.array([1e-3, 1e-2]), schedule=schedule)
    listed = train_validated(TransformerRuns(SHAPE), splits(1), rates=[1e-3, 1e-2], schedule=schedule)
    assert found.identical(listed)


def test_refuses_to_train_on_no_split():
    with pytest.raises(InputError, match="at least one split, one per seed; got none"):
        train_validated(TransformerRuns(SHAPE), [], rates=(1e-3,))


@pytest.mark.parametrize(
    ("task", "output", "wanted"),
    [(copying, "number", "asks for tokens"), (aba_abb, "token", "asks for numbers")],
    ids=["number for tokens", "tokens for a number"],
)
def test_refuses_networks_that_answer_with_something_else(task, output, wanted):
    split = task().split(12, 1, held_out=20, held_out_alphabet=20)
    shape = replace(SHAPE, tokens=80, length=task().length, output=output)
    with pytest.raises(InputError, match=wanted):
        train_validated(TransformerRuns(shape), [split], rates=(1e-3,), schedule=Schedule(1))


def test_refuses_schedules_without_epochs_or_with_more_than_are_kept():
    with pytest.raises(
        InputError, match="epochs must be at most 1,000,000, because the losses of all are kept; got 1,000,000,000"
    ):
        Schedule(epochs=10**9)
    with pytest.raises(InputError, match="epochs must be a whole number of at least 1; got 0"):
        Schedule(0)
