"""The bias in closed form: how strongly all tokens move together, against how strongly each moves by itself."""

from __future__ import annotations

from typing import Annotated, Literal

from foretrain.kernels.tangent import Scales, mlp_kernel
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Positive, about


def bias_share(
    varied: Annotated[Literal["all weights", "readout only"], about("The weights whose size varies.")],
    activation: Annotated[Literal["relu", "gelu", "silu", "tanh", "linear"], about("Activation of the MLP.")],
    sigma: Annotated[Positive, about("Standard deviation of these weights at the start.")],
) -> dict[str, float]:
    """β/ρ in closed form."""
    kernel = mlp_kernel(activation, Scales(sigma, sigma, sigma) if varied == "all weights" else Scales(1, 1, sigma))
    return {"bias": kernel.shared / kernel.own}


EXPERIMENTS = [
    Experiment(
        "feature_extraction/bias_share",
        "β/ρ against the size of the initial weights",
        bias_share,
        {
            "varied": ("all weights", "readout only"),
            "activation": ("relu", "gelu", "silu", "tanh"),
            "sigma": (0.01, 0.03, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0, 1.4, 2.0, 3.0),
        },
        settings={"fast": {"sigma": (0.1, 1.0)}, "full": {}},
    )
]
