"""Serialised products and the settings of poptorch.MultiConv change the modelled figures."""

import poptorch
import pytest
import torch
from torch import nn

MODES = poptorch.MatMulSerializationMode
PLANS = poptorch.MultiConvPlanType
FACTORS = (1, 2, 4, 8)


class Serialised(nn.Module):
    """A product in parts, with a weight to train."""

    def __init__(self, mode, factor, size=1024):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size, size))
        self.mode, self.factor = mode, factor

    def forward(self, x):
        y = poptorch.serializedMatMul(x, self.weight, self.mode, self.factor)
        return poptorch.identity_loss(y, "sum")


def estimated(model, x, training=False, change=lambda options: options):
    """Returns the estimate of one IPU in float16 on GC200."""
    options = poptorch.Options().useOfflineIpuTarget(2)
    change(options)
    model, x = model.to("meta").half(), x.to("meta").half()
    return poptorch.estimate(model, x, options, training=training).ipus[0]


@pytest.mark.parametrize("mode", [MODES.InputChannels, MODES.ReducingDim, MODES.OutputChannels])
@pytest.mark.parametrize("training", [False, True])
def test_more_parts_take_less_memory_and_more_cycles(mode, training):
    x = torch.zeros(4096, 1024)
    found = [estimated(Serialised(mode, factor), x, training) for factor in FACTORS]
    memory = [ipu.arena_bytes for ipu in found]
    cycles = [ipu.cycles["compute"] for ipu in found]
    assert memory == sorted(set(memory), reverse=True), memory
    assert cycles == sorted(set(cycles)), cycles


def test_parts_do_not_change_values():
    torch.manual_seed(0)
    x, weight = torch.randn(8, 24), torch.randn(24, 12)
    for mode in (MODES.InputChannels, MODES.ReducingDim, MODES.OutputChannels):
        model = Serialised(mode, 4)
        model.weight = nn.Parameter(weight.clone())
        plain = Serialised(MODES.Disabled, 0)
        plain.weight = nn.Parameter(weight.clone())
        for network in (model, plain):
            optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
            poptorch.trainingModel(network, optimizer=optimizer)(x)
        assert torch.equal(model.weight, plain.weight)
        assert not torch.equal(plain.weight, weight)


def test_the_program_names_the_parts():
    model = poptorch.inferenceModel(Serialised(MODES.OutputChannels, 3, size=6))
    model.compile(torch.zeros(2, 6))
    assert 'parts=3, serial="columns"' in model.graph("program")


class Branches(nn.Module):
    """Convolutions of one input, joined by a scope."""

    def __init__(self, scope, outputs=(256, 64, 64), channels=64):
        super().__init__()
        self.scope = scope
        self.convs = nn.ModuleList(nn.Conv2d(channels, n, 3, padding=1) for n in outputs)

    def forward(self, x):
        with self.scope:
            return [conv(x) for conv in self.convs]


def branches(scope, batch=4, size=28):
    return estimated(Branches(scope), torch.zeros(batch, 64, size, size))


@pytest.fixture
def one_ipu(world):
    """Skips a test of figures where a placement divides the model."""
    if world is not None:
        pytest.skip("figures are those of one IPU")


def cycles(ipu):
    return ipu.cycles["compute"]


def multi():
    return poptorch.MultiConv()


@pytest.mark.usefixtures("one_ipu")
def test_a_parallel_plan_takes_fewer_cycles_and_more_memory_than_a_serial_one():
    serial = branches(multi().planType(PLANS.Serial), batch=1, size=7)
    parallel = branches(multi().planType(PLANS.Parallel), batch=1, size=7)
    assert cycles(parallel) < cycles(serial)
    assert parallel.arena_bytes != serial.arena_bytes


@pytest.mark.usefixtures("one_ipu")
def test_more_reserved_tiles_leave_fewer_for_the_slowest():
    found = [cycles(branches(multi().perConvReservedTiles(count))) for count in (0, 50, 300, 490)]
    assert found == sorted(found) and found[0] < found[-1]
    assert found[1] == cycles(branches(multi()))  # the default


@pytest.mark.usefixtures("one_ipu")
def test_a_larger_back_off_takes_more_cycles():
    found = [cycles(branches(multi().cycleBackOff(share), 1, 7)) for share in (0.0, 0.1, 0.5, 1.0)]
    assert found == sorted(found) and found[0] < found[-1]
    assert found[1] == cycles(branches(multi(), 1, 7))  # the default


@pytest.mark.usefixtures("one_ipu")
def test_half_partials_of_single_convolutions():
    def found(partials):
        scope = multi().planType(PLANS.Serial)
        return cycles(branches(scope.partialsTypes(partials) if partials else scope))

    whole, half = found(None), found([torch.half] * 3)
    assert half < whole and found(torch.float) == whole
    assert half < found([torch.half, torch.float, torch.float]) < whole


@pytest.mark.usefixtures("one_ipu")
@pytest.mark.parametrize("plan", PLANS)
def test_less_memory_lowers_the_peak_and_takes_more_cycles(plan):
    found = [
        branches(multi().planType(plan).availableMemoryProportions(share), 16, 56)
        for share in (0.4, 0.05, 0.01)
    ]
    memory = [ipu.arena_bytes for ipu in found]
    assert memory == sorted(set(memory), reverse=True), memory
    assert [cycles(ipu) for ipu in found] == sorted({cycles(ipu) for ipu in found})


def test_half_partials_of_a_scope_change_its_values_alone():
    torch.manual_seed(0)
    x = torch.randn(2, 64, 9, 9).half()

    def run(scope, partials=torch.float):
        torch.manual_seed(1)
        options = poptorch.Options()
        options.Precision.setPartialsType(partials)
        return poptorch.inferenceModel(Branches(scope, (5, 6)).half(), options)(x)

    whole, half = run(multi()), run(multi(), torch.half)
    one = run(multi().partialsTypes([torch.half, torch.float]))
    assert torch.equal(one[0], half[0]) and torch.equal(one[1], whole[1])
    assert not torch.equal(half[0], whole[0])
    other = run(multi().partialsTypes([torch.half, torch.float]), torch.half)
    assert torch.equal(other[1], whole[1])


@pytest.mark.usefixtures("one_ipu")
def test_more_convolutions_than_tiles_run_one_after_the_other(monkeypatch):
    monkeypatch.setenv("POPTORCH_SMALL_IPU_MODEL", "1")  # 4 tiles

    def found(plan, count):
        options = poptorch.Options().useIpuModel(True)
        scope = multi().planType(plan)
        model = poptorch.inferenceModel(Branches(scope, (2,) * count), options)
        model.compile(torch.zeros(1, 64, 4, 4))
        return model.report()["ipus"][0]["compute_cycles"]

    assert found(PLANS.Parallel, 6) == found(PLANS.Serial, 6)
    assert found(PLANS.Parallel, 3) != found(PLANS.Serial, 3)


@pytest.mark.parametrize(
    ("scope", "text"),
    [
        (multi().availableMemoryProportions(1.5), "availableMemoryProportions has 1.5"),
        (multi().cycleBackOff(-0.5), "cycleBackOff has -0.5"),
        (multi().perConvReservedTiles(-1), "perConvReservedTiles is -1"),
    ],
)
def test_numbers_out_of_range_are_refused(scope, text):
    with pytest.raises(poptorch.Error, match=text):
        poptorch.inferenceModel(Branches(scope, (2, 2))).compile(torch.zeros(1, 64, 4, 4))
