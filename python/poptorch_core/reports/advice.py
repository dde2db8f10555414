"""The rules of a report's advice. Each piece of advice has a figure and says what to change."""

from collections.abc import Callable, Iterator
from dataclasses import asdict

from poptorch_core.reports import advice_memory, advice_time
from poptorch_core.reports.advice_form import Advice, Data, is_popxl, percent

_MUCH_BETWEEN = 0.5  # share of the host's time
_SLOW_KERNEL = 0.05  # share of a run, as for the warning


def advise(data: Data) -> list[Data]:
    """Returns the advice on the program of a report, see docs/profiling.md.

    Args:
        data: The content of report.json without advice.

    Returns:
        The pieces of advice as dicts. Those that cost most time come first.
    """
    found = [advice for rule in RULES for advice in rule(data)]
    found.sort(key=lambda advice: -advice.loss)
    return [{k: v for k, v in asdict(advice).items() if k != "loss"} for advice in found]


def _idle(data: Data) -> Iterator[Advice]:
    target = data["target"]
    idle, each = target["idle_ipus"], target["ipus"]
    replicas = target["replicas"] // target["instances"]  # options count those of an instance
    whole = idle + each * replicas
    if idle:
        further = idle // each
        kind, what = ("idle_replica", _room(idle, further)) if further else ("idle_ipus", "")
        cut = whole // replicas if whole % replicas == 0 else each + 1
        set_to = "ir.replication_factor = {}" if is_popxl(data) else "options.replicationFactor({})"
        cure = f"If the batch can grow, set {set_to.format(replicas + further)}."
        cure = cure if further else f"Cut the model for {cut} IPUs."
        do = "does" if idle == 1 else "do"
        text = f"{idle} of the {whole} reserved IPUs {do} nothing{what}."
        yield Advice(kind, "summary", text, cure, idle, "IPUs", loss=idle / whole)
    for ipu, work in enumerate(data["ipus"]):
        if work["compute_cycles"] == 0 and each > 1:
            yield Advice(
                "unused_ipu",
                "graph",
                f"IPU {ipu} of each replica computes nothing.",
                "Place ops on it (popxl.ipu), or number the IPUs without a gap."
                if is_popxl(data)
                else f"Place a block on it (ipu_id={ipu}), or number the IPUs without a gap.",
                target["replicas"],
                "IPUs",
                ipu,
                loss=1 / each,
            )


def _room(idle: int, further: int) -> str:
    has, more = "has" if idle == 1 else "have", "replica" if further == 1 else "replicas"
    return f", and {has} room for {further} more {more}"


def _this_host(data: Data) -> Iterator[Advice]:
    measured = data["measured"]
    between, within = measured["host_wait_seconds"], measured["run_seconds"]
    share = between / (between + within) if between + within > 0 else 0
    if measured["runs"] > 2 and share > _MUCH_BETWEEN:
        yield Advice(
            "between_runs",
            "summary",
            f"{percent(share)} of the time from the first run to the last was spent between runs, "
            "in the program that calls the model.",
            "Do more work in a call: ir.num_host_transfers."
            if is_popxl(data)
            else "Prepare data in parallel: poptorch.DataLoader(..., num_workers=4, "
            "mode=poptorch.DataLoaderMode.Async). Or do more work in a call: "
            "options.deviceIterations.",
            round(share, 4),
            "share of time",
        )
    for op, part in measured["reference_kernels"].items():
        if part > _SLOW_KERNEL:
            yield Advice(
                "slow_kernel",
                "summary",
                f"The emulator has no fast kernel for {op!r} with these types and shapes: "
                f"{percent(part)} of its time is spent there. The time of an IPU is not affected.",
                f"If the emulation is too slow, use other ops instead, and report {op!r}.",
                round(part, 4),
                "share of time",
            )


RULES: tuple[Callable[[Data], Iterator[Advice]], ...] = (
    advice_memory.ipus,
    advice_memory.tile_groups,
    advice_memory.streaming,
    advice_time.slow_stage,
    advice_time.bubbles,
    advice_time.one_at_a_time,
    advice_time.exchange,
    advice_time.host,
    advice_time.streaming,
    _idle,
    _this_host,
)
