"""Threads may share a wrapper, and a program may end while a thread runs a model."""

import contextlib
import os
import signal
import subprocess
import sys
import threading

import poptorch
import pytest
import torch
from interrupting import Gate, Linears, handled_by, quiet


def in_threads(count, work):
    """Runs work(i) in threads, and returns the errors."""
    errors = []

    def run(i):
        try:
            work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def test_threads_share_an_inference_wrapper():
    linear = torch.nn.Linear(4, 4)
    model = poptorch.inferenceModel(linear, quiet())
    inputs = [torch.randn(3, 4) for _ in range(4)]
    expected = [linear(x).detach() for x in inputs]

    def call(i):
        for _ in range(200):
            torch.testing.assert_close(model(inputs[i]), expected[i])

    assert in_threads(4, call) == []


def test_every_step_of_every_thread_is_made():
    weight = torch.nn.Linear(4, 1, bias=False)
    torch.nn.init.zeros_(weight.weight)

    class Sum(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = weight

        def forward(self, x):
            return poptorch.identity_loss(-self.linear(x).sum(), reduction="none")

    model = Sum()
    trained = poptorch.trainingModel(model, quiet(), torch.optim.SGD(model.parameters(), lr=1.0))

    def call(_):
        for _ in range(100):
            trained(torch.ones(1, 4))

    assert in_threads(4, call) == []
    assert model.linear.weight.tolist() == [[400.0] * 4]


def test_threads_compile_one_at_a_time():
    def call(i):
        linear = Linears(i + 1)
        x = torch.randn(2, 4)
        result = poptorch.trainingModel(linear, quiet())(x)
        assert torch.isfinite(result).all()
        parameter = torch.ones(2, requires_grad=True)  # torch is unchanged for other threads
        parameter.square().sum().backward()
        assert parameter.grad.tolist() == [2.0, 2.0]

    assert in_threads(6, call) == []
    assert torch.autograd.grad.__module__ == "torch.autograd"


@pytest.fixture
def held():
    """A wrapper that a thread runs until its gate is opened."""
    gate = Gate()
    model = poptorch.inferenceModel(lambda x: gate(x) + 1, quiet())
    model.compile(torch.ones(2))
    results = []
    thread = threading.Thread(target=lambda: results.append(model(torch.ones(2))))
    thread.start()
    gate.reached.wait()
    yield model, gate
    gate.open.set()
    thread.join()
    assert results[0].tolist() == [2.0, 2.0]


def test_a_wrapper_is_not_destroyed_while_a_thread_runs_it(held):
    model, gate = held
    with pytest.raises(poptorch.Error, match="another thread runs the model"):
        model.destroy()
    gate.open.set()
    model(torch.ones(2))  # waits until the thread's run ends
    model.destroy()
    assert not model.isCompiled()


def test_destroying_between_the_calls_of_a_thread_raises_only_poptorchs_errors():
    linear = torch.nn.Linear(4, 4)
    model = poptorch.inferenceModel(linear, quiet())
    model(torch.ones(1, 4))
    errors, calls, done = [], threading.Semaphore(0), threading.Event()

    def call():
        while not done.is_set():
            try:
                torch.testing.assert_close(model(torch.ones(1, 4)), linear(torch.ones(1, 4)))
            except poptorch.Error as error:
                errors.append(str(error))
            calls.release()

    thread = threading.Thread(target=call)
    thread.start()
    for _ in range(30):
        with contextlib.suppress(poptorch.Error):
            model.destroy()
        calls.acquire()
    done.set()
    thread.join()
    assert all("destroy() was called while" in error for error in errors)


@pytest.mark.signals
def test_a_thread_that_waits_for_anothers_run_can_be_stopped(held):
    model, _ = held
    over = threading.Event()

    def handler(_, frame):
        if frame.f_globals["__name__"].startswith("poptorch"):  # in the call, which waits
            over.set()
            raise KeyboardInterrupt

    def send():  # until the call has begun, for which there is no event
        while not over.wait(0.05):
            os.kill(os.getpid(), signal.SIGUSR1)

    sender = threading.Thread(target=send)
    with handled_by(handler, signal.SIGUSR1):
        sender.start()
        with pytest.raises(KeyboardInterrupt):
            model(torch.ones(2))
        sender.join()


PROGRAM = """
import signal, sys, threading
import poptorch, torch

begun = threading.Event()
begin = poptorch.op(lambda x: begun.set() or x, shape=lambda x: x)

signal.signal(signal.SIGINT, signal.default_int_handler)
options = poptorch.Options().showCompilationProgressBar(False)
model = poptorch.inferenceModel(
    lambda x: poptorch.for_loop(2**62, lambda y: [y * 1.5], [begin(x)])[0], options
)
model.compile(torch.ones(4))
thread = threading.Thread(target=lambda: model(torch.ones(4)), daemon=DAEMON)
thread.start()
begun.wait()
print("running", flush=True)
WAIT
"""


def program_ends(tmp_path, daemon, wait, signalled):
    """Returns stderr and the exit status of the program, whose thread runs for ever."""
    file = tmp_path / "program.py"
    file.write_text(PROGRAM.replace("DAEMON", str(daemon)).replace("WAIT", wait))
    process = subprocess.Popen(
        [sys.executable, file],
        env={**os.environ, "PYTHONPATH": ":".join(p for p in sys.path if p)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "running\n"
        if signalled:
            process.send_signal(signal.SIGINT)
        written = process.communicate()[1]
    finally:
        process.kill()
        process.wait()
    return written, process.returncode


@pytest.mark.shared
@pytest.mark.signals
def test_a_program_ends_though_a_thread_runs(tmp_path):
    written, status = program_ends(tmp_path, daemon=False, wait="pass", signalled=False)
    assert "the program ended while another thread was running or compiling a model" in written
    assert status == 0


@pytest.mark.nightly
@pytest.mark.signals
def test_a_program_ends_though_a_daemon_thread_runs(tmp_path):
    written, status = program_ends(tmp_path, daemon=True, wait="pass", signalled=False)
    assert status == 0 and "Fatal" not in written


@pytest.mark.nightly
@pytest.mark.signals
@pytest.mark.parametrize("daemon", [False, True])
def test_the_main_thread_is_interrupted_while_another_runs(tmp_path, daemon):
    written, status = program_ends(tmp_path, daemon, wait="thread.join()", signalled=True)
    assert "KeyboardInterrupt" in written and "Fatal" not in written
    assert status in (1, -signal.SIGINT)
