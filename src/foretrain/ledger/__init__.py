"""What the papers say, and whether it holds: claims, comparators, experiments, verdicts."""
