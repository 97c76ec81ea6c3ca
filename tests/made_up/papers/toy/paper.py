"""The made-up paper: title, citation, letters, and the story in short."""

from foretrain.papers import Paper, Story, Symbol

PAPER = Paper(
    name="toy",
    title="On <script>alert('title')</script> & other toys",
    citation="A. Nobody. Made up & never printed.",
    symbols=(
        Symbol("ρ<b>", "rate", "[time]", "how fast <i>x</i> decays"),
        Symbol("its bounds, ζ", "correction factor", "", "what is allowed"),
    ),
    short="Toys <b>",
    story=Story(
        says="Everything decays <i>slowly</i>.",
        holds="The rate does.",
        wrong="A factor of two.",
        training="Nothing here is trained.",
        picture="toy/bounds",
    ),
)
