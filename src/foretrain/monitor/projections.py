"""Finds the query, key, value and output matrices of every attention layer, whoever named them."""
