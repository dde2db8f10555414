"""Worlds: the configs of tests/configs, and how a model gets into one by itself.

A model without annotations and with the default strategy gets the config's strategy; the layers
that hold its parameters are dealt out to the config's parts as they run. Where the config has
replicas and the options do not, all replicas read the same inputs, all must give the same results,
and the caller gets those of one.
"""

import contextlib
import json
import pathlib
import re

import poptorch
import torch

CONFIGS = {
    path.stem: json.loads(path.read_text())
    for path in sorted((pathlib.Path(__file__).parent / "configs").glob("*.json"))
}

# The configs that run the suite: `python -m pytest --config all tests/behaviour`.
SUITE = [name for name, config in CONFIGS.items() if "suite_skip" in config]

# In every config: what does not run in it, by reason, as files or file::test.
SKIPPED = {
    "it places its models itself": [
        *("test_blocks.py", "test_many_ipus.py", "test_partition_fuzz.py", "test_phased.py"),
        *("test_replica_groups.py", "test_replicas.py", "test_schedule.py", "test_configs.py"),
        "test_annotations.py",
    ],
    "it starts other processes": ["test_listings.py"],
}


def reason_to_skip(config, path, test):
    """Why the config leaves the test out; None when it does not."""
    for table in (SKIPPED, config.get("suite_skip", {})):
        for reason, tests in table.items():
            if path in tests or f"{path}::{test}" in tests:
                return reason
    return None


def strategy_of(config):
    """The execution strategy that a config describes."""
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


def enter(config, monkeypatch):
    """Until monkeypatch is undone, models run in that world."""
    from poptorch import _native
    from poptorch._impl import blocks, executor

    resolve, record = executor.resolve_output_mode, blocks.recording
    compile_one = _native.compile_model
    default = repr(poptorch.Options().execution_strategy)
    ours = []

    def choose_strategy(options, training):
        resolve(options, training)
        if repr(options.execution_strategy) != default or not _fills(config, options, training):
            return
        ours.append(strategy_of(config))
        options._values["execution_strategy"] = ours[-1]
        if options.replication_factor == 1:
            options._values["replication_factor"] = config["replicas"]
            options._values["input_group_size"] = config["replicas"]
            options._values["broadcast_buffers"] = config["replicas"] == 1

    def compile_model(*args, **keywords):
        made = compile_one(*args, **keywords)
        options = args[3]
        mine = options["replication_factor"] == options["input_group_size"] > 1
        return OneReplica(made, options["replication_factor"]) if mine else made

    @contextlib.contextmanager
    def recording(strategy, model):
        mine = any(strategy is one for one in ours) and isinstance(model, torch.nn.Module)
        with record(strategy, model) as recorder, _cut(model, config) if mine else _whole():
            yield recorder

    monkeypatch.setattr(executor, "resolve_output_mode", choose_strategy)
    monkeypatch.setattr(blocks, "recording", recording)
    if config["replicas"] > 1:
        monkeypatch.setattr(_native, "compile_model", compile_model)


class OneReplica:
    """An executable whose replicas do the same: gives the results of one of them."""

    def __init__(self, executable, replicas):
        self._executable, self._replicas = executable, replicas
        text = executable.text("program")
        streams = re.findall(r'^stream "[^"]*" : \w+\[(.*?)\](.*)', text, re.MULTILINE)
        self._outputs = [
            ([int(size) for size in shape.split(",") if size], 'keep="once"' in tail)
            for shape, tail in streams
            if "to_device=true" not in tail
        ]

    def __getattr__(self, name):
        return getattr(self._executable, name)

    def run(self, tensors):
        results = self._executable.run(tensors)
        return [self._own(*pair) for pair in zip(results, self._outputs, strict=False)]

    def _own(self, result, output):
        shape, once = output  # of a micro-batch
        if once:
            return result
        by_replica = result.reshape(-1, self._replicas, *shape)
        own = by_replica[:, 0]
        for other in by_replica.unbind(1):
            torch.testing.assert_close(other, own, rtol=0, atol=0, equal_nan=True)
        if not shape:
            return own.reshape(()) if len(own) == 1 else own
        return own.flatten(0, 1)


def _fills(config, options, training):
    """Whether the options have micro-batches enough for a pipeline."""
    if config["strategy"] != "PipelinedExecution":
        return True
    stages = config["ipus"]
    if training:
        return options.Training.gradient_accumulation >= 2 * stages - 1
    return options.device_iterations >= stages


@contextlib.contextmanager
def _whole():
    yield


@contextlib.contextmanager
def _cut(model, config):
    holders = [module for module in model.modules() if module._parameters or module._buffers]
    parts = min(len(holders), config.get("phases") or config["ipus"])
    part_of = {id(module): i * parts // len(holders) for i, module in enumerate(holders)}
    now = -1

    def begin(module, _):
        nonlocal now
        part = part_of.get(id(module), -1)
        if part > now:
            now = part
            poptorch.Block.start(f"part{part}", ipu_id=part)

    handle = torch.nn.modules.module.register_module_forward_pre_hook(begin)
    try:
        yield
    finally:
        handle.remove()
