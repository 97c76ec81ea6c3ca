"""Section 4: one b·I per head is an attention-modulated skip connection, not the skip connection of a ResNet."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
import torch
import xarray as xr
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from foretrain.core.streams import torch_stream
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Count, Positive, WholeNumber, about
from foretrain.models.finite_transformer import Widths


class CopyingStrings(nn.Module):
    """The attention-only network of J.2 that reads a symbol and, with `cls`, a [CLS] after it, where it answers.

    `skip` is one trainable multiple of the input at the place of the answer, as in a ResNet; `b` is a multiple of the
    identity in every head, applied to what the head attends to. Both start at 0.
    """

    def __init__(self, tokens: int, widths: Widths, *, cls: bool, generator: torch.Generator) -> None:
        super().__init__()
        H, d, e = widths.heads, widths.embedding, widths.head
        self.cls = cls

        def normal(variance: float, *shape: int) -> nn.Parameter:
            return nn.Parameter(variance**0.5 * torch.randn(*shape, generator=generator, dtype=torch.float64))

        self.E, self.P = normal(1 / d, tokens + 1, d), normal(1 / d, 1 + cls, d)  # the last token is [CLS]
        self.K, self.Q, self.V = (normal(1 / e, H, e, d) for _ in range(3))
        self.O = normal(1 / d, H, e, d)
        self.b, self.skip = (nn.Parameter(torch.zeros(n, dtype=torch.float64)) for n in (H, 1))

    def forward(self, tokens: Int[Tensor, "sample"]) -> Float[Tensor, "sample token"]:
        strings = (
            torch.stack([tokens, torch.full_like(tokens, len(self.E) - 1)], dim=1) if self.cls else tokens[:, None]
        )
        z = self.E[strings] + self.P  # [sample, place, d]
        query = torch.einsum("hed,sd->she", self.Q, z[:, -1])
        logits = torch.einsum("shd,spd->shp", torch.einsum("she,hed->shd", query, self.K), z)
        attended = torch.einsum("shp,spd->shd", torch.softmax(logits, dim=2), z)
        mixed = torch.einsum("hed,she->sd", self.O, torch.einsum("hef,shf->she", self.V, attended))
        out = mixed + torch.einsum("h,shd->sd", self.b, attended) + self.skip * z[:, -1]
        return out @ self.E[:-1].T


def skip_connections(
    added: Annotated[Literal["skip connection", "b·I per head"], about("What is trained.")] = "b·I per head",
    read_at: Annotated[Literal["the symbol", "[CLS]"], about("Where the answer is read.")] = "[CLS]",
    seen: Annotated[Count, about("Symbols that occur in training.", unit="symbols")] = 16,
    unseen: Annotated[Count, about("Symbols that do not.", unit="symbols")] = 16,
    embedding: Annotated[Count, about("Embedding dimension.")] = 512,
    heads: Annotated[Count, about("Attention heads.", unit="heads")] = 4,
    steps: Annotated[Count, about("Steps of gradient descent.", unit="steps")] = 40,
    rate: Annotated[Positive, about("Learning rate of the sum of what is trained.")] = 1.0,
    seed: Annotated[WholeNumber, about("Seed of the network.")] = 1,
) -> xr.Dataset:
    """Section 4: loss on symbols that never occur in training, after gradient descent on `added` alone, as in J.3.

    The loss is in units of that of a guess, ln(number of symbols), which is about where it starts.
    """
    net = CopyingStrings(
        seen + unseen,
        Widths(heads, embedding, 16, 1),
        cls=read_at == "[CLS]",
        generator=torch_stream("abstract_symbols/skip", read_at, seed),
    )
    parameter = net.skip if added == "skip connection" else net.b
    optimizer = torch.optim.SGD([parameter], lr=rate / parameter.numel())  # η_b = Θ(1/H)
    train, test = torch.arange(seen), torch.arange(seen, seen + unseen)
    for _ in range(steps):
        (parameter.grad,) = torch.autograd.grad(F.cross_entropy(net(train), train), [parameter])
        optimizer.step()
    with torch.no_grad():
        loss = float(F.cross_entropy(net(test), test)) / float(np.log(seen + unseen))
    return xr.Dataset({"test_loss": ((), loss, {"units": "of a guess's loss"})})


EXPERIMENTS = [
    Experiment(
        "abstract_symbols/skip_connections",
        "Copying an unseen symbol with a trained skip connection and with b·I",
        skip_connections,
        {"added": ("skip connection", "b·I per head"), "read_at": ("the symbol", "[CLS]"), "seed": 5},
        settings={"fast": {"embedding": 64, "steps": 10, "seeds": 2}, "full": {}},
    )
]
