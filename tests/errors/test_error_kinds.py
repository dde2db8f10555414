"""poptorch.poptorch_core can raise an error of every kind, with which programs test handlers."""

import multiprocessing
import pickle
import re
from pathlib import Path

import poptorch
import pytest
import torch
from poptorch_core import _core as core_module

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("poptorch_cpp", "python")

KINDS = {
    "Poptorch": "poptorch_cpp_error",
    "Popart": "popart_exception",
    "PopartInternal": "popart_internal_exception",
    "Poplibs": "poplibs_exception",
    "PoplarUnrecoverable": "poplar_unrecoverable_runtime_error",
    "PoplarUnknown": "poplar_unknown_runtime_error",
    "PoplarRecoverableFullReset": "poplar_recoverable_runtime_error",
    "PoplarLinkError": "poplar_link_error",
}


@pytest.mark.parametrize("name", KINDS)
def test_errors_of_every_kind_can_be_asked_for(name):
    core = poptorch.poptorch_core
    assert [kind.name for kind in core.TestErrorType] == list(KINDS)
    with pytest.raises(poptorch.Error) as caught:
        core._throwTestError(core.TestErrorType[name])
    error = pickle.loads(pickle.dumps(caught.value))
    kinds = {"PoplarUnrecoverable": poptorch.UnrecoverableError}
    kinds["PoplarRecoverableFullReset"] = poptorch.RecoverableError
    assert type(error) is kinds.get(name, poptorch.Error)
    assert error.type == KINDS[name]
    assert f"[test] This error of type {name} was requested" in error.message
    start = rf"In [\w.]+:\d+: '{KINDS[name]}': {re.escape(error.message)}\n"
    assert re.match(start, str(error))
    assert [line.split()[-1] for line in error.location.splitlines()] == [
        "throwTestError::bottomLevel",
        "throwTestError::topLevel",
    ]
    assert error.location not in error.message and str(error).endswith(error.location)
    assert ("The linker's output:\n" in error.message) == (name == "PoplarLinkError")
    is_recoverable = type(error) is poptorch.RecoverableError
    assert ("\nRecovery action required: FULL_RESET\n" in str(error)) == is_recoverable


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)

    def forward(self, x, labels=None):
        y = self.fc(x)
        return (y, torch.nn.functional.cross_entropy(y, labels)) if labels is not None else y


def labels_without_class():
    poptorch.trainingModel(Model())(torch.ones(2, 3), torch.tensor([1, 3]))


def gradients():
    poptorch.inferenceModel(lambda x: torch.autograd.backward(x))(torch.ones(2, requires_grad=True))


class Dirty(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        context.mark_dirty(x)
        return x


def dirty():
    class Marks(Model):
        def forward(self, x):
            return poptorch.identity_loss(Dirty.apply(self.fc(x)), reduction="mean")

    poptorch.trainingModel(Marks())(torch.ones(2, 3))


# Refused calls, with the expected frames, innermost first.
REFUSED = {
    "trace": (lambda: poptorch.inferenceModel(Model())(torch.ones(2, 2)), ["trace"]),
    "trace in Python": (gradients, ["trace"]),
    "autograd.Function": (dirty, ["trace"]),
    "compile": (
        lambda: poptorch.trainingModel(Model())(torch.ones(2, 3)),
        ["pass differentiate", "compile"],
    ),
    "run": (labels_without_class, ["run"]),
    "load": (lambda: core_module.load("junk"), ["load"]),
    "no frame": (lambda: core_module.parse("junk"), []),
}


@pytest.mark.parametrize("case", REFUSED)
def test_errors_of_the_core_name_their_line_and_their_frames(case):
    call, frames = REFUSED[case]
    for _ in range(2):  # frames start fresh
        with pytest.raises(poptorch.Error) as caught:
            call()
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.type, type(error)) == ("poptorch_cpp_error", poptorch.Error)
    assert error.location == "\n".join(f"  [{i}] {frame}" for i, frame in enumerate(frames))
    place, rest = re.fullmatch(r"In (\S+): ('.*)", str(error), re.DOTALL).groups()
    expected = f"'poptorch_cpp_error': {error.message}"
    assert rest == expected + (f"\nError raised in:\n{error.location}" if frames else "")
    assert "\n" not in error.message
    file, line = place.split(":")
    found = [path for top in SOURCES for path in (ROOT / top).rglob(file)]
    # The line of a statement is its last line.
    near = [path.read_text().splitlines()[int(line) - 6 : int(line)] for path in found]
    assert any(re.search("throw|raise", text) for lines in near for text in lines), near


def child(results):
    import poptorch.poptorch_core as core
    from poptorch.poptorch_core import Error

    results.put((Error is poptorch.Error, core.isCompilingWithDispatcher()))


@pytest.mark.shared
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_the_core_is_a_module_in_child_processes_too(method):
    context = multiprocessing.get_context(method)
    results = context.SimpleQueue()
    process = context.Process(target=child, args=(results,))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    assert results.get() == (True, False)


def test_a_capture_is_told_while_it_lasts():
    core, seen = poptorch.poptorch_core, []

    class Model(torch.nn.Module):
        def forward(self, x):
            seen.append(core.isCompilingWithDispatcher())
            if x.shape[0] == 3:
                raise ValueError("three")
            return x + 1

    model = poptorch.inferenceModel(Model())
    model(torch.ones(2))
    assert not core.isCompilingWithDispatcher()
    model.destroy()
    with pytest.raises(ValueError, match="three"):
        model(torch.ones(3))
    assert seen == [True, True]
    assert not core.isCompilingWithDispatcher()
