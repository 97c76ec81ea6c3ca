"""A made-up paper: every kind of claim and experiment, each a matter of milliseconds."""

from foretrain.papers import Paper, Symbol

PAPER = Paper(
    name="toy",
    title="On <script>alert('title')</script> & other toys",
    citation="A. Nobody. Made up & never printed.",
    symbols=(
        Symbol("ρ<b>", "rate", "[time]", "how fast <i>x</i> decays"),
        Symbol("its bounds, ζ", "correction factor", "", "what is allowed"),
    ),
)
