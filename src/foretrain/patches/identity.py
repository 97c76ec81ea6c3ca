"""Two trainable scalars per attention head (Abstract symbols, section 4), added to a model that exists.

With x the input of attention and A_h the attention weights of head h,

    logits of head h   gain   a_h·x_i·x_j/√d_head          (W_Q·W_Kᵀ + a_h·I)
    output             gains  Σ_h b_h·Σ_j A_h,ij·x_j       (W_V·W_O + b_h·I)

Both start at 0, where the model computes what it computed before. The weights of all heads are formed in memory, as in
eager attention. With a cache, the inputs x are kept in cache layers of their own, behind those of the model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from foretrain.core.errors import InputError, require

OUTPUT = ("c_proj", "o_proj", "out_proj", "dense", "out")
FAMILIES = ("gpt2", "gpt_neox", "opt", "llama", "mistral", "qwen2", "qwen3", "phi3", "smollm3", "olmo2")
INTERFACE = "foretrain_identity"
NAME = "identity_scaling"


def add_identity_scaling(model: nn.Module, *, a: float = 0.0, b: float = 0.0) -> nn.Module:
    """Add two trainable scalars per head to every attention layer of a model, in place, and return the model.

    Known are GPT-2, GPT-NeoX, OPT, Llama and its relatives from transformers, and the models of foretrain.language.
    The new parameters are called `….identity_scaling.a` and `….b`. Give them a rate of their own, about ten times that
    of the other parameters: `identity_parameters(model)` lists them.
    """
    require(isinstance(model, nn.Module), f"add_identity_scaling takes a torch module; got a {type(model).__name__}.")
    layers = list(_attention_layers(model))
    require(len(layers) > 0, _unknown(model))
    for layer, heads in layers:
        require(not hasattr(layer, NAME), "This model has identity scalings already.")
        output = next(getattr(layer, name) for name in OUTPUT if hasattr(layer, name))
        weight = output.weight
        scaling = IdentityScaling(heads, a, b, len(layers)).to(weight)
        layer.add_module(NAME, scaling)
        layer.register_forward_pre_hook(_keep_input, with_kwargs=True)
        layer.register_forward_hook(_forget_input, always_call=True)
        output.register_forward_hook(_AddResidual(scaling))
    if hasattr(model, "set_attn_implementation"):
        _register()
        model.set_attn_implementation(INTERFACE)  # type: ignore[operator]
    return model


def identity_parameters(model: nn.Module) -> list[nn.Parameter]:
    """The scalars that `add_identity_scaling` has added, for a group of the optimizer."""
    return [parameter for name, parameter in model.named_parameters() if f"{NAME}." in name]


def load_identity_scaling(model: nn.Module, folder: str | Path) -> nn.Module:
    """Add scalings to a model that was just loaded from a folder, with the values that were saved there.

    `from_pretrained` does not know the scalars, and leaves them out with a notice:

        model = load_identity_scaling(AutoModelForCausalLM.from_pretrained(folder), folder)
    """
    from safetensors import safe_open

    require(Path(folder).is_dir(), f"There is no folder {folder}.")
    saved: dict[str, Tensor] = {}
    for file in sorted(Path(folder).glob("*.safetensors")):
        with safe_open(file, "pt") as tensors:
            saved |= {name: tensors.get_tensor(name) for name in tensors.keys() if f"{NAME}." in name}  # noqa: SIM118
    require(len(saved) > 0, f"{folder} has no identity scalings; use add_identity_scaling to start with new ones.")
    add_identity_scaling(model)
    wanted = {name: p for name, p in model.named_parameters() if f"{NAME}." in name}
    fits = {name: tuple(p.shape) for name, p in wanted.items()} == {name: tuple(p.shape) for name, p in saved.items()}
    require(fits, f"The identity scalings in {folder} are those of another model.")
    with torch.no_grad():
        for name, parameter in wanted.items():
            parameter.copy_(saved[name])
    return model


class IdentityScaling(nn.Module):
    """The scalars of one layer. During a forward pass it holds the layer's input; between passes it holds nothing."""

    def __init__(self, heads: int, a: float, b: float, layers: int) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(torch.full((heads,), float(a))), nn.Parameter(torch.full((heads,), float(b)))
        self.layers = layers  # of the model: where the cache has room for the inputs
        self.inputs: Tensor | None = None  # [sample, key, width]
        self.queries = 0  # how many of the inputs are queries: the last ones
        self.residual: Tensor | None = None  # Σ_h b_h·A_h·x, until the output projection takes it

    def attend(
        self,
        query: Float[Tensor, "sample head query e"],
        key: Float[Tensor, "sample head key e"],
        value: Float[Tensor, "sample head key e"],
        mask: Tensor | None,
        scale: float,
        dropout: float,
    ) -> tuple[Float[Tensor, "sample head query e"], Float[Tensor, "sample head query key"]]:
        """Attention with both scalars; `mask` is added to the logits."""
        assert self.inputs is not None
        keys = key.shape[-2]
        x = self.inputs[:, -keys:]  # with a sliding window, older keys are gone from the cache
        gram = x[:, -self.queries :] @ x.mT / math.sqrt(query.shape[-1])
        logits = (query @ key.mT) * scale + self.a.view(-1, 1, 1) * gram[:, None]
        if mask is not None:
            logits = logits + mask[..., :keys]
        weights = F.softmax(logits, dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32)).to(query.dtype)
        weights = F.dropout(weights, dropout) if dropout > 0 else weights
        self.residual = torch.einsum("shqk,h->sqk", weights, self.b) @ x
        return weights @ value, weights


