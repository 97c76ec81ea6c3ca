"""Small text classifiers whose infinitely wide limit is known: MLP, CNN, self-attention, matrix-vector, linear RNN.

A network is a frozen description, and its parameters are a dict of tensors, so that `torch.func` can differentiate and
`torch.vmap` can batch any of them. Texts are rows of token numbers, padded at the end with −1, which adds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from foretrain.core.errors import require, require_at_least, require_known
from foretrain.core.streams import torch_stream
from foretrain.kernels.tangent import Scales
from foretrain.models.parameters import Key, Parameters, stacked

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda z: z,
    "relu": torch.relu,
    "gelu": functional.gelu,
    "silu": functional.silu,
    "tanh": torch.tanh,
}
ARCHITECTURES = ("mlp", "cnn", "sa", "sa_mlp", "mv", "mv_diagonal", "rnn_token", "rnn_shared")


@dataclass(frozen=True)
class Classifier:
    """One network of the family.

    outputs    1 for a binary score, else one score per class or next token
    window     K of the CNN
    padded     CNN windows also reach past both ends of the text, so that even a single token has a score
    positions  length of the longest text if positions are learned (self-attention only); 0 for none
    scaling    attention logits are divided by the width ("limit") or by its square root ("practice")
    """

    architecture: str
    vocab: int
    width: int
    activation: str = "relu"
    outputs: int = 1
    window: int = 2
    padded: bool = False
    positions: int = 0
    scaling: str = "limit"
    scales: Scales = field(default_factory=Scales)

    def __post_init__(self) -> None:
        require_known("architecture", self.architecture, ARCHITECTURES)
        require_known("activation", self.activation, ACTIVATIONS)
        require_known("scaling", self.scaling, ("limit", "practice"))
        for name in ("vocab", "width", "outputs", "window"):
            require_at_least(name, getattr(self, name), 1)

    def shapes(self) -> dict[str, tuple[tuple[int, ...], float]]:
        """Shape and standard deviation of every parameter."""
        d, s = self.width, self.scales
        shapes: dict[str, tuple[tuple[int, ...], float]] = {
            "embedding": ((self.vocab, d), s.embedding),
            "readout": ((self.outputs, d), s.readout),
        }
        if self.architecture in ("mlp", "sa_mlp"):
            shapes["weight"] = ((d, d), s.weight)
        if self.architecture == "cnn":
            shapes["weight"] = ((self.window, d, d), s.weight)
        if self.architecture in ("mv", "rnn_token"):
            shapes["matrix"] = ((self.vocab, d, d), s.matrix)
        if self.architecture == "mv_diagonal":
            shapes["matrix"] = ((self.vocab, d), s.matrix)
        if self.architecture == "rnn_shared":
            shapes["matrix"] = ((d, d), s.matrix)
        if self.positions:
            require(self.architecture in ("sa", "sa_mlp"), "Only self-attention has positions here; set positions=0.")
            shapes["position"] = ((self.positions, d), s.embedding)
        return shapes

    @property
    def per_token(self) -> frozenset[str]:
        """Parameters with one row per token."""
        matrices = self.architecture in ("mv", "mv_diagonal", "rnn_token")
        return frozenset({"embedding", "matrix"} if matrices else {"embedding"})

    def start(self, keys: Sequence[Key], dtype: torch.dtype = torch.float32) -> Parameters:
        """Gaussian initial parameters, one run per key."""
        return stacked([self.start_one(key, dtype) for key in keys])

    def start_one(self, key: Key, dtype: torch.dtype = torch.float32) -> Parameters:
        """The same for a single run, without the axis of runs."""
        generator = torch_stream(*key)
        return {
            name: std * torch.randn(shape, generator=generator, dtype=dtype)
            for name, (shape, std) in self.shapes().items()
        }

    def scores(self, parameters: Parameters, texts: Int[Tensor, "text position"]) -> Float[Tensor, "text output"]:
        """s(x) of every text."""
        is_token = texts >= 0
        tokens = texts.clamp_min(0)
        if self.architecture == "mv":
            return _mv_scores(self, parameters, tokens, is_token)
        parts = _ARCHITECTURE[self.architecture](self, parameters, tokens, is_token)
        return parts @ parameters["readout"].mT / self.width**0.5

    def of_one(self, parameters: Mapping[str, Tensor], text: Int[Tensor, "position"]) -> Float[Tensor, "output"]:
        """s(x) of one text: what `kernels.empirical` differentiates."""
        return self.scores(dict(parameters), text.unsqueeze(0)).squeeze(0)

    def run_scores(
        self, parameters: Parameters, texts: Int[Tensor, "text position"]
    ) -> Float[Tensor, "run text output"]:
        """s(x) of every run; the parameters have a leading axis of runs."""
        return torch.vmap(self.scores, in_dims=(0, None))(parameters, texts)

    def phi(self, z: Tensor) -> Tensor:
        """The activation."""
        return ACTIVATIONS[self.activation](z)


Hidden = Float[Tensor, "text width"]
Tokens = Int[Tensor, "text position"]
There = Bool[Tensor, "text position"]


def _mlp(net: Classifier, p: Parameters, tokens: Tokens, is_token: There) -> Hidden:
    hidden = net.phi(p["embedding"][tokens] @ p["weight"].mT / net.width**0.5)
    return (hidden * is_token.unsqueeze(-1)).sum(1)


def _cnn(net: Classifier, p: Parameters, tokens: Tokens, is_token: There) -> Hidden:
    embedded = p["embedding"][tokens] * is_token.unsqueeze(-1)
    whole = is_token[:, net.window - 1 :]  # padding is at the end: a window is whole if it has its last token
    if net.padded:
        beyond = net.window - 1
        embedded = functional.pad(embedded, (0, 0, beyond, beyond))
        whole = functional.pad(is_token, (0, beyond))  # a window counts if it has any token
        for _ in range(beyond):
            whole = whole | functional.pad(whole[:, :-1], (1, 0))
    windows = embedded.shape[1] - net.window + 1
    require(
        windows >= 1, f"The window ({net.window}) is longer than the text ({tokens.shape[1]} tokens); pad the text."
    )
    inside = sum(embedded[:, k : k + windows] @ p["weight"][k].mT for k in range(net.window))
    return (net.phi(inside / net.width**0.5) * whole.unsqueeze(-1)).sum(1)


def _attended(net: Classifier, p: Parameters, tokens: Tokens, is_token: There) -> Float[Tensor, "text position width"]:
    embedded = p["embedding"][tokens]
    if net.positions:
        require(
            tokens.shape[1] <= net.positions,
            f"A text has {tokens.shape[1]} tokens; there are {net.positions} positions.",
        )
        embedded = embedded + p["position"][: tokens.shape[1]]
    divisor = net.width if net.scaling == "limit" else net.width**0.5
    logits = embedded @ embedded.mT / divisor
    # The mask is finite, so that a text without tokens has weights too; they gather padding, which the caller drops.
    weights = torch.softmax(logits.masked_fill(~is_token.unsqueeze(1), torch.finfo(logits.dtype).min), dim=-1)
    return weights @ embedded


def _sa(net: Classifier, p: Parameters, tokens: Tokens, is_token: There) -> Hidden:
    return (_attended(net, p, tokens, is_token) * is_token.unsqueeze(-1)).sum(1)


def _sa_mlp(net: Classifier, p: Parameters, tokens: Tokens, is_token: There) -> Hidden:
    hidden = net.phi(_attended(net, p, tokens, is_token) @ p["weight"].mT / net.width**0.5)
    return (hidden * is_token.unsqueeze(-1)).sum(1)


def _mv_scores(net: Classifier, p: Parameters, tokens: Tokens, is_token: There) -> Float[Tensor, "text output"]:
    """Sum over neighbours ab of vᵀM_a E_b/d. The readout multiplies each token's matrix first, so none is copied."""
    rows = torch.einsum("oi,aij->aoj", p["readout"], p["matrix"])
    pairs = torch.einsum("ntoj,ntj->nto", rows[tokens[:, :-1]], p["embedding"][tokens[:, 1:]])
    return (pairs * is_token[:, 1:].unsqueeze(-1)).sum(1) / net.width


