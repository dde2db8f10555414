"""Tests state of models over two processes: which process reads it, and differences at the
beginning.
"""

import json
import sys
from pathlib import Path

import pytest
from launching import lines, poprun

PROGRAM = Path(__file__).with_name("state_program.py")


@pytest.fixture(scope="module")
def told():
    """Returns the findings of each instance, and its stderr."""
    out, err = poprun("--num-instances", 2, "--num-replicas", 4, sys.executable, PROGRAM)
    return [json.loads(lines(out, i)[-1]) for i in range(2)], [lines(err, i) for i in range(2)]


@pytest.mark.shared
def test_one_instance_reads_shared_state_alone(told):
    first, second = told[0]
    assert first["moments"] > 0 and first["shared"]["layer.weight"] != [[0, 0], [0, 0]]
    assert (first["seen"], second["seen"]) == ([1.0], [3.0]), "each its own first replica's"


@pytest.mark.shared
def test_all_read_together_what_is_divided(told):
    first, second = told[0]
    assert first["scales"] == second["scales"] and len(set(map(str, first["scales"]))) == 2
    assert first["moments of scale"] == second["moments of scale"]
    assert first["moments of scale"][0] != first["moments of scale"][1]
    assert (first["seen together"], second["seen together"]) == ([1.0], [1.0])
    assert first["doubled"] and second["doubled"]


def test_warnings_name_what_differs_at_the_beginning(told):
    for written in told[1]:
        start = written.index("differing")
        assert not any("instance 1 has" in line for line in written[:start])
        buffers = written.index("differing buffers")
        text = "\n".join(written[start:buffers])
        assert "instance 1 has the random seed 1 and instance 0 has 0" in text
        assert "'layer.weight' has other values in instance 1 than in instance 0" in text
        assert "and so have 1 more" in text
        rates = written.index("differing rates")
        text = "\n".join(written[buffers:rates])
        assert "'shift' has other values in instance 1 than in instance 0: their replicas" in text


def test_warnings_name_what_changes_in_some_instances_alone(told):
    for i, written in enumerate(told[1]):
        rates, one, alone = map(written.index, ("differing rates", "one changes", "written alone"))
        (both,) = [line for line in written[rates:one] if "[instances]" in line]
        there, here = (0.65, 0.4) if i == 0 else (0.4, 0.65)
        assert f".0' is {there} in instance {1 - i} from run 3 on" in both
        assert f"and {here} in this one, instance {i}: their replicas have different models" in both
        changed = [line for line in written[one:alone] if "[instances]" in line]
        assert len(changed) == (i == 0), "who has changed nothing hears of it"
        assert all(".0' is 0.125 in instance 1 from run 1 on" in line for line in changed)


def test_a_warning_names_a_weight_that_is_not_written_alike(told):
    for i, written in enumerate(told[1]):
        alone, apart, end = map(written.index, ("written alone", "written apart", "alone"))
        for section, said, count in (
            (written[alone:apart], "not", int(i == 0)),  # the only writer gets no warning
            (written[apart:end], "with other values", 1),
        ):
            warnings = [line for line in section if "[instances]" in line]
            assert len(warnings) == count
            for line in warnings:
                assert f"' was written in instance {1 - i} before run 3 (the first is 0), " in line
                assert f"and {said} in this one, instance {i}: " in line


def test_other_shapes_are_refused_before_the_first_step(told):
    for i, each in enumerate(told[0]):
        assert f"instance {1 - i} on " in each["shapes"]
        assert f"runs a different program than this one, instance {i}." in each["shapes"]


def test_reading_alone_what_is_divided_names_it(told):
    refused = told[0][0]["alone"]
    assert len(refused) == 4 and not Path("never.pt").exists()
    for text in refused:
        assert "reading 'scale', which is divided among the processes, waits for instance 1" in text
        assert "has waited" not in text, "it was found ended"
