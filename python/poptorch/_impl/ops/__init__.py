"""The functions of poptorch.ops that do more than call the native module once."""
