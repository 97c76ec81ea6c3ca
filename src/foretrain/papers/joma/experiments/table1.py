"""Table 1: how well the hidden nodes of a small transformer align with the latents behind its data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Annotated, get_args

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from foretrain.core.errors import require_known, require_whole
from foretrain.core.streams import seed_list, stream
from foretrain.core.trajectory import trajectory
from foretrain.data.latent_tree import LatentTree
from foretrain.data.set_union import SetUnionHierarchy
from foretrain.dynamics.optimizers import Adam
from foretrain.dynamics.train import train
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Count, Seeds, about
from foretrain.measures import mean_alignment
from foretrain.models.causal_transformer import CausalTransformer, LabelledSequences
from foretrain.papers.joma.experiments.parameters import Configuration, Generator, TrainingSteps
from foretrain.papers.joma.setting import TABLE1, TABLE1_NODES, Table1Data, Table1Model
from foretrain.papers.joma.simulations.training import once_per_stream

BATCH = 128
# HBLT has the smaller batch: its samples all differ, so each costs a sequence of its own
BATCHES: Mapping[Generator, int] = {"set union": BATCH, "HBLT": 64}
GENERATORS: tuple[Generator, ...] = get_args(Generator)
TRAININGS = ("none", "labels", "shuffled labels")
VOCAB, LENGTH = 100, 30  # M, of which one token is the pad, and T
EVALUATED = 256  # samples of HBLT on which NCorr is measured
MODEL = Table1Model()


class SetUnionTask:
    """The authors' data: a random hierarchy for each stream, and one sequence per class.

    A batch of n draws classes with replacement. It holds every sequence once, weighted by how often its class was
    drawn, which gives the same gradient. `shuffled` assigns the labels anew at every step; one fixed shuffle would only
    rename the classes.
    """

    def __init__(self, data: Table1Data, *, shuffled: bool = False) -> None:
        self.classes, self.children, self.latents = data.classes, data.children, data.latents
        self.shuffled = shuffled
        self.positions = min(LENGTH, self.children ** (len(self.latents) + 1) + 1)

    @once_per_stream
    def hierarchy(self, generator: np.random.Generator) -> SetUnionHierarchy:
        return SetUnionHierarchy(
            classes=self.classes, latents=self.latents, children=self.children, vocab=VOCAB, length=LENGTH,
            generator=generator,
        )  # fmt: skip

    def sample(self, n: int, generator: np.random.Generator) -> LabelledSequences:
        sequences = self.hierarchy(generator).sequences
        labels = generator.permutation(self.classes) if self.shuffled else np.arange(self.classes)
        drawn = generator.multinomial(n, np.full(self.classes, 1 / self.classes)) / n
        weights = torch.from_numpy(drawn).to(torch.float32)
        return replace(with_short_padding(sequences, labels, self.positions), weights=weights)

    def evaluation(self, generator: np.random.Generator) -> tuple[LabelledSequences, list[Tensor]]:
        active = self.hierarchy(generator).active
        batch = with_short_padding(self.hierarchy(generator).sequences, np.arange(self.classes), self.positions)
        return batch, [torch.from_numpy(layer.astype(np.float64)) for layer in active[:2]]


class LatentTreeTask:
    """HBLT(ρ) of Definition 2 in the same shape: a class switches on `children` of the top latents, every latent has
    `children` children, and the tokens that occur are sorted. There are N_1 top latents, or fewer if that would make
    more than VOCAB − 1 tokens. Samples are fresh at every step.

    Nearly all tokens fit into a sequence: about 17 to 19 occur with N_ch = 2, and 33 with N_ch = 3, for which sequences
    are twice as long as for set unions. If some do not fit (one token in 300 with N_ch = 2, in 10 000 with N_ch = 3),
    those left out are chosen at random.
    """

    def __init__(self, data: Table1Data, *, shuffled: bool = False, rho: float = 0.9) -> None:
        self.classes, self.children = data.classes, data.children
        self.tops = data.as_tree(VOCAB - 1).latents[1]
        self.shuffled, self.rho, self.positions = shuffled, rho, LENGTH * max(1, self.children - 1)

    @once_per_stream
    def tree(self, generator: np.random.Generator) -> LatentTree:
        p_zero = np.full((self.tops, self.classes), (1 + self.rho) / 2)
        for number in range(self.classes):
            switched_on = generator.choice(self.tops, self.children, replace=False)
            p_zero[switched_on, number] = (1 - self.rho) / 2
        branching = [self.tops, self.children, self.children]
        return LatentTree.regular(3, branching, self.rho, classes=self.classes, p_zero=p_zero)

    def sample(self, n: int, generator: np.random.Generator) -> LabelledSequences:
        return self._batch(n, generator)[0]

    def evaluation(self, generator: np.random.Generator) -> tuple[LabelledSequences, list[Tensor]]:
        return self._batch(EVALUATED, generator)

    def _batch(self, n: int, generator: np.random.Generator) -> tuple[LabelledSequences, list[Tensor]]:
        tree = self.tree(generator)
        drawn = tree.sample(n, generator)
        listed = np.sort(np.where(self._fitting(drawn.token_sets, generator), np.arange(tree.vocab), -1), axis=1)
        listed = listed[:, -self.positions :]
        sequences = np.full((n, self.positions), VOCAB - 1)
        sequences[:, self.positions - listed.shape[1] :] = np.where(listed >= 0, listed, VOCAB - 1)
        labels = generator.permutation(drawn.classes) if self.shuffled else drawn.classes
        latents = [torch.from_numpy(drawn.values[:, tree.level == level].astype(np.float64)) for level in (1, 0)]
        return with_short_padding(sequences, labels, self.positions), latents

    def _fitting(self, present: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """As many of the tokens that occur in a sample as there are positions, chosen uniformly."""
        order = np.argsort(np.where(present, generator.random(present.shape), 2.0), axis=1)
        kept = np.zeros_like(present)
        np.put_along_axis(kept, order[:, : self.positions], True, axis=1)
        return kept & present


def with_short_padding(sequences: np.ndarray, labels: np.ndarray, positions: int) -> LabelledSequences:
    """The last `positions` positions of pre-padded sequences, with a bias that lets the pads among them stand for all.

    Without positional encoding and under a causal mask, all pads of a sequence are in the same state. So n pads equal
    one pad with ln n added to its attention logit: the same output at a fraction of the cost.
    """
    pads = sequences == VOCAB - 1
    kept = sequences[:, -positions:]
    left = pads[:, -positions:].sum(axis=1, keepdims=True)
    weight = pads.sum(axis=1, keepdims=True) / np.maximum(left, 1)
    bias = np.where(pads[:, -positions:], np.log(np.maximum(weight, 1)), 0.0)
    return LabelledSequences(
        torch.from_numpy(kept), torch.from_numpy(np.asarray(labels)), torch.from_numpy(bias).to(torch.float32)
    )


def align(
    configuration: str,
    generator: Generator = "set union",
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5),
    steps: int = MODEL.steps,
    *,
    width: int = MODEL.width,
    hidden: int = MODEL.hidden,
    shuffled: bool = False,
    batch: int | None = None,
) -> xr.Dataset:
    """Table 1: NCorr of the two lower layers along the training of one configuration [seed, time, s], and the loss.

    `chance` [seed, s] is NCorr of the same number of nodes of standard normal noise on the same samples: the best of
    several hundred nodes correlates with anything, especially if there are few samples.
    """
    require_known("generator", generator, GENERATORS)
    require_whole("steps", steps, 1)
    data = Table1Data.named(configuration)
    if generator == "HBLT":
        data = data.as_tree(VOCAB - 1)  # two columns of the table can be the same tree, which is then trained once
    setting = Table1Model(width=width, steps=steps, hidden=hidden)
    return _align(data, generator, seeds, setting, shuffled, batch or BATCHES[generator])


@lru_cache(maxsize=64)
def _align(
    data: Table1Data, generator: Generator, seeds: tuple[int, ...], setting: Table1Model, shuffled: bool, batch: int
) -> xr.Dataset:
    kind = SetUnionTask if generator == "set union" else LatentTreeTask
    task, experiment = kind(data, shuffled=shuffled), f"joma/table1/{generator}"
    model = CausalTransformer(
        vocab=VOCAB, classes=data.classes, layers=setting.layers, width=setting.width, hidden=setting.hidden
    )
    drawn = [task.evaluation(stream(experiment, seed, "data")) for seed in seeds]
    evaluated = LabelledSequences.stack([batch for batch, _ in drawn])
    latents = [torch.stack([parts[layer] for _, parts in drawn]) for layer in range(2)]

    noise = [
        stream(experiment, seed, "random nodes").standard_normal((evaluated.labels.shape[-1], setting.hidden))
        for seed in seeds
    ]
    nodes = torch.from_numpy(np.stack(noise))
    chance = torch.stack([mean_alignment(part, nodes) for part in latents], dim=-1).numpy()

    def alignment(parameters: Mapping[str, Tensor]) -> tuple[tuple[str, ...], Tensor]:
        hidden = model.forward(dict(parameters), evaluated)[1]
        parts = [mean_alignment(latents[s].unsqueeze(0), hidden[s].amax(-2)) for s in range(2)]  # one setting
        return ("s",), torch.stack(parts, dim=-1)

    run = train(
        model,
        task,
        optimizer=Adam(setting.rate, weight_decay=setting.weight_decay),
        steps=setting.steps,
        batch=batch,
        seeds=seeds,
        seeds_at_once=len(seeds),  # `alignment` uses the data of all seeds at once
        record={"ncorr": alignment, "loss": lambda p: ((), model.loss(p, evaluated))},
        save_at=(0, setting.steps // 2, setting.steps),
        experiment=experiment,
    )
    return run[["ncorr", "loss"]].assign_coords(s=[0, 1]).assign(chance=(("seed", "s"), chance))


def table1(
    configuration: Configuration,
    generator: Annotated[
        Generator,
        about("How the data is made: by unions of sets, as the authors did, or from the latent tree HBLT(ρ)."),
    ],
    hidden: Annotated[Count, about("Number of hidden nodes of each MLP.", unit="nodes")],
    seeds: Seeds = 5,
    steps: TrainingSteps = MODEL.steps,
    width: Annotated[Count, about("Width of the transformer; the learning rate is divided by it.")] = MODEL.width,
) -> xr.Dataset:
    """Table 1: NCorr of both layers untrained, trained, and trained on labels that are shuffled at every step.

    `chance` is NCorr of random nodes: only values above it say something about the network.
    """
    trained, shuffled = (
        align(configuration, generator, tuple(seed_list(seeds)), steps, width=width, hidden=hidden, shuffled=labels)
        for labels in (False, True)
    )
    parts = [trained.isel(time=0), trained.isel(time=-1), shuffled.isel(time=-1)]
    parts = [part.drop_vars(["time", "chance"]) for part in parts]
    columns = xr.concat(parts, xr.IndexVariable("training", list(TRAININGS)))
    variables = {"ncorr": columns["ncorr"], "loss": columns["loss"], "chance": trained["chance"]}
    return trajectory(variables, width=width, steps=steps, batches=BATCHES)


def printed_table(configurations: Sequence[str] = tuple(TABLE1)) -> xr.Dataset:
    """The table as printed: mean and standard deviation over 5 seeds, [configuration, s]."""
    cells = np.array([TABLE1[c] for c in configurations])
    return trajectory(
        {"ncorr": (("configuration", "s"), cells[..., 0]), "ncorr_std": (("configuration", "s"), cells[..., 1])},
        {"configuration": list(configurations), "s": [0, 1]},
    )


EXPERIMENTS = [
    Experiment(
        "joma/table1",
        "Alignment of hidden nodes with latents: untrained, trained, trained on shuffled labels",
        table1,
        axes={"configuration": tuple(TABLE1), "generator": GENERATORS, "hidden": TABLE1_NODES},
        settings={
            "fast": {
                "configuration": ("C20-ch2-10-20",),
                "generator": ("set union",),
                "seeds": 2,
                "steps": 10,
                "width": 32,
                "hidden": (64,),
            },
            "full": {},
        },
    )
]
