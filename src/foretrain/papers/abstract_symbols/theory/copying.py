"""Theorems 4.1, 4.2, J.2 and J.3: how fast the losses move at time 0 when attention learns to copy."""

from __future__ import annotations

from collections.abc import Mapping


def unit_rates(heads: int, embedding: int, head: int) -> dict[str, float]:
    """Theorem J.2: learning rates at which every part makes the train loss fall at a rate Θ(1).

    Printed: η_O = O(1/H), η_V = O(d_emb/d_head), η_P = η_E = O(1). The kernels tend to K_O → H·δ_ij(δ + γ²),
    K_V → (H·d_head/d_emb)·δ_ij(δ + γ²), K_P → H·γ²·δ_ij, K_E → H·δ_ij(2δ + γ²), so η_V needs another 1/H, and so
    do η_P and η_E.
    """
    return {"O": 1 / heads, "V": embedding / (heads * head), "P": 1 / heads, "E": 1 / heads}


def unseen_velocity(gamma: float, tokens: int, trained: Mapping[str, bool]) -> float:
    """Theorems 4.1 and J.2 (last line): dL_test/dt → C/m, C = γ²·(how many of V, O, P, E train at their unit rate)."""
    return gamma**2 * sum(trained[name] for name in ("V", "O", "P", "E")) / tokens


def train_velocity(gamma: float, tokens: int, samples: int) -> float:
    """Theorem J.2: dL_train/dt for all of V, O, P, E at unit rates and distinct training tokens.

    K sums to 4(δ + γ²) over the four; Σ_j (1/m − δ_{j,x})(1/m − δ_{j,x'}) is 1 − 1/m or −1/m.
    """
    same_token = 4 + 4 * gamma**2
    return -((1 - 1 / tokens) * same_token - (samples - 1) / tokens * 4 * gamma**2) / samples


def identity_velocity(tokens: int) -> float:
    """Theorems 4.2 and J.3: dL_test/dt and dL_train/dt → −H·η_b·(1 − 1/m)² if only the b_h train, here at η_b = 1/H."""
    return -((1 - 1 / tokens) ** 2)


def output_variance(gamma: float, heads: int, embedding: int) -> float:
    """Theorem J.2: Var f(X)_i → H(1 + γ²)/d_emb at the start for i ≠ x (printed: O(1/d_emb))."""
    return heads * (1 + gamma**2) / embedding


def error_floor(label: float, other: float) -> float:
    """Theorem I.2: the larger of the mean squared errors on two unseen strings is at least ¼(f*(z) − f*(z'))²."""
    return (label - other) ** 2 / 4
