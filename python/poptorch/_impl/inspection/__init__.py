"""What a user can ask about a model: reports, explanations, latency, progress, source lines."""
