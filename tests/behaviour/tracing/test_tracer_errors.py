"""A model that cannot be traced raises an error with the user's line and the cure."""

import copy
import re

import poptorch
import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode


def _branch(x):
    return x if x.sum() > 0 else -x


def _legacy_tensor(x):
    return x + torch.LongTensor([1, 2, 3, 4])


def _counts_ops(x):
    with FlopCounterMode(display=False):
        return x @ x.t()


def _fakes(x):
    with FakeTensorMode():
        return torch.ones(3)


REFUSED = {
    "item": (lambda x: x * x.sum().item(), r"value of a tensor is needed.*\.item\(\)"),
    "if": (_branch, r"value of a tensor is needed.*`if tensor:`.*torch\.where"),
    "float": (lambda x: x * float(x.sum()), "value of a tensor is needed"),
    "nonzero": (
        lambda x: torch.nonzero(x),
        "Operations using aten::nonzero are unsupported because the operator's output shape is "
        "determined at runtime.*torch.where",
    ),
    "mask": (lambda x: x[x > 0], "Operations using aten::nonzero are unsupported"),
    "masked_select": (lambda x: x.masked_select(x > 0), "masked_select are unsupported"),
    "unique": (lambda x: x.unique(), "output shape is determined at runtime"),
    "numpy": (lambda x: x.numpy(), r"values of a tensor are needed on the host.*numpy\(\)"),
    "tolist": (lambda x: x.tolist(), r"values of a tensor are needed on the host.*tolist\(\)"),
    "grad": (
        lambda x: torch.autograd.backward(x.sum()),
        r"backward\(\) inside forward is not supported",
    ),
    "cpu_tensor": (
        _legacy_tensor,
        r"Expected an IPU tensor but got tensor\(device=cpu, shape=\[4\], dtype=Long\)",
    ),
    "shapes": (lambda x: x @ torch.ones(3, 3), r"\[3, 4\].*\[3, 3\]"),
    "view": (lambda x: x.view(7), r"shape '\[7\]' is invalid for input of size 12"),
    "one_hot": (
        lambda x: nn.functional.one_hot(x.long()),
        "OneHot num classes must be specified and must be constant",
    ),
    "bincount": (
        lambda x: torch.bincount(x.long().flatten()),
        "Bincount `minlength` must be specified and must be a constant. On the IPU MK2 "
        "platform the minimum length is also the maximum length",
    ),
    "random": (
        lambda x: torch._fused_dropout(x, 0.5),
        r"Unsupported ops found in compiled model: \[aten::_fused_dropout\]",
    ),
    "copy": (
        lambda x: copy.copy(x * 2),
        r"copy\.copy or pickle .* of shape \[3, 4\] .*Use tensor\.clone\(\)",
    ),
    "mode": (_counts_ops, r"\[_FlopCounterMode\] is a TorchDispatchMode .* TorchFunctionMode"),
    "mode of torch's": (_fakes, r"\[FakeTensorMode\] is a TorchDispatchMode that begins inside"),
    "bytes": (
        lambda x: x.view(torch.int32),
        r"\[aten::view.dtype\] the bytes of a tensor .*Convert the numbers with to\(dtype\)",
    ),
    "old_norm": (
        lambda x: nn.CrossMapLRN2d(3)(x.reshape(1, 3, 2, 2)),
        r"\[CrossMapLRN2d\] is not supported .*Use nn\.LocalResponseNorm",
    ),
    "sparse": (
        lambda x: torch.sparse_coo_tensor(x[:2].long(), x[0]).to_dense(),
        r"\[aten::sparse_coo_tensor\] the value of a tensor is needed on the host",
    ),
    "expanded_write": (lambda x: x[:, :1].expand(3, 4).add_(1), "share memory"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_line_and_cure(name):
    function, text = REFUSED[name]
    with pytest.raises(poptorch.Error, match=text) as error:
        poptorch.inferenceModel(function)(torch.randn(3, 4))
    assert re.search(r"test_tracer_errors\.py:\d+", error.value.message), error.value.message


class Buffered(nn.Module):
    def __init__(self, change):
        super().__init__()
        self.register_buffer("y", torch.ones(4))
        self.w = nn.Parameter(torch.ones(4))
        self.change = change

    def forward(self, x):
        self.change(self)
        return x + self.y if hasattr(self, "y") else x


def _reassign(m):
    m.y = m.y + 1


def _remove(m):
    del m.y


def _reassign_parameter(m):
    m.w = nn.Parameter(torch.ones(4) * 2)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (_reassign, "Buffer y is reassigned within the model when calling the forward method"),
        (_remove, "Buffer y is removed from the model when calling the"),
        (_reassign_parameter, "Parameter w is reassigned within the model when calling"),
    ],
)
def test_members_stay(change, text):
    model = Buffered(change)
    before = dict(model.state_dict())
    with pytest.raises(poptorch.Error, match=text):
        poptorch.inferenceModel(model)(torch.randn(4))
    assert model.state_dict().keys() == before.keys()
    assert all(torch.equal(model.state_dict()[name], before[name]) for name in before)


def test_parameter_written_with_gradients_is_refused():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(4))

        def forward(self, x):
            self.w.mul_(2)
            return poptorch.identity_loss((x * self.w).sum(), "none")

    with pytest.raises(poptorch.Error, match="parameter 'w' is written in place.*torch.no_grad"):
        poptorch.trainingModel(Model())(torch.randn(4))


def test_a_constant_without_values_is_refused():
    missing = torch.eye(3, device="meta")
    with pytest.raises(poptorch.Error, match=r"a constant \(.*\) is a meta tensor"):
        poptorch.inferenceModel(lambda x: missing * x)(torch.ones(1))


def test_model_is_unharmed_by_a_failed_trace():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    x = torch.randn(3, 4)
    expected = model(x)

    def fail(module, inputs, output):
        return output * output.sum().item()

    handle = model[1].register_forward_hook(fail)
    with pytest.raises(poptorch.Error, match=r"\.item\(\)"):
        poptorch.inferenceModel(model)(x)
    handle.remove()
    assert model[0].weight.device.type == "cpu"
    torch.testing.assert_close(model(x), expected)
    assert model[1].num_batches_tracked == 2


def test_a_mode_around_the_call_sees_none_of_the_trace():
    x = torch.randn(3, 4)
    with FlopCounterMode(display=False) as counter:
        found = poptorch.inferenceModel(lambda x: x @ x.t() * 2)(x)
    torch.testing.assert_close(found, x @ x.t() * 2)
    assert counter.get_total_flops() == 0


def test_scripts_that_do_not_compile_leave_no_trace():
    def scripted(x):
        with pytest.raises(RuntimeError):
            torch.jit.script(_unscriptable)
        return torch.jit.script(_scriptable)(x)

    x = torch.randn(3, 4)
    for _ in range(2):
        torch.testing.assert_close(poptorch.inferenceModel(scripted)(x), x * 2)


def _scriptable(x):
    return x * 2


def _unscriptable(x):
    return x.no_such_method()
