"""A checkpoint of N processes continues bit-identically in another number of processes."""

import itertools
import sys
from pathlib import Path

import pytest
import torch
from launching import poprun
from test_same_bits import NIGHT, REPLICAS, rows_of

PROGRAM = Path(__file__).with_name("checkpointed_program.py")
COUNTS = (1, 2, 4) if NIGHT else (1, 2)


def come_to(folder, count, checkpoint):
    """Returns the results of each of `count` processes."""
    folder.mkdir()
    poprun("--num-instances", count, "--num-replicas", REPLICAS, sys.executable, PROGRAM, folder,
           REPLICAS, checkpoint)  # fmt: skip
    return [torch.load(folder / f"{index}.pt") for index in range(count)]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Number of processes → the folder with the checkpoint, and the results."""
    top = tmp_path_factory.mktemp("saved")
    return {n: (top / str(n), come_to(top / str(n), n, "save")) for n in COUNTS}


@pytest.mark.shared
@pytest.mark.parametrize(("before", "after"), list(itertools.permutations(COUNTS, 2)))
def test_a_checkpoint_goes_on_to_the_same_bits(saved, tmp_path, before, after):
    (expected,) = saved[1][1]
    assert not torch.equal(*expected["near"])
    resumed = come_to(tmp_path / "after", after, saved[before][0] / "checkpoint.pt")
    for found in (saved[before][1], resumed):
        for instance, state in enumerate(found):
            assert state.keys() == expected.keys()
            for name, value in state.items():
                wanted = expected[name]
                if name == "outputs":
                    wanted = rows_of(wanted, instance, len(found))
                assert torch.equal(value, wanted), (len(found), instance, name)
