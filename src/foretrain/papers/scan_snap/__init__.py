"""Scan and Snap: how a 1-layer transformer's attention scans tokens, then freezes."""
