"""Processes numbered by torchrun, mpirun, srun or the program itself run one model together."""

import os
import socket
import subprocess
from pathlib import Path

import pytest
from launching import NIGHT, PYTHON, clean_environment, ended
from sockets import reserved_port

__all__ = ["reserved_port"]  # a fixture

PROGRAM = Path(__file__).with_name("numbered_program.py")


def variables(way, number, port):
    """Returns the variables that a launcher sets in process `number` of two."""
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return {
        "torchrun": {"RANK": number, "WORLD_SIZE": 2, "LOCAL_RANK": number, "LOCAL_WORLD_SIZE": 2}
        | address,
        "mpirun": {"OMPI_COMM_WORLD_RANK": number, "OMPI_COMM_WORLD_SIZE": 2},
        "srun": {"SLURM_STEP_NUM_TASKS": 2, "SLURM_PROCID": number, "SLURM_LOCALID": number,
                 "SLURM_STEP_TASKS_PER_NODE": 2, "SLURM_STEP_NODELIST": socket.gethostname(),
                 "SLURM_JOB_ID": os.getpid(), "SLURM_STEP_ID": 0},
        "hand": {},
        "hand with an address": address,
    }[way]  # fmt: skip


def said(*words, **environment):
    return subprocess.Popen(
        [PYTHON, PROGRAM, *map(str, words)], text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment(**{name: str(value) for name, value in environment.items()}),
    )  # fmt: skip


@pytest.fixture(scope="module")
def alone():
    out, err = ended(said("alone"))
    assert out.startswith("0 1 ["), err
    return out.partition("[")[2]


WAYS = ["torchrun", "mpirun", "srun", "hand"] + ["hand with an address"] * NIGHT


@pytest.mark.shared
@pytest.mark.parametrize("way", WAYS)
def test_the_bits_are_those_of_one_process(alone, way, reserved_port):
    running = [said(way.split()[0], i, 2, **variables(way, i, reserved_port)) for i in range(2)]
    for number, process in enumerate(running):
        out, err = ended(process)
        assert out == f"{number} 2 [{alone}", err
