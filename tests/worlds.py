"""Worlds: the configs of tests/configs, and how a model gets into one by itself.

A model without annotations and with the default strategy gets the config's strategy; the layers
that hold its parameters are dealt out to the config's parts as they run. Where the options have
too few micro-batches to fill the config's pipeline, each runs several times: the mean of equal
gradients is the gradient. Where the config has replicas and the options do not, all replicas read
the same inputs, and all must give the same results unless the program draws random numbers, of
which each replica has its own. Callers see none of it.
"""

import contextlib
import dataclasses
import itertools
import json
import pathlib
import re

import poptorch
import torch

CONFIGS = {
    path.stem: json.loads(path.read_text())
    for path in sorted((pathlib.Path(__file__).parent / "configs").glob("*.json"))
}
EVERY_WORLD = CONFIGS.pop("every_world")  # no world: exceptions of all
SUM = poptorch.ReductionType.Sum  # of equal gradients is none of them

# What draws random numbers, in the text of a program.
DRAW = re.compile(r" = (random_\w+|bernoulli|dropout|stochastic_cast)\(")

# The configs that run the suite (`python -m pytest --config all tests/behaviour`), but for what
# `suite_skip` names, with its reason.
SUITE = [name for name, config in CONFIGS.items() if "suite_skip" in config]


def reason_to_skip(config, path, test=""):
    """Why the config leaves the test, or the whole file, out; None when it does not."""
    for table in (EVERY_WORLD["suite_skip"], config.get("suite_skip", {})):
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
    from poptorch._impl import blocks, executor, wrapped
    from poptorch._impl import compiling as compilation

    resolve, record = wrapped.resolve_output_mode, blocks.recording
    describe, compile_one = compilation.compile_options, _native.compile_model
    batching_of = wrapped.Batching.of
    construct = executor.PoplarExecutor.__init__
    default = repr(poptorch.Options().execution_strategy)
    wrapping = []  # the model
    entered = []  # (options, strategy, times, replicas)
    compiling = []  # of `entered`, the last that was compiled

    def entry_of(options):
        return next((entry for entry in entered if entry[0] is options), None)

    def construct_for(self, model, *arguments, **keywords):
        wrapping[:] = [model.model if isinstance(model, executor.PoplarExecutor) else model]
        construct(self, model, *arguments, **keywords)

    def choose_strategy(options, training):
        resolve(options, training)
        if repr(options.execution_strategy) != default:
            return
        strategy = strategy_of(config)
        times = _repeats(len(_layers_of_parts(*wrapping, config)), config, options, training)
        replicas = config["replicas"] if options.replication_factor == 1 else 1
        if training and options.Training.accumulation_and_replication_reduction_type == SUM:
            if times > 1:
                return
            replicas = 1
        options._values["execution_strategy"] = strategy
        options._values["auto_round_num_ipus"] = True
        if training:
            options.Training._values["gradient_accumulation"] *= times
        else:
            options._values["device_iterations"] *= times
        if replicas > 1:
            options._values["replication_factor"] = options._values["input_group_size"] = replicas
            options._values["broadcast_buffers"] = False
        entered.append((options, strategy, times, replicas))

    def callers_batching(options, training):
        made = batching_of(options, training)
        entry = entry_of(options)
        if entry is None:
            return made
        name = "gradient_accumulation" if training else "device_iterations"
        return dataclasses.replace(made, **{name: getattr(made, name) // entry[2]})

    def compile_options(options, training):
        made = describe(options, training)
        compiling[:] = [entry] if (entry := entry_of(options)) else []
        made["output_period"] *= entry[2] if entry else 1
        return made

    def compile_model(*args, **keywords):
        made = compile_one(*args, **keywords)
        return Repeating(made, *compiling[0][2:]) if compiling else made

    @contextlib.contextmanager
    def recording(strategy, model):
        mine = any(strategy is entry[1] for entry in entered) and isinstance(model, torch.nn.Module)
        with record(strategy, model) as recorder, _cut(model, config) if mine else _whole():
            yield recorder

    monkeypatch.setattr(executor.PoplarExecutor, "__init__", construct_for)
    monkeypatch.setattr(wrapped, "resolve_output_mode", choose_strategy)
    monkeypatch.setattr(compilation, "compile_options", compile_options)
    monkeypatch.setattr(wrapped.Batching, "of", callers_batching)
    monkeypatch.setattr(blocks, "recording", recording)
    monkeypatch.setattr(_native, "compile_model", compile_model)


class Repeating:
    """An executable that runs each micro-batch `times` times, on replicas that do the same.

    Callers give each once and get the results of the last time, of one replica.
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
    """The fewest micro-batches that fill the config's pipeline of that many parts."""
    if config["strategy"] != "PipelinedExecution":
        return 1
    return 2 * parts - 1 if training else parts


def _repeats(parts, config, options, training):
    """How often each micro-batch must run to fill a pipeline: a power of two."""
    needed = micro_batches_of(config, parts, training)
    has = options.Training.gradient_accumulation if training else options.device_iterations
    times = 1
    while has * times < needed:
        times *= 2
    return times


@contextlib.contextmanager
def _whole():
    yield


def _layers_of_parts(model, config):
    """For each part of the config: the layers with parameters or buffers that belong to it."""
    modules = model.modules() if isinstance(model, torch.nn.Module) else ()
    holders = [module for module in modules if module._parameters or module._buffers]
    parts = max(1, min(len(holders), config.get("phases") or config["ipus"]))
    bounds = [-(-len(holders) * part // parts) for part in range(parts + 1)]
    return [holders[begin:end] for begin, end in itertools.pairwise(bounds)]


@contextlib.contextmanager
def _cut(model, config):
    parts = _layers_of_parts(model, config)
    part_of = {id(layer): part for part, layers in enumerate(parts) for layer in layers}
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
