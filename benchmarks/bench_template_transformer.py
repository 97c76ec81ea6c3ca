"""Training the template transformer on αβα against αββ, compared with a plain loop.

The loop is what one writes first: `Transformer` as an ordinary module, a DataLoader each for training, validation and
test, torch.optim.Adam, validation and test loss after every epoch, one run after the other. It runs in a process of its
own, as it would for its author: in this process the allocator keeps freed memory, which is part of what is compared.

Ours validates so often that validation reads at most an eighth as many samples as training (after every second epoch at
n = 512, every 13th at n = 64). It reads the test set once, at the end, with the parameters of the best epoch. The two
are timed in turns, and the ratio is the median over turns, because other programs slow down whichever is running.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from statistics import median

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

from benchmarks import Measured
from foretrain.core.streams import torch_stream
from foretrain.data.template_examples import aba_abb
from foretrain.data.template_task import TemplateBatch, TemplateSplit
from foretrain.dynamics.validated import Schedule, train_validated
from foretrain.models.stacked.transformer_runs import TransformerRuns
from foretrain.models.transformer import Transformer, TransformerShape

NAME = "bench/template_transformer"
RATES = (1e-5, 1e-4, 1e-3, 1e-2)
BASE_RATE = 1e-3
TURNS = 3
EPOCHS = 20  # over these the losses must agree
LONGER = (
    200  # epochs of ours that are timed: work before and after training is 1 % of them, and less of the paper's 1000
)


def measure() -> Iterator[Measured]:
    yield from _compared("n = 512", 512, (BASE_RATE,), 1, 2.5)
    yield from _compared("n = 64, 5 trials × 4 rates", 64, RATES, 5, 6.0)


def _compared(name: str, n: int, rates: Sequence[float], trials: int, required: float) -> Iterator[Measured]:
    """Samples per CPU second of both programs, in turns, and the largest relative difference of validation losses.

    The losses are compared at the base rate: at 1e-2 the first epochs amplify rounding errors, in either program.
    """
    shape = TransformerShape(tokens=n + 200, length=3)
    splits = [aba_abb().split(n, seed) for seed in range(1, trials + 1)]
    model, ratios, differences, seconds = TransformerRuns(shape), [], [], []
    train_validated(model, splits[:1], rates=rates[:1], schedule=Schedule(epochs=2), experiment=NAME)
    for turn in range(TURNS):
        started = time.process_time()
        train_validated(model, splits, rates=rates, schedule=Schedule(epochs=LONGER), experiment=NAME)
        ours = (time.process_time() - started) * EPOCHS / LONGER
        seed = turn % trials + 1  # the loop would do one trial after the other, so timing one is enough
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            losses, one_trial = process.submit(_loops, shape, splits[seed - 1], rates, seed).result()
        ratios.append(one_trial * trials / ours)
        seconds.append(f"{ours:.2f} s against {one_trial * trials:.2f}")
        if turn == 0:  # with as many validation passes as the loop has
            started = time.process_time()
            schedule = Schedule(EPOCHS, validate_every=1)
            trained = train_validated(model, splits, rates=rates, schedule=schedule, experiment=NAME)
            as_often = one_trial * trials / (time.process_time() - started)
        curve = trained.validation_curve.sel(rate=BASE_RATE, seed=seed).values
        differences.append(np.abs(losses[BASE_RATE] / curve - 1).max())
    detail = f"{', '.join(seconds)} for {EPOCHS} epochs"
    yield Measured(f"template transformer, {name}, over a plain loop", median(ratios), required, detail=detail)
    yield Measured("the same, with a validation pass after every epoch", as_often, None)
    yield Measured(f"the same losses, {name}", max(differences), 1e-5, "", at_most=True)


def _loops(
    shape: TransformerShape, split: TemplateSplit, rates: Sequence[float], seed: int
) -> tuple[dict[float, np.ndarray], float]:
    """The losses at each rate, and the CPU seconds of all rates after a first run that is not timed."""
    torch.set_num_threads(1)
    _loop(shape, split, BASE_RATE, seed)
    started = time.process_time()
    losses = {rate: np.array(_loop(shape, split, rate, seed)) for rate in rates}
    return losses, time.process_time() - started


def _loop(shape: TransformerShape, split: TemplateSplit, rate: float, seed: int) -> list[float]:
    """Validation loss after every epoch."""
    model = Transformer(shape, torch_stream(NAME, seed, "start"))
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    train = _loader(split.train, shuffle=True)
    validation, test = _loader(split.validation), _loader(split.test)
    curve = []
    for _ in range(EPOCHS):
        model.train()
        for strings, labels in train:
            loss = torch.nn.functional.mse_loss(model(strings), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        curve.append(_evaluated(model, validation))
        _evaluated(model, test)
    return curve


@torch.no_grad()
def _evaluated(model: Transformer, loader: DataLoader[tuple[torch.Tensor, ...]]) -> float:
    model.eval()
    total, count = 0.0, 0
    for strings, labels in loader:
        total += torch.nn.functional.mse_loss(model(strings), labels, reduction="sum").item()
        count += len(labels)
    return total / count


def _loader(batch: TemplateBatch, shuffle: bool = False) -> DataLoader[tuple[torch.Tensor, ...]]:
    data = TensorDataset(torch.from_numpy(batch.tokens), torch.from_numpy(batch.labels).float())
    return DataLoader(data, batch_size=1024, shuffle=shuffle)
