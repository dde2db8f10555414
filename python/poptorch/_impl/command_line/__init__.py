"""The commands of `python -m poptorch` that have more than one line."""
