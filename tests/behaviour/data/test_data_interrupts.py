"""Ctrl-C while a worker starts or loads prints nothing but the output of the program itself.

tests/nightly/loader_ends.py does the same at random moments.
"""

import poptorch
import pytest
from interrupted_loading import OF_PYTHON, started


@pytest.mark.nightly
@pytest.mark.signals
@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.parametrize("strategy", poptorch.SharingStrategy.__members__)
def test_an_interrupt_of_the_loop_prints_nothing(tmp_path, strategy, workers):
    with started(tmp_path, strategy, workers, "batch") as running:
        output, error = running.communicate()
    assert (output, error, running.returncode) == ("ready\nstarted\n", "", 0)


@pytest.mark.nightly
@pytest.mark.signals
def test_an_interrupt_before_a_worker_has_what_it_is_given(tmp_path):
    with started(tmp_path, "SharedMemory", "0", "start") as running:
        output, error = running.communicate()
    assert (output, OF_PYTHON.sub("", error), running.returncode) == ("ready\n", "", 0)
