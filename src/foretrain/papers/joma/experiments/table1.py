"""Table 1: how well hidden nodes of a small transformer align with the latents its data was made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from foretrain.core.errors import require_known, require_whole
from foretrain.core.streams import seed_list, stream
from foretrain.core.trajectory import trajectory
from foretrain.data.latent_tree import LatentTree
from foretrain.data.set_union import SetUnionHierarchy
from foretrain.dynamics import Adam, train
from foretrain.ledger.experiment import Experiment
from foretrain.measures import mean_alignment
from foretrain.models.causal_transformer import CausalTransformer, LabelledSequences
from foretrain.papers.joma.setting import TABLE1, TABLE1_NODES, Table1Data, Table1Model

BATCH = 128
BATCHES = {"set union": BATCH, "HBLT": 64}  # of HBLT fewer: its samples are all different, and cost as many sequences
GENERATORS = tuple(BATCHES)
TRAININGS = ("none", "labels", "shuffled labels")
VOCAB, LENGTH = 100, 30  # M with one pad token, T
EVALUATED = 256  # samples of HBLT on which NCorr is measured
MODEL = Table1Model()


class SetUnionTask:
    """The authors' data: a random hierarchy per stream, one sequence per class.

    A batch of n draws classes with replacement; it is every sequence once, weighted by how often its class was drawn,
    which has the same gradient. `shuffled` gives the labels out anew at every step (one fixed shuffle would only
    rename the classes).
    """

    def __init__(self, data: Table1Data, *, shuffled: bool = False) -> None:
        self.classes, self.children, self.latents = data.classes, data.children, data.latents
        self.shuffled = shuffled
        self.positions = min(LENGTH, self.children ** (len(self.latents) + 1) + 1)
        self._drawn: dict[np.random.Generator, SetUnionHierarchy] = {}

    def hierarchy(self, generator: np.random.Generator) -> SetUnionHierarchy:
        if generator not in self._drawn:
            self._drawn[generator] = SetUnionHierarchy(
                classes=self.classes,
                latents=self.latents,
                children=self.children,
                vocab=VOCAB,
                length=LENGTH,
                generator=generator,
            )
        return self._drawn[generator]

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
    `children` children, tokens that occur stand in rising order. There are N_1 top latents, or as many as leave at
    most VOCAB − 1 tokens. Samples are fresh at every step.

    Sequences are long enough for nearly all: with N_ch = 2 some 17 to 19 tokens occur, with N_ch = 3 33, twice as many
    places as of set unions are kept for these. Of what does not fit (one token in 300 with N_ch = 2, in 10 000 with
    N_ch = 3) it is drawn at random what stays out.
    """

    def __init__(self, data: Table1Data, *, shuffled: bool = False, rho: float = 0.9) -> None:
        self.classes, self.children = data.classes, data.children
        self.tops = data.as_tree(VOCAB - 1).latents[1]
        self.shuffled, self.rho, self.positions = shuffled, rho, LENGTH * max(1, self.children - 1)
        self._drawn: dict[np.random.Generator, LatentTree] = {}

    def tree(self, generator: np.random.Generator) -> LatentTree:
        if generator not in self._drawn:
            p_zero = np.full((self.tops, self.classes), (1 + self.rho) / 2)
            for number in range(self.classes):
                own = generator.choice(self.tops, self.children, replace=False)
                p_zero[own, number] = (1 - self.rho) / 2
            branching = [self.tops, self.children, self.children]
            self._drawn[generator] = LatentTree.regular(3, branching, self.rho, classes=self.classes, p_zero=p_zero)
        return self._drawn[generator]

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
        """Of the tokens that occur in a sample as many as there are places, drawn evenly."""
        order = np.argsort(np.where(present, generator.random(present.shape), 2.0), axis=1)
        kept = np.zeros_like(present)
        np.put_along_axis(kept, order[:, : self.positions], True, axis=1)
        return kept & present


