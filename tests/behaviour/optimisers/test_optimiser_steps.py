"""Every optimiser steps as torch's on the CPU does when both get the same gradients.

The cases are a local table and those of PyTorch's OptimizerInfo. Weights and state tensors agree
within 1e-6 of the largest value (for a weight: the largest at either end of the training).
"""

import copy
import sys
import unittest

import poptorch
import pytest
import torch
from fed_model import TOLERANCE, Fed, gradients, relative
from poptorch._impl.optimisers.device_state import Record

# torch's own test helpers import a package that the table below does not need.
sys.modules.setdefault("expecttest", unittest)
from torch.testing._internal.common_optimizers import optim_db  # noqa: E402

# Name in ipu_state → name in torch's state, by optimiser.
STATE = {
    "SGD": {"Accl___": "momentum_buffer"},
    "Adam": {"Accl1___": "exp_avg", "Accl2___": "exp_avg_sq"},
    "AdamW": {"Accl1___": "exp_avg", "Accl2___": "exp_avg_sq"},
    "RMSprop": {
        "Accl1___": "square_avg",
        "Accl2___": "momentum_buffer",
        "Accl3___": "grad_avg",
    },
}


def run(kind, arguments, steps, *, schedule=None, groups=None, namespace=poptorch.optim):
    """Trains both, and compares weights and state at the end."""
    torch.manual_seed(11)
    model = Fed()
    eager = copy.deepcopy(model)
    start = copy.deepcopy(model.state_dict())

    def make(of, namespace, **more):
        parameters = of.parameters() if groups is None else groups(of.weights)
        return getattr(namespace, kind)(parameters, **arguments, **more)

    optimiser = make(model, namespace)
    reference = make(eager, torch.optim, foreach=False)
    wrapped = poptorch.trainingModel(model, optimizer=optimiser)
    for step in range(steps):
        given = gradients()
        change, since = divmod(step, steps // 10)
        if schedule is not None and change and not since:
            for one in (optimiser, reference):
                for group in one.param_groups:
                    schedule(group, change)
            wrapped.setOptimizer(optimiser)
        for parameter, gradient in zip(eager.weights, given, strict=True):
            parameter.grad = gradient.clone()
        reference.step()
        wrapped(*given)
    for name, expected in eager.state_dict().items():
        assert relative(model.state_dict()[name], expected, start[name]) < TOLERANCE, name
    record = Record.of(optimiser)  # as state_dict() of a poptorch.optim optimiser shows it
    record.refresh()
    held = record.state
    compared = 0
    for name, parameter in eager.named_parameters():
        for prefix, theirs in STATE[kind].items():
            expected = reference.state[parameter].get(theirs)
            if expected is not None:
                assert relative(held[prefix + name], expected) < TOLERANCE, prefix + name
                compared += 1
    assert compared == sum(
        isinstance(value, torch.Tensor) and name != "step"
        for state in reference.state.values()
        for name, value in state.items()
    )


GRID = {
    "SGD": [
        {"lr": lr, "momentum": momentum, **more}
        for lr in (1e-3, 0.1)
        for momentum in (0.0, 0.5, 0.99)
        for more in (
            {},
            {"weight_decay": 0.01},
            *([{"nesterov": True}, {"dampening": 0.4}, {"maximize": True}] if momentum else []),
        )
    ],
    "Adam": [
        {"lr": lr, "betas": betas, "weight_decay": decay}
        for lr in (1e-4, 1e-2)
        for betas in ((0.9, 0.999), (0.5, 0.9))
        for decay in (0.0, 0.01)
    ],
    "AdamW": [
        {"lr": lr, "eps": eps, "weight_decay": decay, "maximize": maximize}
        for lr in (1e-4, 1e-2)
        for eps in (1e-8, 1e-3)
        for decay in (0.0, 0.1)
        for maximize in (False, True)
    ],
    "RMSprop": [
        {"lr": lr, "alpha": alpha, **more}
        for lr in (1e-4, 1e-2)
        for alpha in (0.9, 0.99)
        for more in ({}, {"momentum": 0.9}, {"centered": True, "eps": 1e-3}, {"weight_decay": 0.1})
    ],
}


def described(arguments):
    return "-".join(f"{k}={v}" for k, v in arguments.items()).replace(" ", "")


@pytest.mark.shared
@pytest.mark.parametrize(
    "kind, arguments",
    [pytest.param(k, a, id=f"{k}-{described(a)}") for k, cases in GRID.items() for a in cases],
)
def test_the_grid(kind, arguments, steps):
    run(kind, arguments, steps)


def info_cases():
    """Yields the argument sets of PyTorch's own optimiser tests, except CUDA's."""
    for info in optim_db:
        kind = info.optim_cls.__name__
        if kind not in GRID:
            continue
        for given in info.optim_inputs_func("cpu"):
            arguments = {
                k: v.item() if isinstance(v, torch.Tensor) else v for k, v in given.kwargs.items()
            }
            if not arguments.get("amsgrad"):
                yield pytest.param(kind, arguments, id=f"{kind}-{given.desc}")


@pytest.mark.shared
@pytest.mark.parametrize("namespace", [torch.optim, poptorch.optim], ids=["torch", "poptorch"])
@pytest.mark.parametrize("kind, arguments", list(info_cases()))
def test_the_cases_of_pytorch(kind, arguments, namespace, steps):
    arguments = {k: v for k, v in arguments.items() if k not in ("foreach", "fused")}
    run(kind, arguments, steps, namespace=namespace)


# Optimiser → arguments of all groups, and those of the second group alone.
GROUPS = {
    "SGD": [
        ({}, {"lr": 3e-3}),
        ({"momentum": 0.9, "dampening": 0.2}, {"lr": 3e-3, "momentum": 0.5, "weight_decay": 0.1}),
        ({"momentum": 0.9, "nesterov": True}, {"lr": 0.1}),
    ],
    "Adam": [({}, {"lr": 3e-3}), ({"betas": (0.8, 0.9)}, {"betas": (0.5, 0.99), "eps": 1e-4})],
    "AdamW": [({}, {"lr": 3e-3}), ({"eps": 1e-4}, {"betas": (0.5, 0.99), "weight_decay": 0.1})],
    "RMSprop": [({}, {"lr": 3e-3}), ({"momentum": 0.5}, {"alpha": 0.8, "momentum": 0.9})],
}


def decaying(group, change):
    group["lr"] *= 0.9
    group["weight_decay"] = change * 2e-3


def cyclic(group, change):
    group["lr"] *= 4.0 if change % 2 else 0.25


@pytest.mark.shared
@pytest.mark.parametrize(
    "schedule", [None, decaying, cyclic], ids=lambda f: getattr(f, "__name__", "constant")
)
@pytest.mark.parametrize(
    "kind, arguments, second",
    [pytest.param(k, *case, id=f"{k}-{i}") for k in GROUPS for i, case in enumerate(GROUPS[k])],
)
def test_groups_whose_learning_rates_change(kind, arguments, second, schedule, steps):
    def groups(weights):
        return [{"params": [weights[0]]}, {"params": [weights[1], weights[2]], **second}]

    given = {"lr": 1e-2, "weight_decay": 0.0, **arguments}
    run(kind, given, steps, schedule=schedule, groups=groups)


def lamb(weights, moments, gradients, step, group):
    """One step by the paper's formulas, in double precision."""
    beta1, beta2 = group["betas"]
    for weight, (m, v), gradient in zip(weights, moments, gradients, strict=True):
        m.mul_(beta1).add_(gradient, alpha=1 - beta1)
        v.mul_(beta2).add_(gradient**2, alpha=1 - beta2)
        update = m / (1 - beta1**step) / ((v / (1 - beta2**step)).sqrt() + group["eps"])
        update += group["weight_decay"] * weight
        trust = min(weight.norm().item(), group["max_weight_norm"]) / update.norm().item()
        weight -= group["lr"] * trust * update


@pytest.mark.parametrize("limit", [65500.0, 0.5])
def test_lamb(limit, steps):
    torch.manual_seed(5)
    model = Fed()
    weights = [w.detach().double().clone() for w in model.weights]
    moments = [(torch.zeros_like(w), torch.zeros_like(w)) for w in weights]
    optimiser = poptorch.optim.LAMB(
        model.parameters(), lr=0.01, weight_decay=0.1, eps=1e-6, max_weight_norm=limit
    )
    wrapped = poptorch.trainingModel(model, optimizer=optimiser)
    for step in range(1, steps // 2 + 1):
        given = gradients()
        wrapped(*given)
        lamb(weights, moments, [g.double() for g in given], step, optimiser.param_groups[0])
    for ours, theirs in zip(model.weights, weights, strict=True):
        assert relative(ours.detach().double(), theirs) < 1e-4  # norms are sums in float32


def test_rmsprop_of_tensorflow(steps):
    torch.manual_seed(6)
    model = Fed()
    weights = [w.detach().double().clone() for w in model.weights]
    squares = [torch.ones_like(w) for w in weights]
    buffers = [torch.zeros_like(w) for w in weights]
    alpha, lr, momentum, eps = 0.9, 0.01, 0.8, 1e-3
    wrapped = poptorch.trainingModel(
        model,
        optimizer=poptorch.optim.RMSprop(
            model.parameters(), lr=lr, alpha=alpha, momentum=momentum, eps=eps, use_tf_variant=True
        ),
    )
    for _ in range(steps // 2):
        given = gradients()
        wrapped(*given)
        for w, s, b, g in zip(weights, squares, buffers, given, strict=True):
            s.mul_(alpha).add_(g.double() ** 2, alpha=1 - alpha)
            b.mul_(momentum).add_(lr * g / (s + eps).sqrt())
            w -= b
    for ours, theirs in zip(model.weights, weights, strict=True):
        assert relative(ours.detach().double(), theirs) < 1e-5
