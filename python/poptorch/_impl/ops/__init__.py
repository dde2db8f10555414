"""The functions of poptorch.ops that are more than one call of the native module."""
