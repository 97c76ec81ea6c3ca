"""The parameters that several experiments of this paper take: type, range, unit and one sentence each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from foretrain.kernels import architectures as kernels
from foretrain.ledger.parameters import Count, NotNegative, Positive, about
from foretrain.papers.abstract_symbols.setting import REGRESSION_TASKS, SETTINGS

MOST_SAMPLES = 1_000_000  # of one training set, which memory holds

if TYPE_CHECKING:  # a type checker sees text; pydantic and the tests see exactly the names that the code knows
    TransformerName = str
    ArchitectureName = str
    KernelName = str
    SettingName = str
    RegressionTaskName = str
else:
    # Spelled out, because the constants in `trained` come with torch. A test compares the two.
    TransformerName = Literal["transformer", "transformer + aI", "transformer + bI", "transformer + aI + bI"]
    ArchitectureName = Literal[TransformerName, "MLP", "MLP + XXᵀ", "RNN", "LSTM"]
    KernelName = Literal[kernels.ARCHITECTURES]
    SettingName = Literal[tuple(SETTINGS)]
    RegressionTaskName = Literal[tuple(REGRESSION_TASKS)]

SampleCount = Annotated[int, Field(ge=1, le=MOST_SAMPLES)]
EpochCount = Annotated[int, Field(ge=1, le=1_000_000)]  # the losses of every epoch are kept
NOT_EMPTY = Field(min_length=1)

# The networks that are trained
TaskName = Annotated[str, about("The task: its name, or a file of your own that ends in .toml.", file=True)]
SampleSize = Annotated[SampleCount, about("Number of training samples.", unit="samples")]
Setting = Annotated[
    SettingName, about("Size of the networks and of their training: base is the paper's own, glance takes seconds.")
]
Architecture = Annotated[ArchitectureName, about("The network: a transformer, with a·I, b·I or both, or a baseline.")]
Architectures = Annotated[
    Sequence[ArchitectureName], NOT_EMPTY, about("The networks: transformers, with a·I, b·I or both, and baselines.")
]
Rates = Annotated[
    Sequence[Positive],
    about("Learning rates, of which validation chooses the best; if empty, the rate of the setting."),
]
RateAxis = Annotated[Sequence[Positive], about("Learning rates to compare; if empty, the rate of the setting.")]
Depth = Annotated[Count | None, about("Number of layers; none takes that of the setting.", unit="layers")]
HeadCount = Annotated[Count | None, about("Heads per layer; none takes those of the setting.", unit="heads")]
Embedding = Annotated[Count | None, about("Embedding dimension; none takes that of the setting.")]
BatchSize = Annotated[
    Count | None, about("Samples in each training step; none takes those of the setting.", unit="samples")
]
OwnEpochs = Annotated[EpochCount | None, about("Epochs of training; none takes those of the setting.", unit="epochs")]
Patience = Annotated[
    Count | None,
    about("Epochs without a better validation loss after which a run stops; none trains to the end.", unit="epochs"),
]

# The kernels
RegressionTask = Annotated[RegressionTaskName, about("The task, which asks for a number.")]
KernelArchitecture = Annotated[KernelName, about("The architecture whose kernel is used.")]
Beta = Annotated[NotNegative, about("β, the inverse temperature of the softmax.")]
Gamma = Annotated[NotNegative, about("γ, the size of the positional embeddings beside that of the tokens.")]
KernelSamples = Annotated[Sequence[Count], NOT_EMPTY, about("Numbers of training samples.", unit="samples")]
NetworkWidth = Annotated[Count, about("Width of the network: heads, embedding, head and MLP are equal.")]
NetworkSeeds = Annotated[Count, about("Number of networks, each drawn with a seed of its own.", unit="seeds")]
