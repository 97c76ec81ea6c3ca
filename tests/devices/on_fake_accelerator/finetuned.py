"""The forecast of fine-tuning, of a model that is on an accelerator: the same numbers as on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import transformers as hf
from torch import nn

from foretrain.forecast.finetuning.forecast import finetune

SMALL: dict[str, Any] = {"steps": 4, "orders": 1, "rate": 1e-3}


def test_a_torch_classifier(device: torch.device) -> None:
    """Rows and labels may be anywhere: on the CPU, or beside the model."""
    x = torch.randn(60, 4, generator=torch.Generator().manual_seed(1))
    y = (x[:, 0] > 0).long()
    forecasts = []
    for place, data in (("cpu", (x, y)), (device, (x, y)), (device, (x.to(device), y.to(device)))):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 2)).to(place)
        forecast = finetune(model, data, n=30, test=20, **SMALL)
        forecasts.append(forecast.train().checked(2))
        assert {p.device.type for p in model.parameters()} == {torch.device(place).type}
    for name in ("loss", "logits", "real_loss"):
        for on_device in forecasts[1:]:
            np.testing.assert_allclose(on_device.dataset[name], forecasts[0].dataset[name], rtol=1e-4, atol=1e-5)


def test_texts(device: torch.device) -> None:
    """With embeddings, which are followed by the rows that are looked up, and a decoder's last token."""
    texts = [(f"{'good' if row % 2 else 'bad'} {row}", row % 2) for row in range(40)]
    forecasts = []
    for place in ("cpu", device):
        torch.manual_seed(0)
        sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 16, "vocab_size": 128}
        body = hf.GPT2Model(hf.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)).to(place)
        forecast = finetune(body, texts, tokenizer=lambda text: [ord(c) for c in text], n=20, test=20, **SMALL)
        forecasts.append(forecast.train())
    for name in ("loss", "real_loss"):
        np.testing.assert_allclose(forecasts[1].dataset[name], forecasts[0].dataset[name], rtol=1e-3, atol=1e-4)
