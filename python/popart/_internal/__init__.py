"""The PopART internals that PopXL programs use."""
