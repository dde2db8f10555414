"""Tests the scaling of losses and velocities, and the clipping of gradients by their norm."""

import copy
import math

import poptorch
import pytest
import torch
from fed_model import SHAPES, TOLERANCE, Fed, gradients, relative


@pytest.mark.shared
@pytest.mark.parametrize("scale", [1.0, 64.0, 3.0])
@pytest.mark.parametrize(
    "more", [{}, {"nesterov": True}, {"dampening": 0.3, "weight_decay": 0.1, "maximize": True}]
)
def test_the_combined_buffer_holds_scaled_velocities(scale, more, steps):
    torch.manual_seed(12)
    model = Fed()
    eager = copy.deepcopy(model)
    arguments = {"lr": 0.01, "momentum": 0.9, **more}
    optimiser = poptorch.optim.SGD(
        model.parameters(),
        use_combined_accum=True,
        velocity_scaling=scale,
        loss_scaling=8.0,
        **arguments,
    )
    reference = torch.optim.SGD(eager.parameters(), foreach=False, **arguments)
    wrapped = poptorch.trainingModel(model, optimizer=optimiser)
    for step in range(steps):
        if step == steps // 2:  # the contents of the buffers follow
            optimiser.param_groups[0]["velocity_scaling"] = scale * 4
            wrapped.setOptimizer(optimiser)
        given = gradients()
        for parameter, gradient in zip(eager.weights, given, strict=True):
            parameter.grad = gradient.clone()
        reference.step()
        wrapped(*given)
    held = optimiser.state_dict()["ipu_state"]
    for name, parameter in eager.named_parameters():
        assert relative(model.state_dict()[name], parameter.detach()) < TOLERANCE
        velocity = reference.state[parameter]["momentum_buffer"]
        assert relative(held["Accl___" + name], velocity * scale * 4) < TOLERANCE


class Scaled(torch.nn.Module):
    """A model with float16 weights, whose gradients are of size `size`, summed over the batch."""

    def __init__(self, model, size):
        super().__init__()
        self.model = model
        self.size = size

    def forward(self, *inputs):
        products = [
            (weight * given[0].half().reshape(weight.shape)).sum()
            for weight, given in zip(self.model.weights, inputs, strict=True)
        ]
        return poptorch.identity_loss(sum(products).float() * self.size, reduction="none")


@pytest.mark.parametrize("scale, kept", [(1.0, 0.0), (2.0**12, 1e-8)])
def test_scaled_velocities_do_not_vanish_in_float16(scale, kept):
    model = Fed()
    optimiser = poptorch.optim.SGD(
        model.parameters(),
        lr=0.1,
        momentum=0.9,
        use_combined_accum=True,
        velocity_scaling=scale,
        velocity_accum_type=torch.float16,
    )
    poptorch.trainingModel(model, optimizer=optimiser)(*[torch.full(s, 1e-8) for s in SHAPES])
    velocity = optimiser.state_dict()["ipu_state"]["Accl___layers.0.weight"].float() / scale
    torch.testing.assert_close(velocity, torch.full(SHAPES[0], kept), rtol=1e-2, atol=0.0)


@pytest.mark.parametrize("variable", [True, False], ids=["variable", "constant"])
@pytest.mark.parametrize("scale", [2.0**15, 2.0**17])
@pytest.mark.parametrize("accumulated", [torch.float16, torch.float32])
def test_scaled_gradients_are_divided_in_float32(accumulated, scale, variable):
    """float16 cannot hold gradients of 1e-9 or scales from 2^16 on, but their products."""
    model = Fed()
    for weight in model.weights:
        torch.nn.init.zeros_(weight)
    optimiser = poptorch.optim.SGD(
        model.half().parameters(),
        lr=1e6,
        momentum=0.5,
        loss_scaling=scale,
        use_combined_accum=False,
        accum_type=accumulated,
        velocity_accum_type=torch.float32,
    )
    if not variable:
        optimiser.variable_attrs.markAsConstant("loss_scaling")
    options = poptorch.Options()
    options.Training.gradientAccumulation(2)
    wrapped = poptorch.trainingModel(Scaled(model, 1e-9), options, optimiser)
    wrapped(*[torch.ones(2, *shape or (1,)) for shape in SHAPES])
    for weight in model.weights:
        torch.testing.assert_close(weight.float(), torch.full_like(weight, -1e-3).float())


