"""JoMA on paper: one result, one function. numpy arrays in and out, float64."""

from foretrain.papers.joma.theory.joint import (
    attention_from_mlp_exp,
    attention_from_mlp_linear,
    attention_from_mlp_softmax,
    attention_from_mlp_softmax_printed,
)

__all__ = [
    "attention_from_mlp_exp",
    "attention_from_mlp_linear",
    "attention_from_mlp_softmax",
    "attention_from_mlp_softmax_printed",
]
