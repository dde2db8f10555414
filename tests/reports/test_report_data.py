"""report.json follows its schema, and its sums equal those of report(), exactly.

Sums agree to the cycle and the byte.
"""

import json
from collections import Counter
from pathlib import Path

import jsonschema
import numpy as np
import poptorch_core
import pytest
import torch
from poptorch_core.reports import data
from reported import OTHERS, TORCH, executable_of

SCHEMA = json.loads(
    (Path(poptorch_core.__file__).parent / "reports/report.schema.json").read_text()
)
# In report()["ipus"]: the cycles of each kind of instruction.
CYCLES = {
    "send": "link_cycles",
    "collective": "link_cycles",  # within a domain
    "stream_in": "host_cycles",
    "stream_out": "host_cycles",
    "load": "streaming_cycles",
    "store": "streaming_cycles",
}
BYTES = {kind: name.replace("cycles", "bytes") for kind, name in CYCLES.items()}


class Reported:
    """Returns the data of a report, and report()."""

    def __init__(self, model):
        executable = executable_of(model)
        self.report = executable.report()
        self.data = data.make(executable, {"name": "model", "options": {"a": "b"}})
        self.strings = self.data["strings"]

    def columns(self, *path):
        table = self.data
        for key in path:
            table = table[key]
        return {name: np.array(column, np.int64) for name, column in table.items()}

    def texts(self, column):
        return [self.strings[number] for number in column]


@pytest.fixture(scope="module", params=TORCH + OTHERS, ids=lambda make: make.__name__)
def reported(request):
    torch.manual_seed(0)
    return Reported(request.param())


TABLES = [
    ("instructions",),
    ("memory", "always"),
    ("memory", "allocations"),
    ("execution", "events"),
    ("graph", "modules"),
    ("graph", "crossings"),
]
TEXTS = {"kind", "op", "name", "module", "block", "pass", "file", "path"}
ROWS = {"instruction": "instructions", "first": "instructions", "last": "instructions"}