def with_short_padding(sequences: np.ndarray, labels: np.ndarray, positions: int) -> LabelledSequences:
    """The last `positions` places of pre-padded sequences, the pads left in them standing for all pads.

    Without positions and behind a causal mask all pads of a sequence are in the same state, so n pads are one pad
    with ln n added to its attention logit: the same network output at a part of the cost.
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
    generator: str = "set union",
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5),
    steps: int = MODEL.steps,
    *,
    width: int = MODEL.width,
    hidden: int = MODEL.hidden,
    shuffled: bool = False,
    batch: int | None = None,
) -> xr.Dataset:
    """NCorr of the two lower layers along the training of one configuration: [seed, time, s]; and the loss.

    Beside it `chance` [seed, s], NCorr of as many nodes that are standard normal noise on the same samples: the best of
    several hundred correlates with anything, the more so the fewer samples there are.
    """
    require_known("generator", generator, GENERATORS)
    require_whole("steps", steps, 1)
    data = Table1Data.named(configuration)
    if generator == "HBLT":
        data = data.as_tree(VOCAB - 1)  # two columns of the table may be one tree: it is trained once
    setting = Table1Model(width=width, steps=steps, hidden=hidden)
    return _align(data, generator, seeds, setting, shuffled, batch or BATCHES[generator])


@lru_cache(maxsize=64)
def _align(
    data: Table1Data, generator: str, seeds: tuple[int, ...], setting: Table1Model, shuffled: bool, batch: int
) -> xr.Dataset:
    kind = SetUnionTask if generator == "set union" else LatentTreeTask
    task, experiment = kind(data, shuffled=shuffled), f"joma/table1/{generator}"
    model = CausalTransformer(
        vocab=VOCAB, classes=data.classes, layers=setting.layers, width=setting.width, hidden=setting.hidden
    )
    drawn = [task.evaluation(stream(experiment, seed, "data")) for seed in seeds]
    shown = LabelledSequences.stack([batch for batch, _ in drawn])
    latents = [torch.stack([parts[layer] for _, parts in drawn]) for layer in range(2)]

    noise = [
        stream(experiment, seed, "random nodes").standard_normal((shown.labels.shape[-1], setting.hidden))
        for seed in seeds
    ]
    nodes = torch.from_numpy(np.stack(noise))
    chance = torch.stack([mean_alignment(part, nodes) for part in latents], dim=-1).numpy()

    def alignment(parameters: Mapping[str, Tensor]) -> tuple[tuple[str, ...], Tensor]:
        hidden = model.forward(dict(parameters), shown)[1]
        parts = [mean_alignment(latents[s].unsqueeze(0), hidden[s].amax(-2)) for s in range(2)]  # one setting
        return ("s",), torch.stack(parts, dim=-1)

    run = train(
        model,
        task,
        optimizer=Adam(setting.rate, weight_decay=setting.weight_decay),
        steps=setting.steps,
        batch=batch,
        seeds=seeds,
        seeds_at_once=len(seeds),  # the measure knows the data of all seeds
        record={"ncorr": alignment, "loss": lambda p: ((), model.loss(p, shown))},
        save_at=(0, setting.steps // 2, setting.steps),
        experiment=experiment,
    )
    return run[["ncorr", "loss"]].assign_coords(s=[0, 1]).assign(chance=(("seed", "s"), chance))


def table1(
    configurations: Sequence[str] = tuple(TABLE1),
    generators: Sequence[str] = GENERATORS,
    hidden: Sequence[int] = TABLE1_NODES,
    seeds: int | Sequence[int] = 5,
    steps: int = MODEL.steps,
    width: int = MODEL.width,
) -> xr.Dataset:
    """Table 1: NCorr of both layers trained, untrained, and trained on labels shuffled at every step.

    And of random nodes (`chance`), the level above which it says something of the network.
    """
    listed = tuple(seed_list(seeds))
    cells = []
    for configuration, generator, nodes in product(configurations, generators, hidden):
        trained, shuffled = (
            align(configuration, generator, listed, steps, width=width, hidden=nodes, shuffled=labels)
            for labels in (False, True)
        )
        parts = [trained.isel(time=0), trained.isel(time=-1), shuffled.isel(time=-1)]
        parts = [part.drop_vars(["time", "chance"]) for part in parts]
        columns = xr.concat(parts, xr.IndexVariable("training", list(TRAININGS))).assign(chance=trained["chance"])
        cells.append(columns.expand_dims(configuration=[configuration], generator=[generator], hidden=[nodes]))
    whole = xr.combine_by_coords(cells, combine_attrs="drop").sel(  # which sorts every axis
        configuration=list(configurations), generator=list(generators), hidden=list(hidden), training=list(TRAININGS)
    )
    variables = {name: whole[name] for name in ("ncorr", "loss", "chance")}
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
        cut={"configurations": "configuration", "generators": "generator", "hidden": "hidden"},
        settings={
            "fast": {
                "configurations": ("C20-ch2-10-20",),
                "generators": ("set union",),
                "seeds": 2,
                "steps": 10,
                "width": 32,
                "hidden": (64,),
            },
            "full": {},
        },
    ),
]
