"""Information about a model: reports, explanations, latency, progress, source lines."""