def thinned(value, most=1000):
    """Returns JSON with at most so many items of each list, evenly spaced."""
    if isinstance(value, dict):
        return {key: thinned(inner, most) for key, inner in value.items()}
    if isinstance(value, list):
        return [thinned(inner, most) for inner in value[:: 1 + len(value) // most]]
    return value


@pytest.mark.shared
def test_the_form_is_the_schemas(reported):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    again = json.loads(json.dumps(reported.data))
    jsonschema.validate(thinned(again), SCHEMA)
    assert again == reported.data  # JSON types only


def test_tables_are_columns_of_equal_length_that_name_what_is_there(reported):
    rows = len(reported.data["instructions"]["ipu"])
    for path in TABLES:
        table = reported.columns(*path)
        assert len({len(column) for column in table.values()}) == 1, path
        for name, column in table.items():
            if name in TEXTS:
                assert column.max(initial=0) < len(reported.strings), (path, name)
            if name in ROWS:
                assert column.max(initial=0) < rows, (path, name)
    parents = reported.columns("instructions")["parent"]
    assert all(parents < np.arange(rows))
    for form in reported.data["graph"]["forms"].values():
        assert len(form["op_id"]) == len(form["text"])


def test_instructions_add_up_to_the_account(reported):
    table = reported.columns("instructions")
    kinds = np.array(reported.texts(table["kind"]))
    for ipu, said in enumerate(reported.report["ipus"]):
        own = table["ipu"] == ipu
        found = Counter()
        for kind in set(kinds[own]):
            rows = own & (kinds == kind)
            found[CYCLES.get(kind, "compute_cycles")] += int(
                (table["cycles"][rows] * table["count"][rows]).sum()
            )
            if kind in BYTES:
                found[BYTES[kind]] += int((table["bytes"][rows] * table["count"][rows]).sum())
        for name in {"compute_cycles", *CYCLES.values(), *BYTES.values()}:
            assert found[name] == said[name], (ipu, name)


def test_events_add_up_to_the_account(reported):
    execution = reported.data["execution"]
    assert execution["total_cycles"] == reported.report["cycles_per_run"]
    if not execution["complete"]:
        pytest.skip("not all events are kept")
    assert execution["shown_cycles"] == execution["total_cycles"]
    events, lanes = reported.columns("execution", "events"), execution["lanes"]
    instructions = reported.columns("instructions")
    kinds = np.array(reported.texts(instructions["kind"]))[events["instruction"]]
    for ipu, said in enumerate(reported.report["ipus"]):
        found = Counter()
        for lane, at in enumerate(lanes):
            own = events["lane"] == lane
            if at["ipu"] != ipu:
                continue
            assert all(instructions["tiles"][events["instruction"][own]] == at["tiles"])
            for kind in set(kinds[own]):
                cycles = int(events["cycles"][own & (kinds == kind)].sum())
                found[CYCLES.get(kind, "compute_cycles")] += cycles
                found["overlapped_cycles"] += cycles * at["tiles"]
        busy = sum(found.values()) - 2 * found["overlapped_cycles"]
        found["idle_cycles"] = execution["total_cycles"] - busy
        for name in {"compute_cycles", "idle_cycles", "overlapped_cycles", *CYCLES.values()}:
            assert found[name] == said[name], (ipu, name)
    times = np.bincount(events["instruction"], minlength=len(instructions["ipu"]))
    shown = instructions["cycles"] > 0
    assert times[shown].tolist() == instructions["count"][shown].tolist()


def test_events_of_a_lane_follow_each_other(reported):
    execution = reported.data["execution"]
    events = reported.columns("execution", "events")
    assert all(np.diff(events["lane"]) >= 0)
    for lane in range(len(execution["lanes"])):
        own = events["lane"] == lane
        start, end = events["start"][own], events["start"][own] + events["cycles"][own]
        assert all(start[1:] >= end[:-1])
        if execution["complete"]:
            assert end.max(initial=0) <= execution["total_cycles"]
    assert len(events["lane"]) <= 200_000


def test_memory_adds_up_to_the_account(reported):
    always = reported.columns("memory", "always")
    kinds = np.array(reported.texts(always["kind"]))
    allocations = reported.columns("memory", "allocations")
    on_chip = kinds != "streaming"
    for ipu, (said, held) in enumerate(
        zip(reported.report["ipus"], reported.data["memory"]["ipus"], strict=True)
    ):
        own = on_chip & (always["ipu"] == ipu)
        parts = said["state_bytes"] + said["stash_bytes"] + said["code_bytes"]
        assert always["bytes"][own].sum() == parts == held["always"]
        for kind, name in {"constant": "constant_bytes", "stash": "stash_bytes"}.items():
            assert always["bytes"][own & (kinds == kind)].sum() == said[name]
        peak = held["peak"]
        assert held["arena"] == said["arena_bytes"] == peak["bytes"] + peak["fragmentation"]
        assert peak["fragmentation"] >= 0
        rows = allocations["ipu"] == ipu
        assert (allocations["offset"] + allocations["bytes"])[rows].max(initial=0) == held["arena"]
        if len(peak["allocations"]) < 100:
            assert allocations["bytes"][peak["allocations"]].sum() == peak["bytes"]
        for row in peak["allocations"]:
            assert allocations["first"][row] <= peak["instruction"] <= allocations["last"][row]
    streaming = always["bytes"][~on_chip].sum()
    assert streaming == reported.report["streaming_bytes"]


def test_allocations_that_live_together_do_not_overlap(reported):
    table = reported.columns("memory", "allocations")
    for i in range(len(table["ipu"])):
        others = (
            (table["ipu"] == table["ipu"][i])
            & (table["first"] <= table["last"][i])
            & (table["first"][i] <= table["last"])
            & (table["offset"] < table["offset"][i] + table["bytes"][i])
            & (table["offset"][i] < table["offset"] + table["bytes"])
        )
        assert others.sum() == 1


def test_modules_add_up_to_the_ops(reported):
    modules = reported.columns("graph", "modules")
    paths = reported.texts(modules["path"])
    cycles = Counter()
    for op in reported.report["ops"]:
        path = op["module"]
        cycles[path] += op["cycles"]
        while path:
            path = path.rpartition(".")[0]
            cycles[path] += op["cycles"]
    assert {path: int(n) for path, n in zip(paths, modules["cycles"], strict=True) if n} == {
        path: n for path, n in cycles.items() if n
    }
    for path, parent in zip(paths, modules["parent"], strict=True):
        above = path.rpartition(".")[0] if path else None
        assert (paths[parent] if parent >= 0 else None) == above


def test_crossings_add_up_to_the_links(reported):
    crossings = reported.columns("graph", "crossings")
    between = Counter()
    for part in reported.report["collectives"]:
        between[part["ipu"]] += part["bytes"]
    for ipu, said in enumerate(reported.report["ipus"]):
        own = crossings["from_ipu"] == ipu
        within = (crossings["bytes"] * crossings["count"])[own].sum()
        assert within + between[ipu] == said["link_bytes"]


def test_shares_are_of_all_time(reported):
    shares = reported.data["summary"]["shares"]
    assert sum(shares.values()) == pytest.approx(1)
    assert min(shares.values()) >= -1e-9
    assert shares[reported.data["summary"]["bound_by"]] == max(shares.values())
