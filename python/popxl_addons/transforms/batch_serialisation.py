"""Batch serialisation: a graph run for several micro batches, its tensors in remote buffers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import popxl
from popxl import ops
from popxl.records import of
from popxl.transforms import ExpectedConnectionType
from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.remote_handle import RemoteHandle, batch_serial_buffer

IO_MODES = ("io", "compute", "io_overlapped")
Load = popxl.HostToDeviceStream | RemoteHandle
Loads = Mapping[popxl.Tensor, Load]
Streams = Mapping[popxl.Tensor, popxl.DeviceToHostStream]
Handles = Mapping[popxl.Tensor, RemoteHandle]


@dataclass
class BatchSerialResult:
    """A graph that runs all steps.

    stored_buffers: where each tensor of the serialised graph was stored.
    remap_tensors: {input of the serialised graph: input of `graph`} for those not loaded.
    """

    graph: GraphWithNamedArgs
    stored_buffers: dict[popxl.Tensor, RemoteHandle] = field(default_factory=dict)
    remap_tensors: dict[popxl.Tensor, popxl.Tensor] = field(default_factory=dict)


def _check(
    graph: popxl.Graph, steps: int, rows: int, io_mode: str, loads: Loads, stores: set
) -> None:
    if steps < 1 or rows < 1:
        raise ValueError(f"steps and rows must be at least 1 but are {steps} and {rows}.")
    if io_mode not in IO_MODES:
        raise ValueError(f"io_mode must be one of {IO_MODES} but is {io_mode!r}.")
    strange = [t for t in loads if t not in graph.inputs]
    strange += [t for t in stores if t not in graph.outputs and t not in loads]
    if strange:
        raise ValueError(f"{strange} are no inputs (to load) or outputs (to store) of {graph!r}.")


def _like(t: popxl.Tensor) -> popxl.Tensor:
    return popxl.graph_input(
        t.shape, t.dtype, t.name, of(t).value.by_reference, t.meta_shape or None
    )


class _Body:
    """The loop's graph: one step."""

    def __init__(self, graph: popxl.Graph, steps: int, loads: Loads, io_mode: str) -> None:
        self.graph, self.steps, self.loads, self.io_mode = graph, steps, loads, io_mode
        self.inputs: dict[popxl.Tensor, popxl.Tensor] = {}  # of `graph`, here

    def build(
        self, streams: Streams, handles: Handles, seed_input: "popxl.Tensor | None"
    ) -> popxl.Graph:
        body = popxl.gir().create_empty_graph(f"{self.graph.name}_step")
        with body, popxl.in_sequence():
            self.counter = popxl.graph_input((), popxl.int32, "step", by_ref=True)
            self.first = popxl.graph_input((), popxl.int32, "first_row")
            here = {t: self._load(t, handle) for t, handle in self.loads.items()}
            self.inputs = {t: _like(t) for t in self.graph.inputs if t not in self.loads}
            passed = {**here, **self.inputs}
            if seed_input is not None:
                passed[seed_input] = ops.create_random_seed(passed[seed_input], self.counter)
            results = ops.call(self.graph, inputs_dict=passed)
            known = {**dict(zip(self.graph.outputs, results, strict=True)), **here}
            for t, stream in streams.items():
                ops.host_store(stream, known[t])
            for t, handle in handles.items():
                handle.store(self._row(handle), known[t])
            ops.add_(self.counter, popxl.constant(1, popxl.int32))
        return body

    def _row(self, handle: RemoteHandle) -> popxl.Tensor:
        row = self.first + self.counter
        return row + handle.row_offset * self.steps if handle.row_offset else row

    def _load(self, t: popxl.Tensor, handle: Load) -> popxl.Tensor:
        if self.io_mode == "compute":
            return self._loaded(t, handle)
        with popxl.io_tiles():
            loaded = self._loaded(t, handle)
        return ops.io_tile_copy(loaded) if of(loaded).io_tiles else loaded

    def _loaded(self, t: popxl.Tensor, handle: Load) -> popxl.Tensor:
        if isinstance(handle, RemoteHandle):
            return handle.load(self._row(handle), t.name)
        return ops.host_load(handle, t.name)


