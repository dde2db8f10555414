"""Tests TaskSessions: their streams, their state and its checkpoints."""

import json
import logging
import sys
import types

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops

F32 = popxl.float32
X = np.random.default_rng(12).uniform(-1, 1, (4, 6)).astype(np.float32)


def task(scale=1.0, name="w", data=None, lists=False, **arguments):
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        inputs, outputs = addons.InputStreams(x=((6,), F32)), addons.OutputStreams(y=((6,), F32))
        data = X[0] * scale if data is None else data
        state = addons.NamedTensors.from_dict({name: popxl.variable(data, name=name)})
        state.insert("count.steps", popxl.variable(0, name="steps"))
        ops.host_store(outputs.y, ops.host_load(inputs.x) * state[name])
        ops.add_(state.count.steps, popxl.constant(1))
        if lists:
            inputs, outputs = list(inputs), list(outputs)
        return addons.TaskSession(inputs, outputs, state, **arguments, ir=ir, device_desc="cpu")


class Loader:
    place, resumed = 0, None

    def save(self, path):
        with open(path, "w") as file:
            file.write(str(self.place))

    def resume(self, filename):
        with open(filename) as file:
            self.resumed = int(file.read())


@pytest.mark.parametrize("kind", [addons.InputStreams, addons.OutputStreams])
def test_streams_are_ordered_dicts(kind):
    with popxl.Ir().main_graph:
        s = kind(b=((2,), F32), a=((), popxl.int32))
        assert s.b is s["b"] is s[0] and s[-1] is s.a and s[0:2] == [s.b, s.a]
        assert list(s) == [s.b, s.a] == list(s.values()) and list(s.keys()) == ["b", "a"]
        assert isinstance(s, dict) and isinstance(s, addons.OrderedDict) and len(s) == 2
        assert "a" in s and "c" not in s and (s.a.dtype, s.b.shape) == (popxl.int32, (2,))
        with pytest.raises(AttributeError, match="no stream 'c'"):
            _ = s.c
        again = kind.from_streams(iter([s.a, s.b]))
        assert list(again.items()) == [(s.a.tensor_id, s.a), (s.b.tensor_id, s.b)]
        assert isinstance(again, kind)


def test_a_task_counts_its_runs_and_takes_lists():
    session = task(lists=True)
    assert isinstance(session.inputs, addons.InputStreams)
    assert isinstance(session.outputs, addons.OutputStreams)
    with session:
        y = session.run({session.inputs[0]: X[1]})[session.outputs[0]]
        outputs = session.create_host_outputs()
        session.run_with_outputs({session.inputs[0]: X[1]}, outputs)
    np.testing.assert_allclose(y, X[0] * X[1], rtol=1e-6)
    assert session.session_state == {"steps": 2}
    data = session.get_named_tensors_data()
    assert isinstance(data, addons.NamedTensorData) and data.count.steps == 2


def test_checkpoints_lie_in_their_folder(tmp_path):
    session, loader = task(max_checkpoints=2), Loader()
    with pytest.raises(ValueError, match="save"):
        session.dataloader = object()
    session.dataloader = loader
    session.add_session_state_info({"loss": 0.5})
    with session:
        for i in range(3):
            session.run({session.inputs.x: X[1]})
            loader.place = 10 * i
            session.save_checkpoint(tmp_path / f"at_{i}")
            session.save_checkpoint(tmp_path / f"at_{i}")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["at_1", "at_2"]
    at_2 = tmp_path / "at_2"
    assert sorted(p.name for p in (at_2 / "model").iterdir()) == ["count.steps.npz", "w.npz"]
    with np.load(at_2 / "model/w.npz") as file:
        assert file.files == ["w"]
    assert json.loads((at_2 / "session_info.json").read_text()) == {"steps": 3, "loss": 0.5}

    other = task(5.0)
    other.dataloader = Loader()
    for i in (2, 1):
        other.load_checkpoint(str(tmp_path / f"at_{i}"))
        assert other.dataloader.resumed == 10 * i
        assert other.get_named_tensors_data().count.steps == i + 1
        assert other.session_state == {"steps": i + 1, "loss": 0.5}
        np.testing.assert_array_equal(other.get_named_tensors_data().w, X[0])
    (tmp_path / "at_1/session_info.json").unlink()
    other.load_checkpoint(tmp_path / "at_1")
    assert other.session_state == {"steps": 0}
    with pytest.raises(ValueError, match="no checkpoint"):
        other.load_checkpoint(tmp_path)