def _mv_diagonal(net: Classifier, p: Parameters, tokens: Tokens, is_token: There) -> Hidden:
    return (p["matrix"][tokens[:, :-1]] * p["embedding"][tokens[:, 1:]] * is_token[:, 1:].unsqueeze(-1)).sum(1)


def _rnn(net: Classifier, p: Parameters, tokens: Tokens, is_token: There) -> Hidden:
    """h_t = E_t + M h_{t−1}/√d; padding keeps the state."""
    state = p["embedding"][tokens[:, 0]] * is_token[:, :1]
    for t in range(1, tokens.shape[1]):
        if net.architecture == "rnn_token":
            moved = (p["matrix"][tokens[:, t]] * state.unsqueeze(1)).sum(-1)  # faster than one product per text
        else:
            moved = state @ p["matrix"].mT
        state = torch.where(is_token[:, t : t + 1], p["embedding"][tokens[:, t]] + moved / net.width**0.5, state)
    return state


_ARCHITECTURE: dict[str, Callable[[Classifier, Parameters, Tensor, Tensor], Tensor]] = {
    "mlp": _mlp,
    "cnn": _cnn,
    "sa": _sa,
    "sa_mlp": _sa_mlp,
    "mv_diagonal": _mv_diagonal,
    "rnn_token": _rnn,
    "rnn_shared": _rnn,
}
