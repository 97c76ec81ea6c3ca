"""Finds the MLP neurons of a decoder, whoever wrote it.

A neuron is one entry of the hidden layer of a block's MLP, after the nonlinearity and, in gated MLPs, after the product
with the gate. The matrix that leads back from there, the down-projection, gets the neurons as its input.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from foretrain.core.errors import require

# Of the Hugging Face families, foretrain's own encoder, nn.TransformerEncoderLayer, GPT-J, llama2.c and DistilBERT.
DOWN = ("down_proj", "dense_4h_to_h", "fc2", "mlp.c_proj", "down", "linear2", "fc_out", "w2", "lin2", "ffn.out_proj")
BLOCK = re.compile(r"(?:.*?\.)?\d+(?=\.)")  # "transformer.h.0" of "transformer.h.0.mlp.c_proj"


@dataclass(frozen=True)
class MlpLayer:
    """Where the neurons of one block are."""

    index: int  # from 0, from the bottom
    block: str  # name of the module that holds the attention and the MLP
    down: str  # name of the down-projection


def mlp_layers(model: nn.Module) -> list[MlpLayer]:
    """The MLP of every block, from the bottom up. InputError if there is none."""
    by_block: dict[str, list[str]] = {}
    for name, module in model.named_modules():
        if (match := BLOCK.match(name)) and _is_matrix(module) and "attn" not in name and "attention" not in name:
            by_block.setdefault(match[0], []).append(name)
    pairs = [(block, down) for block, names in by_block.items() if (down := _down_of(names)) is not None]
    require(
        len(pairs) > 0,
        f"No MLP neurons were found in {type(model).__name__}: it has no blocks with a matrix named "
        f"{', '.join(DOWN[:4])} or similar.",
    )
    return [MlpLayer(index, block, down) for index, (block, down) in enumerate(pairs)]


def chosen_layers(layers: Sequence[MlpLayer], numbers: Sequence[int] | None) -> list[MlpLayer]:
    """Those with these numbers, from 0 at the bottom; all of them if no numbers are given."""
    require(numbers is None or len(numbers) > 0, "Name at least one layer.")
    for number in numbers or ():
        require(
            0 <= number < len(layers), f"There is no layer {number}; the model's layers are 0 to {len(layers) - 1}."
        )
    return list(layers) if numbers is None else [layers[number] for number in numbers]


def _is_matrix(module: nn.Module) -> bool:
    """Whether it is nn.Linear, the Conv1D of GPT-2, or a relative of theirs."""
    weight = getattr(module, "weight", None)
    return not isinstance(module, nn.Embedding) and weight is not None and weight.ndim == 2


def _down_of(names: Sequence[str]) -> str | None:
    """The down-projection among the matrices of a block: by its name, or else the last matrix of something called MLP
    or feed-forward, as in hand-written models."""
    for known in DOWN:
        for name in names:
            if name.endswith(f".{known}"):
                return name
    inside = [name for name in names if re.search(r"mlp|ffn|ff|feed_?forward", name.lower())]
    return inside[-1] if len(inside) > 1 else None
