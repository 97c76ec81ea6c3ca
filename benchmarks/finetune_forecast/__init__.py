"""Forecasts of fine-tuning against real fine-tuning, on several models and corpora."""
