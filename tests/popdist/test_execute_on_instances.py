"""One instance validates with a model that it compiles and runs alone."""

from pathlib import Path

import pytest
from launching import PYTHON, lines, poprun

PROGRAM = Path(__file__).with_name("validating_program.py")


@pytest.mark.shared
def test_one_instance_validates_while_the_others_wait():
    out, _ = poprun("--num-instances=2", PYTHON, PROGRAM)
    first, other = lines(out, 0), lines(out, 1)
    assert [float(value) > 0 for value in first[:2]] == [True, True] and first[0] != first[1]
    assert other[:2] == ["None", "None"]
    assert first[2].startswith("trained") and first[2] == other[2]
