"""Many transformers of the same shape at once: the same numbers as `foretrain.models.transformer`, in less time."""