def test_velocities_are_scaled_in_float32():
    """float16 can hold neither the scale nor the scaled gradients; the buffer can."""
    model = Fed().half()
    start = copy.deepcopy(model)
    optimiser = poptorch.optim.SGD(
        model.parameters(),
        lr=0.5,
        momentum=0.5,
        use_combined_accum=True,
        velocity_scaling=2.0**20,
        velocity_accum_type=torch.float32,
    )
    poptorch.trainingModel(Scaled(model, 1.0), optimizer=optimiser)(
        *[torch.ones(1, *shape or (1,)) for shape in SHAPES]
    )
    for weight, before in zip(model.weights, start.weights, strict=True):
        torch.testing.assert_close(weight.detach(), before.detach() - 0.5, rtol=1e-3, atol=1e-3)


def test_half_gradients_are_clipped_in_float32():
    """limit / norm is too small for float16."""
    model = Fed().half()
    for weight in model.weights:
        torch.nn.init.zeros_(weight)
    optimiser = poptorch.optim.SGD(model.parameters(), lr=1e6, max_grad_norm=1e-4)
    poptorch.trainingModel(Scaled(model, 1.0), optimizer=optimiser)(
        *[torch.full((1, *(shape or (1,))), 1e4) for shape in SHAPES]
    )
    count = sum(weight.numel() for weight in model.weights)
    for weight in model.weights:
        expected = torch.full_like(weight, -1e6 * 1e-4 / count**0.5).float()
        torch.testing.assert_close(weight.detach().float(), expected, rtol=1e-3, atol=0.0)


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW"])
@pytest.mark.parametrize("norm", [0.05, 3.0])
def test_max_grad_norm_clips_as_torch_does(kind, norm):
    torch.manual_seed(7)
    model = Fed()
    eager = copy.deepcopy(model)
    optimiser = getattr(poptorch.optim, kind)(model.parameters(), lr=0.01, max_grad_norm=norm)
    reference = getattr(torch.optim, kind)(eager.parameters(), lr=0.01)
    wrapped = poptorch.trainingModel(model, optimizer=optimiser)
    clipped = 0
    for _ in range(50):
        given = gradients()
        for parameter, gradient in zip(eager.weights, given, strict=True):
            parameter.grad = gradient.clone()
        clipped += torch.nn.utils.clip_grad_norm_(eager.parameters(), norm).item() > norm
        reference.step()
        wrapped(*given)
    assert 0 < clipped
    for ours, theirs in zip(model.weights, eager.weights, strict=True):
        assert relative(ours.detach(), theirs.detach()) < 1e-5


def test_a_norm_that_is_no_number_is_an_error():
    model = Fed()
    optimiser = poptorch.optim.SGD(model.parameters(), lr=0.01, max_grad_norm=1.0)
    wrapped = poptorch.trainingModel(model, optimizer=optimiser)
    given = gradients()
    wrapped(*given)
    given[0][0, 0] = math.nan
    with pytest.raises(poptorch.Error, match="the norm of all gradients"):
        wrapped(*given)


class WithHalf(Fed):
    """Has a float16 weight in the first layer; loss scaling follows its gradient."""

    def __init__(self):
        super().__init__()
        self.layers[0].of_half = torch.nn.Module()
        self.layers[0].of_half.weight = torch.nn.Parameter(torch.ones(1, dtype=torch.float16))

    def forward(self, of_half, *gradients):
        products = [layer(g) for layer, g in zip(self.layers, gradients, strict=True)]
        products.append((self.layers[0].of_half.weight * of_half).float().sum())
        return poptorch.identity_loss(sum(products), reduction="none")


def scaled(model, lr=0.5):
    options = poptorch.Options()
    options.Training.setAutomaticLossScaling(True)
    options.anchorTensor("scale", "finalLossScale")
    optimiser = poptorch.optim.Adam(model.parameters(), lr=lr, loss_scaling=2.0)
    return poptorch.trainingModel(model, options, optimiser), optimiser


def test_automatic_loss_scaling_follows_the_gradients_and_changes_no_update(world):
    torch.manual_seed(8)
    model = WithHalf()
    eager = copy.deepcopy(model)
    wrapped, _ = scaled(model, 0.01)
    reference = torch.optim.Adam(eager.parameters(), lr=0.01)
    scales = []
    for size in [1.0] * 15 + [16.0] * 6:
        given = [g.sign() * size for g in gradients()]
        wrapped(torch.tensor([size]).half(), *given)
        scales.append(wrapped.getAnchoredTensor("scale").item())
        for parameter, gradient in zip(eager.weights, given, strict=True):
            parameter.grad = gradient
        reference.step()
    factors = {b / a for a, b in zip(scales, scales[1:], strict=False)}
    assert factors == {0.5, 1.0, 2.0}
    assert scales[:2] == [2.0, 4.0]  # loss_scaling, and twice that after small gradients
    # The gradients that count are sums over micro-batches and replicas, which placement
    # configurations add.
    assert scales[15] == 4 * scales[-1] and (world or scales[15] == 1024.0)
    for ours, theirs in zip(model.weights, eager.weights, strict=True):
        assert relative(ours.detach(), theirs.detach()) < 1e-5


