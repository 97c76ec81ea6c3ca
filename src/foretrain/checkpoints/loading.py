"""Loads a checkpoint into a model of transformers, with each tensor in memory once, and with none of them random."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from foretrain.checkpoints.formats import gguf_model
from foretrain.checkpoints.weights import Unreadable, Weights
from foretrain.core.errors import require
from foretrain.core.quiet import quiet_transformers

NO_CODE = "{} needs code of its own (auto_map), which is never run here; leave out --text to measure the weights alone."
MASKED = "ForMaskedLM"
WITH_LOSS = ("ForCausalLM", "LMHeadModel")


def load_model(place: Path, weights: Weights, config: Mapping[str, Any]) -> tuple[Any, bool]:
    """The model in float32, and whether it predicts the next token. A tensor that the checkpoint lacks is refused."""
    if place.suffix == ".gguf":
        return gguf_model(place).eval(), True
    require(bool(config.get("model_type")), f"{place} has no config.json for transformers, which --text needs.")
    has_loss = any(name.endswith(WITH_LOSS) for name in architectures(config) or WITH_LOSS)
    kind = _kind(config, has_loss)
    try:
        with quiet_transformers():
            model, absent = _filled(weights, config, kind)
            if absent and (place / "config.json").is_file():  # other names than the model's: transformers knows more
                model, absent = _from_folder(place, kind)
    except Exception as error:  # transformers raises many kinds
        unknown = config.get("auto_map") and "Unrecognized model" in str(error)
        if unknown or "trust_remote_code" in str(error):
            raise Unreadable(NO_CODE.format(place)) from error
        reason = str(error).split("\n")[0][:200]
        raise Unreadable(f"{place} cannot be loaded by transformers ({type(error).__name__}: {reason}).") from error
    if absent:
        one = f"lacks {absent[0]}, which the model needs; it would run on random numbers there"
        several = f"lacks {len(absent)} tensors that the model needs, such as {absent[0]}; it would run on random ones"
        raise Unreadable(f"{place} {one if len(absent) == 1 else several}.")
    return model.eval(), has_loss


def architectures(config: Mapping[str, Any]) -> list[str]:
    """The classes that a configuration names."""
    named = config.get("architectures")
    return [name for name in named if isinstance(name, str)] if isinstance(named, list) else []


def _kind(config: Mapping[str, Any], has_loss: bool) -> Any:
    import transformers

    if has_loss:
        return transformers.AutoModelForCausalLM
    masked = any(name.endswith(MASKED) for name in architectures(config))
    return transformers.AutoModelForMaskedLM if masked else transformers.AutoModel


def _filled(weights: Weights, config: Mapping[str, Any], kind: Any) -> tuple[Any, list[str]]:
    """A model made from a configuration and filled tensor by tensor, and the names of tensors that are absent.

    `from_pretrained` would hold the pages of the mapped file beside the model: twice the size of the checkpoint.
    """
    import transformers
    from transformers.initialization import no_init_weights

    settings = {key: value for key, value in config.items() if key != "model_type"}
    with no_init_weights():
        model = kind.from_config(
            transformers.AutoConfig.for_model(config["model_type"], **settings),
            dtype=torch.float32,
            trust_remote_code=False,
        )
    model.tie_weights()
    prefix = f"{model.base_model_prefix}."
    filled, absent = set(), []
    for name, parameter in model.state_dict(keep_vars=True).items():
        stored = next((n for n in (name, name.removeprefix(prefix), prefix + name) if n in weights), None)
        if id(parameter) in filled:
            continue  # tied to one that is there
        if stored is None:
            absent.append((name, parameter))
            continue
        tensor = weights[stored]
        if tensor.shape != parameter.shape:
            raise ValueError(f"{stored} has the shape {list(tensor.shape)}, the model needs {list(parameter.shape)}")
        parameter.data = tensor.to(parameter.dtype)
        filled.add(id(parameter))
    return model, sorted(name for name, parameter in absent if id(parameter) not in filled)


def _from_folder(place: Path, kind: Any) -> tuple[Any, list[str]]:
    model, said = kind.from_pretrained(
        place,
        local_files_only=True,
        output_loading_info=True,
        dtype=torch.float32,
        weights_only=True,
        trust_remote_code=False,
    )
    return model, sorted(said["missing_keys"])
