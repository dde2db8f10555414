"""After a signal at a named point of a program, Python's handler has run and everything stays
usable.
"""

import os
import signal
import subprocess
import sys

import popdist.collectives
import poptorch
import poptorch.testing
import pytest
import torch
from interrupting import handled_by, interrupted, quiet
from poptorch.testing import inject_fault
from poptorch_core.whole_files import write_whole

X = torch.ones(2, 3)


def trained():
    model = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Flatten(0))
    model.append(torch.nn.Identity())

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x):
            return poptorch.identity_loss(self.model(x), reduction="sum")

    whole = Loss()
    optimizer = torch.optim.SGD(whole.parameters(), lr=0.1, momentum=0.9)
    return poptorch.trainingModel(whole, quiet(), optimizer), optimizer


@pytest.mark.signals
@pytest.mark.parametrize("point", ["attach", "compile", "copy", "run"])
def test_ctrl_c_at_a_point_of_the_device_leaves_the_model_usable(point):
    wrapper, optimizer = trained()
    with interrupted(point):
        wrapper(X)
        optimizer.state_dict()
    if point == "run":  # within a step: some replicas may have updated their weights
        wrapper.copyWeightsToDevice()
    assert torch.isfinite(wrapper(X))


@pytest.mark.signals
@pytest.mark.parametrize("kind", ["SIGINT", "SIGTERM"])
def test_a_handler_sees_the_signal_once(kind):
    wrapper, _ = trained()
    wrapper(X)
    number, seen = getattr(signal, kind), []
    with handled_by(lambda *arguments: seen.append(arguments[0]), number):
        with inject_fault("run", kind, nth=2) as fault:
            for count in (0, 1, 1):
                wrapper(X)
                assert len(seen) == count
        assert fault.struck and seen == [number]


@pytest.mark.signals
def test_ctrl_c_at_each_step_of_saving_leaves_one_whole_checkpoint(tmp_path):
    wrapper, optimizer = trained()
    wrapper(X)
    file, steps = tmp_path / "a.pt", 0

    def save(step):
        poptorch.save_checkpoint(file, wrapper, optimizer, step=step)

    save(0)
    while True:
        with inject_fault("save", "SIGINT", nth=steps + 1) as fault:
            try:
                save(1)
            except KeyboardInterrupt:
                assert fault.struck
            else:
                break
        assert poptorch.load_checkpoint(file, wrapper, optimizer).step in (0, 1)
        assert os.listdir(tmp_path) == ["a.pt"]
        save(0)
        steps += 1
    assert not fault.struck and steps >= 4  # a write, two steps before the new name, one after it


@pytest.mark.signals
@pytest.mark.parametrize(("step", "left"), [(1, b"old"), (2, b"old"), (3, b"old"), (4, b"new")])
def test_a_kill_at_a_step_of_saving(tmp_path, step, left):
    file = tmp_path / "a"
    file.write_bytes(b"old")
    child = os.fork()
    if child == 0:
        try:
            inject_fault("save", "SIGKILL", nth=step)
            write_whole(file, lambda stream: stream.write(b"new"))
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert file.read_bytes() == left


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, index):
        return torch.tensor([float(index)])


def loader(workers=0, mode="Sync"):
    strategy = {"sharing_strategy": poptorch.SharingStrategy.Fork}
    return poptorch.DataLoader(
        poptorch.Options(),
        Rows(),
        num_workers=workers,
        mode=poptorch.DataLoaderMode[mode],
        async_options=None if mode == "Sync" else strategy,
    )


@pytest.mark.signals
@pytest.mark.parametrize(("workers", "mode"), [(0, "Sync"), (2, "Sync"), (0, "Async")])
def test_ctrl_c_at_a_batch_of_the_program(workers, mode):
    data, seen = loader(workers, mode), []
    with interrupted("load", nth=8, place="program"):
        for batch in data:
            seen.append(batch.item())
    data.terminate()
    assert seen == list(range(7))


@pytest.mark.signals
def test_a_process_that_loads_ahead_is_killed_at_a_batch():
    with inject_fault("load", "SIGKILL", nth=8, place="loader"):
        data = loader(mode="Async")
    seen = []
    with pytest.raises(AssertionError, match="in the data fetcher: exit code -9"):
        for batch in data:
            seen.append(batch.item())
    data.terminate()
    assert seen == list(range(len(seen))) and len(seen) <= 7


@pytest.mark.signals
@pytest.mark.parametrize("worker", [0, 1])
def test_a_worker_is_killed_at_a_batch(worker):
    seen = []
    with inject_fault("load", "SIGKILL", nth=3, place="worker", index=worker) as fault:
        data = iter(loader(workers=2))
        with pytest.raises(RuntimeError, match="worker .*(killed|exited unexpectedly)"):
            for batch in data:
                seen.append(batch.item())
        assert not fault.struck  # here
    assert seen == list(range(len(seen))) and len(seen) <= 4 + worker


@pytest.mark.signals
@pytest.mark.parametrize("where", [{}, {"place": "host"}])
def test_ctrl_c_at_a_collective_of_the_host(where):
    with interrupted("collective", nth=2, **where):
        popdist.collectives.barrier()
        popdist.collectives.all_reduce(torch.ones(2))
    popdist.collectives.barrier()


STOPS = """
import os, sys
import poptorch, torch

model = poptorch.inferenceModel(torch.neg)
model.compile(torch.ones(2))
print("ready", flush=True)
for _ in range(3):
    print(model(torch.ones(2)).tolist(), flush=True)
"""


@pytest.mark.nightly
@pytest.mark.signals
def test_the_variable_stops_a_process_which_then_goes_on():
    child = subprocess.Popen(
        [sys.executable, "-c", STOPS],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "POPTORCH_FAULT": "run:2:SIGSTOP"},
    )
    try:
        assert os.WIFSTOPPED(os.waitpid(child.pid, os.WUNTRACED)[1])
        child.send_signal(signal.SIGCONT)
        output = child.communicate()[0]
    finally:
        child.kill()
    assert output.splitlines() == ["ready"] + 3 * ["[-1.0, -1.0]"]
    assert child.returncode == 0


REFUSED = {
    "save:IPU_RESET": "a device cannot fail at save. Choose a signal: SIGINT, SIGTERM, SIGKILL",
    "load:UNRECOVERABLE": "a device cannot fail at load",
    "join:LINK_RESET": "a device cannot fail at join",
    "collective:LINK_RESET": "a device cannot fail at collective",
    "compile:1:lower:IPU_RESET": "a device cannot fail in a pass of compile",
    "load:1:wroker:SIGINT": "the process is 'wroker': it is one of program, loader, worker.",
    "save:1:2:SIGINT": "save has at most 3 parts, but got 4",
    "run:SIGHUP": "there is no kind 'SIGHUP': it is one of IPU_RESET",
}


@pytest.mark.parametrize("text", REFUSED)
def test_faults_that_there_are_not(text):
    with pytest.raises(poptorch.Error, match=REFUSED[text]):
        poptorch.testing.InjectedFault(text)


def test_a_pass_that_does_not_run_is_told():
    with (
        inject_fault("compile", "SIGINT", place="difrentiate"),
        pytest.raises(poptorch.Error, match="no pass 'difrentiate' .* Did you mean differentiate?"),
    ):
        trained()[0].compile(X)
