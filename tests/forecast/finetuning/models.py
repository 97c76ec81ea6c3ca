"""Small random models and texts for the tests of fine-tuning."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from foretrain.forecast.finetuning.classifier import HeadedModel
from foretrain.forecast.finetuning.texts import PooledClassifier


def tiny(kind: str, classes: int = 2, rows: int = 6, seed: int = 0) -> HeadedModel:
    """A random BERT, GPT-2 or Llama with a head, on random texts of which some are padded."""
    from transformers import BertConfig, BertModel, GPT2Config, GPT2Model, LlamaConfig, LlamaModel

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if kind == "bert":
            sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
            body: nn.Module = BertModel(
                BertConfig(vocab_size=50, max_position_embeddings=20, **sizes), add_pooling_layer=False
            )
        elif kind == "gpt2":
            ends = {"bos_token_id": 0, "eos_token_id": 0}
            body = GPT2Model(GPT2Config(vocab_size=50, n_embd=16, n_layer=2, n_head=2, n_positions=20, **ends))
        else:
            sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}
            body = LlamaModel(LlamaConfig(vocab_size=50, num_key_value_heads=2, **sizes))
        pool = "mean" if kind == "bert" else "last"
        module = PooledClassifier(body, 16, 1 if classes == 2 else classes, pool=pool).eval()
        tokens = torch.randint(1, 50, (rows, 7))
    mask = torch.ones_like(tokens)
    mask[0, 4:], mask[3, 2:] = 0, 0
    return HeadedModel(module, module.head, {"input_ids": tokens, "attention_mask": mask}, classes)


def smooth(rows: int = 40, width: int = 5, hidden: int = 16, classes: int = 2) -> tuple[HeadedModel, Tensor]:
    """A two-layer network on random vectors, in double precision, with labels that it can learn."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        module = nn.Sequential(nn.Linear(width, hidden), nn.Tanh(), nn.Linear(hidden, 1 if classes == 2 else classes))
        x = torch.randn(rows, width)
        labels = (x[:, 0] * x[:, 1] > 0).long() if classes == 2 else (x[:, :classes].argmax(1))
    return HeadedModel(module.eval(), module[2], {"": x}, classes), labels
