"""Advice on the time that a run spends on waiting and on transfers."""

from collections.abc import Iterator

from poptorch_core.reports.advice_form import Advice, Data, is_popxl, percent, size

_SLOW_STAGE = 1.5  # a cut is bad from this multiple of the mean of the other IPUs
_MANY_BUBBLES = 0.1  # share of the IPUs' time
# Below so many bytes a cycle, the number of host transfers determines their time.
_FEW_BYTES = 1
# The keys are the results of is_popxl().
_OVERLAP = {
    False: "Let them overlap with computation: options.TensorLocations.numIOTiles(32) and "
    "poptorch.set_overlap_for_input and set_overlap_for_output.",
    True: "Let them overlap with computation: popxl.io_tiles(), and session option numIOTiles.",
}
_SEND_FEWER = {
    False: "Send fewer bytes: inputs as uint8 or float16 that forward casts, and only the last "
    "outputs or their sum (outputMode).",
    True: "Send fewer bytes: streams of uint8 or float16 that the program casts, and only outputs "
    "that the host needs.",
}
_SEND_MORE = "Each transfer is so small that it takes the minimum time: send more at once."


def slow_stage(data: Data) -> Iterator[Advice]:
    """Yields advice if one IPU of a pipeline has much more work than the others.

    The IPU with the most work for a micro-batch, in all its stages, sets the pipeline's pace.
    """
    cycles: dict[int, int] = {}
    stages: dict[int, list[str]] = {}
    for stage in data["stages"]:
        ipu = stage["ipu"]
        cycles[ipu] = cycles.get(ipu, 0) + stage["cycles"]
        stages.setdefault(ipu, []).append(str(stage["stage"]))
    if data["model"]["strategy"] != "pipelined" or len(cycles) < 2:
        return
    for ipu in cycles:
        cycles[ipu] -= _shared_transfers(data, ipu)
    slowest = max(cycles, key=lambda ipu: cycles[ipu])
    most = cycles[slowest]
    mean = (sum(cycles.values()) - most) / (len(cycles) - 1)
    if mean == 0 or most / mean < _SLOW_STAGE:
        return
    named = f"stage{'s' if len(stages[slowest]) > 1 else ''} {' and '.join(stages[slowest])}"
    yield Advice(
        "slow_stage",
        "execution",
        f"IPU {slowest}, which has {named}, works {most:,} cycles for a micro-batch, "
        f"{most / mean:.1f} times as many as the others on average. The others wait for it.",
        f"Move modules from IPU {slowest} to its neighbours: poptorch.plan(model, inputs, "
        f"num_ipus={len(cycles)}) proposes the cut.",
        round(most / mean, 2),
        "times",
        slowest,
        loss=1 - sum(cycles.values()) / len(cycles) / most,
    )


def _shared_transfers(data: Data, ipu: int) -> int:
    """Returns the cycles of a micro-batch in which all IPUs wait while one transfers."""
    cycles = 0
    for kind in ("host", "link"):
        if any(each[f"{kind}_wait_cycles"] for each in data["ipus"]):
            cycles += data["ipus"][ipu][f"{kind}_cycles"]
    return cycles // data["model"]["micro_batches_per_run"]


def bubbles(data: Data) -> Iterator[Advice]:
    """Yields advice if a pipeline has too few micro-batches.

    The pipeline fills and empties for each weight update, or for each run without updates.
    """
    stages = len(data["stages"])
    waiting = data["summary"]["shares"]["waiting"]
    if data["model"]["strategy"] != "pipelined" or stages < 2 or waiting < _MANY_BUBBLES:
        return
    micro_batches = data["model"]["micro_batches_per_run"] // _updates(data)
    if any(slow_stage(data)) or micro_batches >= 4 * stages:
        return
    training = data["model"]["kind"] == "training"
    more = "Training.gradientAccumulation" if training else "deviceIterations"
    yield Advice(
        "bubbles",
        "execution",
        f"The IPUs wait for {percent(waiting)} of their time: {micro_batches} micro-batches "
        f"{'a weight update' if training else 'a run'} do not fill a pipeline of {stages} stages.",
        f"Use more micro-batches: options.{more}({4 * stages}).",
        round(waiting, 4),
        "share of time",
        loss=waiting,
    )


