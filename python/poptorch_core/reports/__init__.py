"""Reports of compiled models, as docs/profiling.md describes them. Nothing here imports torch."""
