"""Nested arguments and results: flattened into tensors, rebuilt, and written as JSON."""
