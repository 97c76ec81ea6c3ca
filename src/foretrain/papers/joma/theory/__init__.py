"""JoMA on paper: one result, one function. numpy arrays in and out, float64."""

from foretrain.papers.joma.theory.convergence import (
    LAMBDA_BOUND,
    attention_flow,
    lemma6_function,
    lemma7_function,
    linear_attention_flow,
    linear_attention_log_distance,
    linear_attention_speed_ratio,
    log_distance,
    salient_time,
    speed_ratio,
    speed_ratio_error_bound,
    speed_ratio_error_bound_printed,
    time_excess,
    time_excess_printed,
    time_to_distance,
)
from foretrain.papers.joma.theory.critical import (
    CriticalPoint,
    critical_condition,
    critical_points,
    critical_ratio,
    linear_coefficients,
    linear_coefficients_printed,
    linear_matrix,
)
from foretrain.papers.joma.theory.embeddings import shared_logit_speed
from foretrain.papers.joma.theory.hierarchy import (
    chain_correlation,
    cooccurrence,
    cooccurrence_by_edge,
    cooccurrence_limit,
    cooccurrence_printed,
    distribution,
    transition,
)
from foretrain.papers.joma.theory.isotropic import (
    LINEAR,
    RELU,
    Derivative,
    Kinked,
    critical_function,
    hyperplane_moments,
    hyperplane_moments_printed,
    stationary_function,
    theta1,
    theta1_inverse,
    theta2,
    theta_slopes,
    theta_slopes_printed,
    uniform_attention_flow,
)
from foretrain.papers.joma.theory.joint import (
    attention_from_mlp_exp,
    attention_from_mlp_linear,
    attention_from_mlp_softmax,
    weights_from_parts,
)
from foretrain.papers.joma.theory.multilayer import gradient_correlation_bound
from foretrain.papers.joma.theory.radial import (
    DENSITIES,
    RadialDensity,
    gaussian,
    gaussian_mixture,
    laplace,
    radial_density,
    student_t,
    uniform_ball,
)
from foretrain.papers.joma.theory.winner import (
    blow_up_time,
    loser_limits,
    loser_limits_printed,
    token_pull,
    winner_invariant,
    winner_invariant_printed,
    winner_take_all,
    winner_take_all_printed,
)

__all__ = [
    "DENSITIES", "LAMBDA_BOUND", "LINEAR", "RELU", "CriticalPoint", "Derivative", "Kinked", "RadialDensity",
    "attention_flow", "attention_from_mlp_exp", "attention_from_mlp_linear", "attention_from_mlp_softmax",
    "blow_up_time", "chain_correlation", "cooccurrence", "cooccurrence_by_edge", "cooccurrence_limit",
    "cooccurrence_printed", "critical_condition", "critical_function", "critical_points", "critical_ratio",
    "distribution", "gaussian", "gaussian_mixture", "gradient_correlation_bound", "hyperplane_moments",
    "hyperplane_moments_printed", "laplace", "lemma6_function", "lemma7_function", "linear_attention_flow",
    "linear_attention_log_distance", "linear_attention_speed_ratio", "linear_coefficients",
    "linear_coefficients_printed", "linear_matrix", "log_distance", "loser_limits", "loser_limits_printed",
    "radial_density", "salient_time", "shared_logit_speed", "speed_ratio", "speed_ratio_error_bound",
    "speed_ratio_error_bound_printed", "stationary_function", "student_t", "theta1", "theta1_inverse", "theta2",
    "theta_slopes", "theta_slopes_printed", "time_excess", "time_excess_printed", "time_to_distance", "token_pull",
    "transition", "uniform_attention_flow", "uniform_ball", "weights_from_parts", "winner_invariant",
    "winner_invariant_printed", "winner_take_all", "winner_take_all_printed",
]  # fmt: skip
