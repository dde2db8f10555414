"""The Python side of the tracer: prepares torch and the model, and records what C++ cannot see."""
