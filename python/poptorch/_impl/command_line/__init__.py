"""The commands of `python -m poptorch`."""
