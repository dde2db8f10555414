"""Files: compiled executables, pickled models, checkpoints, and safe private folders."""
