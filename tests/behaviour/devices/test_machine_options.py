"""Options that change the emulated machine change the modelled figures."""

import poptorch
import pytest
import torch
from poptorch_core import Error, _core

SHAPE = 512, 2048, 2048  # rows, inputs and outputs of a product


class Product(torch.nn.Module):
    """A linear layer without bias."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(SHAPE[1], SHAPE[2], bias=False)

    def forward(self, x):
        return self.layer(x)


def estimated(change=lambda options: options, dtype=torch.float16, rows=SHAPE[0]):
    """Returns the estimate of the product on GC200 with options that `change` changes."""
    options = poptorch.Options().useOfflineIpuTarget(2)
    change(options)
    with torch.device("meta"):
        model, x = Product().to(dtype), torch.empty(rows, SHAPE[1], dtype=dtype)
    return poptorch.estimate(model, x, options, training=False)


def cycles(estimate):
    return estimate.ipus[0].cycles["compute"]


@pytest.mark.parametrize(("dtype", "changes"), [(torch.float16, True), (torch.float32, False)])
def test_half_partials_take_fewer_cycles_of_products_in_half(dtype, changes):
    whole = cycles(estimated(dtype=dtype))
    half = cycles(estimated(lambda o: o.Precision.setPartialsType(torch.half), dtype))
    assert half < whole if changes else half == whole


def test_less_memory_for_temporary_data_takes_more_cycles():
    def with_proportion(share):
        return cycles(
            estimated(lambda o: o.setAvailableMemoryProportion({"IPU0": share}), rows=8192)
        )

    found = [with_proportion(share) for share in (1.0, 0.6, 0.2, 0.05, 0.0)]
    assert found == sorted(found) and found[0] < found[2] < found[3]
    assert with_proportion(0.6) == cycles(estimated(rows=8192))  # the default
    other = estimated(lambda o: o.setAvailableMemoryProportion({"IPU1": 0.05}), rows=8192)
    assert cycles(other) == cycles(estimated(rows=8192))  # of another IPU


def test_less_memory_for_temporary_data_lowers_the_peak():
    def arena(share):
        options = poptorch.Options().useOfflineIpuTarget(2)
        options.setAvailableMemoryProportion({"IPU0": share})
        x = torch.empty(8192, SHAPE[1], dtype=torch.float16, device="meta")
        with torch.device("meta"):
            model = Product().half()
        return poptorch.estimate(model, x, options, training=False).ipus[0].arena_bytes

    found = [arena(share) for share in (0.05, 0.1, 0.2, 0.4)]
    tensors = 2 * 8192 * (SHAPE[1] + SHAPE[2])  # the operand and the result
    assert found == sorted(set(found)) and found[0] > tensors
    assert found[0] <= tensors + 0.05 * 1472 * 638_976


def test_tiles_for_io_do_not_compute():
    def with_tiles(count):
        return cycles(estimated(lambda o: o.TensorLocations.numIOTiles(count)))

    found = [cycles(estimated()), with_tiles(64), with_tiles(192)]
    assert found == sorted(found) and found[0] < found[2]


def test_code_grows_without_outlining():
    def code(outlining):
        layers = [torch.nn.Linear(64, 64) for _ in range(12)]
        options = poptorch.Options().useOfflineIpuTarget(2)
        if outlining is not None:
            options._Popart.set("enableOutlining", outlining)
        with torch.device("meta"):
            x = torch.empty(4, 64)
        model = torch.nn.Sequential(*layers).to("meta")
        return poptorch.estimate(model, x, options, training=False).ipus[0].code_bytes

    assert code(None) == code(True)
    assert code(False) > 3 * code(True)


def test_a_tile_of_mk1_reserves_memory():
    def capacity(version):
        return poptorch.estimate(
            torch.nn.Linear(4, 4).to("meta"), torch.empty(1, 4, device="meta"),
            poptorch.Options().useOfflineIpuTarget(version), training=False,
        ).ipus[0].capacity_bytes  # fmt: skip

    assert capacity(1) == 1216 * 248 * 1024
    assert capacity(2) == 1472 * 624 * 1024


def test_the_share_of_memory_does_not_change_values():
    torch.manual_seed(0)
    layer, x = torch.nn.Linear(96, 64).half(), torch.randn(8, 96).half()
    options = poptorch.Options().setAvailableMemoryProportion({"IPU0": 0.01})
    expected = poptorch.inferenceModel(layer)(x)
    assert torch.equal(poptorch.inferenceModel(layer, options)(x), expected)


def test_the_text_of_a_program_keeps_the_machine():
    layer = torch.nn.Linear(32, 32).half()
    options = poptorch.Options().setAvailableMemoryProportion({"IPU0": 0.25})
    options.Precision.setPartialsType(torch.half)
    options.TensorLocations.numIOTiles(32)
    model = poptorch.inferenceModel(layer, options)
    model.compile(torch.zeros(4, 32).half())
    text = model.graph("program")
    assert 'partials="half"' in text and "io_tiles=32" in text
    assert f"tile_memory={638_976 // 4}" in text


def test_a_proportion_is_checked_in_texts_as_well():
    text = "graph @main(%x: f32[4]) -> (f32[4]) {\n  return %x\n}\n"
    with pytest.raises(Error, match=r"memory proportion of IPU 1 is .2.\. It must be from 0 to 1"):
        _core.compile(_core.parse(f'execution {{memory_proportions=["", "2"]}}\n{text}'))
