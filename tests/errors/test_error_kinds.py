"""Errors of every kind, for handlers to be tried out; the module that programs know them from."""

import multiprocessing
import pickle

import poptorch
import pytest
import torch

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
    assert [line.split()[-1] for line in error.location.splitlines()] == [
        "throwTestError::bottomLevel",
        "throwTestError::topLevel",
    ]
    assert error.location not in error.message and str(error).endswith(error.location)
    is_recoverable = type(error) is poptorch.RecoverableError
    assert ("\nRecovery action required: FULL_RESET\n" in str(error)) == is_recoverable


def child(results):
    import poptorch.poptorch_core as core
    from poptorch.poptorch_core import Error

    results.put((Error is poptorch.Error, core.isCompilingWithDispatcher()))


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
