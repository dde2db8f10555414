"""PopXL programs of R replicas give the same bits in one process and over N processes."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from launching import NIGHT, clean_environment, poprun

PROGRAM = Path(__file__).with_name("popxl_program.py")


def read(file):
    with np.load(file) as arrays:
        return {name: arrays[name] for name in arrays.files}


def alone(folder, replicas):
    words = [sys.executable, PROGRAM, folder, str(replicas)]
    done = subprocess.run(words, env=clean_environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return read(folder / "0.npz")


def own_rows(value, replicas, instance, count):
    """Returns an instance's rows of an output of all replicas: (1, replicas, ...)."""
    each = replicas // count
    rows = value[:, instance * each : (instance + 1) * each]
    return rows[:, 0] if each == 1 else rows


# (instances, replicas); further ones in the nightly.
WORLDS = [(2, 8), (4, 4)]
if NIGHT:
    WORLDS += [(2, 2), (4, 8), (8, 8), (8, 16)]


@pytest.mark.shared
@pytest.mark.parametrize("instances, replicas", WORLDS)
def test_the_bits_are_those_of_one_process(instances, replicas, tmp_path):
    (tmp_path / "one").mkdir()
    expected = alone(tmp_path / "one", replicas)
    assert sum("at the end" in name for name in expected) >= 9
    assert all(value.any() for value in expected.values())
    poprun("--num-instances", instances, "--num-replicas", replicas, sys.executable, PROGRAM,
           tmp_path, replicas)  # fmt: skip
    for instance in range(instances):
        found = read(tmp_path / f"{instance}.npz")
        assert found.keys() == expected.keys()
        for name, wanted in expected.items():
            if ": output" in name:
                wanted = own_rows(wanted, replicas, instance, instances)
            value = found[name]
            assert value.dtype == wanted.dtype and value.shape == wanted.shape, (instance, name)
            assert value.tobytes() == wanted.tobytes(), (instance, name)
