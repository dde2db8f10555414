"""Makes the survey's modules importable, and its wrappers quiet."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))


@pytest.fixture(autouse=True, scope="module")
def quiet():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POPTORCH_LOG_LEVEL", "ERR")
        yield
