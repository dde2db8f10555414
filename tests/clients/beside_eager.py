"""Trains a model on the device and in eager torch, and compares the results.

A model gives (scores, loss) for a batch: a tuple of tensors, or a dictionary of keyword arguments.
"""

import copy
import os

import poptorch
import torch

if os.environ.get("POPTORCH_MAX_CPU_ISA") == "AVX2":
    # Otherwise eager torch rounds with other kernels than those under test.
    assert torch.backends.cpu.get_cpu_capability() != "AVX512", "set ATEN_CPU_CAPABILITY=avx2"


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
    """Returns the micro-batches of a weight update, in the order in which the device takes them."""
    if isinstance(batch, dict):
        values = zip(*(value.chunk(count) for value in batch.values()), strict=True)
        return [dict(zip(batch, part, strict=True)) for part in values]
    return list(zip(*(value.chunk(count) for value in batch), strict=True))


def eager_step(model, optimiser, batch, count=1):
    """Returns scores and losses of all micro-batches, after training by their mean loss."""
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
    """Returns all parameters as one vector."""
    return torch.cat([parameter.detach().float().flatten() for parameter in model.parameters()])


def assert_same_state(found, expected, rtol, atol):
    """Compares each tensor of `expected` with the tensor of that path in `found`."""
    for path, tensor in expected.items():
        torch.testing.assert_close(
            found[path], tensor, rtol=rtol, atol=atol, msg=lambda text, p=path: f"{p}: {text}"
        )


def error_of_way(model, eager, before):
    """Returns the distance of the parameters from eager's, relative to the change of eager's."""
    return (flat(model) - flat(eager)).norm() / (flat(eager) - before).norm()


def assert_same_weights(model, eager, before, rtol, atol):
    """Checks that parameters and buffers are equal, and that parameters changed equally since
    `before`."""
    assert_same_state(model.state_dict(), eager.state_dict(), rtol, atol)
    assert error_of_way(model, eager, before) <= 10 * rtol


def assert_trains_as_eager(model, batch, options=None, count=1, steps=10, rtol=1e-3, atol=1e-4):
    """Compares scores and losses of each step, and weights, with eager's. Returns the wrapped
    model."""
    eager = copy.deepcopy(model)
    optimiser = sgd(eager)
    wrapped = poptorch.trainingModel(model, options or options_of(count), sgd(model))
    before = flat(eager)
    for _ in range(steps):
        assert_step_is_eagers(wrapped, eager, optimiser, batch, count, rtol, atol)
    assert_same_weights(model, eager, before, rtol, atol)
    return wrapped


def assert_steps_are_eagers(model, batch, options=None, count=1, kinks=0, rtol=1e-3, atol=1e-4):
    """Compares each of ten steps from eager's weights. Returns the wrapped model.

    For models that amplify rounding errors so much that ten consecutive steps would measure only
    that. Compares scores, losses, buffers and weights at each step. But `kinks` steps may differ by
    a tenth of the change: where the input of a ReLU is within rounding of zero, one rounding has a
    gradient there and another has not.
    """
    eager = copy.deepcopy(model)
    optimiser = sgd(eager)
    wrapped = poptorch.trainingModel(model, options or options_of(count), sgd(model))
    different = []
    for step in range(10):
        if step:
            model.load_state_dict(eager.state_dict())
            wrapped.copyWeightsToDevice()
        before = flat(eager)
        assert_step_is_eagers(wrapped, eager, optimiser, batch, count, rtol, atol)
        assert_same_state(dict(model.named_buffers()), dict(eager.named_buffers()), rtol, atol)
        try:
            assert_same_weights(model, eager, before, rtol, atol)
        except AssertionError as error:
            different.append(error)
            assert error_of_way(model, eager, before) <= 0.1
    if len(different) > kinks:
        raise different[-1]
    return wrapped


def assert_step_is_eagers(wrapped, eager, optimiser, batch, count, rtol, atol):
    """Makes a step in both, and compares scores and losses."""
    scores, losses = eager_step(eager, optimiser, batch, count)
    found = call(wrapped, batch)
    torch.testing.assert_close(found[0], scores, rtol=rtol, atol=atol)
    torch.testing.assert_close(found[1].reshape(-1), losses, rtol=0.1 * rtol, atol=0.1 * atol)


def assert_infers_as_eager(model, batch, rtol=1e-3, atol=1e-4):
    """Compares results in evaluation mode. Returns the wrapped model."""
    model.eval()
    with torch.no_grad():
        expected = call(copy.deepcopy(model), batch)
    wrapped = poptorch.inferenceModel(model)
    for found, wanted in zip(call(wrapped, batch), expected, strict=True):
        torch.testing.assert_close(found.reshape(wanted.shape), wanted, rtol=rtol, atol=atol)
    return wrapped
