"""Runs models of tests in the placement configurations of tests/configs without changes to the
tests.

A configuration may have a strategy, and variables of the environment. A model without annotations
and with the default strategy gets the configuration's strategy. The layers that hold its parameters
are assigned to the configuration's parts as they run. Where the options have too few micro-batches
to fill the pipeline, each micro-batch runs several times: the mean of equal gradients is the
gradient. Where the configuration has replicas and the options do not, all replicas read the same
inputs. All must give the same results, unless the program draws random numbers, which differ
between replicas. Callers see none of it.
"""

import contextlib
import functools
import itertools
import json
import os
import pathlib
import re
from unittest import mock

import poptorch
import shares
import torch
from poptorch._impl.placement import policy

CONFIGS = {
    path.stem: json.loads(path.read_text())
    for path in sorted((pathlib.Path(__file__).parent / "configs").glob("*.json"))
}
PLACED_WORLDS = CONFIGS.pop("placed_worlds")  # exceptions of all with a strategy
SUM = poptorch.ReductionType.Sum  # the sum of equal gradients is not one of them

# Ops that draw random numbers, in the text of a program.
DRAW = re.compile(r" = (random_\w+|bernoulli|dropout|stochastic_cast)\(")

# The configurations in which the behaviour tests run (`python -m pytest --config all
# tests/behaviour`), except what `suite_skip` names, with its reason.
SUITE_FOLDER = "behaviour"
SUITE = [name for name, config in CONFIGS.items() if "suite_skip" in config]


def asked_for(asked, path, test=""):
    """Returns the configurations of `--config` in which a test, or some test of a file, runs."""
    names = SUITE if asked == "all" else [asked]
    return [name for name in names if not reason_to_skip(CONFIGS[name], path, test)]


def share_of(path, test, share):
    """Returns the configurations in which a share runs a test, a sixth of them: see shares.py."""
    return shares.taken(asked_for("all", path, test), f"{path}::{test}", share, shares.OF_WORLDS)


def reason_to_skip(config, path, test=""):
    """Returns why the configuration leaves out the test, or the whole file; None if it does not."""
    tables = [PLACED_WORLDS] if "strategy" in config else []
    for table in (each.get("suite_skip", {}) for each in [*tables, config]):
        for reason, tests in table.items():
            if path in tests or f"{path}::{test}" in tests:
                return reason
    return None


def strategy_of(config):
    """Returns the execution strategy that a configuration describes."""
    kind = getattr(poptorch, config["strategy"])
    phases = [poptorch.Phase(f"part{part}") for part in range(config.get("phases", 0))]
    for number, phase in enumerate(phases):
        phase.ipus(number % config["ipus"])
    strategy = kind(*phases)
    if "liveness" in config:
        strategy.setTensorsLiveness(poptorch.Liveness[config["liveness"]])
    if config.get("separate_backward_phase"):
        strategy.useSeparateBackwardPhase()
    return strategy


@contextlib.contextmanager
def entered(config):
    """Runs models that are wrapped inside the block in that configuration.

    Yields a list of its changes: a line for the variables and for each model.
    """
    changes = [f"{name}={value}" for name, value in config.get("environment", {}).items()]
    with contextlib.ExitStack() as stack:
        stack.enter_context(environment(config))
        if "strategy" in config:
            stack.enter_context(policy.using(Policy(config, changes)))
        yield changes


def environment(config):
    """Sets the configuration's variables in this process, and those that it starts, inside the
    block."""
    variables = config.get("environment", {})
    known = {"{optional_passes}": _optional_passes}
    return mock.patch.dict(
        os.environ,
        {name: known[text]() if text in known else text for name, text in variables.items()},
    )


@functools.cache
def _optional_passes():
    """Returns the names of all passes, from the core's error about an unknown name."""
    with mock.patch.dict(os.environ, POPTORCH_DISABLE_PASSES="none of them"):
        try:
            options = poptorch.Options().showCompilationProgressBar(False)
            poptorch.inferenceModel(torch.neg, options).compile(torch.ones(1))
        except poptorch.Error as error:
            return re.search(r"Set it to some of (.*), or unset it", str(error))[1].replace(" ", "")
    raise AssertionError("a pass that there is not was taken")


