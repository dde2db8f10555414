"""Instances that differ are refused before the first step; the error names both."""

import json
import socket
from pathlib import Path

import pytest
from launching import PYTHON, poprun

PROGRAM = Path(__file__).with_name("differing_program.py")


def told(folder, *words):
    poprun("--num-instances=2", PYTHON, PROGRAM, folder, *words)
    return [json.loads((folder / str(index)).read_text()) for index in range(2)]


@pytest.mark.shared
def test_models_that_differ(tmp_path):
    """A model that is equal again trains."""
    for index, found in enumerate(told(tmp_path)):
        assert found.pop("equal") == "trained"
        for name, text in found.items():
            other = f"instance {1 - index} on {socket.gethostname()} (process "
            assert other in text, (name, text)
            assert f"than this one, instance {index}." in text or "has failed. It says" in text
            assert "runs a different program than this one" in text


@pytest.mark.shared
def test_versions_that_differ(tmp_path):
    for index, found in enumerate(told(tmp_path, "0.1")):
        assert f"instance {index} is of version" in found["version"]
        assert f"but instance {1 - index} on {socket.gethostname()} of" in found["version"]
        assert "0.1" in found["version"]
