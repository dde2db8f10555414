"""Cells that forward calls once per step: their values, gradients, messages and number of ops."""

import poptorch
import pytest
import torch
from poptorch._impl.trace import session
from torch import nn
from tracer_case import compare_training

KINDS = {"lstm": nn.LSTMCell, "gru": nn.GRUCell, "rnn": nn.RNNCell}


class Unrolled(nn.Module):
    """Runs a cell over the steps of a sequence, and returns its last state."""

    def __init__(self, kind, bias=True, size=6):
        super().__init__()
        self.cell, self.is_lstm = KINDS[kind](5, size, bias=bias), kind == "lstm"

    def forward(self, x):
        zeros = torch.zeros(x.shape[0], self.cell.hidden_size, dtype=x.dtype)
        state = (zeros, zeros + 0.5) if self.is_lstm else zeros
        for step in range(x.shape[1]):
            state = self.cell(x[:, step], state)
        return state


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_cell_computes_what_torch_computes(kind, bias):
    compare_training(Unrolled(kind, bias), torch.randn(3, 4, 5))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_a_cell_of_half_numbers_rounds_as_in_torch(kind, dtype):
    torch.manual_seed(3)
    model, x = Unrolled(kind).to(dtype), torch.randn(3, 4, 5).to(dtype)
    found, expected = poptorch.inferenceModel(model)(x), model(x)
    torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize(("kind", "most"), [("lstm", 18), ("gru", 20)])
def test_a_cell_writes_no_gate_in_place(kind, most):
    def ops(steps):
        model = Unrolled(kind)
        text = session.trace(lambda x: list(model(*x)), model, [torch.randn(3, steps, 5)])
        assert "insert_slice" not in text
        return text.count(" = ")

    assert ops(5) - ops(4) <= most


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_torch_reports_shapes_that_do_not_fit(kind):
    cell = KINDS[kind](5, 6)
    zeros = torch.zeros(2, 6)
    state = (zeros, zeros) if kind == "lstm" else zeros
    with pytest.raises(Exception, match="doesn.t match hidden0? batch size"):
        poptorch.inferenceModel(cell)(torch.randn(3, 5), state)
