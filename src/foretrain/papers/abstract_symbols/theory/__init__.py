"""On paper: one result, one function. numpy arrays in and out, float64."""

from foretrain.papers.abstract_symbols.theory.analytic import (
    log_derivative_bound,
    pointwise_derivatives,
    two_token_kernel,
    two_token_series,
    two_token_series_at_0,
)
from foretrain.papers.abstract_symbols.theory.copying import (
    error_floor,
    identity_velocity,
    output_variance,
    train_velocity,
    unit_rates,
    unseen_velocity,
)
from foretrain.papers.abstract_symbols.theory.kernel import attention_expectation, cosine_expectation
from foretrain.papers.abstract_symbols.theory.layers import identity_kernel
from foretrain.papers.abstract_symbols.theory.templates import majority_templates
from foretrain.papers.abstract_symbols.theory.wick import (
    Invariant,
    derivative_value,
    invariant,
    invariant_value,
    kernel_derivative,
)

__all__ = [
    "Invariant",
    "attention_expectation",
    "cosine_expectation",
    "derivative_value",
    "error_floor",
    "identity_kernel",
    "identity_velocity",
    "invariant",
    "invariant_value",
    "kernel_derivative",
    "log_derivative_bound",
    "majority_templates",
    "output_variance",
    "pointwise_derivatives",
    "train_velocity",
    "two_token_kernel",
    "two_token_series",
    "two_token_series_at_0",
    "unit_rates",
    "unseen_velocity",
]
