"""Small language models for the experiments: text, models, training that survives a kill, checkpoints."""
