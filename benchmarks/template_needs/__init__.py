"""How many samples template tasks need in training, against forecasts of it."""
