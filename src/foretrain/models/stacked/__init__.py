"""Many transformers of one shape at once: the numbers of `foretrain.models.transformer`, faster."""
