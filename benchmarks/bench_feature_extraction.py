"""Feature extraction: an epoch over texts without padding, the empirical kernel, the forecast of a large corpus."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional
from torch.utils.data import DataLoader

from benchmarks import Measured, cpu_seconds
from foretrain.data.labelled_texts import LabelledTexts
from foretrain.data.tokens import TokenTexts
from foretrain.dynamics import Adagrad
from foretrain.dynamics.epochs import train_epochs
from foretrain.forecast.corpus import forecast_corpus
from foretrain.kernels.empirical import empirical_ntk
from foretrain.kernels.tangent import Scales
from foretrain.models.classifiers import Parameters
from foretrain.papers.feature_extraction.networks import network
from foretrain.streams import stream, torch_stream

WIDTH, BATCH, RATE = 64, 32, 0.01
EPS = 1e-6  # of Adagrad; with less, a gradient that is rounding alone makes a whole step, and equal programs part
SST2 = (6920, 14_830)  # texts and tokens


def measure() -> Iterator[Measured]:
    yield _epoch()
    yield _kernel()
    yield _forecast()


def _texts(count: int, vocab: int, lengths: tuple[int, int], name: str) -> tuple[TokenTexts, np.ndarray]:
    """Texts of Zipf tokens with the sizes of a real corpus."""
    draw = stream("benchmark", name)
    length = draw.integers(*lengths, count)
    frequency = 1 / (np.arange(vocab) + 2.0)
    flat = draw.choice(vocab, int(length.sum()), p=frequency / frequency.sum())
    return TokenTexts(flat, np.concatenate([[0], np.cumsum(length)]), vocab), draw.integers(0, 2, count)


class _Padded(nn.Module):
    """The MLP as one writes it: padded texts, dense gradients of all embeddings."""

    def __init__(self, start: Parameters) -> None:
        super().__init__()
        self.embedding = nn.Parameter(start["embedding"].clone())
        self.weight = nn.Parameter(start["weight"].clone())
        self.readout = nn.Parameter(start["readout"].clone())

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        there = (tokens >= 0).unsqueeze(-1)
        hidden = torch.relu(self.embedding[tokens.clamp_min(0)] @ self.weight.T / WIDTH**0.5) * there
        return (hidden.sum(1) @ self.readout.T / WIDTH**0.5)[:, 0]


def _epoch() -> Measured:
    """One epoch of the MLP at the size of SST-2, with equal weights after it."""
    texts, labels = _texts(*SST2, (4, 40), "epoch")
    net = network("MLP ReLU", texts.vocab, WIDTH, scales=Scales(0.1, 0.1, 0.1, 0.1))
    ours: dict[str, torch.Tensor] = {}
    seconds = cpu_seconds(
        lambda: ours.update(
            train_epochs(
                net, texts, labels, optimizer=Adagrad(RATE, EPS), epochs=1, batch=BATCH, experiment="benchmark"
            )
        )
    )
    plain = _Padded(net.start(torch_stream("benchmark", 1, "start")))
    method = torch.optim.Adagrad(plain.parameters(), lr=RATE, eps=EPS)
    longest = int(texts.lengths.max())
    rows = [(np.pad(texts[i], (0, longest - len(texts[i])), constant_values=-1), labels[i]) for i in range(len(texts))]
    order = stream("benchmark", 1, "order").permutation(len(texts))

    def loop() -> None:
        for tokens, said in DataLoader(rows, batch_size=BATCH, sampler=order.tolist()):
            method.zero_grad()
            functional.binary_cross_entropy_with_logits(plain(tokens), said.float()).backward()
            method.step()

    baseline = cpu_seconds(loop)
    apart = max(float((ours[name] - value.detach()).abs().max()) for name, value in plain.named_parameters())
    assert apart < 1e-5, f"the two trainings end {apart:.1e} apart"
    detail = f"{seconds:.2f} s against {baseline:.2f} s; weights differ by {apart:.0e}"
    return Measured("epoch of the MLP over a padded DataLoader", baseline / seconds, 10, detail=detail)


def _kernel() -> Measured:
    """Empirical kernel of 512 inputs and 100k parameters."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(64, 270), nn.ReLU(), nn.Linear(270, 270), nn.ReLU(), nn.Linear(270, 1))
    x = torch.randn(512, 64)
    weights = {name: p.detach() for name, p in module.named_parameters()}

    def baseline() -> torch.Tensor:
        def one(w: dict[str, torch.Tensor], row: torch.Tensor) -> torch.Tensor:
            return functional_call(module, w, (row.unsqueeze(0),)).squeeze()

        gradients = vmap(grad(one), in_dims=(None, 0))(weights, x)
        jacobian = torch.cat([g.flatten(1) for g in gradients.values()], dim=1)
        return jacobian @ jacobian.T

    ours, plain = cpu_seconds(lambda: empirical_ntk(module, x), 3), cpu_seconds(baseline, 3)
    torch.testing.assert_close(empirical_ntk(module, x)[..., 0, 0], baseline(), rtol=1e-3, atol=1e-3)
    return Measured("empirical kernel over vmap(grad)", plain / ours, 1.5, detail=f"{ours:.2f} s against {plain:.2f} s")


def _forecast() -> Measured:
    """The forecast of 25 000 texts with the lengths of film reviews."""
    texts, labels = _texts(25_000, 80_000, (60, 480), "forecast")
    said = tuple(" ".join(f"w{token}" for token in texts[i]) for i in range(len(texts)))
    corpus = LabelledTexts(said, labels, ("0", "1"))
    return Measured(
        "forecast of 25 000 long texts", cpu_seconds(lambda: forecast_corpus(corpus)), 60, "s", at_most=True
    )
