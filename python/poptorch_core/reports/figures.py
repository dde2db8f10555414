"""The keys of report(), for type checkers and editors.

tools/write_report_figures.py makes this file from the rows of the core.
"""

from typing import NotRequired, TypedDict


class IpuFigures(TypedDict):
    """An entry of `ipus`. docs/machine.md has the units."""

    state_bytes: int
    arena_bytes: int
    stash_bytes: int
    code_bytes: int
    capacity_bytes: int
    needed_bytes: int
    weight_bytes: int
    optimiser_bytes: int
    accumulator_bytes: int
    constant_bytes: int
    compute_cycles: int
    link_cycles: int
    host_cycles: int
    streaming_cycles: int
    gateway_cycles: int
    gateway_bytes: int
    idle_cycles: int
    host_wait_cycles: int
    link_wait_cycles: int
    overlapped_cycles: int
    link_bytes: int
    host_bytes: int
    streaming_bytes: int


class StreamFigures(TypedDict):
    """An entry of `streams`. docs/machine.md has the units."""

    name: str
    to_device: bool
    overlap: str
    overlaps: bool
    ipu: int
    bytes: int
    cycles: int


class StageFigures(TypedDict):
    """An entry of `stages`. docs/machine.md has the units."""

    stage: int
    ipu: int
    cycles: int
    blocks: list[str]


class OpFigures(TypedDict):
    """An entry of `ops`. docs/machine.md has the units."""

    ipu: int
    stage: int
    block: str
    module: str
    op: str
    count: int
    cycles: int
    arithmetic_cycles: int
    vertex_cycles: int
    exchange_cycles: int
    sync_cycles: int


class CollectiveFigures(TypedDict):
    """An entry of `collectives`. docs/machine.md has the units."""

    ipu: int
    module: str
    op: str
    part: str
    links: str
    members: int
    count: int
    bytes: int
    cycles: int


class Report(TypedDict):
    """The value of report(). docs/machine.md has the units."""

    instances: int
    device: str
    replicas: int
    idle_ipus: int
    streaming_bytes: int
    streaming_capacity: int
    bubbles: float
    bottleneck_stage: int
    cycles_per_run: int
    seconds_per_run: float
    generic_ops: list[str]
    reference_kernels: dict[str, float]
    runs: int
    run_seconds: float
    between_runs_seconds: float
    ipus: list[IpuFigures]
    streams: list[StreamFigures]
    stages: list[StageFigures]
    ops: list[OpFigures]
    collectives: list[CollectiveFigures]
    recorded_options: NotRequired[dict[str, str]]
