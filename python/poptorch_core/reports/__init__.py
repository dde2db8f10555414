"""Reports of compiled models: docs/profiling.md is their design. Nothing here imports torch."""
