"""Weights and buffers: where the newest values are, their transfer, and groups of replicas."""
