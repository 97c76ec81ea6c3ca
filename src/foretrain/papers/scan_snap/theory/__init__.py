"""Scan and Snap on paper: one result, one function. numpy arrays in and out, float64."""

from foretrain.papers.scan_snap.theory.decoder import decoder_growth

__all__ = ["decoder_growth"]
