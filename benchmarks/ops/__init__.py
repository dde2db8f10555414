"""Measures every op of the vocabulary against eager torch: `python -m benchmarks.ops`."""
