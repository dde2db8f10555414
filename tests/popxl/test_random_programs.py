"""Random programs of graphs, calls, loops, views and in-place writes agree with NumPy.

POPXL_RANDOM_PROGRAMS sets their number.
"""

import os

import pytest
from random_programs import compare

COUNT = int(os.environ.get("POPXL_RANDOM_PROGRAMS", "2000"))


@pytest.mark.shared
@pytest.mark.parametrize("first", range(0, COUNT, 200))
def test_programs_do_what_numpy_does(first):
    for seed in range(first, min(first + 200, COUNT)):
        try:
            compare(seed)
        except Exception as error:
            raise AssertionError(f"random program {seed}") from error
