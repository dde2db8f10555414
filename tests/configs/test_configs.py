"""A table of models gives the same values in every placement configuration of tests/configs.

A configuration's `skip` maps a reason to the cases that it concerns: "model" or "model/training".
"""

import copy

import poptorch
import pytest
import torch
from config_models import MODELS, make
from poptorch.integrations.placements import strategy_of
from worlds import CONFIGS, environment

MICRO_BATCH = 2
ONE_IPU = {"strategy": "PipelinedExecution", "ipus": 1, "replicas": 1}
BATCHES = 8  # micro-batches per weight update, or per run of inference


def cut(model, batch, parts, phased=False):
    """Begins blocks at layers of `model` so that it has `parts` parts, each on an IPU."""
    order = []
    hooks = [
        module.register_forward_pre_hook(lambda layer, _: order.append(layer))
        for module in model.modules()
        if not list(module.children()) and list(module.parameters())
    ]
    with torch.no_grad():
        model(*batch)
    for hook in hooks:
        hook.remove()
    assert len(order) == len(set(order)) >= parts
    first = 0 if phased else 1  # every phase has a block
    for part in range(first, parts):
        poptorch.BeginBlock(order[part * len(order) // parts], f"part{part}", ipu_id=part)


def cut_for(config, model, make_batch):
    phases = config.get("phases", 0)
    cut(model, make_batch(MICRO_BATCH), phases or config["ipus"], phases > 0)


def options_of(config, training):
    options = poptorch.Options().showCompilationProgressBar(False).randomSeed(7)
    options.outputMode(poptorch.OutputMode.All).replicationFactor(config["replicas"])
    options.broadcastBuffers(config["replicas"] == 1)  # otherwise each replica has its own
    options.setExecutionStrategy(strategy_of(config))
    if training:
        options.Training.gradientAccumulation(BATCHES)
    else:
        options.deviceIterations(BATCHES)
    return options


def run(model, batches, config, training):
    """Returns the results of two runs, and the state after them."""
    with environment(config):
        return run_there(model, batches, options_of(config, training), training)


def run_there(model, batches, options, training):
    if training:
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        wrapped = poptorch.trainingModel(model, options, optimiser)
    else:
        wrapped = poptorch.inferenceModel(model.eval(), options)
    results = [result.clone() for batch in batches for result in wrapped(*batch)]
    if training:
        wrapped.destroy()
    return results + [tensor.clone() for tensor in model.state_dict().values()]


def skip_if_told(config, name, mode):
    for reason, cases in config["skip"].items():
        if name in cases or f"{name}/{mode}" in cases:
            pytest.skip(reason)


@pytest.mark.shared
@pytest.mark.parametrize("mode", ["inference", "training"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("world", CONFIGS)
def test_values_are_those_of_one_ipu(world, name, mode):
    config = {**ONE_IPU, **CONFIGS[world]}
    skip_if_told(config, name, mode)
    whole, make_batch = make(name)
    split = copy.deepcopy(whole)
    state = copy.deepcopy(whole.state_dict())
    cut_for(config, split, make_batch)
    split.load_state_dict(state)  # running statistics include the batch
    batches = [make_batch(MICRO_BATCH * BATCHES * config["replicas"]) for _ in range(2)]
    one_ipu = dict(ONE_IPU, replicas=config["replicas"])
    expected = run(whole, batches, one_ipu, mode == "training")
    for one, other in zip(run(split, batches, config, mode == "training"), expected, strict=True):
        assert torch.equal(one, other)


@pytest.mark.shared
@pytest.mark.parametrize("name", ["mlp", "lstm", "encoder"])
@pytest.mark.parametrize("world", CONFIGS)
def test_updates_are_those_of_torch(world, name):
    """Computes without dropout: the mean gradient of all micro-batches and replicas, a step."""
    config = {**ONE_IPU, **CONFIGS[world]}
    split, make_batch = make(name)
    for module in split.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if isinstance(module, torch.nn.MultiheadAttention):
            module.dropout = 0.0
    eager = copy.deepcopy(split)
    cut_for(config, split, make_batch)
    batch = make_batch(MICRO_BATCH * BATCHES * config["replicas"])
    optimiser = torch.optim.SGD(eager.parameters(), lr=0.1, momentum=0.9)
    eager(*batch)[1].backward()  # equal micro-batches: the mean of means
    optimiser.step()
    run(split, [batch], config, True)
    for key, tensor in eager.state_dict().items():
        assert torch.allclose(split.state_dict()[key], tensor, rtol=1e-4, atol=1e-5), key


def test_a_world_without_passes_has_none():
    def forms():
        wrapped = poptorch.inferenceModel(lambda x: torch.relu(x.t().t()) * (torch.ones(1) + 1))
        wrapped.compile(torch.ones(3, 3))
        return wrapped.graph("traced"), wrapped.graph("normal")

    with environment(CONFIGS["passes_off"]):
        traced, normal = forms()
        assert normal == traced
    traced, normal = forms()
    assert normal != traced
