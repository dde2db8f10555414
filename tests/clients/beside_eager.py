"""Trains a model on the device and, beside it, in eager torch, and compares what both find.

A model gives (scores, loss) of a batch: a tuple of tensors, or a dictionary of keyword arguments.
"""

import copy

import poptorch
import torch


def call(model, batch):
    return model(**batch) if isinstance(batch, dict) else model(*batch)


def converted(batch, dtype):
    """The floating tensors of a batch as `dtype`."""

    def of(value):
        return value.to(dtype) if value.is_floating_point() else value

    if isinstance(batch, dict):
        return {key: of(value) for key, value in batch.items()}
    return tuple(of(value) for value in batch)


def micro_batches(batch, count):
    """The parts that the device takes one after the other for a weight update."""
    if isinstance(batch, dict):
        values = zip(*(value.chunk(count) for value in batch.values()), strict=True)
        return [dict(zip(batch, part, strict=True)) for part in values]
    return list(zip(*(value.chunk(count) for value in batch), strict=True))


def eager_step(model, optimiser, batch, count=1):
    """Scores and losses of all micro-batches, whose mean loss is trained."""
    optimiser.zero_grad()
    found = []
    for part in micro_batches(batch, count):
        scores, loss = call(model, part)
        (loss / count).backward()
        found.append((scores.detach(), loss.detach().reshape(1)))
    optimiser.step()
    scores, losses = zip(*found, strict=True)
    return torch.cat(scores), torch.cat(losses)


def sgd(model, lr=0.01):
    return torch.optim.SGD(model.parameters(), lr=lr)


def options_of(count=1):
    options = poptorch.Options().showCompilationProgressBar(False)
    options.Training.gradientAccumulation(count)
    return options.outputMode(poptorch.OutputMode.All)


def flat(model):
    """All parameters as one vector."""
    return torch.cat([parameter.detach().float().flatten() for parameter in model.parameters()])


def assert_same_weights(model, eager, before, rtol, atol):
    """Parameters and buffers are the same, and parameters have gone the same way since `before`."""
    state = model.state_dict()
    for path, expected in eager.state_dict().items():
        torch.testing.assert_close(
            state[path], expected, rtol=rtol, atol=atol, msg=lambda text, p=path: f"{p}: {text}"
        )
    way = flat(eager) - before
    assert (flat(model) - before - way).norm() <= 10 * rtol * way.norm()


def assert_trains_as_eager(
    model, batch, options=None, count=1, steps=10, forced=False, rtol=1e-3, atol=1e-4
):
    """Scores and losses of each step, and weights, are eager's. Returns the wrapped model.

    `forced`: before each step the device gets eager's weights. That is for models that make so much
    of a rounding error that ten steps would measure that alone.
    """
    eager = copy.deepcopy(model)
    optimiser = sgd(eager)
    wrapped = poptorch.trainingModel(model, options or options_of(count), sgd(model))
    before = flat(eager)
    for step in range(steps):
        if forced and step:
            assert_same_weights(model, eager, before, rtol, atol)
            before = flat(eager)
            model.load_state_dict(eager.state_dict())
            wrapped.copyWeightsToDevice()
        scores, losses = eager_step(eager, optimiser, batch, count)
        found = call(wrapped, batch)
        torch.testing.assert_close(found[0], scores, rtol=rtol, atol=atol)
        torch.testing.assert_close(found[1].reshape(-1), losses, rtol=0.1 * rtol, atol=0.1 * atol)
    assert_same_weights(model, eager, before, rtol, atol)
    return wrapped


def assert_infers_as_eager(model, batch, rtol=1e-3, atol=1e-4):
    """What a model in evaluation mode gives. Returns the wrapped model."""
    model.eval()
    with torch.no_grad():
        expected = call(copy.deepcopy(model), batch)
    wrapped = poptorch.inferenceModel(model)
    for found, wanted in zip(call(wrapped, batch), expected, strict=True):
        torch.testing.assert_close(found.reshape(wanted.shape), wanted, rtol=rtol, atol=atol)
    return wrapped