@pytest.mark.parametrize("load", ["session", "checkpoint"])
def test_names_of_one_side_are_reported(tmp_path, caplog, load):
    source, session = task(7.0, "v"), task()
    source.save_checkpoint(tmp_path)

    def take(**report):
        if load == "session":
            session.load_from_session(source, **report)
        else:
            session.load_checkpoint(tmp_path, **report)
        return len(caplog.messages)

    with caplog.at_level(logging.WARNING):
        assert take(report_missing="none") == 0
        assert take() == (0 if load == "session" else 2)
        before = len(caplog.messages)
        assert take(report_missing="warn") == before + 2
    assert any("'v'" in m for m in caplog.messages) and any("'w'" in m for m in caplog.messages)
    for report, text in (("error", "'v'.*'w'"), ("all", "report_missing")):
        with pytest.raises(ValueError, match=text):
            take(report_missing=report)
    np.testing.assert_array_equal(session.get_named_tensors_data().w, X[0])


def test_a_task_takes_another_ones_state():
    session = task(2.0)
    session.load_from_session(task(7.0))
    np.testing.assert_array_equal(session.get_named_tensors_data().w, 7 * X[0])


def mapped(folder, data):
    folder.mkdir(exist_ok=True)
    made = np.memmap(folder / "w.npy", np.float32, "w+", shape=data.shape)
    made[...] = data
    return made


@pytest.mark.parametrize("skip", [False, True])
def test_files_of_memory_mapped_variables_are_copied(tmp_path, skip):
    session = task(data=mapped(tmp_path / "a", 3 * X[0]))
    session.save_checkpoint(tmp_path / "saved")
    files = sorted(p.name for p in (tmp_path / "saved/model").iterdir())
    assert files == ["count.steps.npz", "w.npy"]
    other = task(data=mapped(tmp_path / "b", X[1]))
    other.load_checkpoint(tmp_path / "saved", "error", skip_memmap=skip)
    expected = X[1] if skip else 3 * X[0]
    np.testing.assert_array_equal(other.get_named_tensors_data().w, expected)
    copy = addons.task_session.initialise_memmap_dir_from_checkpoint
    copy(tmp_path / "saved", tmp_path / "new" / "place")
    np.testing.assert_array_equal(np.fromfile(tmp_path / "new/place/w.npy", np.float32), 3 * X[0])


def test_wandb_keeps_checkpoints_and_histograms(monkeypatch, tmp_path):
    """A stand-in for wandb, which keeps artifacts in a folder."""
    logged, kept = [], {}

    class Artifact:
        def __init__(self, name, type):
            self.name, self.folder = name, tmp_path / name

        def add_dir(self, folder):
            import shutil

            shutil.copytree(folder, self.folder)

        def download(self, to):
            import shutil

            shutil.copytree(self.folder, to, dirs_exist_ok=True)

    class Run:
        def log_artifact(self, artifact):
            kept[artifact.name] = artifact

    wandb = types.ModuleType("wandb")
    wandb.Artifact, wandb.run, wandb.Histogram = Artifact, Run(), np.histogram
    wandb.Api = lambda: types.SimpleNamespace(artifact=kept.__getitem__)
    wandb.log = lambda values, step=None: logged.append((sorted(values), step))
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    session, other = task(2.0), task(9.0)
    session.save_checkpoint("wandb://mine")
    other.load_checkpoint("wandb://mine")
    np.testing.assert_array_equal(other.get_named_tensors_data().w, 2 * X[0])
    session.wandb_variable_histograms(4)
    with addons.timer("Work"):
        pass
    assert logged == [(["count.steps", "w"], 4), (["Work (mins)"], None)]
