"""Sends signals in the middle of a call, and defines models whose calls take long."""

import contextlib
import os
import signal
import threading

import poptorch
import poptorch.testing
import pytest
import torch

ENDLESS = 2**62


@contextlib.contextmanager
def interrupted(point="run", **where):
    """Expects the body to be stopped by Ctrl-C at a point: see poptorch.testing.inject_fault."""
    with (
        poptorch.testing.inject_fault(point, "SIGINT", **where) as fault,
        pytest.raises(KeyboardInterrupt),
    ):
        yield
    assert fault.struck


@contextlib.contextmanager
def interrupted_after(begun):
    """Expects the body, which would not end, to be stopped by a signal.

    Another thread sends it when the event `begun` is set. tests/nightly/signals.py measures the
    time until it stops.
    """

    def handler(*_):
        raise KeyboardInterrupt

    over = threading.Event()

    def send():
        begun.wait()
        if not over.is_set():
            os.kill(os.getpid(), signal.SIGUSR1)

    sender = threading.Thread(target=send)
    with handled_by(handler, signal.SIGUSR1):
        sender.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                yield
        finally:
            over.set()
            begun.set()
            sender.join()


@contextlib.contextmanager
def handled_by(handler, number=signal.SIGINT):
    """Installs `handler` for the signal during the body."""
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


class Gate:
    """A place in a model where its run sets the event `reached` and waits for `open`."""

    def __init__(self, is_open=False):
        self.reached, self.open = threading.Event(), threading.Event()
        if is_open:
            self.open.set()

    def __call__(self, x):
        """Runs as part of a model's forward."""

        def passed(value):
            self.reached.set()
            self.open.wait()
            return value

        return poptorch.op(passed, shape=lambda value: value)(x)


def quiet(change=lambda options: None):
    options = poptorch.Options().showCompilationProgressBar(False)
    change(options)
    return options


class Linears(torch.nn.Module):
    def __init__(self, layers=1, size=4, ipus=1):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(size, size) for _ in range(layers))
        for ipu in range(1, ipus):
            poptorch.BeginBlock(self.layers[ipu * layers // ipus], ipu_id=ipu)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x)) + x
        return poptorch.identity_loss(x.square(), reduction="mean")


def training(count, layers=1, ipus=1, replicas=1, accumulation=1):
    """Returns a training wrapper whose call makes `count` iterations, and its input rows."""
    model = Linears(layers, ipus=ipus)
    options = quiet(lambda o: o.deviceIterations(count).replicationFactor(replicas))
    options.Training.gradientAccumulation(accumulation)
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-9, momentum=0.5)
    rows = torch.ones(count * replicas * accumulation, 4)
    return poptorch.trainingModel(model, options, optimiser), rows
