"""Scan and Snap on paper: one result, one function. numpy arrays in and out, float64.

Every time is in steps of one sample, or of a batch whose loss is averaged (`TIME_UNIT`): on average both move alike.
"""

from foretrain.papers.scan_snap.theory.applicability import (
    MEMORY_ALLOWED,
    TIME_UNIT,
    Applicability,
    Condition,
    Meaning,
    applies,
)
from foretrain.papers.scan_snap.theory.attention import (
    attention_velocity,
    by_query,
    fates,
    features,
    growth_factor,
    growth_factor_bounds,
    growth_speed,
    logit_velocity,
    next_token_error,
    relative_gain,
)
from foretrain.papers.scan_snap.theory.concentration import (
    count_radius,
    count_radius_simple,
    count_spread,
    error_spread,
    error_spread_late,
    growth_spread,
    mean_count,
    prediction_error,
    steps_to_error,
    theta_bound,
)
from foretrain.papers.scan_snap.theory.confusion import confusion_drive, confusion_drive_at_first, memory
from foretrain.papers.scan_snap.theory.correlation import (
    correlation_window,
    gradient_coefficients,
    gradient_coefficients_printed,
    growth_speed_closed_form,
    largest_correlation,
    least_vocab,
    least_vocab_equal_overlaps,
    overlaps,
    unmixing,
    unmixing_bound,
    unmixing_distance,
    unmixing_printed,
)
from foretrain.papers.scan_snap.theory.decoder import (
    class_directions,
    decoder_growth,
    decoder_growth_discrete,
    growth_with_equal_overlaps,
    omega0,
    omega1,
    snap_time,
    speed,
)
from foretrain.papers.scan_snap.theory.finite_length import feature_noise, finite_length_force, least_length
from foretrain.papers.scan_snap.theory.gradient import attention_limit, frequency_radius, loss_gradients
from foretrain.papers.scan_snap.theory.growth_from_data import theorem4_c0, theorem4_growth, theorem4_growth_factor
from foretrain.papers.scan_snap.theory.prediction import predicted_logits, predicted_logits_adiabatic, snap_of_curve
from foretrain.papers.scan_snap.theory.sampling import RunsAway, logit_moments, noise_excess
from foretrain.papers.scan_snap.theory.transition import (
    attention_drive,
    attention_growth,
    attention_growth_equal_overlaps,
    attention_growth_late,
    attention_growth_printed,
    attention_growth_scanning,
    attention_growth_snapped,
    late_time,
    late_time_printed,
    logarithmic_start,
    logarithmic_start_printed,
)

__all__ = [
    "MEMORY_ALLOWED", "TIME_UNIT", "Applicability", "Condition", "Meaning", "RunsAway", "applies",
    "attention_drive", "attention_growth", "attention_growth_equal_overlaps", "attention_growth_late",
    "attention_growth_printed",
    "attention_growth_scanning", "attention_growth_snapped", "attention_limit", "attention_velocity", "by_query",
    "class_directions", "confusion_drive", "confusion_drive_at_first", "correlation_window", "count_radius",
    "count_radius_simple", "count_spread", "decoder_growth", "decoder_growth_discrete", "error_spread",
    "error_spread_late", "fates", "feature_noise", "features", "finite_length_force", "frequency_radius",
    "gradient_coefficients", "gradient_coefficients_printed", "growth_factor", "growth_factor_bounds", "growth_speed",
    "growth_speed_closed_form", "growth_spread", "growth_with_equal_overlaps", "largest_correlation", "late_time",
    "late_time_printed", "least_length", "least_vocab", "least_vocab_equal_overlaps", "logarithmic_start",
    "logarithmic_start_printed", "logit_moments", "logit_velocity", "loss_gradients", "mean_count", "memory",
    "next_token_error", "noise_excess", "omega0", "omega1", "overlaps", "predicted_logits",
    "predicted_logits_adiabatic", "prediction_error",
    "relative_gain", "snap_of_curve", "snap_time", "speed", "steps_to_error", "theorem4_c0", "theorem4_growth",
    "theorem4_growth_factor", "theta_bound", "unmixing", "unmixing_bound", "unmixing_distance", "unmixing_printed",
]  # fmt: skip