class _AddResidual:
    """A hook on the output projection that adds the second term, so that dropout after it covers both."""

    def __init__(self, scaling: IdentityScaling) -> None:
        self.scaling = scaling

    def __call__(self, _: nn.Module, __: Any, output: Tensor) -> Tensor:
        residual, self.scaling.residual = self.scaling.residual, None
        return output if residual is None else output + residual.reshape(output.shape)


def _keep_input(layer: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
    x = named["hidden_states"] if "hidden_states" in named else arguments[0]
    scaling: IdentityScaling = getattr(layer, NAME)
    given = (*arguments[1:], *named.values())
    cache = next((value for value in given if hasattr(value, "layers") and hasattr(value, "update")), None)
    scaling.queries = x.shape[1]
    scaling.inputs = x if cache is None else _cached(cache, x, scaling.layers + layer.layer_idx)


def _forget_input(layer: Any, _: Any, __: Any) -> None:
    scaling: IdentityScaling = getattr(layer, NAME)
    scaling.inputs = scaling.residual = None


def _cached(cache: Any, x: Tensor, index: int) -> Tensor:
    """All inputs so far, with these added to a layer of the cache that belongs to them."""
    from transformers.cache_utils import DynamicLayer

    if not all(isinstance(layer, DynamicLayer) for layer in cache.layers):
        raise InputError("Identity scalings need a cache that grows (DynamicCache); this one has a fixed size.")
    while len(cache.layers) <= index:
        cache.layers.append(DynamicLayer())
    inputs, _ = cache.layers[index].update(x[:, None], x[:, None, :, :0])
    return inputs[:, 0]


def _register() -> None:
    """Make the attention known to transformers under its own name, with masks as eager attention wants them."""
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_ATTENTION_FUNCTIONS.register(INTERFACE, _attention)
    ALL_MASK_ATTENTION_FUNCTIONS.register(INTERFACE, ALL_MASK_ATTENTION_FUNCTIONS["eager"])


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **_: Any,
) -> tuple[Tensor, Tensor | None]:
    """What transformers calls in place of its own attention."""
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    scalars: IdentityScaling | None = getattr(module, NAME, None)
    if scalars is None:  # cross-attention, which has none
        mixed = F.scaled_dot_product_attention(query, key, value, attention_mask, dropout, scale=scale)
        return mixed.transpose(1, 2).contiguous(), None
    mixed, weights = scalars.attend(query, key, value, attention_mask, scale, dropout)
    return mixed.transpose(1, 2).contiguous(), weights


def _attention_layers(model: nn.Module) -> Iterable[tuple[nn.Module, int]]:
    """Every attention layer that scalings can be added to, with its number of heads."""
    known = getattr(getattr(model, "config", None), "model_type", None) in FAMILIES
    for module in model.modules():
        if getattr(module, "takes_identity_scaling", False):
            yield module, int(module.heads)  # type: ignore[arg-type]
        elif known and _is_self_attention(module):
            yield module, int(module.config.num_attention_heads)  # type: ignore[union-attr, arg-type]


def _is_self_attention(module: nn.Module) -> bool:
    named = "Attention" in type(module).__name__ and hasattr(module, "layer_idx")
    return named and any(hasattr(module, name) for name in OUTPUT) and not getattr(module, "is_cross_attention", False)


def _unknown(model: nn.Module) -> str:
    kind = getattr(getattr(model, "config", None), "model_type", None) or type(model).__name__
    known = ", ".join(FAMILIES)
    return f"Identity scalings cannot be added to {kind}; known are {known} and the models of foretrain.language."
