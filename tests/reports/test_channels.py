"""Tests channels of poptorch.profiling in separate processes, because the import reads the
variable.
"""

import json
import os
import subprocess
import sys

import pytest

CLASS = """
import poptorch
class Reader:
    @classmethod
    def made_by(cls):
        return cls
    @staticmethod
    def same(x):
        return x
    def read(self):
        return self
poptorch.profiling.Channel("mine").instrument(Reader, "made_by", "same", "read")
reader = Reader()
assert Reader.made_by() is reader.made_by() is Reader
assert Reader.same(3) == reader.same(3) == 3
assert reader.read() is reader
"""


def run(program, folder, **asked):
    return subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True,
        env={**os.environ, "PVTI_OPTIONS": json.dumps({"enable": "true", **asked})},
    )  # fmt: skip


@pytest.mark.shared
def test_all_kinds_of_methods_of_a_class_go_on_working(tmp_path):
    run(CLASS, tmp_path)
    (file,) = tmp_path.iterdir()
    names = [event["name"] for event in json.loads(file.read_text())["traceEvents"]]
    assert names == ["made_by", "made_by", "same", "same", "read"]


@pytest.mark.shared
def test_a_folder_that_cannot_be_is_told_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    told = run("import poptorch", tmp_path, directory="file").stderr
    assert "[profiling] 'file/poptorch_" in told and "cannot be written: " in told
    assert "Traceback" not in told
