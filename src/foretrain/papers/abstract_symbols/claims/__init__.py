"""Every claim of this paper, in the order of the paper: each module here has a list CLAIMS."""

from foretrain.papers.abstract_symbols.claims import (
    analytic,
    architectures,
    blocks,
    copying,
    difficulty,
    forecast,
    generalisation,
    growing_ridge,
    hyperparameters,
    idealised,
    kernel,
    mlp,
    nonsingular,
    stages,
    tasks,
)

CLAIMS = (
    *tasks.CLAIMS,
    *kernel.CLAIMS,
    *nonsingular.CLAIMS,
    *generalisation.CLAIMS,
    *growing_ridge.CLAIMS,
    *idealised.CLAIMS,
    *blocks.CLAIMS,
    *stages.CLAIMS,
    *analytic.CLAIMS,
    *mlp.CLAIMS,
    *copying.CLAIMS,
    *architectures.CLAIMS,
    *hyperparameters.CLAIMS,
    *difficulty.CLAIMS,
    *forecast.CLAIMS,
)
