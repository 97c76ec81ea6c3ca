"""Every claim of this paper, in the order of the paper: each module here has a list CLAIMS."""

from foretrain.papers.abstract_symbols.claims import (
    blocks,
    generalisation,
    growing_ridge,
    idealised,
    nonsingular,
    tasks,
)

CLAIMS = (
    *tasks.CLAIMS,
    *nonsingular.CLAIMS,
    *generalisation.CLAIMS,
    *growing_ridge.CLAIMS,
    *idealised.CLAIMS,
    *blocks.CLAIMS,
)
