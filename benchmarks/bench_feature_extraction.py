"""Feature extraction: an epoch over texts without padding, the empirical kernel, the forecast of a large corpus."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from benchmarks import Measured, cpu_seconds
from benchmarks.memory import peak_of
from foretrain.core.streams import stream
from foretrain.data.tokens import TokenTexts
from foretrain.dynamics.epochs import train_epochs
from foretrain.dynamics.optimizers import Adagrad
from foretrain.kernels.empirical import empirical_ntk
from foretrain.kernels.tangent import Scales
from foretrain.models.parameters import Parameters
from foretrain.models.text_networks import network
from foretrain.papers.feature_extraction.experiments.label_scores import read_corpus

WIDTH, BATCH, RATE = 64, 32, 0.01
EPS = 1e-4  # of Adagrad; with 1e-6 a gradient that is nothing but rounding makes a step, and results differ by 2e-2
SST2 = (6920, 14_830)  # texts and tokens
IMDB = (25_000, 80_000)
MEMORY = 2.0  # GB that the forecast may take
DATA = Path(os.environ.get("FORETRAIN_DATA", Path(__file__).parents[2] / "shared" / "data"))


def measure() -> Iterator[Measured]:
    yield _epoch()
    yield _kernel()
    yield from _forecast()


def _texts(count: int, vocab: int, lengths: tuple[int, int], name: str) -> tuple[TokenTexts, np.ndarray]:
    """Texts of Zipf tokens with the sizes of a real corpus, in case that is not there."""
    draw = stream("benchmark", name)
    length = draw.integers(*lengths, count)
    frequency = 1 / (np.arange(vocab) + 2.0)
    flat = draw.choice(vocab, int(length.sum()), p=frequency / frequency.sum())
    return TokenTexts(flat, np.concatenate([[0], np.cumsum(length)]), vocab), draw.integers(0, 2, count)


class _Padded(nn.Module):
    """The MLP as one writes it in torch: an embedding with a padding token, a mask, a sum over the text."""

    def __init__(self, start: Parameters) -> None:
        super().__init__()
        vocab, width = start["embedding"].shape
        self.embedding = nn.Embedding(vocab + 1, width, padding_idx=vocab)
        self.hidden, self.readout = nn.Linear(width, width, bias=False), nn.Linear(width, 1, bias=False)
        with torch.no_grad():
            self.embedding.weight[:vocab] = start["embedding"]
            self.hidden.weight.copy_(start["weight"])
            self.readout.weight.copy_(start["readout"])
        self.padding, self.root = vocab, width**0.5

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        there = (tokens != self.padding).unsqueeze(-1)
        hidden = torch.relu(self.hidden(self.embedding(tokens)) / self.root) * there
        return self.readout(hidden.sum(1)).squeeze(1) / self.root


def _epoch() -> Measured:
    """One epoch of the MLP over SST-2 (or made-up texts of its size), with equal weights after it."""
    if (DATA / "sst2").is_dir():
        corpus = read_corpus("sst2", data=str(DATA))
        seen = int(corpus.unseen[0])  # tokens of test texts only are left out
        texts, labels = TokenTexts(corpus.train.flat, corpus.train.starts, seen), corpus.labels
    else:
        texts, labels = _texts(*SST2, (4, 40), "epoch")
    net = network("MLP ReLU", texts.vocab, WIDTH, scales=Scales(0.1, 0.1, 0.1, 0.1))
    method = Adagrad(RATE, EPS)

    def ours(epochs: int = 1) -> Parameters:
        return train_epochs(net, texts, labels, optimizer=method, epochs=epochs, batch=BATCH, experiment="benchmark")

    rows = [(torch.from_numpy(texts[i]), float(labels[i])) for i in range(len(texts))]
    order = stream("benchmark", 1, "order").permutation(len(texts)).tolist()

    def collate(batch: list[tuple[torch.Tensor, float]]) -> tuple[torch.Tensor, torch.Tensor]:
        tokens, targets = zip(*batch, strict=True)
        return pad_sequence(list(tokens), batch_first=True, padding_value=texts.vocab), torch.tensor(targets)

    def loop(order: list[int]) -> _Padded:
        plain = _Padded(net.start_one(("benchmark", 1, "start")))
        torch_method = torch.optim.Adagrad(plain.parameters(), lr=RATE, eps=EPS)
        for tokens, targets in DataLoader(rows, batch_size=BATCH, sampler=order, collate_fn=collate):  # type: ignore[arg-type]
            torch_method.zero_grad()
            functional.binary_cross_entropy_with_logits(plain(tokens), targets).backward()
            torch_method.step()
        return plain

    ours(0), loop(order[:BATCH])  # whatever is loaded on first use is not timed
    seconds, baseline = cpu_seconds(ours, 5), cpu_seconds(lambda: loop(order), 3)
    plain, learned = loop(order), ours()
    same = {"embedding": plain.embedding.weight[: texts.vocab], "weight": plain.hidden.weight}
    same["readout"] = plain.readout.weight
    apart = max(float((learned[name] - value.detach()).abs().max()) for name, value in same.items())
    assert apart < 1e-5, f"the two trainings end {apart:.1e} apart"
    detail = f"{seconds:.2f} s against {baseline:.2f} s; weights differ by {apart:.0e}"
    return Measured("epoch of the MLP over a padded DataLoader", baseline / seconds, 8, detail=detail)


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

    empirical_ntk(module, x[:8])  # whatever is loaded on first use is not timed
    ours, plain = cpu_seconds(lambda: empirical_ntk(module, x), 5), cpu_seconds(baseline, 3)
    torch.testing.assert_close(empirical_ntk(module, x)[..., 0, 0], baseline(), rtol=1e-3, atol=1e-3)
    detail = f"{ours:.3f} s against {plain:.2f} s"
    return Measured("empirical kernel over vmap(grad)", plain / ours, 1.5, detail=detail)


def _forecast() -> Iterator[Measured]:
    """The forecast of the 25 000 reviews of IMDB (or made-up ones of their lengths), in a process of its own."""
    with TemporaryDirectory() as folder:
        file = DATA / "imdb" / "train.csv.gz"
        if not file.is_file():
            texts, labels = _texts(*IMDB, (60, 480), "forecast")
            file = Path(folder) / "reviews.csv"
            lines = (" ".join(f"w{token}" for token in texts[i]) + f",{labels[i]}" for i in range(len(texts)))
            file.write_text("text,label\n" + "\n".join(lines) + "\n")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = ["forecast", "corpus", str(file), "--json", f"{folder}/f.json"]
        memory = peak_of(f"from foretrain.cli import main\nmain({command})")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    yield Measured("forecast of 25 000 reviews, with reading", seconds, 150, "s", at_most=True)
    yield Measured("its memory", memory / 1e9, MEMORY, "GB", at_most=True)
