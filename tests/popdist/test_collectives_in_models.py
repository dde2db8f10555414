"""Collectives of a model reach replicas in other processes, and give the bits of one process."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from launching import NIGHT, clean_environment, poprun

PROGRAM = Path(__file__).with_name("collective_program.py")
REPLICAS = 4


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    words = [sys.executable, PROGRAM, folder, str(REPLICAS)]
    subprocess.run(words, env=clean_environment(), check=True, capture_output=True)
    return torch.load(folder / "0.pt")


@pytest.mark.shared
@pytest.mark.parametrize("count", [2, 4] if NIGHT else [4])
def test_the_bits_are_those_of_one_process(alone, count, tmp_path):
    poprun("--num-instances", count, "--num-replicas", REPLICAS, sys.executable, PROGRAM, tmp_path,
           REPLICAS)  # fmt: skip
    names = {name.split()[0] for name in alone}
    assert {"sum", "prod", "scattered", "gathered", "turned", "rank", "trained"} <= names
    for instance in range(count):
        found = torch.load(tmp_path / f"{instance}.pt")
        assert found.keys() == alone.keys()
        for name, value in found.items():
            wanted = alone[name]
            if not name.startswith("weight"):  # replica after replica
                wanted = wanted.chunk(count)[instance]
            assert value.dtype == wanted.dtype and torch.equal(value, wanted), (instance, name)
