"""The data loader: order of samples, worker processes, random numbers, resumable position."""
