"""JoMA: joint dynamics of MLP and attention; attention first sparse, then dense; latent hierarchies."""
