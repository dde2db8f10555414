"""`python -m poptorch` commands for files of executables: see docs/executables.md."""

import json
from argparse import Namespace
from pathlib import Path

import safetensors.torch
from poptorch_core import _torch


def show(given: Namespace) -> int:
    """Prints version, sections, and the dtype and shape of each tensor of the state.

    given.json: whether to print JSON.
    """
    file = _torch.ExecutableFile(given.file)
    version = json.loads(file.read("about"))["version"]
    sizes = {section: len(file.read(section)) for section in file.sections()}
    state = file.state() if "state" in sizes else {}
    kinds = {n: (str(t.dtype).removeprefix("torch."), list(t.shape)) for n, t in state.items()}
    if given.json:
        tensors = {name: {"dtype": dtype, "shape": shape} for name, (dtype, shape) in kinds.items()}
        print(json.dumps({"version": version, "section_bytes": sizes, "state": tensors}, indent=1))
        return 0
    print(f"version {version}")
    for section, size in sizes.items():
        print(f"section {section}: {size} bytes")
    for name, (dtype, shape) in kinds.items():
        print(f"state {name}: {dtype}{shape}")
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
