"""Builds each peer's step of a workload; `PEERS` has one row per peer.

A step is a function without arguments. It runs `iterations` iterations on one fixed batch and
returns the last loss (training) or the logits (inference), complete on the host.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from benchmarks.workloads import Instance


def eager_step(instance: Instance, batch: tuple, _iterations: int, wrap=lambda model: model):
    """Plain PyTorch."""
    model = wrap(instance.model)
    if not instance.training:

        def infer():
            with torch.no_grad():
                return model(*batch)

        return infer

    optimiser = instance.optimiser()

    def train():
        optimiser.zero_grad(set_to_none=True)
        loss = model(*batch)
        loss.backward()
        optimiser.step()
        return loss

    return train


def compiled_step(instance: Instance, batch: tuple, iterations: int):
    """torch.compile, default mode; the optimiser's step is left to torch."""
    return eager_step(instance, batch, iterations, torch.compile)


def jax_source(instance: Instance, batch: tuple):
    """Makes the model as a JAX function. This is not part of the time that JAX needs to compile."""
    from benchmarks import jax_peer  # an optional extra

    return instance, jax_peer.to_function(instance, batch)


def jax_step(source: tuple, batch: tuple, iterations: int):
    """One jitted step, or `iterations` of them in one jitted loop."""
    from benchmarks import jax_peer

    return jax_peer.make_step(*source, batch, iterations)


def poptorch_step(instance: Instance, batch: tuple, iterations: int):
    """Makes the step in PopTorch; `iterations` is deviceIterations."""
    import poptorch  # the other peers run without it

    options = poptorch.Options().deviceIterations(iterations)
    options.showCompilationProgressBar(False)
    inputs = tuple(torch.cat([t] * iterations) for t in batch)
    if not instance.training:
        model = poptorch.inferenceModel(instance.model, options)
    else:
        # A bare loss is a scalar per micro-batch; Final returns the last one.
        model = poptorch.trainingModel(instance.model, options, instance.optimiser())
    return lambda: model(*inputs)


def popxl_step(instance: Instance, batch: tuple, iterations: int):
    """Makes the step of the programs of tests/popxl/tutorials."""
    from benchmarks import popxl_peer

    return popxl_peer.make_step(instance, batch, iterations)


def onnx_source(instance: Instance, batch: tuple):
    """Exports the model. This is not part of the time that ONNX Runtime needs to compile."""
    from benchmarks import onnx_peer  # an optional extra

    return onnx_peer.export(instance, batch)


def onnx_step(source: bytes, batch: tuple, iterations: int):
    """One run of a session of ONNX Runtime."""
    from benchmarks import onnx_peer

    return onnx_peer.make_step(source, batch, iterations)


@dataclass(frozen=True)
class Peer:
    """How to make a step, and how many iterations one step runs.

    `make(prepare(instance, batch), batch, iterations)` returns the step; `make` is timed. The first
    `compared` results must equal eager's. `only` names the workloads that the peer has; empty: all.
    `trains` is false for a peer of inference.
    """

    make: Callable
    iterations: int = 1
    prepare: Callable = lambda instance, _batch: instance
    compared: int = 3
    only: tuple[str, ...] = ()
    trains: bool = True


PEERS = {
    "eager": Peer(eager_step),
    "compile": Peer(compiled_step),
    "jax": Peer(jax_step, 1, jax_source),
    "jax20": Peer(jax_step, 20, jax_source),
    "onnx": Peer(onnx_step, 1, onnx_source, trains=False),
    "poptorch": Peer(poptorch_step),
    "poptorch20": Peer(poptorch_step, 20),
    "popxl": Peer(popxl_step, compared=1, only=("W1", "W2")),
}
