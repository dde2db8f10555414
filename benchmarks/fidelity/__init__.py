"""Compares the figures of the cost model with published ones."""
