"""The versions of PopTorch and of its dependencies. CMake, pip and make read this file."""

VERSION = "0.1.0"
TORCH = "2.13.0"
# Builds take TORCH unless the environment has this one, or POPTORCH_TORCH_VERSION asks for it.
NEWEST_TORCH = "2.14.1"
ONEDNN = "2023.2.0"
