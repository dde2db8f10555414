"""float16 training follows torch's float32 training; loss scaling preserves gradients too small for
float16.
"""

import copy

import half_precision
import poptorch
import pytest
import torch


def batches(steps, size=16):
    torch.manual_seed(3)
    centres = 2 * torch.randn(4, 8)
    for _ in range(steps):
        labels = torch.randint(4, (size,))
        yield (centres[labels] + torch.randn(size, 8)).half(), labels


def eager_losses(model, steps, optimizer, accumulated=1):
    losses = []
    for x, labels in batches(steps, 16 * accumulated):
        optimizer.zero_grad()
        parts = zip(x.float().chunk(accumulated), labels.chunk(accumulated), strict=True)
        parts = torch.stack([model(*part)[1] for part in parts])
        parts.mean().backward()
        optimizer.step()
        losses.append(parts.detach().mean())
    return torch.stack(losses)


def device_losses(model, options, optimizer, steps, accumulated=1):
    device = poptorch.trainingModel(half_precision.halved(model), options, optimizer)
    losses = []
    for x, labels in batches(steps, 16 * accumulated):
        scores, loss = device(x, labels)
        assert scores.dtype == torch.float16 and loss.dtype == torch.float32
        losses.append(loss.mean())
    return torch.stack(losses), device


@pytest.mark.shared
@pytest.mark.parametrize("automatic", [False, True], ids=["fixed", "automatic"])
@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_losses_are_those_of_float32(kind, automatic):
    torch.manual_seed(0)
    model = half_precision.Network()
    eager = copy.deepcopy(model)
    peer = {
        "adam": torch.optim.AdamW(eager.parameters(), lr=1e-2, weight_decay=0.01),
        "sgd": torch.optim.SGD(eager.parameters(), lr=0.05, momentum=0.5),
    }[kind]
    expected = eager_losses(eager, 30, peer, 2)
    optimizer = getattr(half_precision, kind)(model, 1.0 if automatic else 128.0)
    options = half_precision.training_options(2, automatic)
    losses, device = device_losses(model, options, optimizer, 30, 2)
    torch.testing.assert_close(losses, expected, rtol=3e-2, atol=1e-2)
    assert losses[-1] < 0.3 * losses[0]
    assert {p.dtype for p in model.parameters()} == {torch.float16, torch.float32}
    assert model.second.weight.dtype == torch.float16
    torch.testing.assert_close(
        model.second.weight.float(), eager.second.weight, rtol=5e-2, atol=2e-2
    )


def moved(loss_scaling):
    """Returns the change of the first layer's weights with gradients near 1e-8, too small for
    float16."""
    torch.manual_seed(0)
    model = half_precision.Network(scale=2.0**-20)
    before = model.first.weight.detach().half().float()
    eager = copy.deepcopy(model)
    optimizer = torch.optim.SGD(eager.parameters(), lr=2.0**18, momentum=0.5)
    eager_losses(eager, 3, optimizer)
    ours = half_precision.sgd(model, loss_scaling, lr=2.0**18)
    device_losses(model, half_precision.training_options(), ours, 3)
    return model.first.weight.detach().float() - before, eager.first.weight.detach() - before


def test_loss_scaling_saves_gradients_that_float16_has_not():
    found, expected = moved(1.0)
    assert found.abs().sum() < 0.5 * expected.abs().sum()
    found, expected = moved(2.0**16)
    assert (found - expected).norm() < 0.02 * expected.norm()


def test_the_scale_may_change_between_steps():
    torch.manual_seed(0)
    model = half_precision.Network()
    peer = copy.deepcopy(model)
    optimizer = half_precision.sgd(model, 4.0)
    device = poptorch.trainingModel(
        half_precision.halved(model), half_precision.training_options(), optimizer
    )
    fixed = poptorch.trainingModel(
        half_precision.halved(peer), half_precision.training_options(), half_precision.sgd(peer)
    )
    for step, batch in enumerate(batches(6)):
        optimizer.loss_scaling = 2.0 ** (2 * step)
        device.setOptimizer(optimizer)
        torch.testing.assert_close(device(*batch)[1], fixed(*batch)[1], rtol=1e-2, atol=1e-3)
