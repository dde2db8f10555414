"""Norms and softmax as users write them, on rows that the emulator joins into one kernel."""

import contextlib
import copy

import poptorch
import pytest
import torch
import torch.nn as nn

from tests.behaviour.tracer_case import compare_training

WIDTH = 640


class WrittenNorms(nn.Module):
    """An RMS norm, a layer norm and a softmax, each written out, on these IPUs if any are named."""

    def __init__(self, ipus: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.ipus = ipus
        self.first, self.last = nn.Linear(8, WIDTH), nn.Linear(WIDTH, 4)
        self.scale, self.shift = nn.Parameter(torch.rand(WIDTH)), nn.Parameter(torch.rand(WIDTH))

    def block(self, index: int) -> contextlib.AbstractContextManager:
        return poptorch.Block(ipu_id=self.ipus[index]) if self.ipus else contextlib.nullcontext()

    def forward(self, x, target=None):
        with self.block(0):
            x = self.first(x)
            x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scale
        with self.block(1):
            centred = x - x.mean(-1, keepdim=True)
            variance = centred.square().mean(-1, keepdim=True)
            x = centred / torch.sqrt(variance + 1e-5) + self.shift
            e = torch.exp(x - x.amax(-1, keepdim=True))
        with self.block(2):
            x = x * (e / e.sum(-1, keepdim=True))
            y = self.last(x / x.norm(dim=-1, keepdim=True).clamp(min=1e-6))
            if target is None:
                return y
            return y, poptorch.identity_loss((y - target).square(), reduction="mean")


def data(micro_batches: int, dtype: torch.dtype) -> list[torch.Tensor]:
    """Returns features and targets of 256 rows for each micro-batch."""
    shape = (4 * micro_batches, 64)
    return [torch.randn(*shape, n).to(dtype) for n in (8, 4)]


def test_values_and_gradients_are_those_of_eager_torch():
    compare_training(WrittenNorms(), data(1, torch.float32)[0], tolerance=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_bits_do_not_depend_on_the_placement(dtype):
    """Other rows are joined on each IPU, and nothing on the host changes a bit."""
    torch.manual_seed(5)
    weights = WrittenNorms().to(dtype).state_dict()
    inputs = data(5, dtype)
    runs = []
    for ipus in ((), (0, 1, 1), (0, 1, 2)):
        model = WrittenNorms(ipus).to(dtype)
        model.load_state_dict(copy.deepcopy(weights))
        options = poptorch.Options()
        options.Training.gradientAccumulation(5)
        options.outputMode(poptorch.OutputMode.All).autoRoundNumIPUs(True)
        wrapped = poptorch.trainingModel(
            model, options, optimizer=poptorch.optim.SGD(model.parameters(), lr=0.1)
        )
        outputs = [wrapped(*inputs)[0] for _ in range(2)]
        wrapped.copyWeightsToHost()
        runs.append([*outputs, *model.state_dict().values()])
    for other in runs[1:]:
        for ours, first in zip(other, runs[0], strict=True):
            assert torch.equal(ours, first)
