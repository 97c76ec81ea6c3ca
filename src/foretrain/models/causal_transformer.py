"""A small causal transformer for labelled sequences, all runs at once (JoMA, section 6 and Table 1).

Blocks are post-norm: one head of self-attention without output matrix, then a ReLU (or linear) MLP, both with a
residual. Embeddings are learned, there are no positions, and the label is read at the last position. Parameters have
leading axes [setting, seed] and a batch has [seed]. No run sees another, so one backward pass serves all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from foretrain.core.errors import require_at_least, require_known
from foretrain.core.streams import torch_stream
from foretrain.models.parameters import Key, Parameters, stacked


@dataclass(frozen=True)
class LabelledSequences:
    """Token sequences with labels.

    key_bias  added to the attention logits of a position as a key: ln n makes it count as n equal positions, so that a
              long prefix of padding can be one position
    weights   of the samples in the loss, summing to 1: equal samples can be one, with their share. None: all alike
    """

    tokens: Int[Tensor, "*seed sample position"]
    labels: Int[Tensor, "*seed sample"]
    key_bias: Float[Tensor, "*seed sample position"]
    weights: Float[Tensor, "*seed sample"] | None = None

    @classmethod
    def stack(cls, batches: Sequence[LabelledSequences]) -> LabelledSequences:
        """Batches of equal size along a new leading axis."""
        names = [name for name, value in vars(batches[0]).items() if value is not None]
        parts: dict[str, Any] = {name: torch.stack([getattr(b, name) for b in batches]) for name in names}
        return cls(**parts)


class CausalTransformer:
    """The network, for `train`. Its loss is the mean (or weighted) cross-entropy at the last position.

    Initial values are those of torch's Linear, Embedding and LayerNorm; `lower_start` multiplies those of the lower
    MLP matrices.
    """

    def __init__(
        self,
        *,
        vocab: int,
        classes: int,
        layers: int = 3,
        width: int = 128,
        hidden: int = 400,
        activation: str = "relu",
        lower_start: float = 1.0,
    ) -> None:
        sizes = {"vocab": vocab, "classes": classes, "layers": layers, "width": width, "hidden": hidden}
        for name, size in sizes.items():
            require_at_least(name, size, 1)
        require_known("activation", activation, ("relu", "linear"))
        self.vocab, self.classes, self.layers, self.width, self.hidden_nodes = vocab, classes, layers, width, hidden
        self.activation, self.lower_start = activation, lower_start

    def start(self, keys: Sequence[Key]) -> Parameters:
        """Initial parameters, one run per key."""
        return stacked([self._start(torch_stream(*key)) for key in keys])

    def _start(self, draw: torch.Generator) -> Parameters:
        def uniform(*shape: int, fan_in: int) -> Tensor:
            return (2 * torch.rand(shape, generator=draw) - 1) / fan_in**0.5

        d, h = self.width, self.hidden_nodes
        parameters = {"embed": torch.randn(self.vocab, d, generator=draw)}
        for layer in range(self.layers):
            # query, key and value side by side: one product gives all three
            parameters[f"qkv_{layer}"] = uniform(d, 3 * d, fan_in=d)
            parameters[f"lower_{layer}"] = uniform(d, h, fan_in=d) * self.lower_start
            parameters[f"lower_bias_{layer}"] = uniform(h, fan_in=d)
            parameters[f"upper_{layer}"] = uniform(h, d, fan_in=h)
            parameters[f"upper_bias_{layer}"] = uniform(d, fan_in=h)
            for norm in ("first", "second"):
                parameters[f"{norm}_scale_{layer}"] = torch.ones(d)
                parameters[f"{norm}_shift_{layer}"] = torch.zeros(d)
        parameters["read"] = uniform(d, self.classes, fan_in=d)
        parameters["read_bias"] = uniform(self.classes, fan_in=d)
        return parameters

    def prepare(self, batches: Sequence[LabelledSequences]) -> LabelledSequences:
        """One batch per seed, along a leading axis."""
        return LabelledSequences.stack(batches)

    def gradient(self, parameters: Parameters, batch: LabelledSequences, samples: int = 0) -> Parameters:
        """Gradient of each run's loss; the number of samples does not matter, since the loss is a mean."""
        with torch.enable_grad():
            leaves = {name: value.detach().requires_grad_() for name, value in parameters.items()}
            logits = self.forward(leaves, batch, last_only=True)[0]
            gradients = torch.autograd.grad(self._losses(logits, batch).sum(), list(leaves.values()))
        return dict(zip(leaves, gradients, strict=True))

    def loss(self, parameters: Parameters, batch: LabelledSequences) -> Float[Tensor, "*run"]:
        """The loss of each run."""
        return self._losses(self.forward(parameters, batch, last_only=True)[0], batch)

    def _losses(self, logits: Tensor, batch: LabelledSequences) -> Tensor:
        labels = batch.labels.expand(logits.shape[:-1]).unsqueeze(-1)
        losses = -torch.log_softmax(logits, dim=-1).gather(-1, labels).squeeze(-1)
        return losses.mean(-1) if batch.weights is None else (losses * batch.weights).sum(-1)

    def forward(
        self, parameters: Parameters, batch: LabelledSequences, *, last_only: bool = False
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Logits [*run, sample, class], hidden nodes and attention of every layer.

        With `last_only`, the last layer is computed at the last position only, where the label is read.
        """
        p = parameters
        positions = batch.tokens.shape[-1]
        mask = torch.full((positions, positions), -torch.inf).triu(1)
        bias = batch.key_bias.unsqueeze(-2) + mask  # [*seed, sample, query position, key position]
        x = _look_up(p["embed"], batch.tokens)
        hiddens, attentions = [], []
        for layer in range(self.layers):
            q, k, v = (_linear(x, p[f"qkv_{layer}"])).chunk(3, dim=-1)
            if last_only and layer == self.layers - 1:
                q, x, bias = q[..., -1:, :], x[..., -1:, :], bias[..., -1:, :]
            attention = torch.softmax(q @ k.mT / self.width**0.5 + bias, dim=-1)
            x = self._norm(attention @ v + x, p, f"first_{{}}_{layer}")
            h = _linear(x, p[f"lower_{layer}"], p[f"lower_bias_{layer}"])
            h = torch.relu(h) if self.activation == "relu" else h
            x = self._norm(_linear(h, p[f"upper_{layer}"], p[f"upper_bias_{layer}"]) + x, p, f"second_{{}}_{layer}")
            hiddens.append(h)
            attentions.append(attention)
        last = x[..., -1, :].unsqueeze(-2)
        return _linear(last, p["read"], p["read_bias"]).squeeze(-2), hiddens, attentions

    def _norm(self, x: Tensor, p: Parameters, name: str) -> Tensor:
        scale, shift = (p[name.format(part)].unsqueeze(-2).unsqueeze(-2) for part in ("scale", "shift"))
        return F.layer_norm(x, (self.width,)) * scale + shift


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x [*run, sample, position, in] times each run's own weight [*run, in, out]: one product per run."""
    flat = x.flatten(-3, -2) @ weight
    if bias is not None:
        flat = flat + bias.unsqueeze(-2)
    return flat.unflatten(-2, x.shape[-3:-1])


def _look_up(table: Tensor, tokens: Tensor) -> Tensor:
    """Each run's own embeddings [*run, vocab, width] at its tokens [*seed, sample, position]."""
    flat = tokens.flatten(-2).expand(*table.shape[:-2], -1).unsqueeze(-1)
    rows = table.gather(-2, flat.expand(*flat.shape[:-1], table.shape[-1]))
    return rows.unflatten(-2, tokens.shape[-2:])
