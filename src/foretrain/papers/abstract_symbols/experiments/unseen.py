"""What networks do with unseen symbols: attention that learns to copy, and MLPs that learn same/different."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import numpy as np
import torch
import xarray as xr
from pydantic import Field
from torch import Tensor

from foretrain.core.streams import seed_list, stream, torch_stream
from foretrain.core.trajectory import trajectory
from foretrain.data.template_examples import same_different
from foretrain.dynamics.optimizers import SGD, Adam
from foretrain.dynamics.protocols import Optimizer
from foretrain.kernels.attention import transformer_kernel
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Count, Seeds, about
from foretrain.models.finite_transformer import CopyingAttention, Widths, loss_velocities
from foretrain.models.one_hot_mlp import OneHotMLP
from foretrain.models.parameters import Parameters
from foretrain.papers.abstract_symbols import theory
from foretrain.papers.abstract_symbols.experiments.parameters import Gamma, NetworkSeeds

SAMPLES = 4  # training tokens; the last of the alphabet is the unseen one


SEEN, TOKENS = 6, 12  # tokens 0 to 5 occur in training, 6 to 11 do not
UNSEEN = ((6, 6), (7, 7), (8, 8), (6, 7), (7, 6), (8, 9), (10, 11))
# Batch size and optimizer of each way of training; "flow" takes small steps on all 36 strings of seen tokens.
WAYS: dict[str, tuple[int, Optimizer]] = {
    "SGD": (1, SGD(0.01)),
    "mini-batch": (8, SGD(0.02)),
    "Adam": (8, Adam(0.01)),
    "flow": (0, SGD(0.01)),
}


def _data(way: str, steps: int) -> list[tuple[Tensor, Tensor]]:
    """The batches of a run: same/different on seen tokens. All seeds of the network get the same batches."""
    batch = WAYS[way][0]
    if batch == 0:
        strings = np.array([(a, b) for a in range(SEEN) for b in range(SEEN)])
        labels = np.where(strings[:, 0] == strings[:, 1], 1.0, -1.0)
        return [(torch.tensor(strings), torch.tensor(labels))] * steps
    drawn = same_different().sample(steps * batch, stream("abstract_symbols/mlp", way), alphabet=SEEN)
    rows = torch.tensor(drawn.tokens).reshape(steps, batch, -1)
    return list(zip(rows, torch.tensor(drawn.labels).reshape(steps, batch), strict=True))


def trained(model: OneHotMLP, start: Parameters, way: str, steps: int) -> Parameters:
    """The parameters of all seeds after training in this way."""
    optimizer = WAYS[way][1]
    parameters = {name: value.clone() for name, value in start.items()}
    states = {name: optimizer.begin(value) for name, value in parameters.items()}
    rate = torch.tensor(float(optimizer.rate), dtype=torch.float64)  # type: ignore[arg-type]
    for step, (strings, labels) in enumerate(_data(way, steps), start=1):
        for name, gradient in model.gradient(parameters, strings, labels).items():
            optimizer.update(parameters[name], gradient, rate, states[name], step)
    return parameters


def mlp_outputs(seeds: int, width: int, layers: int, steps: int) -> xr.Dataset:
    """Outputs of trained MLPs on strings of unseen tokens."""
    model = OneHotMLP(TOKENS, 2, width=width, layers=layers)
    start = model.draw(seeds, torch_stream("abstract_symbols/mlp", width, layers))
    strings = torch.tensor(UNSEEN)
    outputs = [model.outputs(trained(model, start, way, steps), strings).numpy() for way in WAYS]
    return _outputs(np.stack(outputs), list(WAYS))


def relational_weights() -> tuple[OneHotMLP, Parameters]:
    """Remark I.3: weights of an MLP that tell same from different on every string, seen or not.

    Unit t is φ(1[x_1 = t] + 1[x_2 = t] − 1), 1 if both places hold token t; a last unit is always 1, and
    f = 2·Σ_t(unit t) − 1. Eq. 23 has no biases: the 1 is Σ_t 1[x_1 = t].
    """
    model = OneHotMLP(TOKENS, 2, width=TOKENS + 1)
    first = torch.zeros(1, TOKENS + 1, 2, TOKENS, dtype=torch.float64)  # [run, unit, place, token]
    first[0, :TOKENS] = torch.eye(TOKENS, dtype=torch.float64)[:, None]
    first[0, :TOKENS, 0] -= 1
    first[0, TOKENS, 0] = 1
    readout = torch.full((1, TOKENS + 1), 2.0, dtype=torch.float64)
    readout[0, TOKENS] = -1
    return model, {"W1": first.flatten(2), "w": readout}


def _outputs(values: np.ndarray, ways: Sequence[str]) -> xr.Dataset:
    return trajectory(
        {"output": (("way", "seed", "string"), values)},
        {"way": list(ways), "seed": np.arange(1, values.shape[1] + 1), "string": [f"{a}-{b}" for a, b in UNSEEN]},
    )


def transformer_outputs(seeds: int) -> xr.Dataset:
    """A transformer whose last layer is trained to the end on the same kind of data: ridge regression with K_trans."""
    cls, beta, gamma, ridge = [TOKENS], 4.0, 2.0, 1e-2
    unseen = [[*s, *cls] for s in UNSEEN]
    values = []
    for seed in range(seeds):
        drawn = same_different().sample(60, stream("abstract_symbols/mlp", "transformer", seed), alphabet=SEEN)
        known = [[*s, *cls] for s in drawn.tokens.tolist()]
        gram = transformer_kernel(known, known, beta=beta, gamma=gamma)
        weights = np.linalg.solve(gram + ridge * np.eye(len(known)), drawn.labels)
        values.append(transformer_kernel(unseen, known, beta=beta, gamma=gamma) @ weights)
    return _outputs(np.array(values)[None], ["transformer"])


def copying_velocities(net: CopyingAttention, tokens: int, rates: Mapping[str, float]) -> tuple[float, float]:
    """dL_train/dt and dL_test/dt at these rates: the first tokens are trained on, the last is the unseen one."""
    return loss_velocities(net, torch.arange(SAMPLES), torch.tensor([tokens - 1]), rates)


def copying_velocity(
    embedding: Annotated[Count, about("Embedding dimension.")] = 512,
    trained: Annotated[
        Literal["weights", "identity", "all"], about("The weights alone, b·I in every head alone, or both.")
    ] = "weights",
    heads: Annotated[Count, about("Attention heads.", unit="heads")] = 4,
    head: Annotated[Count, about("Width of each attention head.")] = 64,
    gamma: Gamma = 1.0,
    tokens: Annotated[
        int, Field(gt=SAMPLES, le=10**9), about("Tokens: the first four are trained on, the last is the unseen one.")
    ] = 8,
    seeds: Seeds = 16,
) -> xr.Dataset:
    """Theorems 4.1 and 4.2: dL_train/dt and dL_test/dt, of an unseen token, at time 0 and unit rates, and its limit."""
    rates, limit = {}, 0.0
    if trained != "identity":
        rates = theory.unit_rates(heads, embedding, head)
        limit += theory.unseen_velocity(gamma, tokens, dict.fromkeys("VOPE", True))
    if trained != "weights":
        rates["b"] = 1 / heads
        limit += theory.identity_velocity(tokens)
    listed = seed_list(seeds)
    velocities = []
    for seed in listed:
        generator = torch_stream("abstract_symbols/copying", embedding, heads, seed)
        net = CopyingAttention(tokens, Widths(heads, embedding, head, 1), gamma=gamma, generator=generator)
        velocities.append(copying_velocities(net, tokens, rates))
    train, test = np.array(velocities).T
    unit = {"units": "per unit of time"}
    return xr.Dataset(
        {"train": ("seed", train, unit), "test": ("seed", test, unit), "limit": ((), limit, unit)}, {"seed": listed}
    )


def mlp_unseen(
    seeds: NetworkSeeds = 2000,
    width: Annotated[Count, about("Width of the hidden layers.")] = 64,
    layers: Annotated[Count, about("Number of hidden layers.", unit="layers")] = 2,
    steps: Annotated[Count, about("Steps of training.", unit="steps")] = 300,
) -> xr.Dataset:
    """Theorem I.2: outputs on strings of unseen tokens, of MLPs over seeds and of a transformer's last layer."""
    outputs = [mlp_outputs(seeds, width, layers, steps).output, transformer_outputs(min(seeds, 20)).output]
    means = xr.concat([o.mean("seed") for o in outputs], dim="way")
    spread = xr.concat([o.std("seed", ddof=1) for o in outputs], dim="way")
    counts = [o.sizes["seed"] for o in outputs for _ in o.way]
    return trajectory(
        {
            "mean": (("way", "string"), means.values),
            "std": (("way", "string"), spread.values),
            "runs": ("way", np.array(counts, dtype=np.float64)),
            "label": ("string", [1.0 if a == b else -1.0 for a, b in UNSEEN]),
        },
        {"way": means.way.values, "string": means.string.values},
        width=width,
        layers=layers,
        steps=steps,
    )


EXPERIMENTS = [
    Experiment(
        "abstract_symbols/copying_velocity",
        "How fast the loss on an unseen token moves at the start of training, against embedding width",
        copying_velocity,
        {"embedding": (64, 128, 256, 512, 1024, 2048, 4096), "trained": ("weights", "identity")},
        batched={"seeds": "seed"},
        settings={"fast": {"embedding": (64, 256), "heads": 2, "head": 8, "seeds": 3}, "full": {}},
    ),
    Experiment(
        "abstract_symbols/mlp_unseen",
        "Mean outputs on strings of unseen tokens: MLPs trained in four ways, and a transformer",
        mlp_unseen,
        settings={"fast": {"seeds": 100, "width": 8, "layers": 1, "steps": 20}, "full": {}},
    ),
]
