"""Tests single parts of report.json with models made for them."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import jsonschema
import numpy as np
import poptorch
import pytest
import torch
from poptorch_core.reports import data
from reported import (
    WIDTH,
    Chain,
    executable_of,
    inferred,
    io_tiles,
    options,
    pipelined,
    trained,
)
from test_report_data import SCHEMA, TEXTS

HERE = Path(__file__).parent


def made(model, **about):
    found = data.make(executable_of(model), about)
    jsonschema.validate(json.loads(json.dumps(found)), SCHEMA)
    return found


def rows(found, table, *names):
    """Returns columns by name, with indices into strings as texts."""
    columns = [
        [found["strings"][i] for i in table[name]] if name in TEXTS else table[name]
        for name in names
    ]
    return list(zip(*columns, strict=True))


def without_texts(table):
    """Leaves out texts: tensors of a cached program have other names."""
    return {name: column for name, column in table.items() if name not in TEXTS}


def test_what_the_caller_knows_is_there():
    model = inferred(options(iterations=2), Chain(blocks=False))
    found = made(
        model,
        name="one",
        kind="inference",
        **{"class": "Chain"},
        samples_per_run=8,
        options={"device_iterations": "2"},
    )
    assert (found["model"]["name"], found["model"]["class"]) == ("one", "Chain")
    assert found["options"] == {"device_iterations": "2"}
    summary = found["summary"]
    assert summary["samples_per_second"] == pytest.approx(8 / summary["seconds_per_run"])
    assert found["measured"]["compile_seconds"] == found["compile"]["seconds"]


def test_instructions_lead_back_to_the_users_lines():
    found = made(pipelined())
    source = (HERE / "reported.py").read_text().splitlines()
    table = found["instructions"]
    lines = {
        (op, line)
        for op, kind, path, file, line in rows(found, table, "op", "kind", "pass", "file", "line")
        if kind == "compute" and path == "forward" and file == str(HERE / "reported.py")
    }
    assert {op for op, _ in lines} >= {"linear", "tanh"}
    assert all("layer(x)" in source[line - 1] for op, line in lines if op in ("linear", "tanh"))


def test_an_op_has_a_line_in_every_form():
    found = made(pipelined())
    table = found["instructions"]
    (op_id, *_) = [
        number
        for number, op, module in rows(found, table, "op_id", "op", "module")
        if (op, module) == ("linear", "layers.1")
    ]
    for form in ("traced", "normal", "differentiated", "placed", "program", "bound"):
        lines = found["graph"]["forms"][form]
        texts = [t for i, t in zip(lines["op_id"], lines["text"], strict=True) if i == op_id]
        assert texts and all("layers.1.weight" in text for text in texts), form


def test_ops_that_are_fused_have_a_line_of_the_bound_form():
    class Fused(torch.nn.Module):
        def forward(self, x):
            return torch.tanh(x) * x.sin() + 1

    model = poptorch.inferenceModel(Fused(), options())
    model.compile(torch.randn(4, WIDTH))
    found = made(model)
    kinds = rows(found, found["instructions"], "op_id", "kind")
    of_ops = {op_id for op_id, kind in kinds if kind == "compute"}
    assert len(of_ops) > 2
    assert of_ops == set(found["graph"]["forms"]["bound"]["op_id"]) - {0}


def test_passes_have_what_they_did_to_the_number_of_ops():
    found = made(pipelined())["compile"]
    passes = {one["name"]: one for one in found["passes"]}
    assert not found["cached"]
    assert sum(one["seconds"] for one in found["passes"]) <= found["seconds"]
    assert passes["differentiate"]["ops_after"] > passes["differentiate"]["ops_before"]
    assert passes["insert_copies"]["ops_after"] > passes["insert_copies"]["ops_before"]
    for before, after in zip(found["passes"], found["passes"][1:], strict=False):
        assert before["ops_after"] == after["ops_before"]
    assert [one["name"] for one in found["passes"]][-3:] == ["lower", "plan memory", "bind"]


def test_a_program_from_the_cache_says_so(tmp_path):
    def model():
        torch.manual_seed(0)
        return inferred(options().enableExecutableCaching(str(tmp_path)), Chain(blocks=False))

    first, second = made(model()), made(model())
    assert (first["compile"]["cached"], second["compile"]["cached"]) == (False, True)
    assert [one["name"] for one in second["compile"]["passes"]] == ["bind"]
    assert set(second["graph"]["forms"]) == {"traced", "program", "bound"}
    assert without_texts(second["instructions"]) == without_texts(first["instructions"])


def test_a_model_from_a_file_has_its_program(tmp_path):
    file = str(tmp_path / "model.poptorch")
    torch.manual_seed(0)
    model = poptorch.inferenceModel(Chain(), options(iterations=2))
    model.compileAndExport(file, torch.randn(8, WIDTH))
    found, expected = made(poptorch.load(file)), made(model)
    for part in ("target", "execution", "summary"):
        assert found[part] == expected[part]
    assert without_texts(found["instructions"]) == without_texts(expected["instructions"])
    assert found["memory"]["ipus"] == expected["memory"]["ipus"]
    assert found["model"]["strategy"] == "pipelined"
    assert [one["name"] for one in found["compile"]["passes"]] == ["bind"]


@pytest.fixture
def small_ipus(monkeypatch):
    """IPUs of four tiles: 2,555,904 bytes."""
    monkeypatch.setenv("POPTORCH_SMALL_IPU_MODEL", "1")


def test_what_does_not_fit_has_remedies(small_ipus):
    torch.manual_seed(0)
    setup = options(accumulation=4).useIpuModel(True)
    setup.Emulator.memoryLimit("off")
    network = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(6)))
    adam = torch.optim.Adam(network.parameters())
    model = poptorch.trainingModel(WithLoss(network), setup, adam)
    model.compile(torch.randn(4 * 64, 256))
    (ipu,) = made(model)["memory"]["ipus"]
    assert ipu["needed"] > ipu["capacity"] == 2_555_904
    assert ipu["needed"] == ipu["always"] + ipu["arena"]
    savings = [remedy["saving"] for remedy in ipu["remedies"]]
    assert savings == sorted(savings, reverse=True) and len(savings) >= 3
    assert any("off chip" in remedy["text"] for remedy in ipu["remedies"])


class WithLoss(torch.nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return poptorch.identity_loss(self.network(x).square(), reduction="mean")


class Reads(torch.nn.Module):
    """Much to transfer and little to compute."""

    def __init__(self, mode):
        super().__init__()
        self.mode = mode

    def forward(self, x):
        x = poptorch.set_overlap_for_input(x, self.mode)
        return x.sum()


@pytest.mark.parametrize("overlaps", [False, True])
def test_a_program_is_bound_by_its_host_transfers_also_through_io_tiles(overlaps):
    modes = poptorch.OverlapMode
    setup = options(poptorch.ShardedExecution(), iterations=8)
    if overlaps:
        setup.TensorLocations.numIOTiles(32)
    mode = modes.OverlapDeviceIterationLoop if overlaps else modes.NoOverlap
    model = poptorch.inferenceModel(Reads(mode), setup)
    model.compile(torch.randn(8 * 64, 1024))
    summary = made(model)["summary"]
    assert summary["bound_by"] == "host"
    assert summary["shares"]["host"] > 0.8


def test_the_peak_is_what_lives_then():
    class Peak(torch.nn.Module):
        def forward(self, x):
            large = torch.cat([x] * 16, 1)
            return large.flip(1).sum() + x.sum()

    model = poptorch.inferenceModel(Peak(), options())
    model.compile(torch.randn(64, 256))
    found = made(model)
    peak = found["memory"]["ipus"][0]["peak"]
    allocations = rows(found, found["memory"]["allocations"], "name", "bytes")
    named = [allocations[row] for row in peak["allocations"]]
    assert [size for _, size in named[:3]] == [64 * 256 * 16 * 4, 64 * 256 * 16 * 4, 64 * 256 * 4]
    assert named[2][0] == "x"
    assert rows(found, found["instructions"], "op")[peak["instruction"]] == ("reverse",)


def test_groups_of_tiles_share_an_ipu():
    found = made(io_tiles())
    memory, table = found["memory"], found["instructions"]
    some = 0
    for number, ipu in enumerate(memory["ipus"]):
        compute, io = ipu["tile_groups"]
        assert (compute["name"], io["name"], io["tiles"]) == ("compute", "io", 32)
        assert compute["tiles"] + 32 == found["target"]["tiles"]
        assert compute["capacity"] + io["capacity"] == pytest.approx(ipu["capacity"], abs=1)
        assert (compute["always"], io["always"]) == (ipu["always"], 0)
        own = [
            (first, last, size)
            for of, first, last, size in rows(
                found, memory["allocations"], "ipu", "first", "last", "bytes"
            )
            if of == number and table["tiles"][first] == 1
        ]
        held = [sum(size for a, z, size in own if a <= i <= z) for i in range(len(table["op"]))]
        assert io["needed"] == max(held)
        assert io["instruction"] == -1 if not own else io["needed"] == held[io["instruction"]]
        some += io["needed"]
    assert some > 0


def test_stashes_are_named_after_what_they_keep():
    found = made(pipelined())
    kinds = rows(found, found["memory"]["always"], "kind", "name", "module", "ipu")
    stashes = [one for one in kinds if one[0] == "stash"]
    assert ("stash", "x", "", 0) in stashes
    optimiser = {one[2:] for one in kinds if one[0] == "optimiser_state"}
    assert optimiser >= {("layers.0", 0), ("layers.3", 1)}


@pytest.mark.shared
def test_what_is_left_of_long_loops_ends_with_the_run():
    model = trained(options(accumulation=4, iterations=50_000))
    execution = made(model)["execution"]
    assert not execution["complete"]
    events = {name: np.array(column) for name, column in execution["events"].items()}
    assert 50_000 < len(events["lane"]) <= 200_000
    assert set(events["lane"][events["rounds"] > 1]) == {0, 1}
    end = (events["start"] + events["cycles"]).max()
    assert end == pytest.approx(execution["total_cycles"], rel=1e-3)
    shown = events["start"] < execution["shown_cycles"]
    assert set(events["rounds"][shown]) == {1}


def test_data_needs_no_torch():
    code = """
        import sys
        from poptorch_core import _core
        from poptorch_core.reports import data
        text = "graph @main(%x: f32[2]) -> (f32[2]) {\\n  %y = sin(%x) : f32[2]\\n  return %y\\n}"
        found = data.make(_core.compile(_core.parse(text)), {})
        assert found["model"]["kind"] == "program" and len(found["instructions"]["ipu"]) == 3
        assert "torch" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=100)
