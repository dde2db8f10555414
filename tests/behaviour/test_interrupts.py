"""Runs and compilations that a signal stops."""

import contextlib
import signal
import threading

import numpy as np
import poptorch
import popxl
import popxl.ops as ops
import pytest
import torch
from interrupting import Linears, interrupted, quiet, training

X = torch.ones(4)
ENDLESS = 2**62


@pytest.fixture
def log(caplog):
    poptorch._logging.logger.propagate = True
    yield caplog
    poptorch._logging.logger.propagate = False


class Endless(torch.nn.Module):
    """Ends when its input does not begin with one; on one IPU or on two."""

    def __init__(self, ipus=1):
        super().__init__()
        self.ipus = ipus
        self.register_buffer("factor", torch.tensor(1.5))

    def forward(self, x):
        def loop(y):
            return poptorch.for_loop(ENDLESS, lambda z: [z * self.factor - z], [y])

        with poptorch.Block("first", ipu_id=0):
            y = x * 2
        with poptorch.Block("last", ipu_id=self.ipus - 1):
            return poptorch.cond(x[0] == 1, loop, [y], lambda z: [z + 1], [y])[0]


ENDS = torch.zeros(4)


@pytest.mark.parametrize("ipus", [1, 2])
def test_an_endless_run_is_stopped_and_the_model_is_usable(ipus):
    sharded = quiet(lambda o: o.setExecutionStrategy(poptorch.ShardedExecution()))
    model = poptorch.inferenceModel(Endless(ipus), sharded)
    for _ in range(2):
        assert torch.equal(model(ENDS), torch.ones(4))
        with interrupted():
            model(X)
    assert torch.equal(model(ENDS), torch.ones(4))


@pytest.mark.parametrize(
    "many",
    [{}, {"ipus": 2, "layers": 2, "accumulation": 4}, {"replicas": 2}, {"accumulation": 3}],
    ids=["one IPU", "pipelined", "replicas", "accumulating"],
)
def test_millions_of_iterations_are_stopped_and_the_rest_is_told(many, log):
    model, rows = training(1_000_000 if len(many) > 1 else 3_000_000, **many)
    model.compile(rows)
    with interrupted():
        model(rows)
    assert "The run of Linears for training was cut short" in log.text
    assert all(torch.isfinite(p).all() for p in model.model.parameters())
    with interrupted():
        model(rows)
    assert "changed on the host" not in log.text
    assert log.text.count("was cut short") == 2


def test_what_the_host_holds_can_be_put_back(log):
    model, rows = training(3_000_000)
    model.compile(rows)
    kept = {name: p.detach().clone() for name, p in model.model.named_parameters()}
    with interrupted():
        model(rows)
    model.copyWeightsToHost()
    with torch.no_grad():
        for name, parameter in model.model.named_parameters():
            parameter.copy_(kept[name])
    model.copyWeightsToDevice()
    model.copyWeightsToHost()
    for name, parameter in model.model.named_parameters():
        assert torch.equal(parameter, kept[name])


@pytest.fixture
def stopped_from(monkeypatch):
    """Stops a compilation by a signal, some seconds after a phase of it has begun."""

    def tell(name, phase, after):
        if name == phase and after:
            signal.setitimer(signal.ITIMER_REAL, after)
        elif name == phase:
            signal.raise_signal(signal.SIGALRM)

    def stop(*_):
        raise KeyboardInterrupt

    @contextlib.contextmanager
    def expect(phase, after=0):
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(
                poptorch._impl.progress.Progress,
                "__call__",
                lambda self, done, total, name: tell(name, phase, after),
            )
            yield

    before = signal.signal(signal.SIGALRM, stop)
    yield expect
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("phase", ["tracing", "differentiate", "lower", "bind"])
def test_a_compilation_is_stopped_and_made_again(phase, stopped_from):
    model = poptorch.trainingModel(Linears(2), quiet())
    x = torch.ones(2, 4)
    with stopped_from(phase):
        model.compile(x)
    assert not model.isCompiled()
    assert torch.isfinite(model(x))


def test_a_long_compilation_is_stopped_between_what_it_tells(stopped_from):
    model = poptorch.trainingModel(Linears(3000), quiet())
    with stopped_from("differentiate", after=0.05):
        model.compile(torch.ones(2, 4))
    assert not model.isCompiled()
    assert torch.isfinite(poptorch.inferenceModel(Linears(2), quiet())(torch.ones(2, 4)))


def test_a_popxl_session_is_stopped_and_usable(capfd):
    ir = popxl.Ir()
    with ir.main_graph:
        counter = popxl.variable(np.zeros((2,), np.float32), name="counter")
        stream = popxl.h2d_stream((2,), popxl.float32, name="x")
        out = popxl.d2h_stream((2,), popxl.float32, name="y")
        x = ops.host_load(stream)

        def add(y: popxl.Tensor, total: popxl.TensorByRef):
            ops.var_updates.accumulate_(total, y)
            return (y * 1.0,)

        body = ir.create_graph(add, x, counter)
        (y,) = ops.repeat(body, 2**40, x, counter)
        ops.host_store(out, y)
    session = popxl.Session(ir, "ipu_hw")
    with session:
        for _ in range(2):
            with interrupted():
                session.run({stream: np.ones((2,), np.float32)})
        assert session.get_tensor_data(counter)[0] > 0  # the device's, part of the way
        session.write_variable_data(counter, np.full((2,), 3, np.float32))
        assert session.get_tensor_data(counter).tolist() == [3, 3]
    assert "was cut short: some variables are on the device" in capfd.readouterr().err


def test_a_handler_cannot_use_the_model_that_it_interrupts():
    model = poptorch.inferenceModel(Endless(), quiet())
    model(ENDS)

    def handler(*_):
        model(ENDS)

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.4)
        with pytest.raises(poptorch.Error, match="the handler of a signal uses the model"):
            model(X)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert torch.equal(model(ENDS), torch.ones(4))


def test_a_handler_that_raises_nothing_does_not_stop_a_run():
    count = 3_000_000
    model, rows = training(count)
    model.compile(rows)
    seen = []
    before = signal.signal(signal.SIGALRM, lambda *_: seen.append(threading.current_thread()))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
        assert torch.isfinite(model(rows)).all()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert seen and set(seen) == {threading.main_thread()}
