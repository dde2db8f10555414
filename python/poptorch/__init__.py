"""PyTorch models on (emulated) IPUs."""
