"""Reads attention and weights of any model while it trains, without changing a bit of its training."""
