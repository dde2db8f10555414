"""Random programs of graphs, calls, loops, views and in-place writes against NumPy.

POPXL_RANDOM_PROGRAMS sets how many; CI runs 2,000.
"""

import os

import pytest
from random_programs import compare

COUNT = int(os.environ.get("POPXL_RANDOM_PROGRAMS", "120"))


@pytest.mark.parametrize("first", range(0, COUNT, 20))
def test_programs_do_what_numpy_does(first):
    for seed in range(first, min(first + 20, COUNT)):
        try:
            compare(seed)
        except Exception as error:
            raise AssertionError(f"random program {seed}") from error
