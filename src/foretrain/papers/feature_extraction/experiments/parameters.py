"""The parameters that several experiments of this paper take: type, range, unit and one sentence each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from foretrain.ledger.parameters import Count, about
from foretrain.models.text_networks import NETWORKS
from foretrain.papers.feature_extraction.setting import TWO_CLASSES

if TYPE_CHECKING:  # a type checker sees text; pydantic and the tests see exactly the names that the code knows
    NetworkName = str
    CorpusName = str
else:
    NetworkName = Literal[tuple(NETWORKS)]
    CorpusName = Literal[TWO_CLASSES]

Network = Annotated[NetworkName, about("The network, by architecture and activation.")]
Corpus = Annotated[CorpusName, about("The labelled texts: made up, or a real corpus of two classes.")]
Texts = Annotated[Count, about("Number of training texts.", unit="texts")]
Width = Annotated[Count, about("Width of the networks.")]
SeedCount = Annotated[Count, about("Number of networks, each started with a seed of its own.", unit="seeds")]
