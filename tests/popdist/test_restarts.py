"""A program that is killed and started again continues bit-identically from its checkpoints."""

from pathlib import Path

import pytest
import torch
from launching import PYTHON, lines, poprun

PROGRAM = Path(__file__).with_name("restarted_program.py")


@pytest.mark.nightly
@pytest.mark.signals
def test_a_killed_program_ends_with_the_bits_of_the_undisturbed(tmp_path):
    found = {}
    for name, kills in (("undisturbed", ""), ("killed", "1:3,0:6")):
        folder = tmp_path / name
        folder.mkdir()
        words = ("--num-instances=2", "--max-restarts=2", PYTHON, PROGRAM, folder, kills)
        out, err = poprun(*words)
        found[name] = [torch.load(folder / f"{index}.end.pt") for index in range(2)]
        begun = [line for line in lines(out, 0) if line.startswith("begins")]
        assert len(begun) == (3 if kills else 1)
        # A killed instance may not have saved the last step yet.
        assert begun[-1] in ([f"begins at step {n}" for n in (4, 5, 6)] if kills else begun[:1])
        assert err.count("starting again") == len(begun) - 1
        assert not kills or "instance 1 on localhost failed first: it ended by signal 9" in err
    for expected, got in zip(found["undisturbed"], found["killed"], strict=True):
        assert expected.keys() == got.keys()
        assert all(torch.equal(value, got[key]) for key, value in expected.items())