def batch_serialise(
    graph: GraphWithNamedArgs,
    steps: int,
    load_handles: Loads,
    store_streams: "Streams | None" = None,
    store_buffers: "Handles | None" = None,
    seed_input: "popxl.Tensor | None" = None,
    rows: int = 1,
    io_mode: str = "io",
) -> BatchSerialResult:
    """A graph that runs `graph` for `steps` micro batches.

    load_handles: {input: stream or RemoteHandle}: loaded every step; the other inputs become
        inputs of the result, those with names under the same names.
    store_streams, store_buffers: {output, or loaded input: where it goes every step}.
    seed_input: an input that takes a seed, from which every step makes its own.
    rows: how many places the result can be called for (layers of a model, for example); above 1,
        its first input is the row, an int32 scalar, and buffers hold rows · steps entries.
    io_mode: "io" and "io_overlapped" load on the io tiles, "compute" does not.
    ValueError: another mode, fewer than one step or row, tensors that are not the graph's.
    """
    plain, streams, handles = graph.graph, store_streams or {}, dict(store_buffers or {})
    _check(plain, steps, rows, io_mode, load_handles, {*streams, *handles})
    step = _Body(plain, steps, load_handles, io_mode)
    body = step.build(streams, handles, seed_input)
    made = popxl.gir().create_empty_graph(f"{plain.name}_steps")
    with made, popxl.in_sequence():
        if rows > 1:
            row = popxl.graph_input((), popxl.int32, "row")
            first = row * popxl.constant(steps, popxl.int32)
        else:
            first = popxl.constant(0, popxl.int32)
        outer = {t: _like(t) for t in step.inputs}
        counter = ops.init((), popxl.int32, "step")
        given = {step.inputs[t]: outer[t] for t in step.inputs}
        ops.repeat(body, steps, inputs_dict={step.counter: counter, step.first: first, **given})
    names = {t: n for n, t in graph.args.to_dict().items()}
    args = NamedTensors.from_dict({names[t]: outer[t] for t in outer if t in names})
    return BatchSerialResult(GraphWithNamedArgs(made, args), handles, outer)  # type: ignore


def batch_serialise_fwd_and_grad(
    forward_graph: GraphWithNamedArgs,
    gradient_graph: GraphWithNamedArgs,
    steps: int,
    load_handles: Loads,
    store_streams: "Streams | None" = None,
    store_buffers: "Handles | None" = None,
    seed_input: "popxl.Tensor | None" = None,
    rows: int = 1,
    io_mode: str = "io",
) -> tuple[BatchSerialResult, BatchSerialResult]:
    """`batch_serialise` of a graph and of its gradient graph.

    gradient_graph: made by `autodiff` of forward_graph. load_handles, store_streams and
    store_buffers are for tensors of both graphs. Forward tensors that the gradient graph needs are
    loaded again where they come from, or from buffers into which the forward graph then stores
    them; weights (inputs that are not loaded) become inputs of both results.
    """
    info = gradient_graph.grad_graph_info
    forward, gradient = forward_graph.graph, gradient_graph.graph
    streams, handles = dict(store_streams or {}), dict(store_buffers or {})
    forward_loads = {t: h for t, h in load_handles.items() if t in forward.inputs}
    grad_loads = {t: h for t, h in load_handles.items() if t in gradient.inputs}
    kept = {t: h for t, h in handles.items() if t in forward}
    for inner, connection in zip(gradient.inputs, info.expected_inputs, strict=False):
        t = connection.fwd_tensor
        if connection.connection_type is not ExpectedConnectionType.Fwd or inner in grad_loads:
            continue
        if t in forward.inputs and t not in forward_loads:
            continue
        source = forward_loads.get(t)
        if not isinstance(source, RemoteHandle):
            source = kept.setdefault(t, RemoteHandle(batch_serial_buffer(t, steps, rows)))
        grad_loads[inner] = source
    first = batch_serialise(
        forward_graph,
        steps,
        forward_loads,
        {t: s for t, s in streams.items() if t in forward},
        kept,
        seed_input,
        rows,
        io_mode,
    )
    second = batch_serialise(
        gradient_graph,
        steps,
        grad_loads,
        {t: s for t, s in streams.items() if t in gradient},
        {t: h for t, h in handles.items() if t in gradient},
        None,
        rows,
        io_mode,
    )
    return first, second
