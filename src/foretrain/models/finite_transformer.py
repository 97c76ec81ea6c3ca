"""Networks of finite width, whose limits the theory of abstract symbols describes.

`FiniteTransformer` is the one-layer transformer of appendix H.1, read out at the last position. As its width grows, its
random features give K_attn and K_trans. `CopyingAttention` is the attention-only network of appendix J.2 on strings of
length 1, with one multiple of the identity per head.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from foretrain.core.errors import require_at_least, require_known

ACTIVATIONS = ("cosine", "relu", "gelu")


@dataclass(frozen=True)
class Widths:
    """H, d_emb, d_head and d_mlp."""

    heads: int
    embedding: int
    head: int
    mlp: int

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            require_at_least(name, value, 1)

    @classmethod
    def all(cls, width: int) -> Widths:
        """The same width for all four."""
        return cls(width, width, width, width)


class FiniteTransformer(nn.Module):
    """H.1: embedding, attention at the last position, MLP, and a readout w_U that starts at 0.

    Logits have the variance of eq. 4: that is H.1's β divided by √(1 + γ²), a change the paper makes too.
    """

    def __init__(
        self,
        tokens: int,
        length: int,
        widths: Widths,
        *,
        beta: float,
        gamma: float,
        activation: str = "cosine",
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        require_known("activation", activation, ACTIVATIONS)
        require_at_least("beta", beta, 0)
        require_at_least("gamma", gamma, 0)
        self.widths, self.beta, self.gamma, self.activation = widths, beta, gamma, activation

        def normal(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.randn(*shape, generator=generator, dtype=torch.float64))

        H, d, e = widths.heads, widths.embedding, widths.head
        self.W_E, self.P = normal(tokens, d), normal(length, d)
        self.W_K, self.W_Q, self.W_V, self.W_O = (normal(H, e, d) for _ in range(4))
        self.W_A, self.W_B = normal(widths.mlp, d), normal(widths.mlp, d)
        self.w_U = nn.Parameter(torch.zeros(d, dtype=torch.float64))

    def attention_features(self, strings: Int[Tensor, "string position"]) -> Float[Tensor, "string embedding"]:
        """z1: the output of the attention layer at the last position."""
        H, d, e = self.widths.heads, self.widths.embedding, self.widths.head
        Z = self.W_E[strings] + self.gamma * self.P  # [string, position, embedding]
        queries = torch.einsum("hed,sd->she", self.W_Q, Z[:, -1])  # [string, head, d_head]
        through_keys = torch.einsum("hed,she->shd", self.W_K, queries)  # [string, head, embedding]
        scale = self.beta / (d * (e * (1 + self.gamma**2)) ** 0.5)
        weights = torch.softmax(scale * torch.einsum("shd,spd->shp", through_keys, Z), dim=2)
        values = torch.einsum("hed,shd->she", self.W_V, torch.einsum("shp,spd->shd", weights, Z))
        return torch.einsum("hed,she->sd", self.W_O, values) / (H * e * d) ** 0.5

    def features(self, strings: Int[Tensor, "string position"]) -> Float[Tensor, "string embedding"]:
        """z2: the output of the MLP layer."""
        return self._mlp(self.attention_features(strings))

    def _mlp(self, z1: Tensor) -> Tensor:
        before = z1 @ self.W_A.T / self.widths.embedding**0.5
        return self._phi(before) @ self.W_B / self.widths.mlp**0.5

    def forward(self, strings: Int[Tensor, "string position"]) -> Float[Tensor, "string"]:
        return self.features(strings) @ self.w_U

    def kernels(
        self, strings: Int[Tensor, "string position"]
    ) -> tuple[Float[Tensor, "string string"], Float[Tensor, "string string"]]:
        """K̂_attn and K̂_trans of all pairs of strings."""
        with torch.no_grad():
            z1 = self.attention_features(strings)
            z2 = self._mlp(z1)
        return z1 @ z1.T / self.widths.embedding, z2 @ z2.T / self.widths.embedding

    def _phi(self, t: Tensor) -> Tensor:
        if self.activation == "cosine":
            return torch.cos(t + torch.pi / 4)
        return torch.relu(t) if self.activation == "relu" else F.gelu(t)


class CopyingAttention(nn.Module):
    """J.2, eq. 26 and 27, on strings of one token: f(x) = W_E (Σ_h W_O,hᵀW_V,h + b_h·I)(W_Eᵀe_x + γPᵀ)."""

    def __init__(self, tokens: int, widths: Widths, *, gamma: float, generator: torch.Generator) -> None:
        super().__init__()
        require_at_least("gamma", gamma, 0)
        H, d, e = widths.heads, widths.embedding, widths.head
        self.gamma = gamma

        def normal(variance: float, *shape: int) -> nn.Parameter:
            return nn.Parameter(variance**0.5 * torch.randn(*shape, generator=generator, dtype=torch.float64))

        self.E, self.P = normal(1 / d, tokens, d), normal(1 / d, d)
        self.O, self.V = normal(1 / d, H, e, d), normal(1 / e, H, e, d)
        self.b = nn.Parameter(torch.zeros(H, dtype=torch.float64))

    def forward(self, tokens: Int[Tensor, "sample"]) -> Float[Tensor, "sample token"]:
        z = self.E[tokens] + self.gamma * self.P
        mixed = torch.einsum("hed,she->sd", self.O, torch.einsum("hed,sd->she", self.V, z))
        return (mixed + self.b.sum() * z) @ self.E.T

    def copying_loss(self, tokens: Int[Tensor, "sample"]) -> Tensor:
        """Mean cross-entropy where every token is its own label."""
        return F.cross_entropy(self(tokens), tokens)


def loss_velocities(
    model: CopyingAttention, train: Int[Tensor, "sample"], test: Int[Tensor, "held_out"], rates: Mapping[str, float]
) -> tuple[float, float]:
    """dL_train/dt and dL_test/dt under gradient flow on L_train; only the parameters named in `rates` are trained."""
    names = list(rates)
    known = dict(model.named_parameters())
    for name in names:
        require_known("parameter", name, known)
    parameters = [known[name] for name in names]
    on_train = torch.autograd.grad(model.copying_loss(train), parameters)
    on_test = torch.autograd.grad(model.copying_loss(test), parameters)

    def velocity(gradients: tuple[Tensor, ...]) -> float:
        return -sum(rates[n] * float((g * t).sum()) for n, g, t in zip(names, gradients, on_train, strict=True))

    return velocity(on_train), velocity(on_test)