class Policy(policy.PlacementPolicy):
    """The configuration's placement, for models whose options have the default strategy."""

    DEFAULT = repr(poptorch.Options()._execution_strategy)

    def __init__(self, config, changes):
        self._config, self._changes = config, changes

    def place(self, model, options, training):
        config, placement = self._config, super().place(model, options, training)
        name = f"{type(model).__name__} ({'training' if training else 'inference'})"
        if repr(options._execution_strategy) != self.DEFAULT:
            self._changes.append(f"{name}: not changed, it already has a strategy")
            return placement
        parts = _layers_of_parts(model, config)
        times = _repeats(len(parts), config, options, training)
        replicas = config["replicas"] if options.replication_factor == 1 else 1
        if training and options.Training.accumulation_and_replication_reduction_type == SUM:
            if times > 1:
                self._changes.append(f"{name}: not changed, it adds gradients up")
                return placement
            replicas = 1
        cuts = ", ".join(f"part{part} has {layers}" for part, layers in enumerate(parts))
        self._changes.append(
            f"{name}: {config['strategy']} with {cuts}; each micro-batch runs {times} times "
            f"on {replicas} replicas"
        )
        options.autoRoundNumIPUs(True)
        if replicas > 1:
            options.replicationFactor(replicas).broadcastBuffers(False)
            options.inputReplicaGrouping(replicas, poptorch.CommGroupType.Consecutive)
        return policy.Placement(
            strategy_of(config),
            times,
            tuple(
                policy.BlockStart(path, f"part{part}", part)
                for part, layers in enumerate(parts)
                for path in layers
            ),
            lambda executable: Repeating(executable, times, replicas),
        )


class Repeating:
    """An executable that runs each micro-batch `times` times, on replicas that do the same.

    Callers pass each once and get the results of the last time, of one replica.
    """

    def __init__(self, executable, times, replicas):
        self._executable, self._times, self._replicas = executable, times, replicas
        text = executable.text("program")
        self._draws = DRAW.search(text) is not None
        streams = re.findall(r'^stream "[^"]*" : \w+\[(.*?)\](.*)', text, re.MULTILINE)
        shapes = [[int(size) for size in shape.split(",") if size] for shape, _ in streams]
        tails = [tail for _, tail in streams]
        self._inputs = [s for s, tail in zip(shapes, tails, strict=True) if _enters(tail)]
        self._outputs = [
            (s, (re.findall(r'keep="(\w+)"', tail) or ["all"])[0])
            for s, tail in zip(shapes, tails, strict=True)
            if not _enters(tail)
        ]

    def __getattr__(self, name):
        return getattr(self._executable, name)

    def run(self, tensors):
        inputs = [self._repeated(*pair) for pair in zip(tensors, self._inputs, strict=False)]
        results = self._executable.run(inputs)
        return [self._own(*pair) for pair in zip(results, self._outputs, strict=False)]

    def _repeated(self, tensor, shape):
        if self._times == 1:
            return tensor
        repeated = tensor.reshape(-1, *shape).repeat_interleave(self._times, 0)
        return repeated.flatten(0, 1) if shape else repeated

    def _own(self, result, output):
        shape, keep = output  # of a micro-batch
        if keep == "once":
            return result
        by_replica = result.reshape(-1, self._replicas, *shape)
        own = by_replica[:, 0]
        for other in [] if self._draws else by_replica.unbind(1):
            torch.testing.assert_close(other, own, rtol=0, atol=0, equal_nan=True)
        if keep == "all":
            own = own[self._times - 1 :: self._times]
        elif keep == "sum":
            own = own / self._times
        if not shape:
            return own.reshape(()) if len(own) == 1 else own
        return own.flatten(0, 1)


def _enters(tail):
    return "to_device=true" in tail


def micro_batches_of(config, parts, training):
    """Returns the fewest micro-batches that fill the configuration's pipeline of `parts` parts."""
    if config.get("strategy") != "PipelinedExecution":
        return 1
    return 2 * parts - 1 if training else parts


def _repeats(parts, config, options, training):
    """Returns how often each micro-batch must run to fill a pipeline: a power of two."""
    needed = micro_batches_of(config, parts, training)
    has = options.Training.gradient_accumulation if training else options.device_iterations
    times = 1
    while has * times < needed:
        times *= 2
    return times


def _layers_of_parts(model, config):
    """Returns for each part the paths of layers with parameters or buffers that belong to it."""
    modules = model.named_modules() if isinstance(model, torch.nn.Module) else ()
    holders = [path for path, module in modules if module._parameters or module._buffers]
    parts = max(1, min(len(holders), config.get("phases") or config["ipus"]))
    bounds = [-(-len(holders) * part // parts) for part in range(parts + 1)]
    return [holders[begin:end] for begin, end in itertools.pairwise(bounds)]
