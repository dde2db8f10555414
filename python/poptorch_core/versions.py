"""The versions of PopTorch and of its dependencies. CMake, pip and make read this file."""

VERSION = "0.1.0"
TORCH = "2.13.0"
# Builds take TORCH unless the environment has one of these, or POPTORCH_TORCH_VERSION asks for it.
# The newest is the last.
NEWER_TORCH = "2.14.1 2.15.0"
ONEDNN = "2023.2.0"
