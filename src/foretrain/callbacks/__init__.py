"""The monitor as a callback of other people's trainers.

    Trainer(..., callbacks=[foretrain.callbacks.HuggingFace(every=50, file="run.jsonl")])
    lightning.Trainer(..., callbacks=[foretrain.callbacks.Lightning(every=50, file="run.jsonl")])

Either library is loaded only when its callback is used.
"""

from __future__ import annotations

from typing import Any

__all__ = ["HuggingFace", "Lightning"]


def __getattr__(name: str) -> Any:
    if name == "HuggingFace":
        from foretrain.callbacks.hugging_face import HuggingFace

        return HuggingFace
    if name == "Lightning":
        from foretrain.callbacks.lightning import Lightning

        return Lightning
    raise AttributeError(f"module 'foretrain.callbacks' has no attribute {name!r}")
