"""Abstract symbols: template tasks, an exact transformer kernel, two trainable identity scalings per head."""

from foretrain.papers import Paper

PAPER = Paper(
    name="abstract_symbols",
    title="When can transformers reason with abstract symbols?",
    citation="Enric Boix-Adserà, Omid Saremi, Emmanuel Abbe, Samy Bengio, Etai Littwin, Joshua Susskind. 2023.",
    symbols=(),
)
