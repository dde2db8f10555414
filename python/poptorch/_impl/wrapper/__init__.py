"""The wrapper that trainingModel and inferenceModel return: its executor, compilations, calls."""
