"""`python -m poptorch` commands for files of executables: see docs/executables.md."""

import json
from argparse import Namespace
from pathlib import Path

import safetensors.torch
from poptorch_core import _torch


def show(given: Namespace) -> int:
    """Prints version, sections, and the dtype and shape of each tensor of the state."""
    file = _torch.ExecutableFile(given.file)
    print(f"version {json.loads(file.read('about'))['version']}")
    for section in file.sections():
        print(f"section {section}: {len(file.read(section))} bytes")
    if "state" in file.sections():
        for name, tensor in file.state().items():
            print(f"state {name}: {str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}")
    return 0


def program(given: Namespace) -> int:
    """Prints the text of the program."""
    print(_torch.ExecutableFile(given.file).read("program").decode(), end="")
    return 0


def weights(given: Namespace) -> int:
    """Writes the tensors of the state, by name, as safetensors."""
    file = _torch.ExecutableFile(given.file)
    held = {name: tensor.clone() for name, tensor in file.state().items()}
    Path(given.to).write_bytes(safetensors.torch.save(held))
    print(f"{len(held)} tensors")
    return 0
