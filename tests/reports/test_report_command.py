"""Tests what `python -m poptorch report` prints, writes and refuses."""

import json
import pathlib

import poptorch
import pytest
import torch
from report_files import data_in, profiled


def test_the_command(tmp_path, capsys, monkeypatch):
    from poptorch.__main__ import main

    monkeypatch.chdir(tmp_path)
    model = poptorch.inferenceModel(torch.nn.Linear(4, 2), profiled("made"))
    model.compileAndExport("model.poptorch", torch.zeros(3, 4))
    assert main(["report", "made/inference"]) == 0
    assert (tmp_path / "report.html").exists()
    told = capsys.readouterr().out
    assert "inference: " in told and told.endswith("Wrote report.html\n")
    assert main(["report", "model.poptorch", "--to", "e", "--compare", "made/inference"]) == 0
    assert data_in(tmp_path / "e")["model"]["name"] == "model"


def test_the_command_on_a_folder_of_reports(tmp_path, capsys, monkeypatch):
    from poptorch.__main__ import main

    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        model = poptorch.inferenceModel(torch.nn.Linear(2, 2))
        model.compile(torch.zeros(1, 2))
        model.write_report(tmp_path / "made" / name)
        assert main(["report", "made", "--to", f"with_{name}"]) == 0
    assert (tmp_path / "with_one" / "report.html").exists()
    assert {place.name for place in (tmp_path / "with_two").iterdir()} == {"one", "two"}
    capsys.readouterr()
    assert main(["report", "made/one", "--compare", "made"]) == 2
    assert "several reports. Name one: made/one, made/two" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, "cannot be read: No such file"),
        (b"POPTORCH but no more", "error: "),
        (b"[]", "holds no report of version 1"),
        (b"{", "it is not JSON. Name a folder that holds one (report.json)"),
        (b"[" * 100_000, "it is not JSON"),
        (b"\xff", "it is not JSON"),
        (b'{"format": "poptorch-report", "version": 1}', "is damaged, or of another release"),
        (b'{"format": "poptorch-report", "version": 2}', "holds no report of version 1"),
    ],
)
def test_what_is_no_report(tmp_path, capsys, content, text):
    from poptorch.__main__ import main

    if content is not None:
        (tmp_path / "file").write_bytes(content)
    assert main(["report", str(tmp_path / "file"), "--to", str(tmp_path)]) == 2
    assert text in capsys.readouterr().err


def test_a_folder_that_must_not_be_looked_into(tmp_path, capsys, monkeypatch):
    from poptorch.__main__ import main

    def refuse(self):
        raise PermissionError(13, "Permission denied", str(self))

    # Root may read all folders.
    monkeypatch.setattr(pathlib.Path, "exists", refuse)
    monkeypatch.setattr(pathlib.Path, "read_bytes", refuse)
    assert main(["report", str(tmp_path)]) == 2
    assert "report.json' cannot be read: Permission denied. Name a" in capsys.readouterr().err


def test_a_damaged_report_to_compare_with(tmp_path, capsys):
    from poptorch.__main__ import main

    model = poptorch.inferenceModel(torch.nn.ReLU())
    model.compile(torch.zeros(3))
    model.write_report(tmp_path / "made")
    data = data_in(tmp_path / "made")
    data["graph"]["modules"]["path"] = [999]
    (tmp_path / "cut.json").write_text(json.dumps(data))
    given = ["report", str(tmp_path / "made"), "--to", str(tmp_path)]
    assert main([*given, "--compare", str(tmp_path / "cut.json")]) == 2
    assert "cut.json' is damaged" in capsys.readouterr().err
