"""The PopXL transformer trains as torch's does: replicated, pipelined and in phases."""

import numpy as np
import popxl_transformer as popxls
import pytest
import torch
from torch import nn


class Layer(nn.Module):
    """The same layer undivided, with the same names."""

    def __init__(self, config):
        super().__init__()
        width = config.width
        self.config = config
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.feed_forward = nn.Module(), nn.Module()
        for name in "qkv":
            setattr(self.attention, name, nn.Linear(width, width))
        self.attention.out = nn.Linear(width, width)
        self.feed_forward.dense = nn.Linear(width, 4 * width)
        self.feed_forward.out = nn.Linear(4 * width, width)

    def forward(self, x):  # [batch, length, width]
        h, a = self.norm1(x), self.attention
        parts = (
            m(h).unflatten(-1, (self.config.heads, -1)).transpose(1, 2) for m in (a.q, a.k, a.v)
        )
        y = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + a.out(y.transpose(1, 2).flatten(2))
        f = self.feed_forward
        dense = nn.functional.gelu(f.dense(self.norm2(x)), approximate="tanh")
        return x + f.out(dense)


def shares(name, layer, parts):
    """Returns torch's values for a variable: [parts, ...] where replicas have shares."""
    parameters = {n: p.detach().numpy() for n, p in layer.named_parameters()}
    path, _, kind = name.rpartition(".")
    if path.startswith("norm"):
        return parameters[name]
    if name.endswith("out.weight"):  # of the inner axis
        return np.stack(np.split(parameters[name].T, parts))
    if kind == "bias" and path in ("attention", "feed_forward"):
        return parameters[f"{path}.out.bias"]
    return np.stack(np.split(parameters[name].T, parts, axis=-1))


def in_torchs_order(name):
    return name.replace(".gamma", ".weight").replace(".beta", ".bias")


def weights_of(program, layers):
    """Returns {variable: torch's value}."""
    parts = program.config.tensor_parallel
    return {
        t: shares(in_torchs_order(name), layer, parts).reshape(t.shape_on_host)
        for variables, layer in zip(program.variables, layers, strict=True)
        for name, t in variables.to_dict().items()
    }


def on_replicas(t, config):
    """Reshapes [steps, groups, batch, length, width] to [steps, replicas, rows, width], without
    ones."""
    t = np.repeat(t.flatten(2, 3).numpy(), config.tensor_parallel, axis=1)
    return t.reshape(*(size for size in t.shape[:2] if size > 1), *t.shape[2:])


FORMS = {
    "replicated": (popxls.Replicated, {"data_parallel": 2}, 1),
    "alone": (popxls.Replicated, {"tensor_parallel": 1}, 1),
    "pipelined": (popxls.Pipelined, {}, 8),
    "pipelined over four": (popxls.Pipelined, {"layers": 4, "data_parallel": 2}, 16),
    "phased": (popxls.Phased, {"layers": 3, "data_parallel": 2}, 1),
}


@pytest.mark.shared
@pytest.mark.parametrize("form", FORMS)
def test_a_transformer_trains_as_torchs(form):
    kind, changes, steps = FORMS[form]
    config = popxls.Config(**changes)
    torch.manual_seed(0)
    layers = nn.Sequential(*(Layer(config) for _ in range(config.layers)))
    optimizer = torch.optim.SGD(layers.parameters(), lr=config.rate)
    program = kind(config, steps)
    program.session.write_variables_data(weights_of(program, layers))
    shape = steps, config.data_parallel, config.batch, config.length, config.width
    for _ in range(2):
        x, target = torch.randn(shape), torch.randn(shape)
        y = layers(x.flatten(0, 2)).reshape(shape)
        losses = ((y - target) ** 2).flatten(2).mean(-1)
        optimizer.zero_grad()
        losses.mean().backward()
        found, output = program.run(on_replicas(x, config), on_replicas(target, config))
        expected = np.repeat(losses.detach().numpy(), config.tensor_parallel, axis=1)
        np.testing.assert_allclose(np.reshape(found, expected.shape), expected, rtol=1e-4)
        np.testing.assert_allclose(output, on_replicas(y.detach(), config), rtol=1e-3, atol=1e-4)
        optimizer.step()
    for variable, expected in weights_of(program, layers).items():
        held = program.session.get_tensor_data(variable)
        np.testing.assert_allclose(held, expected, rtol=1e-3, atol=1e-4, err_msg=variable.name)
