"""What neural-tangents computes for strings of tokens. Runs on its own, in any Python that has the library.

Reads a list of strings (whole numbers) as JSON and writes JSON: its version, what it says when asked for softmax
attention scaled by 1/√d, and the CPU seconds and first row of the kernel it does have, a ReLU layer on one-hot tokens.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any


def probe(strings: list[list[int]]) -> dict[str, Any]:
    try:
        import jax
        import jax.numpy as jnp
        import neural_tangents
        from neural_tangents import stax
    except ImportError as error:
        return {"missing": f"{type(error).__name__}: {error}"}
    jax.config.update("jax_enable_x64", True)
    tokens = jnp.asarray(strings)
    vocabulary = int(tokens.max()) + 1
    X = jax.nn.one_hot(tokens, vocabulary, dtype=jnp.float64)
    answer: dict[str, Any] = {"version": neural_tangents.__version__}
    *_, attention = stax.GlobalSelfAttention(1, n_chan_key=1, n_chan_val=1, n_heads=1, linear_scaling=False)
    try:
        attention(X[:2], X[:2], "nngp")
        answer["attention"] = "computed"
    except Exception as error:
        answer["attention"] = f"{type(error).__name__}: {error}"
    # neural-tangents divides by the number of inputs, length · vocabulary; our kernel divides by the length alone.
    *_, layer = stax.serial(stax.Flatten(), stax.Dense(1, W_std=vocabulary**0.5), stax.Relu())
    kernel = jax.jit(lambda x: layer(x, None, "nngp"))
    kernel(X).block_until_ready()  # compiled outside the time
    started = time.process_time()
    values = kernel(X).block_until_ready()
    answer["seconds"] = time.process_time() - started
    answer["row"] = values[0].tolist()
    return answer


if __name__ == "__main__":
    print(json.dumps(probe(json.load(sys.stdin))))