def _updates(data: Data) -> int:
    """Returns the number of weight updates in a run; 1 if there are none."""
    rows, update = data["instructions"], _index(data, "update")
    counts = (n for n, kind in zip(rows["count"], rows["pass"], strict=True) if kind == update)
    return max(counts, default=1)


def _index(data: Data, text: str) -> int:
    return data["strings"].index(text) if text in data["strings"] else -1


def one_at_a_time(data: Data) -> Iterator[Advice]:
    waiting, ipus = data["summary"]["shares"]["waiting"], data["target"]["ipus"]
    if data["model"]["strategy"] != "sharded" or ipus < 2 or waiting < _MANY_BUBBLES:
        return
    yield Advice(
        "one_at_a_time",
        "execution",
        f"The {ipus} IPUs wait for {percent(waiting)} of their time: the IPUs of a sharded model "
        "run one after another.",
        "Let each IPU work on a different micro-batch: a pipeline of popxl_addons' transforms."
        if is_popxl(data)
        else "Let each IPU work on a different micro-batch: "
        "options.setExecutionStrategy(poptorch.PipelinedExecution()).",
        round(waiting, 4),
        "share of time",
        loss=waiting,
    )


def exchange(data: Data) -> Iterator[Advice]:
    if data["summary"]["bound_by"] != "exchange":
        return
    share, ipus = data["summary"]["shares"]["exchange"], data["ipus"]
    moved = sum(ipu["link_bytes"] + ipu["gateway_bytes"] for ipu in ipus)
    cycles = sum(ipu["link_cycles"] + ipu["gateway_cycles"] for ipu in ipus)
    between_replicas = 2 * sum(one["cycles"] for one in data["collectives"]) > cycles
    seldom = "Exchange gradients less often: "
    seldom += "after more micro-batches." if is_popxl(data) else (
        "a larger options.Training.gradientAccumulation."
    )  # fmt: skip
    yield Advice(
        "exchange_bound",
        "graph",
        f"Transfers between {'replicas' if between_replicas else 'IPUs'} take {percent(share)} of "
        f"the IPUs' time, for {size(moved)} a run.",
        seldom
        if between_replicas
        else "Cut the model where fewer bytes cross (Stages and crossings lists the tensors), or "
        "use fewer IPUs.",
        round(share, 4),
        "share of time",
        loss=share,
    )


def host(data: Data) -> Iterator[Advice]:
    """Yields advice if transfers with the host take the most time."""
    if data["summary"]["bound_by"] != "host":
        return
    share = data["summary"]["shares"]["host"]
    moved = sum(ipu["host_bytes"] for ipu in data["ipus"])
    cycles = sum(ipu["host_cycles"] for ipu in data["ipus"])
    cure = _SEND_MORE if moved < _FEW_BYTES * cycles else _SEND_FEWER[is_popxl(data)]
    if not any(stream["overlaps"] for stream in data["streams"]):
        cure = f"{_OVERLAP[is_popxl(data)]} {cure}"
    yield Advice(
        "host_bound",
        "execution",
        f"Transfers with the host take {percent(share)} of the IPUs' time, for {size(moved)} a "
        "run: the IPUs wait for their data.",
        cure,
        round(share, 4),
        "share of time",
        loss=share,
    )


def streaming(data: Data) -> Iterator[Advice]:
    if data["summary"]["bound_by"] != "streaming":
        return
    share = data["summary"]["shares"]["streaming"]
    yield Advice(
        "streaming_bound",
        "execution",
        f"Transfers with Streaming Memory take {percent(share)} of the IPUs' time.",
        "Keep as much on the chip as fits: use variables instead of remote buffers."
        if is_popxl(data)
        else "Keep as much on the chip as fits (options.TensorLocations), or let transfers "
        "overlap: options.TensorLocations.numIOTiles(32).",
        round(share, 4),
        "share of time",
        loss=share,
    )