def test_automatic_loss_scaling_follows_float16_gradients_alone():
    wrapped, optimiser = scaled(WithHalf())
    scales = []
    for of_half, of_rest in (
        (1.0, 1e6),
        (1.0, 1e6),
        (6e3, 1.0),
        (1.0, 1.0),
        (1.0, math.inf),
        (1.0, 1.0),
    ):
        held = optimiser.state_dict()["ipu_state"] or {}
        factor = held.get("lossScaleUpdateFactor", torch.tensor(1.0))
        rest = [torch.full(shape, of_rest) for shape in SHAPES]
        wrapped(torch.tensor([of_half]).half(), *rest)
        scales.append(wrapped.getAnchoredTensor("scale").item())
        assert scales[-1] == 2 * factor  # the step has used it
    assert scales == [2.0, 4.0, 8.0, 4.0, 8.0, 4.0]
    assert torch.isfinite(wrapped.model.layers[0].weight).all()


def test_automatic_loss_scaling_without_float16_gradients():
    wrapped, _ = scaled(Fed())
    for size in (1.0, 1e6, 1e-6):
        wrapped(*(torch.full(shape, size) for shape in SHAPES))
        assert wrapped.getAnchoredTensor("scale") == 2.0


class TwoBlocks(torch.nn.Module):
    """One layer on each of two IPUs."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.half_weight = torch.nn.Parameter(torch.ones(1, dtype=torch.float16))

    def forward(self, x, target):
        poptorch.Block.start("a", ipu_id=0)
        x = torch.tanh(self.first(x))
        poptorch.Block.start("b", ipu_id=1)
        x = self.second(x)
        loss = torch.nn.functional.mse_loss(x, target) + self.half_weight.sum().float()
        return x, poptorch.identity_loss(loss, reduction="none")


DIVIDED = {
    "sharded": poptorch.ShardedExecution,
    "serial": lambda: poptorch.SerialPhasedExecution(["a"], ["b"]),
    "parallel": lambda: poptorch.ParallelPhasedExecution(["a"], ["b"]),
}


@pytest.mark.parametrize("accumulation", [1, 2])
@pytest.mark.parametrize("name", DIVIDED)
def test_automatic_loss_scaling_over_several_ipus(name, accumulation):
    torch.manual_seed(9)
    model = TwoBlocks()
    eager = copy.deepcopy(model)
    options = poptorch.Options().setExecutionStrategy(DIVIDED[name]())
    options.Training.setAutomaticLossScaling(True).gradientAccumulation(accumulation)
    options.anchorTensor("scale", "finalLossScale")
    optimiser = poptorch.optim.Adam(model.parameters(), lr=0.1, loss_scaling=4.0)
    wrapped = poptorch.trainingModel(model, options, optimiser)
    reference = torch.optim.Adam(eager.parameters(), lr=0.1)
    scales = []
    for _ in range(3):
        x, target = torch.randn(2, 4 * accumulation, 4)
        wrapped(x, target)
        scales.append(wrapped.getAnchoredTensor("scale").item())
        reference.zero_grad()
        eager(x, target)[1].backward()
        reference.step()
    assert scales == [4.0, 8.0, 16.0]
    for name in ("first.weight", "first.bias", "second.weight", "second.bias"):
        ours, theirs = model.get_parameter(name), eager.get_parameter(name)
        assert relative(ours.detach(), theirs.detach()) < 1e-5


def test_automatic_loss_scaling_skips_updates_from_bad_gradients():
    model = Fed()
    wrapped, optimiser = scaled(model)
    wrapped(*gradients())
    before = {k: v.clone() for k, v in model.state_dict().items()}
    state = optimiser.state_dict()["ipu_state"]
    bad = gradients()
    bad[1][2] = math.inf
    wrapped(*bad)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])
    after = optimiser.state_dict()["ipu_state"]
    assert after["lossScaleUpdateFactor"] == state["lossScaleUpdateFactor"] / 2
    for name in state.keys() - {"lossScaleUpdateFactor"}:
        assert torch.equal(after[name], state[name]), name
    wrapped(*gradients())
    assert optimiser.state_dict()["ipu_state"]["Step___layers.0.weight"] == 2
