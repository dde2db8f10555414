"""Runs the workloads in JAX: replays torch.export's graph with jax.numpy, one row per op.

The whole training step (loss, gradients, update) is one jitted function, as a JAX user would write
it. Running statistics of batch norm are not kept: the loss does not depend on them.
"""

import operator

import jax
import jax.numpy as jnp
import torch
from jax import lax

from benchmarks.workloads import Instance

OPS = {}


def row(name: str):
    """Registers the function below as the meaning of aten::`name`."""

    def register(function):
        OPS[name] = function
        return function

    return register


OPS.update(
    {
        "relu.default": jax.nn.relu,
        "tanh.default": jnp.tanh,
        "add.Tensor": operator.add,
        "add_.Tensor": operator.add,
        "hardtanh.default": jnp.clip,
        "view.default": jnp.reshape,
        "reshape.default": jnp.reshape,
        "transpose.int": jnp.swapaxes,
        "chunk.default": jnp.split,
    }
)


@row("linear.default")
def linear(x, weight, bias=0.0):
    return x @ weight.T + bias


@row("gelu.default")
def gelu(x, approximate):
    return jax.nn.gelu(x, approximate=approximate == "tanh")


@row("flatten.using_ints")
def flatten(x, start=0, end=-1):
    end %= x.ndim
    return x.reshape(*x.shape[:start], -1, *x.shape[end + 1 :])


@row("select.int")
def select(x, axis, index):
    return jnp.take(x, index, axis)


@row("embedding.default")
def embedding(weight, indices):
    return weight[indices]


@row("zeros.default")
def zeros(shape, dtype, **_):
    return jnp.zeros(shape, str(dtype).removeprefix("torch."))  # same names in both


@row("cross_entropy_loss.default")
def cross_entropy(logits, target):
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), target[:, None], 1)
    return -jnp.mean(chosen)


@row("conv2d.default")
def conv2d(x, weight, bias=None, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1):
    y = lax.conv_general_dilated(
        x,
        weight,
        stride,
        [(p, p) for p in padding],
        rhs_dilation=dilation,
        dimension_numbers=("NCHW", "OIHW", "NCHW"),
        feature_group_count=groups,
    )
    return y if bias is None else y + bias[:, None, None]


@row("max_pool2d.default")
def max_pool2d(x, kernel, stride=None, padding=(0, 0)):
    edges = ((0, 0), (0, 0), *((p, p) for p in padding))
    steps = (1, 1, *(stride or kernel))
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, *kernel), steps, edges)


@row("adaptive_avg_pool2d.default")
def adaptive_avg_pool2d(x, size):
    assert size == [1, 1]
    return x.mean((2, 3), keepdims=True)


@row("batch_norm.default")
def batch_norm(x, weight, bias, mean, variance, training, _momentum, eps, _cudnn):
    if training:
        mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
    scale = weight * lax.rsqrt(variance + eps)
    return x * scale[:, None, None] + (bias - mean * scale)[:, None, None]


@row("layer_norm.default")
def layer_norm(x, _shape, weight, bias, eps, _cudnn=False):
    mean = x.mean(-1, keepdims=True)
    variance = x.var(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + eps) * weight + bias


@row("scaled_dot_product_attention.default")
def attention(q, k, v, _mask=None, _dropout=0.0, causal=False):
    q, k, v = (t.swapaxes(1, 2) for t in (q, k, v))
    return jax.nn.dot_product_attention(q, k, v, is_causal=causal).swapaxes(1, 2)


