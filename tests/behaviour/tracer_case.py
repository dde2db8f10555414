"""Runs a model through one training step here and in eager torch, and compares everything.

It compares outputs, every buffer, and every parameter after plain SGD, which shows its gradient.
"""

import copy

import poptorch
import torch


def seeded(make):
    """Returns the result of `make` with the same seed every time."""
    torch.manual_seed(7)
    return make()


class Scored(torch.nn.Module):
    """Adds a loss in which every element of every float output has a different weight."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        outputs = self.model(*inputs)
        outputs = tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)
        return outputs, poptorch.identity_loss(self.score(outputs), "none")

    @staticmethod
    def score(outputs):
        terms = []
        for output in outputs:
            if output.is_floating_point():
                weights = torch.linspace(0.5, 1.5, output.numel()).reshape(output.shape)
                terms.append((output.float() * weights).sum())
        return sum(terms)


def _narrow(tensor):
    types = {torch.int64: torch.int32, torch.float64: torch.float32}
    types |= {torch.float8_e4m3fn: torch.float32, torch.float8_e5m2: torch.float32}
    return tensor.detach().to(types.get(tensor.dtype, tensor.dtype))


def _assert_same(what, ours, eager, tolerance):
    torch.testing.assert_close(
        _narrow(ours),
        _narrow(eager),
        rtol=tolerance,
        atol=tolerance,
        equal_nan=True,
        msg=lambda text: f"{what}: {text}",
    )


def compare_training(model, *inputs, tolerance=2e-5, steps=1, micro_batches=1):
    """Runs `steps` training steps, and compares every output, parameter and buffer after each.

    `micro_batches`: how often a step gets the inputs.
    """
    eager = Scored(copy.deepcopy(model)).train(model.training)
    wrapped_model = Scored(model).train(model.training)
    optimizer = torch.optim.SGD(wrapped_model.parameters(), lr=0.1)
    options = poptorch.Options()
    options.Training.gradientAccumulation(micro_batches)
    ours = poptorch.trainingModel(wrapped_model, options, optimizer)
    eager_optimizer = torch.optim.SGD(eager.parameters(), lr=0.1)
    for step in range(steps):
        given = inputs if micro_batches == 1 else [torch.cat([i] * micro_batches) for i in inputs]
        outputs, loss = ours(*given)
        eager_optimizer.zero_grad()
        for _ in range(micro_batches):
            eager_outputs, eager_loss = eager(*[i.clone() for i in inputs])
            (eager_loss / micro_batches).backward()
        eager_optimizer.step()
        ours.copyWeightsToHost()
        _assert_same(f"loss of step {step}", loss, eager_loss, tolerance)
        assert len(outputs) == len(eager_outputs)
        for i, (a, b) in enumerate(zip(outputs, eager_outputs, strict=True)):
            _assert_same(f"output {i} of step {step}", a, b, tolerance)
        state = wrapped_model.state_dict()
        assert state.keys() == eager.state_dict().keys()
        for name, value in eager.state_dict().items():
            _assert_same(f"{name} after step {step}", state[name], value, tolerance)
    ours.destroy()


def compare_inference(model, *inputs, tolerance=2e-5, steps=1):
    """Runs `steps` inferences, and compares the outputs."""
    eager = copy.deepcopy(model) if isinstance(model, torch.nn.Module) else model
    ours = poptorch.inferenceModel(model)
    with torch.no_grad():
        for step in range(steps):
            outputs, expected = ours(*inputs), eager(*[i.clone() for i in inputs])
            if isinstance(expected, torch.Tensor):
                outputs, expected = (outputs,), (expected,)
            for i, (a, b) in enumerate(zip(outputs, expected, strict=True)):
                _assert_same(f"output {i} of step {step}", a, b, tolerance)
    ours.destroy()
