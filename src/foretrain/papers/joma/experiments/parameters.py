"""What the experiments of JoMA take: the names, type, range, unit and meaning of every parameter they share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from foretrain.ledger.parameters import Count, about

ClassKind = Literal["smooth", "random"]  # how token frequencies differ between classes
LayerActivation = Literal["linear", "relu", "leaky_relu", "square", "cube"]  # of one layer
Activation = Literal["relu", "linear"]  # of one layer and of a transformer
Loss = Literal["squared", "fixed", "logistic"]  # of a node that learns a teacher
Objective = Literal["match", "class"]
Generator = Literal["set union", "HBLT"]
Variant = Literal["published", "eq. 6", "linear"]
Density = Literal[
    "Gaussian", "uniform", "Laplace", "Student-t(3)", "Student-t(1.5)", "Gaussian of scales 1 and 10"
]  # fmt: skip
Configuration = Annotated[
    str,
    Field(pattern=r"^C\d+-ch\d+-\d+-\d+$"),
    about("Column of Table 1, named by C, N_ch, N_0 and N_1: C20-ch2-10-20.", examples=["C20-ch2-10-20"]),
]

TrainingSteps = Annotated[Count, about("Length of training.", unit="steps")]
Points = Annotated[
    int,
    Field(ge=2, le=10**9),
    about("How many times along training are saved, evenly from start to end.", unit="times"),
]
Activations = Annotated[Sequence[Activation], Field(min_length=1), about("Activations of the MLP.")]
Objectives = Annotated[
    Sequence[Objective],
    Field(min_length=1),
    about("What the transformer learns: whether the query belongs to its context, or the class."),
]
Correlations = Annotated[
    Sequence[Annotated[float, Field(ge=-1, le=1)]],
    Field(min_length=1),
    about("Correlations ρ of a node of the latent tree with its parent."),
]
