"""A forged file of an executable runs no code, and is refused with an error that names the file."""

import json
import pickle
import zipfile

import hostile_pickles
import poptorch
import pytest
import torch
from hostile_pickles import Plain
from poptorch._impl.files import safe_pickle
from poptorch._impl.files.tensors import TensorReader, TensorWriter
from poptorch._impl.wrapper.state import wrapper_state
from poptorch_core import _torch

PICKLES = hostile_pickles.cases()


@pytest.fixture(autouse=True)
def _nothing_runs():
    hostile_pickles.CALLS.clear()
    relu = dict(torch.nn.functional.relu.__dict__)
    yield
    assert hostile_pickles.CALLS == []
    assert torch.nn.functional.relu.__dict__ == relu
    assert hostile_pickles.Kind.ONE.value == 1


def reader():
    writer = TensorWriter({})
    writer(torch.ones(4).untyped_storage())
    return TensorReader({}, writer.others())


@pytest.mark.parametrize("name", PICKLES)
def test_a_hostile_pickle_is_refused(name):
    with pytest.raises((poptorch.Error, AttributeError, KeyError, TypeError)) as refused:
        made = safe_pickle.loads(PICKLES[name] + b".", reader())
        made["options"], made["model"]
    if name not in ("a list", "no model"):
        assert isinstance(refused.value, poptorch.Error), refused.value


def test_what_pickle_itself_would_call_is_refused_by_name():
    with pytest.raises(poptorch.Error, match=r"names (posix|os)\.system, which is not loaded"):
        safe_pickle.loads(hostile_pickles.gadget(), reader())
    with pytest.raises(poptorch.Error, match=r"names collections\.Counter"):
        safe_pickle.loads(hostile_pickles.counter(), reader())


def test_what_the_user_allows_is_loaded(monkeypatch):
    import collections

    monkeypatch.setattr(safe_pickle, "_allowed", [])
    poptorch.add_safe_globals([collections.Counter])
    assert safe_pickle.loads(hostile_pickles.counter(), reader()) == collections.Counter("aab")


def test_trust_is_pickles_own():
    data = hostile_pickles.SENTINEL + b")R."
    safe_pickle.loads(data, reader(), trust=True)
    assert hostile_pickles.CALLS.pop() == ((), {})


def test_mutants_of_a_pickle_are_refused_or_data():
    import random

    numbers = random.Random(0)
    model = Plain()
    model.fc, model.act = torch.nn.Linear(2, 2), torch.tanh
    writer = TensorWriter({})
    good = safe_pickle.dumps({"model": model, "options": poptorch.Options()}, writer)
    others = writer.others()
    ran = 0
    for _ in range(600):
        data = bytearray(good)
        for _ in range(numbers.randint(1, 3)):
            data[numbers.randrange(len(data))] = numbers.randrange(256)
        try:
            safe_pickle.loads(bytes(data), TensorReader({}, others))
            ran += 1
        except poptorch.Error:
            pass
    assert 0 < ran < 600


