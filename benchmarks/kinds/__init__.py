"""Holds the networks of the workloads beside W0 to W9: one for each other kind of model."""
