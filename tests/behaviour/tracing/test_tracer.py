"""Tests what the tracer captures: views, in-place writes, state, constants, dtypes."""

import copy

import poptorch
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from tracer_case import compare_inference, compare_training, seeded


class Small(nn.Module):
    """A linear layer followed by `function(self, h)`; `extra` adds members."""

    def __init__(self, function, extra=None, width=6):
        super().__init__()
        self.fc = nn.Linear(4, width)
        self.function = function
        if extra is not None:
            extra(self)

    def forward(self, x):
        return self.function(self, self.fc(x))


def buffers(**values):
    return lambda m: [m.register_buffer(name, value) for name, value in values.items()]


def _add_to_slice(m, h):
    y = h * 1.0
    y[:, 1:3] += 1
    y[0, 0] = 5
    return y


def _write_permuted_view(m, h):
    y = (h * 1.0).reshape(3, 2, 3)
    y.permute(2, 0, 1).mul_(2.0)
    return y


def _write_then_read_old_view(m, h):
    y = h.clone()
    row, column = y[1], y[:, 2]
    row.mul_(3)
    return y + column.unsqueeze(1)


def _write_into_zeros(m, h):
    out = torch.zeros(4, 6)
    out[0] = h[0]
    before = out[2]
    out[1:3] = h[1:3] * 2
    return out * before


def _strided_view(m, h):
    y = h.clone()
    y.diagonal().add_(1.0)
    y.as_strided((2, 2), (2, 1), 3).mul_(0.5)
    return y


def _unfolded(m, h):
    return h.unfold(1, 3, 1) * 2


def _chunks(m, h):
    a, b = h.chunk(2, dim=1)
    c, d = h.split([2, 4], dim=1)
    e = torch.stack(h.unbind(0))
    return a * b, c.sum() + d, e


def _transposes(m, h):
    return h.t() @ h, h.T.contiguous().view(-1), h.mT.reshape(2, -1).movedim(0, 1)


def _expanded(m, h):
    return h.unsqueeze(1).expand(3, 2, 6) + h.squeeze().flatten().unflatten(0, (3, 6))[:, None]


def _counter(m, h):
    m.count += 1
    return h * m.count


def _buffer_slice(m, h):
    m.store[1:2].copy_(h[:1].detach())
    m.store[0].add_(h[0].detach())
    return h + m.store.sum()


def _running_mean(m, h):
    with torch.no_grad():
        m.mean.mul_(0.9).add_(h.mean(0), alpha=0.1)
    return h - m.mean


def _detached(m, h):
    return h * h.detach(), h.data * h, (h.detach() + h).exp()


def _no_grad_region(m, h):
    with torch.no_grad():
        scale = h.abs().mean() + 1
    return h / scale


def _weight_written_under_no_grad(m, h):
    with torch.no_grad():
        m.second.weight.mul_(0.5)
    return m.second(h)


def _tied(m, h):
    return F.linear(h, m.table.weight) + m.table(torch.tensor([0, 1, 2])) @ m.table.weight.t()


def _tie(m):
    m.table = nn.Embedding(5, 6)


def _constants(m, h):
    m.scale  # noqa: B018  a plain attribute
    return h * m.scale + torch.tensor([1.0, 2, 3, 4, 5, 6]) + CLOSURE.to(h.device)


CLOSURE = torch.arange(6.0)


def _factories(m, h):
    t = torch.arange(6) + torch.zeros(6, dtype=torch.int64) + torch.full((6,), 3)
    eye = torch.eye(6) + torch.linspace(0, 1, 6) + torch.ones_like(h)[0]
    return h @ eye * t, h.new_ones(3, 6) * h, torch.full_like(h, 2.5) - h


def _types(m, h):
    i = torch.arange(6)
    return h + i, (h > 0) & (i > 2), h * 2 + True, (i / 4) * h, i // 4, h.double().sum(), i.sum()


def _indexing(m, h):
    rows = torch.tensor([2, 0, -1])
    picked = h[rows] + h[:, rows] @ torch.ones(3, 6)
    y = h.clone()
    y[rows[:2], rows[:2]] = 1.5
    y.index_put_((torch.tensor([0, 0]),), torch.ones(2, 6), accumulate=True)
    y[y > 1] = 0.25
    return picked, y, h.index_select(1, torch.tensor([5, 1])), torch.where(h > 0, h, h * 0.1)


def _orders(m, h):
    values, indices = h.topk(2, dim=1)
    largest, place = h.max(dim=1)
    ordered, order = h.sort(dim=1, descending=True)
    return values, indices, largest, place, ordered, order, h.cumsum(1), h.argmax(1)


def _out_arguments(m, h):
    result = torch.empty(3, 6)
    torch.mul(h.detach(), 2.0, out=result)
    return h + result


def _in_place_chain(m, h):
    return h.clone().add_(1).clamp_(-1, 1).mul_(h).sub_(0.5)