@row("lstm.input")
def lstm(x, state, weights, *_):
    w_input, w_hidden, b_input, b_hidden = weights
    gates_of_input = x.swapaxes(0, 1) @ w_input.T + (b_input + b_hidden)

    def cell(carry, gates):
        h, c = carry
        i, f, g, o = jnp.split(gates + h @ w_hidden.T, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    (h, c), y = lax.scan(cell, (state[0][0], state[1][0]), gates_of_input)
    return y.swapaxes(0, 1), h, c


def to_jax(tensor: torch.Tensor):
    """A copy of a torch tensor, int64 as int32."""
    if tensor.dtype == torch.int64:
        tensor = tensor.int()
    if tensor.dtype == torch.bfloat16:
        return jnp.asarray(tensor.float().numpy(), jnp.bfloat16)
    return jnp.array(tensor.detach().numpy())


def to_function(instance: Instance, batch: tuple):
    """(function(parameters, buffers, *inputs), parameters, buffers) of the workload's model."""
    exported = torch.export.export(instance.model, batch)
    signature = exported.graph_signature
    parameters = {k: to_jax(v) for k, v in instance.model.named_parameters()}
    buffers = {k: to_jax(v) for k, v in instance.model.named_buffers()}

    def function(parameters, buffers, *inputs):
        values = {}
        remaining = iter(inputs)
        for node in exported.graph.nodes:
            if node.op == "placeholder":
                if node.name in signature.inputs_to_parameters:
                    value = parameters[signature.inputs_to_parameters[node.name]]
                elif node.name in signature.inputs_to_buffers:
                    value = buffers[signature.inputs_to_buffers[node.name]]
                else:
                    value = next(remaining)
            elif node.op == "output":
                return values[node.args[0][-1]]
            else:
                known = OPS.get(str(node.target).removeprefix("aten."), node.target)
                arguments = torch.fx.map_arg((node.args, node.kwargs), values.__getitem__)
                value = known(*arguments[0], **arguments[1])
            values[node] = value
        raise AssertionError("the exported graph has no output")

    return function, parameters, buffers


def sgd(lr, momentum=0.0):
    """(number of state tensors, update) of torch.optim.SGD."""

    def update(parameter, gradient, state, _step):
        if not momentum:
            return parameter - lr * gradient, state
        velocity = momentum * state[0] + gradient
        return parameter - lr * velocity, (velocity,)

    return (1 if momentum else 0), update


def adam(lr, eps=1e-8, weight_decay=0.0, betas=(0.9, 0.999)):
    """(number of state tensors, update) of torch.optim.Adam and, with decay, AdamW."""

    def update(parameter, gradient, state, step):
        first = betas[0] * state[0] + (1 - betas[0]) * gradient
        second = betas[1] * state[1] + (1 - betas[1]) * gradient**2
        size = lr / (1 - betas[0] ** step)
        root = jnp.sqrt(second / (1 - betas[1] ** step)) + eps
        return parameter * (1 - lr * weight_decay) - size * first / root, (first, second)

    return 2, update


OPTIMISERS = {
    "SGD": sgd,
    "Adam": adam,
    "AdamW": lambda lr, weight_decay=0.01, **rest: adam(lr, weight_decay=weight_decay, **rest),
}


def make_step(instance: Instance, source: tuple, batch: tuple, iterations: int):
    """A step of `iterations` iterations of `source`, which to_function() made."""
    function, parameters, buffers = source
    inputs = [to_jax(t) for t in batch]
    if not instance.training:
        infer = jax.jit(function)
        return lambda: infer(parameters, buffers, *inputs).block_until_ready()

    name, arguments = instance.row.optimiser
    slots, update = OPTIMISERS[name](**arguments)
    states = {k: tuple(jnp.zeros_like(v) for _ in range(slots)) for k, v in parameters.items()}

    def one(carry, _):
        parameters, states, step = carry
        loss, gradients = jax.value_and_grad(function)(parameters, buffers, *inputs)
        updated = {k: update(parameters[k], gradients[k], states[k], step) for k in parameters}
        parameters = {k: v[0] for k, v in updated.items()}
        states = {k: v[1] for k, v in updated.items()}
        return (parameters, states, step + 1), loss

    def many(carry):
        if iterations == 1:
            return one(carry, None)
        carry, losses = lax.scan(one, carry, length=iterations)
        return carry, losses[-1]

    jitted = jax.jit(many, donate_argnums=0)
    carry = (parameters, states, jnp.float32(1.0))

    def step():
        nonlocal carry
        carry, loss = jitted(carry)
        return loss.block_until_ready()

    return step
