"""A signal stops runs and compilations, and the model stays usable."""

import signal
import threading

import numpy as np
import poptorch
import poptorch.testing
import popxl
import popxl.ops as ops
import pytest
import torch
from interrupting import (
    ENDLESS,
    Gate,
    Linears,
    handled_by,
    interrupted,
    interrupted_after,
    quiet,
    training,
)

X = torch.ones(4)


@pytest.fixture
def log(caplog):
    return caplog


class Endless(torch.nn.Module):
    """Runs until its input begins with a one, on one IPU or on two. It may first pass a gate,
    Python code within the run."""

    def __init__(self, ipus=1, gate=lambda y: y):
        super().__init__()
        self.ipus, self.gate = ipus, gate
        self.register_buffer("factor", torch.tensor(1.5))

    def forward(self, x):
        def loop(y):
            return poptorch.for_loop(ENDLESS, lambda z: [z * self.factor - z], [y])

        with poptorch.Block("first", ipu_id=0):
            y = self.gate(x * 2)
        with poptorch.Block("last", ipu_id=self.ipus - 1):
            return poptorch.cond(x[0] == 1, loop, [y], lambda z: [z + 1], [y])[0]


ENDS = torch.zeros(4)


@pytest.mark.signals
@pytest.mark.parametrize("ipus", [1, 2])
def test_an_endless_run_is_stopped_and_the_model_is_usable(ipus):
    sharded = quiet(lambda o: o.setExecutionStrategy(poptorch.ShardedExecution()))
    gate = Gate(is_open=True)
    model = poptorch.inferenceModel(Endless(ipus, gate), sharded)
    for _ in range(2):
        assert torch.equal(model(ENDS), torch.ones(4))
        gate.reached.clear()
        with interrupted_after(gate.reached):
            model(X)
    assert torch.equal(model(ENDS), torch.ones(4))


@pytest.mark.signals
@pytest.mark.parametrize(
    "many",
    [{}, {"ipus": 2, "layers": 2, "accumulation": 4}, {"replicas": 2}, {"accumulation": 3}],
    ids=["one IPU", "pipelined", "replicas", "accumulating"],
)
def test_many_iterations_are_stopped_and_the_rest_is_told(many, log):
    model, rows = training(1_000_000, **many)
    model.compile(rows)
    with interrupted(micro_batch=100):
        model(rows)
    assert "The run of Linears for training was interrupted" in log.text
    assert all(torch.isfinite(p).all() for p in model.model.parameters())
    with interrupted(micro_batch=5, ipu=many.get("ipus", 1) * many.get("replicas", 1) - 1):
        model(rows)
    assert "changed on the host" not in log.text
    assert log.text.count("was interrupted") == 2


class Steps(torch.nn.Module):
    """Its weight is the number of steps that SGD with a learning rate of 1 has made."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return poptorch.identity_loss(-(self.weight * x).sum(), reduction="none")


@pytest.mark.signals
@pytest.mark.parametrize("done", [0, 1, 700])
def test_a_run_stops_within_a_few_micro_batches(done):
    steps, count = Steps(), 10_000
    options = quiet(lambda o: o.deviceIterations(count))
    model = poptorch.trainingModel(steps, options, torch.optim.SGD(steps.parameters(), lr=1.0))
    model.compile(torch.ones(count, 1))
    with interrupted(micro_batch=done):
        model(torch.ones(count, 1))
    model.copyWeightsToHost()
    assert done <= steps.weight.item() <= done + 64


@pytest.mark.signals
def test_what_the_host_holds_can_be_put_back(log):
    model, rows = training(10_000)
    model.compile(rows)
    kept = {name: p.detach().clone() for name, p in model.model.named_parameters()}
    with interrupted(micro_batch=100):
        model(rows)
    model.copyWeightsToHost()
    with torch.no_grad():
        for name, parameter in model.model.named_parameters():
            parameter.copy_(kept[name])
    model.copyWeightsToDevice()
    model.copyWeightsToHost()
    for name, parameter in model.model.named_parameters():
        assert torch.equal(parameter, kept[name])


@pytest.mark.signals
def test_tracing_is_stopped_and_made_again(monkeypatch):
    def tell(self, done, total, phase):
        if phase == "tracing":
            signal.raise_signal(signal.SIGINT)

    model = poptorch.trainingModel(Linears(2), quiet())
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(poptorch._impl.inspection.progress.Progress, "__call__", tell)
        model.compile(torch.ones(2, 4))
    assert not model.isCompiled()
    assert torch.isfinite(model(torch.ones(2, 4)))


@pytest.mark.signals
@pytest.mark.parametrize("index", [0, 7])
@pytest.mark.parametrize("place", ["differentiate", "lower", "bind"])
def test_a_compilation_is_stopped_and_made_again(place, index):
    model = poptorch.trainingModel(Linears(2), quiet())
    x = torch.ones(2, 4)
    with interrupted("compile", place=place, index=index):
        model.compile(x)
    assert not model.isCompiled()
    assert torch.isfinite(model(x))


@pytest.mark.signals
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
        assert session.get_tensor_data(counter)[0] > 0  # the device's, in the middle of the run
        session.write_variable_data(counter, np.full((2,), 3, np.float32))
        assert session.get_tensor_data(counter).tolist() == [3, 3]
    assert "was interrupted: some variables on the device have values" in capfd.readouterr().err


@pytest.mark.signals
def test_a_handler_cannot_use_the_model_that_it_interrupts():
    model = poptorch.inferenceModel(Endless(), quiet())
    model(ENDS)
    with (
        handled_by(lambda *_: model(ENDS)),
        poptorch.testing.inject_fault("run", "SIGINT"),
        pytest.raises(poptorch.Error, match="a signal handler uses the model"),
    ):
        model(X)
    assert torch.equal(model(ENDS), torch.ones(4))


@pytest.mark.signals
def test_a_handler_that_raises_nothing_does_not_stop_a_run():
    model, rows = training(100)
    model.compile(rows)
    seen = []
    with handled_by(lambda *_: seen.append(threading.current_thread())):
        for micro_batch in (0, 50, 100):
            with poptorch.testing.inject_fault("run", "SIGINT", micro_batch=micro_batch):
                assert torch.isfinite(model(rows)).all()
    assert seen == 3 * [threading.main_thread()]
