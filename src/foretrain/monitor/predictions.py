"""How two papers expect attention to move, drawn from their own formulas: shapes to compare with, not forecasts.

Time, and how deep and how fast a curve falls, depend on the task. What the papers predict is the order of events. For
Scan and Snap the order is all that training confirms: attention moves far less than Theorem 4 says, and how far it does
move is given by `foretrain.papers.scan_snap.theory.predicted_logits`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from foretrain.papers.joma.theory.convergence import log_distance
from foretrain.papers.scan_snap.theory.decoder import snap_time
from foretrain.papers.scan_snap.theory.transition import attention_growth

TOKENS = 16
TARGETS = np.linspace(3.0, 0.5, TOKENS)  # μ: how salient each token is, from very to hardly
POINTS = 200
DEPTH = 0.1  # C0 of Theorem 4, our choice: it sets how deep the curve falls, not when it bends


@dataclass(frozen=True)
class Shape:
    """Relative entropy against time, from 0 to 1."""

    paper: str
    says: str
    time: Float[ndarray, "time"]
    relative_entropy: Float[ndarray, "time"]


def sparse_then_dense() -> Shape:
    """JoMA, Theorem 4: salient tokens reach their targets μ first, so that attention c ∝ exp(v²/2) gets sparse; when
    the others follow, it spreads again."""
    time = np.linspace(0.0, 3.5, POINTS)
    v = TARGETS * -np.expm1(-log_distance(TARGETS, time[:, None]))
    return Shape("JoMA", "sparse, then dense", np.linspace(0, 1, POINTS), _relative_entropy(v**2 / 2))


def scan_then_snap() -> Shape:
    """Scan and Snap, Theorem 4 with its constant of integration, and none of the other corrections: a token that tells
    classes apart by f gains attention as exp(f²·B(t)), where B grows fast until the snap and then hardly at all. Common
    tokens gain nothing. By the flow of training the curve has the same form but falls by less than .01."""
    setting = {"eta_y": 1.0, "vocab": 1000, "classes": 10}
    time = np.linspace(0.0, 6 * float(snap_time(**setting)), POINTS)
    growth = attention_growth(time, eta_z=0.5, c0=DEPTH, **setting)
    strength = np.linspace(1.0, 0.0, TOKENS)
    logits = strength**2 * np.asarray(growth)[:, None]
    return Shape("Scan and Snap", "scan, then snap", np.linspace(0, 1, POINTS), _relative_entropy(logits))


def _relative_entropy(logits: Float[ndarray, "time token"]) -> Float[ndarray, "time"]:
    shifted = logits - logits.max(-1, keepdims=True)
    weights = np.exp(shifted)
    total = weights.sum(-1)
    return (np.log(total) - (weights * shifted).sum(-1) / total) / np.log(logits.shape[-1])
