"""Signals in the middle of a call, and models whose calls take long."""

import contextlib
import os
import signal
import threading
import time

import poptorch
import pytest
import torch


@contextlib.contextmanager
def interrupted(after=0.5, within=8.0):
    """Expects the body to be stopped by a signal, and not to end by itself. How soon after it is
    measured by tests/nightly/signals.py: here other work may be on the machine."""
    sent = []

    def handler(*_):
        raise KeyboardInterrupt

    def send():
        time.sleep(after)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handler)
    sender = threading.Thread(target=send)
    try:
        sender.start()
        with pytest.raises(KeyboardInterrupt):
            yield
            sender.join()
        assert time.monotonic() - sent[0] < within
    finally:
        sender.join()
        signal.signal(signal.SIGUSR1, before)


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
    """A training wrapper whose call makes `count` iterations, and the rows that it takes."""
    model = Linears(layers, ipus=ipus)
    options = quiet(lambda o: o.deviceIterations(count).replicationFactor(replicas))
    options.Training.gradientAccumulation(accumulation)
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-9, momentum=0.5)
    rows = torch.ones(count * replicas * accumulation, 4)
    return poptorch.trainingModel(model, options, optimiser), rows
