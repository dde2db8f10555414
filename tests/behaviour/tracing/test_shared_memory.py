"""Results of operators share memory with the operands as in eager torch, also where gradients flow.

`tests/survey/test_aliases.py` tests the operators of torch's tables.
"""

import copy

import poptorch
import pytest
import torch
import torch.nn.functional as F
from behaviour.tracer_case import compare_training


def _own_dropout(x):
    return torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Identity()).eval()(x)


def _as_complex(x):
    return torch.view_as_complex(x.reshape(-1, 2))


ITSELF = {
    "dropout outside training": lambda x: F.dropout(x, 0.5, False),
    "module of dropout": _own_dropout,
    "dropout of nothing": lambda x: F.dropout(x, 0.0, True),
    "dropout of channels": lambda x: F.dropout1d(x, 0.5, False),
    "alpha dropout": lambda x: F.alpha_dropout(x, 0.5, False),
    "feature alpha dropout": lambda x: F.feature_alpha_dropout(x, 0.5, False),
    "positive": torch.positive,
    "plus": lambda x: +x,
    "cpu": lambda x: x.cpu(),
    "to another device": lambda x: x.to("cpu"),
    "to its device": lambda x: x.to(x.device),
    "to its type": lambda x: x.to(x.dtype),
    "to its type and a device": lambda x: x.to("cpu", torch.float32, non_blocking=True),
    "to another tensor": lambda x: x.to(torch.zeros(1)),
    "type_as": lambda x: x.type_as(torch.zeros(1, device=x.device)),
    "contiguous": lambda x: x.contiguous(),
    "contiguous in a format": lambda x: x.contiguous(memory_format=torch.contiguous_format),
    "reshape": lambda x: x.reshape(-1),
    "expand_as": lambda x: x.expand_as(x),
    "flatten": lambda x: x.flatten(),
    "ravel": lambda x: x.ravel(),
    "real": torch.real,
    "conj of real numbers": torch.conj,
    "resolve_conj": lambda x: x.resolve_conj(),
    "cartesian product of one": lambda x: torch.cartesian_prod(x.view(-1)),
}
VIEWS = {
    "complex": _as_complex,
    "real part": lambda x: _as_complex(x).real,
    "imaginary part": lambda x: torch.imag(_as_complex(x)),
    "complex and back": lambda x: torch.view_as_real(_as_complex(x)),
    "conjugate": lambda x: _as_complex(x).conj(),
    "a part of the conjugate": lambda x: _as_complex(x).conj()[1:],
    "imaginary part of the conjugate": lambda x: _as_complex(x).conj().imag,
    "adjoint": lambda x: _as_complex(x).reshape(2, 2).mH,
    "conjugate twice": lambda x: _as_complex(x).conj().conj(),
}
UNTRACKED = {
    "unsafe_chunk": lambda x: x.unsafe_chunk(2)[0],
    "unsafe_split": lambda x: x.unsafe_split(1)[1],
    "unsafe_split by sizes": lambda x: x.unsafe_split_with_sizes([1, 3], 1)[1],
    "_unsafe_view": lambda x: torch.ops.aten._unsafe_view(x, [-1]),
}
COPIES = {
    "dropout of all": lambda x: F.dropout(x, 1.0, True),
    "to, as a copy": lambda x: x.to(x.dtype, copy=True),
    "to another type": lambda x: x.to(torch.float16),
    "to another type and back": lambda x: x.double().float(),
    "clone": lambda x: x.clone(),
    "contiguous of a transpose": lambda x: x.t().contiguous(),
    "reshape of a transpose": lambda x: x.t().reshape(-1),
    "physical conjugate": lambda x: torch.conj_physical(_as_complex(x)),
    "resolved conjugate": lambda x: _as_complex(x).conj().resolve_conj(),
}
ALL = ITSELF | VIEWS | UNTRACKED | COPIES
SHAPE = 2, 4


def _real(x):
    return torch.view_as_real(x.resolve_conj()) if x.is_complex() else x * 1


class Writes(torch.nn.Module):
    """Writes the result of an operator, or its operand, and returns both."""

    def __init__(self, function, which):
        super().__init__()
        self.function, self.which = function, which
        self.weight = torch.nn.Parameter(torch.arange(8.0).reshape(SHAPE) / 4 - 1)

    def forward(self, x):
        operand = self.weight * x
        result = self.function(operand)
        written = result if self.which == "result" else operand
        written.mul_(3)
        written.add_(1)
        return _real(result), _real(operand)


@pytest.mark.shared
@pytest.mark.parametrize("which", ["result", "operand"])
@pytest.mark.parametrize("name", ALL)
def test_writes_and_gradients(name, which):
    compare_training(Writes(ALL[name], which), torch.full(SHAPE, 0.5))


@pytest.mark.parametrize("name", ITSELF)
def test_an_input_is_written_through(name):
    def forward(x):
        ITSELF[name](x).mul_(3)
        return x * 1

    given = torch.arange(8.0).reshape(SHAPE)
    ours, eager = copy.deepcopy(given), copy.deepcopy(given)
    torch.testing.assert_close(poptorch.inferenceModel(forward)(ours), forward(eager))
    torch.testing.assert_close(ours, eager)


@pytest.mark.parametrize("name", ITSELF)
def test_a_buffer_is_written_through(name):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("state", torch.arange(8.0).reshape(SHAPE))

        def forward(self, x):
            ITSELF[name](self.state).add_(1)
            return self.state * x

    eager = Model()
    ours = poptorch.inferenceModel(copy.deepcopy(eager))
    for _ in range(2):
        x = torch.ones(SHAPE)
        torch.testing.assert_close(ours(x), eager(x))


def test_a_conversion_to_the_callers_type_is_the_input():
    def forward(ids):
        same = ids.long()
        same[same < 0] = 0
        return ids * 2

    ours = torch.tensor([-1, 2, -3])
    assert poptorch.inferenceModel(forward)(ours).tolist() == [0, 4, 0]
    assert ours.tolist() == [0, 2, 0]


def test_a_conversion_of_an_input_of_32_bits_is_a_copy():
    def forward(ids):
        ids.long().zero_()
        return ids * 2

    ours = torch.tensor([1, 2], dtype=torch.int32)
    assert poptorch.inferenceModel(forward)(ours).tolist() == [2, 4]
    assert ours.tolist() == [1, 2]
