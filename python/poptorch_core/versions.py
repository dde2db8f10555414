"""The versions of PopTorch and of its dependencies. CMake, pip and make read this file."""

VERSION = "0.1.0"
TORCH = "2.13.0"
ONEDNN = "2023.2.0"
