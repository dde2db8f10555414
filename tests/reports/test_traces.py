"""The sums of a run's trace, by SQL, equal those of report(), and a viewer can follow its links."""

import json
import sqlite3

import poptorch
import pytest
import torch
from poptorch._impl.wrapper.state import wrapper_state
from poptorch_core import _core
from poptorch_core.reports import data, traces

AUTO = poptorch.AutoStage.AutoIncrement


class Chain(torch.nn.Module):
    """Four layers, each in a separate block that the strategy places."""

    def __init__(self, ipus, alternating=False):
        super().__init__()
        self.ipu_of = (lambda i: i % ipus) if alternating else (lambda i: i * ipus // 4)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(32, 32) for _ in range(4))

    def forward(self, x, target=None):
        for i, layer in enumerate(self.layers):
            poptorch.Block.start(f"b{i}", ipu_id=self.ipu_of(i))
            x = torch.tanh(layer(x))
        return x if target is None else (x, torch.nn.functional.mse_loss(x, target))


def phased(kind):
    return kind(*(poptorch.Phase(f"b{i}") for i in range(4)))


def sequential():
    return poptorch.ShardedExecution(AUTO)


def pipelined():
    return poptorch.PipelinedExecution(AUTO)


def parallel_phased():
    return phased(poptorch.ParallelPhasedExecution)


def serial_phased():
    return phased(poptorch.SerialPhasedExecution)


CASES = {
    "one IPU, training": (1, sequential, True, 2),
    "sharded inference": (2, sequential, False, 3),
    "sharded training": (4, sequential, True, 3),
    "pipelined inference": (4, pipelined, False, 6),
    "pipelined training": (2, pipelined, True, 8),
    "parallel phased training": (2, parallel_phased, True, 2),
    "serial phased training": (1, serial_phased, True, 2),
}


def compiled(ipus, strategy, training, micro_batches):
    options = poptorch.Options().showCompilationProgressBar(False)
    options.setExecutionStrategy(strategy())
    x = torch.randn(4 * micro_batches, 32)
    network = Chain(ipus, alternating=strategy is parallel_phased)
    if not training:
        model = poptorch.inferenceModel(network, options.deviceIterations(micro_batches))
        model.compile(x)
        return model
    options.Training.gradientAccumulation(micro_batches)
    optimizer = torch.optim.AdamW(network.parameters())
    model = poptorch.trainingModel(network, options.deviceIterations(2), optimizer)
    model.compile(torch.cat([x, x]), torch.cat([x, x]))
    return model


def made(model):
    executable = wrapper_state(model).compiled.executable
    return data.make(executable, {"name": "chain", "kind": "training"})


def database(trace):
    """Returns the bars of IPUs in a trace file."""
    trace = json.loads(json.dumps(trace))
    base = sqlite3.connect(":memory:")
    base.execute("CREATE TABLE processes (pid INT, name TEXT)")
    base.execute(
        "CREATE TABLE bars (pid INT, tid INT, category TEXT, op TEXT, module TEXT, source TEXT,"
        " start REAL, length REAL, cycles INT, bytes INT)"
    )
    for event in trace["traceEvents"]:
        if event["ph"] == "M" and event["name"] == "process_name":
            row = event["pid"], event["args"]["name"]
            base.execute("INSERT INTO processes VALUES (?, ?)", row)
        if event["ph"] == "X" and event["cat"] != "stage":
            args = event["args"]
            row = [event[key] for key in ("pid", "tid", "cat", "name")]
            row += [args.get("module", ""), args.get("source", ""), event["ts"], event["dur"]]
            row += [args["cycles"], args["bytes"]]
            base.execute(f"INSERT INTO bars VALUES ({','.join('?' * len(row))})", row)
    return base


@pytest.mark.parametrize("case", CASES)
def test_sums_are_those_of_the_report(case):
    model = compiled(*CASES[case])
    report, found = model.report(), made(model)
    assert found["execution"]["complete"]
    base = database(traces.of(found))
    words = {"compute": "compute", "exchange": "link", "host": "host", "streaming": "streaming"}
    for number, ipu in enumerate(report["ipus"]):
        sums = dict(
            base.execute(
                "SELECT category, SUM(cycles) FROM bars JOIN processes USING (pid)"
                " WHERE processes.name = ? GROUP BY category",
                [f"IPU {number}"],
            ).fetchall()
        )
        wanted = {word: ipu[f"{key}_cycles"] for word, key in words.items()}
        assert sums == {word: cycles for word, cycles in wanted.items() if cycles}
        beside = "SELECT COALESCE(SUM(cycles), 0) FROM bars WHERE pid = ? AND tid = 1"
        assert base.execute(beside, [number + 1]).fetchone() == (ipu["overlapped_cycles"],)
    # Views take no time: they are ops of the report without bars.
    ops = {}
    for op in report["ops"]:
        key = op["ipu"], op["op"], op["module"]
        ops[key] = ops.get(key, 0) + op["cycles"]
    rows = base.execute(
        "SELECT pid - 1, op, module, SUM(cycles) FROM bars WHERE category = 'compute'"
        " GROUP BY pid, op, module"
    ).fetchall()
    bars = {(ipu, op, module): cycles for ipu, op, module, cycles in rows}
    elsewhere = {key: cycles for key, cycles in bars.items() if key not in ops}
    assert {key[1] for key in elsewhere} <= {"copy", "stash", "restore", "sync"}
    assert {key: ops[key] for key in ops if ops[key]} == {
        key: bars[key] for key in bars if key in ops
    }
    # The last bar ends with the run.
    (end,) = base.execute("SELECT MAX(start + length) FROM bars").fetchone()
    assert end == pytest.approx(report["seconds_per_run"] * 1e6, abs=1e-3)


def test_bars_of_a_thread_do_not_overlap():
    found = made(compiled(*CASES["pipelined training"]))
    for thread in database(traces.of(found)).execute("SELECT DISTINCT pid, tid FROM bars"):
        bars = database(traces.of(found)).execute(
            "SELECT start, length FROM bars WHERE pid = ? AND tid = ? ORDER BY start", thread
        )
        end = 0.0
        for start, length in bars:
            assert start >= end - 1e-4
            end = start + length


def test_a_bar_leads_to_its_line():
    base = database(traces.of(made(compiled(*CASES["one IPU, training"]))))
    query = "SELECT DISTINCT source FROM bars WHERE op = 'tanh' AND module = ''"
    (source,) = base.execute(query).fetchone()
    name, line = source.rsplit(":", 1)
    assert name.endswith("test_traces.py")
    assert "torch.tanh" in open(__file__).readlines()[int(line) - 1]


def test_counters_say_what_memory_holds():
    found = made(compiled(*CASES["pipelined training"]))
    events = traces.of(found)["traceEvents"]
    for number, ipu in enumerate(found["memory"]["ipus"]):
        counters = [e for e in events if e["ph"] == "C" and e["pid"] == number + 1]
        highest = max(sum(counter["args"].values()) for counter in counters)
        # Views may cause the peak between two bars.
        assert ipu["always"] < highest <= ipu["always"] + ipu["peak"]["bytes"]
        assert highest > ipu["always"] + 0.7 * ipu["peak"]["bytes"]
        assert {"always", "activation", "gradient"} <= counters[0]["args"].keys()


def test_arrows_lead_from_sends_to_what_they_let_go_on():
    found = made(compiled(*CASES["pipelined training"]))
    events = traces.of(found)["traceEvents"]
    arrows = {}
    for event in events:
        if event["ph"] in "sf":
            arrows.setdefault(event["id"], {})[event["ph"]] = event
    crossings = found["graph"]["crossings"]
    assert len(arrows) == sum(crossings["count"])
    bars = {(e["pid"], e["tid"], e["ts"]): e for e in events if e["ph"] == "X"}
    for arrow in arrows.values():
        begin, end = arrow["s"], arrow["f"]
        sent, landed = (bars[e["pid"], e["tid"], e["ts"]] for e in (begin, end))
        assert sent["name"] == "send" and sent["pid"] != landed["pid"]
        assert landed["ts"] >= sent["ts"] + sent["dur"] - 1e-4
        assert sent["args"].get("micro_batch") == landed["args"].get("micro_batch")


def test_stages_have_a_bar_a_micro_batch():
    events = traces.of(made(compiled(*CASES["pipelined inference"])))["traceEvents"]
    bars = [e for e in events if e.get("cat") == "stage"]
    seen = {(e["pid"], e["name"], e["args"]["micro_batch"]) for e in bars}
    assert seen == {(i + 1, f"stage {i} forward", batch) for i in range(4) for batch in range(6)}


def test_the_host_is_a_process_of_its_own():
    found = made(compiled(*CASES["one IPU, training"]))
    host = [
        {"name": "epoch", "cat": "data", "ph": "X", "ts": 5e15, "dur": 3.0, "pid": 1, "tid": 7},
        {"name": "load", "cat": "data", "ph": "X", "ts": 5e15 + 2, "dur": 1.0, "pid": 1, "tid": 7},
    ]
    events = traces.of(found, host)["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names == {1: "IPU 0", 2: "host, process 1"}
    assert [(e["name"], e["ts"]) for e in events if e["pid"] == 2 and e["ph"] == "X"] == [
        ("epoch", 0.0),
        ("load", 2.0),
    ]


@pytest.mark.shared
def test_what_is_left_out_is_one_bar():
    """The trace of a loop of a million micro-batches has its full length."""
    program = """
graph @main(%x: f32[64]) -> (f32[64]) {
  %y = relu(%x) : f32[64]
  return %y
}
"""
    lines = [("execution", "", {"device_iterations": 1_000_000})]
    executable = _core.compile(_core.parse(program), lines)
    found = data.make(executable, {})
    trace = traces.of(found)
    assert not trace["otherData"]["complete"]
    bars = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert any(e["args"].get("rounds", 1) > 1000 for e in bars)
    assert len(bars) <= 250_000
    end = max(e["ts"] + e["dur"] for e in bars)
    assert end == pytest.approx(executable.report()["seconds_per_run"] * 1e6, rel=0.01)
