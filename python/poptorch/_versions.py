"""What PopTorch is built for. tests/meta holds these equal to pyproject.toml and CMakeLists.txt."""

VERSION = "0.1.0"
TORCH = "2.13.0"
ONEDNN = "2023.2.0"
