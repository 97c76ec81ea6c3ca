"""A made-up paper: every kind of claim and experiment, each a matter of milliseconds."""
