"""R replicas give equal weights, state, outputs and masks in one process and over N processes.

Some combined variants run; with POPTORCH_ALL_VARIANTS=n every n-th of the product, and more
replicas.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from launching import clean_environment, poprun
from trained_program import ROWS
from variants import COMBINED, EACH

PROGRAM = Path(__file__).with_name("trained_program.py")
STEPS = 20
NIGHT = int(os.environ.get("POPTORCH_ALL_VARIANTS", 0))
VARIANTS = EACH[::NIGHT] if NIGHT else COMBINED
# Processes, and how many of them count as being on one host.
REPLICAS, COUNTS = (8, ((2, 1), (4, 4), (8, 8), (8, 2))) if NIGHT else (4, ((2, 2), (4, 2)))


def words_of(folder, variants):
    return map(str, (sys.executable, PROGRAM, folder, REPLICAS, STEPS, *variants))


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Returns the results of one process with all replicas."""
    folder = tmp_path_factory.mktemp("alone")
    subprocess.run(list(words_of(folder, VARIANTS)), env=clean_environment(), check=True,
                   capture_output=True)  # fmt: skip
    return torch.load(folder / "0.pt")


@pytest.fixture(scope="module", params=COUNTS, ids=str)
def several(request, tmp_path_factory):
    """Returns the results of N processes, with another number of threads than one process has."""
    folder, (count, on_a_host) = tmp_path_factory.mktemp("several"), request.param
    environment = {
        "POPTORCH_NUM_THREADS": "3" if count == 2 else "1",
        "POPDIST_INSTANCES_PER_HOST": str(on_a_host),
    }
    poprun("--num-instances", count, "--num-replicas", REPLICAS, *words_of(folder, VARIANTS),
           env=environment)  # fmt: skip
    return [torch.load(folder / f"{index}.pt") for index in range(count)]


def rows_of(value, instance, count):
    """Returns an instance's part of the results of all replicas.

    Replicas vary fastest, after a micro-batch's rows (or its loss).
    """
    each = ROWS if value.dim() == 2 else 1
    by_replica = value.reshape(-1, REPLICAS, each, *value.shape[1:])
    local = REPLICAS // count
    own = by_replica[:, instance * local : (instance + 1) * local]
    return own.reshape(-1, *value.shape[1:])


@pytest.mark.shared
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_bits_are_those_of_one_process(alone, several, variant):
    expected = alone[variant]
    assert expected["layers.0.weight"].isfinite().all() and expected["layers.0.weight"].any()
    if "dropout" in variant:
        assert 0 < expected["masks"].count_nonzero() < expected["masks"].numel()
    if "grouped" in variant:
        assert not torch.equal(*expected["near"]) and not torch.equal(*expected["far"])
    for instance, found in enumerate(several):
        assert found[variant].keys() == expected.keys()
        for name, value in found[variant].items():
            wanted = expected[name]
            if name in ("outputs", "masks", "losses"):
                wanted = rows_of(wanted, instance, len(several))
                value = value.reshape(wanted.shape)  # the loss of one micro-batch has no dimension
            assert value.dtype == wanted.dtype and torch.equal(value, wanted), (instance, name)
