"""Models without annotations run on the device by torch.compile(backend="poptorch")."""

import copy
import gc
import subprocess
import sys

import poptorch
import pytest
import torch
import torch.nn.functional as F
import whole_models
from poptorch._impl.torch_compile import devices, program
from torch import nn
from torch.utils._pytree import tree_leaves


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
    gc.collect()


@pytest.fixture
def wrappers(monkeypatch):
    """The wrappers of the graphs, in the order of their first calls."""
    found, plain = [], program.Program._wrapped

    def noted(self, values):
        found.append(plain(self, values))
        return found[-1]

    monkeypatch.setattr(program.Program, "_wrapped", noted)
    return found


def compiled(model):
    return torch.compile(model, backend="poptorch")


def assert_results(mine, theirs):
    mine, theirs = tree_leaves(mine), tree_leaves(theirs)
    assert len(mine) == len(theirs)
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def loss_of(outputs):
    return sum(
        t.float().square().mean() for t in tree_leaves(outputs) if torch.is_tensor(t) and t.grad_fn
    )


def assert_as_eager(model, *inputs, steps=3):
    """Compares inference, and steps of training with their gradients and buffers."""
    eager, ours = copy.deepcopy(model), copy.deepcopy(model)
    call = compiled(ours)
    with torch.no_grad():
        assert_results(call(*inputs), eager(*inputs))
    optimisers = [torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9) for m in (eager, ours)]
    for _ in range(steps):
        for run, optimiser in zip((eager, call), optimisers, strict=True):
            optimiser.zero_grad()
            loss_of(run(*inputs)).backward()
            optimiser.step()
        assert_results(list(ours.parameters()), list(eager.parameters()))
        assert_results(list(ours.buffers()), list(eager.buffers()))


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.lstm = nn.Embedding(20, 8), nn.LSTM(8, 12, batch_first=True)
        self.scores = nn.Linear(12, 4)

    def forward(self, words):
        return self.scores(self.lstm(self.words(words))[0])


class Views(nn.Module):
    """Returns views, inputs, integers and buffers that it writes."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        self.register_buffer("cache", torch.zeros(4, 3))

    def forward(self, x, place):
        self.calls.add_(1)
        self.cache.index_copy_(0, place, x.detach().sum(0, keepdim=True))
        torch._dynamo.graph_break()
        y = x.t() * self.weight[:, None]
        return x, x.view(-1), y, y[0], self.calls, x.argmax(1), self.cache * 2, x > 0


MODELS = {
    "convolutions": lambda: (
        nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 2, bias=False), nn.GroupNorm(2, 8), nn.SiLU(), nn.AvgPool2d(2),
            nn.Flatten(), nn.Linear(8, 3),
        ),
        torch.randn(4, 3, 8, 8),
    ),
    "encoder": lambda: (
        nn.TransformerEncoder(
            nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), 2,
            enable_nested_tensor=False,
        ),
        torch.randn(2, 5, 16),
    ),
    "sequence": lambda: (Sequence(), torch.randint(20, (3, 7))),
    "views": lambda: (Views(), torch.randn(4, 3), torch.tensor([2])),
}  # fmt: skip

WELL_CONDITIONED = [n for n in whole_models.MODELS if n not in whole_models.ROUNDING_IS_AMPLIFIED]


def test_torch_lists_the_backend():
    assert "poptorch" in torch._dynamo.list_backends()


def test_the_backend_is_added_where_torchs_compiler_was_imported_first():
    code = """
import torch._dynamo, poptorch
assert "poptorch" in torch._dynamo.backends.registry._BACKENDS
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", MODELS)
def test_results_and_training_are_those_of_eager_torch(name):
    assert_as_eager(*MODELS[name]())


@pytest.mark.shared
@pytest.mark.parametrize("name", WELL_CONDITIONED)
def test_whole_models_are_those_of_eager_torch(name):
    model, batch = whole_models.MODELS[name]()
    ours = copy.deepcopy(model)
    call = compiled(ours)
    for run in (model, call):
        run(*batch)[-1].sum().backward()
    for mine, theirs in zip(ours.parameters(), model.parameters(), strict=True):
        if theirs.grad is None:
            assert mine.grad is None
            continue
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=2e-4, atol=2e-6)
    with torch.no_grad():
        assert_results(call.eval()(*batch), model.eval()(*batch))


def test_common_networks_run_kernels_of_the_device(wrappers):
    model, *inputs = MODELS["encoder"]()
    loss_of(compiled(model)(*inputs)).backward()
    reports = [wrapper.report() for wrapper in wrappers]
    assert len(reports) == 2
    assert not any(report["generic_ops"] or report["reference_kernels"] for report in reports)


def test_changes_of_parameters_are_seen():
    model = nn.Linear(4, 3)
    call, x = compiled(model), torch.randn(2, 4)
    with torch.no_grad():
        call(x)
        model.weight.data.mul_(2)  # which no counter of torch notes
        model.bias = nn.Parameter(torch.ones(3))
        assert_results(call(x), model(x))
        model.weight.data = torch.zeros(3, 4)
        assert_results(call(x), model(x))


