"""JoMA: joint dynamics of MLP and attention; attention first sparse, then dense; latent hierarchies."""

from foretrain.papers import Paper

PAPER = Paper(
    name="joma",
    title="JoMA: Demystifying Multilayer Transformers via JOint Dynamics of MLP and Attention",
    citation="Yuandong Tian, Yiping Wang, Zhenyu Zhang, Beidi Chen, Simon Du. 2023.",
    symbols=(),
)