# Whole files, with one section replaced.


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Returns a wrapper and its file."""
    path = tmp_path_factory.mktemp("files") / "good"
    options = poptorch.Options().showCompilationProgressBar(False)
    wrapped = poptorch.inferenceModel(torch.nn.Linear(3, 3), options)
    wrapped.compileAndExport(path, torch.ones(2, 3))
    return wrapped, _torch.ExecutableFile(str(path))


def exchanged(path, good, **sections):
    """Returns the file with other bytes in some of its sections."""
    wrapped, file = good
    parts = {name: file.read(name) for name in ("wrapper", "model", "tensors")} | sections
    wrapper_state(wrapped).compiled.executable.save(str(path), list(parts.items()), [], True, True)
    return path


def about_of(good):
    return json.loads(good[1].read("wrapper"))


def refused(path):
    with pytest.raises((poptorch.Error, AssertionError)) as caught:
        poptorch.load(path)(torch.ones(2, 3))
    text = str(caught.value)
    assert text.startswith("Invalid file ") or f"Invalid file {path}" in text, text
    return text


TENSOR = {"kind": "tensor", "name": "x", "shape": [2, 3], "dtype": "float32", "index": 0}


@pytest.mark.parametrize(
    "change",
    [
        {"training": "yes"}, {"training": True}, {"positional": None}, {"positional": [7]},
        {"keyword": []}, {"results": None}, {"results": {}}, {"results": {"kind": "tensor"}},
        {"results": {**TENSOR, "index": 5}}, {"results": {**TENSOR, "index": -1}},
        {"results": {**TENSOR, "dtype": "load"}}, {"results": {**TENSOR, "shape": "no"}},
        {"sources": [5]}, {"sources": [0, 0]}, {"sources": [-3]}, {"sources": []},
        {"sources": [[[1 << 40, 1 << 40], "float32"]]}, {"sources": [[[0], "__name__"]]},
        {"sources": [[[0, -5], "float32"]]}, {"written_inputs": [7]}, {"written_inputs": [-1]},
        {"written_inputs": ["a"]}, {"written_inputs": [0]}, {"steps": "many"},
        {"has_weights": 7}, {"is_plain": None},
        {"positional": [{**TENSOR, "shape": [1 << 62, 1 << 62]}]},
        {"positional": [{**TENSOR, "shape": [-2]}]},
        {"positional": [{**TENSOR, "dtype": "from_file"}]},
        {"results": {"kind": "sequence", "name": "", "type": ["os", "system"],
                     "keys": [0], "children": [TENSOR]}},
        {"results": {"kind": "dataclass", "name": "", "type": ["subprocess", "Popen"],
                     "keys": ["args"], "children": [TENSOR]}},
        {"results": {"kind": "custom", "name": "", "type": "tuple",
                     "keys": [0], "children": [TENSOR]}},
    ],
    ids=lambda change: json.dumps(change)[:60],
)  # fmt: skip
def test_lies_about_the_wrapper_are_refused(good, tmp_path, change):
    about = {**about_of(good), **change}
    refused(exchanged(tmp_path / "f", good, wrapper=json.dumps(about).encode()))


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"7", b"{", b"[" * 100000, b'{"a":' * 100000, b"\xff", b"null"],
    ids=lambda text: repr(text[:6]),
)  # fmt: skip
def test_no_json_is_refused(good, tmp_path, text):
    refused(exchanged(tmp_path / "f", good, wrapper=text))


@pytest.mark.parametrize(
    "module",
    [
        hostile_pickles.instance("hostile_pickles", "Plain"),
        hostile_pickles.instance("torch.nn.modules.linear", "Linear"),
        hostile_pickles.instance("hostile_pickles", "Plain")
        + b"}(X\x0b\x00\x00\x00_parametersK\x01X\x08\x00\x00\x00_modules]ub",
        b"K\x01",
    ],
)
def test_a_model_that_is_none_is_refused(good, tmp_path, module):
    model = (
        b"\x80\x02}(X\x05\x00\x00\x00model" + module + b"X\x07\x00\x00\x00options"
        + pickle.dumps(0, 2)[2:-1] + b"u."
    )  # fmt: skip
    refused(exchanged(tmp_path / "f", good, model=model))


def test_other_files_are_refused(good, tmp_path):
    torch.save(torch.nn.Linear(2, 2).state_dict(), tmp_path / "torch")
    with zipfile.ZipFile(tmp_path / "zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb", b"\0" * 10_000_000)
    (tmp_path / "pickle").write_bytes(hostile_pickles.gadget())
    for name in ("torch", "zip", "pickle"):
        assert "is not a PopTorch file" in refused(tmp_path / name)
    assert "is not a file" in refused(tmp_path)
    text = refused(exchanged(tmp_path / "f", good, tensors=b"\xff" * 16))
    assert "Export the model again" in text


def test_exports_are_loaded_where_torch_has_replaced_how_modules_are_restored(
    monkeypatch, tmp_path
):
    restore = torch.nn.Module.__setstate__

    def restored(module, state):  # as torch.compile does
        restore(module, state)

    monkeypatch.setattr(torch.nn.Module, "__setstate__", restored)
    model, x = torch.nn.Linear(3, 2), torch.randn(4, 3)
    poptorch.inferenceModel(model).compileAndExport(tmp_path / "f", x)
    torch.testing.assert_close(poptorch.load(tmp_path / "f")(x), model(x).detach())
