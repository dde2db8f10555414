"""The first page says what is wrong with a program, with the figure and the cure."""

import json

import poptorch
import popxl
import pytest
import torch
from poptorch_core.reports import advice, advice_form, recording


def report_of(model, folder, *inputs):
    model.compile(*inputs)
    model.write_report(folder)
    return json.loads((folder / "report.json").read_text())


def one(data, kind):
    (found,) = (row for row in data["advice"] if row["kind"] == kind)
    return found


class Blocks(torch.nn.Module):
    """Square linear layers, the given number per stage, one stage per IPU."""

    def __init__(self, layers, width=256):
        super().__init__()
        self.stages = torch.nn.ModuleList(
            torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(count)))
            for count in layers
        )
        for ipu, stage in enumerate(self.stages):
            poptorch.BeginBlock(stage, ipu_id=ipu)

    def forward(self, x):
        for stage in self.stages:
            x = stage(x)
        return poptorch.identity_loss(x, reduction="mean")


def pipelined(layers, micro_batches=32, **keywords):
    options = poptorch.Options()
    options.Training.gradientAccumulation(micro_batches)
    return poptorch.trainingModel(Blocks(layers, **keywords), options)


def test_a_slow_stage(tmp_path):
    data = report_of(pipelined((2, 6, 2, 2)), tmp_path, torch.zeros(32 * 8, 256))
    found = one(data, "slow_stage")
    assert 2 < found["figure"] < 5 and found["unit"] == "times" and found["ipu"] == 1
    assert f"{found['figure']:.1f} times as many as the others" in found["text"]
    assert found["text"].startswith("IPU 1, which has stages 1 and 5, works ")
    assert "poptorch.plan(model, inputs, num_ipus=4)" in found["cure"]
    # All IPUs wait while one transfers.
    cycles = [-(ipu["host_cycles"] + ipu["link_cycles"]) // 32 for ipu in data["ipus"]]
    for stage in data["stages"]:
        cycles[stage["ipu"]] += stage["cycles"]
    assert found["figure"] == pytest.approx(3 * cycles[1] / (sum(cycles) - cycles[1]), abs=0.01)


def test_a_good_pipeline_is_not_blamed(tmp_path):
    data = report_of(pipelined((2, 2)), tmp_path, torch.zeros(32 * 8, 256))
    kinds = {row["kind"] for row in data["advice"]}
    assert not kinds & {"slow_stage", "does_not_fit", "idle_replica", "bubbles", "unused_ipu"}


def test_too_few_micro_batches(tmp_path):
    data = report_of(pipelined((2, 2, 2, 2), 7), tmp_path, torch.zeros(7 * 8, 256))
    found = one(data, "bubbles")
    assert found["figure"] == pytest.approx(data["summary"]["shares"]["waiting"], abs=1e-4)
    assert "7 micro-batches a weight update do not fill a pipeline of 7 stages" in found["text"]
    assert found["cure"] == "Use more micro-batches: options.Training.gradientAccumulation(28)."


def test_a_pipeline_empties_with_each_weight_update(tmp_path):
    options = pipelined((2, 2, 2, 2), 7).options.clone().deviceIterations(20)
    model = poptorch.trainingModel(Blocks((2, 2, 2, 2)), options)
    found = one(report_of(model, tmp_path, torch.zeros(20 * 7 * 8, 256)), "bubbles")
    assert "7 micro-batches a weight update" in found["text"]


@pytest.mark.shared
def test_a_model_that_does_not_fit(tmp_path):
    options = poptorch.Options()
    options.Emulator.memoryLimit("off")
    model = poptorch.inferenceModel(torch.nn.Linear(20000, 20000), options)
    data = report_of(model, tmp_path, torch.zeros(1, 20000))
    found = data["advice"][0]
    assert found["kind"] == "does_not_fit" and found["page"] == "memory"
    memory = data["memory"]["ipus"][0]
    assert found["figure"] == memory["needed"] - memory["capacity"] > 0
    assert f"{found['figure'] / 2**20:,.0f} MiB too much" in found["text"]
    remedy = memory["remedies"][0]
    assert remedy["saving"] > found["figure"]  # so that no further remedy is needed
    assert found["cure"] == (
        f"K{remedy['text'][1:]}. It saves {advice_form.size(remedy['saving'])}."
    )


def test_remedies_are_named_until_they_are_enough():
    remedies = [{"saving": 600, "text": "do a"}, {"saving": 500, "text": "do b"}]

    def cure(over):
        ipu = {"needed": 1000 + over, "capacity": 1000, "remedies": remedies, "tile_groups": []}
        (found,) = advice.advice_memory.ipus({"memory": {"ipus": [ipu]}})
        return found.cure

    assert cure(600) == "Do a. It saves 600 B."
    assert cure(601) == "Do a. It saves 600 B. Do b. It saves 500 B."
    assert cure(1101).endswith("Do b. It saves 500 B. Then move blocks to another IPU.")


def test_streaming_memory_that_does_not_hold_all(tmp_path):
    options = poptorch.Options().useOfflineIpuTarget(1)  # an Mk1 has none
    off_chip = poptorch.TensorLocationSettings().useOnChipStorage(False)
    options.TensorLocations.setWeightLocation(off_chip)
    model = poptorch.inferenceModel(torch.nn.Linear(256, 256), options)
    data = report_of(model, tmp_path, torch.zeros(1, 256))
    found = one(data, "streaming_full")
    memory = data["memory"]["streaming"]
    assert found["figure"] == memory["needed"] - memory["capacity"] > 0
    assert found["text"].startswith("Streaming Memory would hold 257 KiB but has 0 B: ")


class Overlapped(torch.nn.Module):
    def forward(self, x):
        loop = poptorch.OverlapMode.OverlapDeviceIterationLoop
        return poptorch.set_overlap_for_input(x, loop).sum()


def test_tiles_for_io_that_hold_too_much(tmp_path):
    def made(count):
        options = poptorch.Options().deviceIterations(4)
        options.setExecutionStrategy(poptorch.ShardedExecution())
        options.TensorLocations.numIOTiles(count)
        model = poptorch.inferenceModel(Overlapped(), options)
        return report_of(model, tmp_path, torch.zeros(4 * 6000, 1024))

    data = made(32)
    found = one(data, "tiles_full")
    _, group = data["memory"]["ipus"][0]["tile_groups"]
    assert found["figure"] == group["needed"] - group["capacity"] > 0
    assert found["text"].startswith("The 32 IO tiles of IPU 0 need ")
    count = int(found["cure"].rpartition("(")[2].rstrip(")."))
    assert f"Reserve {count} IO tiles" in found["cure"]
    assert "tiles_full" not in {row["kind"] for row in made(count)["advice"]}
    assert "tiles_full" in {row["kind"] for row in made(count - 2)["advice"]}


def test_a_program_bound_by_its_transfers(tmp_path):
    model = poptorch.inferenceModel(torch.nn.ReLU())
    data = report_of(model, tmp_path, torch.zeros(512, 4096))
    assert data["summary"]["bound_by"] == "host"
    found = one(data, "host_bound")
    assert found["figure"] > 0.5
    assert f"{100 * found['figure']:.0f} % of the IPUs' time" in found["text"]
    assert "16.0 MiB a run" in found["text"]
    assert "poptorch.set_overlap_for_input" in found["cure"]
    assert "Send fewer bytes" in found["cure"]


def test_small_transfers_are_not_to_be_smaller(tmp_path):
    data = report_of(poptorch.inferenceModel(torch.nn.ReLU()), tmp_path, torch.zeros(4))
    cure = one(data, "host_bound")["cure"]
    assert "send more at once" in cure and "Send fewer bytes" not in cure


def test_an_idle_replica(tmp_path):
    options = poptorch.Options().replicationFactor(3).autoRoundNumIPUs(True)
    options.broadcastBuffers(False)
    model = poptorch.inferenceModel(torch.nn.Linear(8, 8), options)
    data = report_of(model, tmp_path, torch.zeros(3, 8))
    found = one(data, "idle_replica")
    assert found["figure"] == 1
    assert found["text"] == (
        "1 of the 4 reserved IPUs does nothing, and has room for 1 more replica."
    )
    assert "options.replicationFactor(4)" in found["cure"]


def test_ipus_that_are_no_replica(tmp_path):
    model = pipelined((1, 1, 1))
    options = model.options.clone().autoRoundNumIPUs(True)
    model = poptorch.trainingModel(Blocks((1, 1, 1)), options)
    found = one(report_of(model, tmp_path, torch.zeros(32, 256)), "idle_ipus")
    assert found["cure"] == "Cut the model for 4 IPUs."


def test_what_is_sharded_waits(tmp_path):
    options = poptorch.Options()
    options.setExecutionStrategy(poptorch.ShardedExecution())
    options.Training.gradientAccumulation(32)
    model = poptorch.trainingModel(Blocks((2, 2)), options)
    data = report_of(model, tmp_path, torch.zeros(32 * 8, 256))
    found = one(data, "one_at_a_time")
    assert found["figure"] == pytest.approx(data["summary"]["shares"]["waiting"], abs=1e-4)
    assert "poptorch.PipelinedExecution()" in found["cure"]


def exchange_bound(of_collectives, kind="training"):
    ipu = {"link_bytes": 3 << 20, "gateway_bytes": 0, "link_cycles": 100, "gateway_cycles": 0}
    data = {
        "model": {"kind": kind},
        "summary": {"bound_by": "exchange", "shares": {"exchange": 0.47}},
        "ipus": [ipu],
        "collectives": [{"cycles": of_collectives}],
    }
    (found,) = advice.advice_time.exchange(data)
    return found


def test_a_program_bound_by_links():
    found = exchange_bound(10)
    assert found.kind == "exchange_bound" and found.figure == 0.47
    assert found.text == "Transfers between IPUs take 47 % of the IPUs' time, for 3.00 MiB a run."
    assert found.cure.startswith("Cut the model where fewer bytes cross")
    assert exchange_bound(90).text.startswith("Transfers between replicas take")
    assert "gradientAccumulation" in exchange_bound(90).cure


@pytest.mark.parametrize(
    "count,text",
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.00 KiB"), (1023 * 1024, "1.00 MiB"),
     (630 << 20, "630 MiB"), (1600840576, "1.49 GiB"), (3 << 50, "3,072 TiB")],
)  # fmt: skip
def test_sizes_are_those_of_the_pages(count, text):
    assert advice_form.size(count) == text


def test_a_session_of_popxl_is_not_told_of_options_of_poptorch():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.ops.host_load(popxl.h2d_stream((512, 4096), popxl.float32, name="x"))
        popxl.ops.host_store(popxl.d2h_stream(x.shape, x.dtype, name="y"), popxl.ops.relu(x))
    session = popxl.Session(ir, "ipu_model")
    found = one(recording.data_of(session._executable, {"kind": "popxl"}), "host_bound")
    assert "popxl.io_tiles()" in found["cure"]
    assert "poptorch" not in found["cure"] and "options." not in found["cure"]


def test_what_costs_most_comes_first():
    rows = [
        advice.Advice("a", "summary", "", "", 1, "", loss=0.1),
        advice.Advice("b", "summary", "", "", 1, "", loss=2),
    ]
    kept, advice.RULES = advice.RULES, (lambda data: iter(rows),)
    try:
        assert [row["kind"] for row in advice.advise({})] == ["b", "a"]
    finally:
        advice.RULES = kept
