"""Metrics that the papers' tables need, and `gossamer evaluate` does not have."""
