"""Deep linear networks: title, citation, letters, and the story in short."""

from foretrain.papers import Paper, Story, Symbol

PAPER = Paper(
    name="deep_linear",
    short="Deep linear networks",
    position=5,
    title="Exact Solutions to the Nonlinear Dynamics of Learning in Deep Linear Neural Networks",
    citation="Andrew M. Saxe, James L. McClelland, Surya Ganguli. ICLR 2014. arXiv:1312.6120.",
    story=Story(
        says="A network without nonlinearities still learns in a nonlinear way: each singular mode of the data rises "
        "along its own S-shaped curve, strong modes first. Deep networks learn as fast as shallow ones if they start "
        "from orthogonal matrices, and slowly if they start from random ones.",
        holds="All of it: the curves and times, the conserved quantity, the limit of infinite depth, and that a random "
        "start makes depth slow.",
        wrong="Nothing that we could find.",
        training="The curves are derived for starts in line with the data. From small random weights the same curves "
        "hold with another starting point, which can be computed from the weights before training.",
        picture="deep_linear/modes_random",
    ),
    symbols=(
        Symbol("Σ³¹", "correlation", "[outputs, inputs]", "mean of output times input; its modes are learned"),
        Symbol("s", "strength", "[mode]", "singular value of Σ³¹"),
        Symbol("u", "learned", "[mode]", "how much of a mode the network has learned; s in the end"),
        Symbol("u_0", "start", "[mode]", "u before training"),
        Symbol("N_l", "layers", "", "layers of units; one more than weight matrices"),
        Symbol("τ", "1 / rate", "", "time is counted in steps times learning rate, so τ is 1"),
    ),
)
