"""Every op case agrees with eager torch: shapes, dtypes, values and gradients of all inputs."""

import importlib
import pathlib

import pytest
from op_case import run_case


def _cases():
    folder = pathlib.Path(__file__).parent
    for path in sorted(folder.glob("cases_*.py")):
        family = path.stem.removeprefix("cases_")
        for case in importlib.import_module(path.stem).CASES:
            yield pytest.param(case, id=f"{family}-{case.name}")


@pytest.mark.shared
@pytest.mark.parametrize("case", list(_cases()))
def test_op(case):
    run_case(case)


def test_case_names_are_unique():
    ids = [param.id for param in _cases()]
    assert len(ids) == len(set(ids))
    assert len(ids) >= 150