def _checkpoint(m, h):
    return torch.utils.checkpoint.checkpoint(lambda x: x.tanh() * 2, h, use_reentrant=False)


def _vmapped(m, h):
    return torch.vmap(lambda row: row * row.sum())(h)


def _einsum(m, h):
    return torch.einsum("ij,kj->ik", h, h), torch.einsum("ij->j", h)


def _generic(m, h):
    """Operators without a row run through torch's own kernels, also in the backward pass."""
    return torch.cummax(h, 1).values, torch.logcumsumexp(h, 1), F.pdist(h)


def _complex(m, h):
    return torch.fft.irfft(torch.fft.rfft(h) * 2, n=6)


def _complex_of_several_uses(m, h):
    z = torch.fft.rfft(h)
    return torch.fft.irfft(z * z.abs() + z[:1] / 2, n=6), z.real


SMALL = {
    "view": lambda m, h: h.view(2, 9) * 2,
    "slice_add": _add_to_slice,
    "permuted_view": _write_permuted_view,
    "old_view": _write_then_read_old_view,
    "into_zeros": _write_into_zeros,
    "strided": _strided_view,
    "unfold": _unfolded,
    "zero_slice": lambda m, h: h.clone()[:, ::2].zero_() + h[:, 1::2],
    "chunks": _chunks,
    "transposes": _transposes,
    "expand": _expanded,
    "detach": _detached,
    "no_grad": _no_grad_region,
    "constants": (_constants, lambda m: setattr(m, "scale", torch.full((6,), 0.5))),
    "factories": _factories,
    "types": _types,
    "indexing": _indexing,
    "orders": _orders,
    "out": _out_arguments,
    "in_place": _in_place_chain,
    "checkpoint": _checkpoint,
    "vmap": _vmapped,
    "einsum": _einsum,
    "generic": _generic,
    "complex": _complex,
    "complex_of_several_uses": _complex_of_several_uses,
    "counter": (_counter, buffers(count=torch.zeros((), dtype=torch.int64))),
    "buffer_slice": (_buffer_slice, buffers(store=torch.zeros(3, 6))),
    "running_mean": (_running_mean, buffers(mean=torch.zeros(6))),
    "tied": (_tied, _tie),
    "weight_written": (
        _weight_written_under_no_grad,
        lambda m: setattr(m, "second", nn.Linear(6, 2)),
    ),
}


@pytest.mark.parametrize("name", SMALL)
def test_small_model_trains_as_in_eager_mode(name, micro_batches):
    function, extra = SMALL[name] if isinstance(SMALL[name], tuple) else (SMALL[name], None)
    model = seeded(lambda: Small(function, extra))
    compare_training(model, torch.randn(3, 4), steps=2, micro_batches=micro_batches)


def test_function_without_module():
    compare_inference(torch.nn.functional.softplus, torch.randn(3, 4))


def test_inputs_returned_as_they_are():
    compare_inference(lambda a, b: (a, b + 1, a), torch.randn(3), torch.arange(3))


def test_module_hooks_run():
    model = seeded(lambda: nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)))
    model[0].register_forward_hook(lambda module, inputs, output: output * 2)
    model[1].register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,))
    compare_training(model, torch.randn(3, 4))


def test_inference_mode_inside_forward():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            with torch.inference_mode():
                return self.fc(x)

    compare_inference(seeded(Model), torch.randn(3, 4))


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Linear(4, 4),
        lambda: nn.Conv1d(3, 2, 2),
        lambda: nn.ConvTranspose1d(3, 2, 2),
        lambda: nn.LayerNorm(4),
        lambda: nn.GroupNorm(1, 3),
        lambda: nn.BatchNorm1d(3),
    ],
)
def test_weights_follow_the_activations(make):
    layer, x = seeded(make), torch.randn(2, 3, 4)
    expected = copy.deepcopy(layer)(x)
    half = poptorch.inferenceModel(copy.deepcopy(layer))(x.half())
    assert half.dtype == torch.float16
    torch.testing.assert_close(half.float(), expected, rtol=5e-3, atol=5e-3)
    whole = poptorch.inferenceModel(copy.deepcopy(layer).half())(x)
    assert whole.dtype == torch.float32
    torch.testing.assert_close(whole, expected, rtol=5e-3, atol=5e-3)


def test_float_weights_train_on_half_activations():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            return self.fc(x) if x.device.type == "ipu" else self.fc(x.float()).half()

    compare_training(seeded(Model), torch.randn(3, 4).half(), tolerance=2e-3)


def test_autocast_reaches_whole_layers():
    model = seeded(lambda: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)))

    def run(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(x)

    compare_inference(run, torch.randn(3, 4), tolerance=2e-2)


def test_half_model():
    model = seeded(lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))).half()
    compare_inference(model, torch.randn(3, 4).half(), tolerance=2e-3)