def test_other_shapes_are_compiled_for():
    model = nn.Linear(4, 3)
    call = compiled(model)
    for rows in (3, 4, 5, 6, 3):
        x = torch.randn(rows, 4, requires_grad=True)
        assert_results(call(x), model(x))
        mine, theirs = (torch.autograd.grad(f(x).sum(), x)[0] for f in (call, model))
        assert_results(mine, theirs)


def test_dropout_has_one_mask_forward_and_backward_and_follows_torchs_seed():
    def draws(seed):
        torch.manual_seed(seed)
        torch._dynamo.reset()
        program.restart_numbers()
        x = torch.ones(100, requires_grad=True)
        y = compiled(lambda x: F.dropout(x, 0.5))(x)
        y.sum().backward()
        assert torch.equal(x.grad, y)
        return y

    first, again, other = draws(3), draws(3), draws(4)
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_numbers_of_torch_stay_as_without_the_device():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    compiled(lambda x: F.dropout(x, 0.5))(torch.ones(3))
    assert torch.equal(torch.rand(3), expected)


def test_written_inputs_and_strides():
    def write(x, y):
        x.mul_(2)
        return x.sum() + y.t().sum(0)

    for x, y in ((torch.ones(2, 3).t(), torch.randn(4, 5)), (torch.ones(6)[::2], torch.ones(1, 1))):
        theirs, mine = x.clone(), x
        expected = write(theirs, y)
        before = mine._version
        assert_results(compiled(write)(mine, y), expected)
        assert_results(mine, theirs)
        assert mine._version > before


def test_unused_graphs_make_room_on_the_devices(monkeypatch):
    monkeypatch.setattr(devices, "ATTACHED_PROGRAMS", 2)
    calls = [compiled(lambda x, n=n: x * n) for n in range(1, 5)]
    for _ in range(2):
        for n, call in enumerate(calls, 1):
            assert_results(call(torch.ones(2)), torch.full((2,), float(n)))
        assert sum(map(devices.is_attached, devices.attached())) == 2


def test_errors_name_the_line_of_the_user():
    def reads(x):
        return torch.nonzero(x * 2)

    torch._dynamo.config.capture_dynamic_output_shape_ops = True
    try:
        with pytest.raises(RuntimeError, match=r"nonzero.*test_torch_compile\.py:\d+"):
            compiled(reads)(torch.ones(3))
    finally:
        torch._dynamo.config.capture_dynamic_output_shape_ops = False


def test_settings_for_another_compiler_are_refused():
    with pytest.raises(RuntimeError, match=r"\[torch.compile\].*mode='max-autotune'"):
        torch.compile(nn.Linear(2, 2), backend="poptorch", mode="max-autotune")(torch.ones(1, 2))


def test_options_of_a_dict_are_used(wrappers):
    options = {"Precision": {"enable_stochastic_rounding": True}}
    torch.compile(torch.sin, backend="poptorch", options=options)(torch.ones(2))
    assert wrappers[0].options.Precision.enable_stochastic_rounding
    with pytest.raises(RuntimeError, match="a graph runs one micro-batch a call"):
        options = {"device_iterations": 2}
        torch.compile(torch.cos, backend="poptorch", options=options)(torch.ones(2))


def test_wrappers_are_refused():
    with pytest.raises(poptorch.Error, match="compiled for the device already"):
        torch.compile(poptorch.inferenceModel(nn.Linear(2, 2)), backend="poptorch")


class Loss(nn.Linear):
    """A layer whose result is a loss."""

    def __init__(self):
        super().__init__(2, 2)

    def forward(self, input):
        return poptorch.identity_loss(super().forward(input).square(), reduction="mean")


@pytest.mark.parametrize("backend", ["poptorch", "eager"])
def test_calls_of_wrappers_within_a_compiled_function_run_by_themselves(backend):
    model = nn.Linear(2, 2)
    wrapped = poptorch.inferenceModel(model)

    def doubled(x):
        return wrapped(x + 1) * 2

    call, x = torch.compile(doubled, backend=backend), torch.ones(3, 2)
    for _ in range(2):
        assert torch.equal(call(x), wrapped(x + 1) * 2)
    torch._dynamo.reset()
    with pytest.raises(RuntimeError, match="wrapper runs on the device by itself. Call it outside"):
        torch.compile(doubled, backend=backend, fullgraph=True)(x)


def test_training_wrappers_within_a_compiled_function_train():
    def trained(compiles):
        torch.manual_seed(0)
        model = Loss()
        wrapped = poptorch.trainingModel(model, None, torch.optim.SGD(model.parameters(), lr=0.1))

        def step(x):
            return wrapped(x) + 1

        step = torch.compile(step, backend="poptorch") if compiles else step
        losses = [step(torch.ones(3, 2)) for _ in range(3)]
        return losses, model.state_dict()

    (losses, weights), (expected, wanted) = trained(True), trained(False)
    assert torch.equal(torch.stack(losses), torch.stack(expected))
    assert all(torch.equal(weights[name], value) for name, value in wanted.items())


def test_ops_of_python_run_within_a_compiled_function():
    @poptorch.op(numpy=True)
    def cubed(x):
        return x**3 + 1

    x = torch.arange(6.0).reshape(2, 3)
    assert_results(compiled(lambda x: cubed(x + 1) * 2)(x), ((x + 1) ** 3 + 1) * 2)
