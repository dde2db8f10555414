"""Batch serialisation: runs a graph for several micro batches, with tensors in remote buffers."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import popxl
from popxl import ops
from popxl._impl.records import of
from popxl.transforms import ExpectedConnectionType
from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.remote_handle import (
    RemoteHandle as RemoteHandle,
    RowOffset,
    batch_serial_buffer as batch_serial_buffer,
)

IO_MODES = ("io", "compute", "io_overlapped")
BufferTuple = (
    tuple[popxl.RemoteBuffer, RowOffset]
    | tuple[popxl.RemoteBuffer, RowOffset, popxl.ReplicaGrouping | None]
)
Loads = Mapping[popxl.Tensor, popxl.HostToDeviceStream | RemoteHandle | BufferTuple]
Streams = Mapping[popxl.Tensor, popxl.DeviceToHostStream]
Handles = Mapping[popxl.Tensor, RemoteHandle | BufferTuple]
HandlesOrGroups = Mapping[popxl.Tensor, RemoteHandle | BufferTuple | popxl.ReplicaGrouping]
_ROW, _SEED = "batch_serial_loop_index", "batch_serial_random_seed"


@dataclass
class BatchSerialResult:
    """A graph that runs all steps.

    Attributes:
        graph: The graph.
        stored_buffers: The handles to which tensors of the serialised graph are stored, or from
            which they are loaded.
    """

    graph: GraphWithNamedArgs
    stored_buffers: dict[popxl.Tensor, RemoteHandle | None] = field(default_factory=dict)
    _inputs: dict[popxl.Tensor, popxl.Tensor] = field(default_factory=dict, repr=False)

    def remap_tensors(self, named_tensors: NamedTensors) -> NamedTensors:
        """Returns the inputs of `graph` for inputs of the serialised graph, with the same names.

        Args:
            named_tensors: The inputs of the serialised graph.

        Raises:
            KeyError: An input is loaded.
        """
        return named_tensors.remap(self._inputs)


def _checked_mode(ir: popxl.Ir, steps: int, rows: int, io_mode: str) -> str:
    """Returns the mode to use. Raises ValueError for bad numbers, modes or missing io tiles."""
    if io_mode not in IO_MODES:
        raise ValueError(f"Unknown 'io_mode': it must be one of {IO_MODES} but is {io_mode!r}.")
    if rows < 1 or steps < 1:
        raise ValueError(f"steps and rows must be >0: {steps=}, {rows=}.")
    if io_mode != "compute" and ir._pb_ir.getSessionOptions().numIOTiles < 1:
        raise ValueError(
            f"IR must have IO tiles for io_mode {io_mode!r}: set "
            "ir._pb_ir.getSessionOptions().numIOTiles, or choose 'compute'."
        )
    if io_mode == "io_overlapped" and steps < 2:
        logging.getLogger("popxl_addons").warning(
            "io_mode 'io_overlapped' needs at least 2 steps: 'io' is used for %d.", steps
        )
        return "io"
    return io_mode


def _check_tensors(graph: popxl.Graph, loads: Any, stores: set) -> None:
    strange = [t for t in loads if t not in graph.inputs]
    strange += [t for t in stores if t not in graph.outputs and t not in graph.inputs]
    if strange:
        raise ValueError(f"{strange} are not inputs (to load) or outputs (to store) of {graph!r}.")


def _like(t: popxl.Tensor) -> popxl.Tensor:
    return popxl.graph_input(
        t.shape, t.dtype, t.name, of(t).value.by_reference, t.meta_shape or None
    )


class _Step:
    """The loop's graph: one step. It takes the step and the seed, and returns the next ones."""

    def __init__(self, graph: popxl.Graph, steps: int, loads: dict, io_mode: str) -> None:
        self._graph, self._steps, self._loads, self._io_mode = graph, steps, loads, io_mode
        self.inputs: dict[popxl.Tensor, popxl.Tensor] = {}  # input of `graph` → input of the step

    def build(
        self, streams: Streams, handles: dict, seed_input: "popxl.Tensor | None"
    ) -> popxl.Graph:
        body = popxl.gir().create_empty_graph(f"{self._graph.name}_step")
        with body, popxl.in_sequence():
            self._counter = popxl.graph_input((), popxl.int32, "step")
            seed = None if seed_input is None else popxl.graph_input((2,), popxl.uint32, _SEED)
            self.row = popxl.graph_input((), popxl.int32, _ROW)
            known = {t: self._load(t, handle) for t, handle in self._loads.items()}
            left = [t for t in self._graph.inputs if t not in known and t is not seed_input]
            self.inputs = {t: _like(t) for t in left}
            known |= self.inputs
            following = []
            if seed_input is not None and seed is not None:
                known[seed_input], next_seed = ops.split_random_seed(seed)
                following.append(next_seed)
            results = ops.call(self._graph, inputs_dict=known)
            known |= dict(zip(self._graph.outputs, results, strict=True))
            for t, stream in streams.items():
                ops.host_store(stream, known[t])
            for t, handle in handles.items():
                handle.store(handle.entry(self.row, self._counter, self._steps), known[t])
            following.insert(0, self._counter + popxl.constant(1, popxl.int32))
            of(body).set_outputs(following)
        return body

    def _load(self, t: popxl.Tensor, handle: Any) -> popxl.Tensor:
        entry = None
        if isinstance(handle, RemoteHandle):
            entry = handle.entry(self.row, self._counter, self._steps)
        if self._io_mode == "compute":
            return self._loaded(t, handle, entry)
        with popxl.io_tiles():
            loaded = self._loaded(t, handle, entry)
        return ops.io_tile_copy(loaded) if of(loaded).io_tiles else loaded

    def _loaded(self, t: popxl.Tensor, handle: Any, entry: Any) -> popxl.Tensor:
        return ops.host_load(handle, t.name) if entry is None else handle.load(entry, t.name)


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
    """Makes a graph that runs `graph` for `steps` micro batches.

    Its inputs are the row, an int32 scalar; the seed, uint32 (2,), if `graph` takes one; then the
    inputs that are not loaded, with the same names.

    Args:
        graph: The graph.
        steps: The number of micro batches.
        load_handles: {input: stream, RemoteHandle, or tuple of its fields}, loaded every step.
        store_streams: {output or input: stream}, stored every step.
        store_buffers: {output or input: RemoteHandle}, stored every step. Tensors that a
            RemoteHandle loads are not stored again.
        seed_input: An input that takes a seed. The graph's seed is split for every step.
        rows: The number of rows for which the result can be called, for example layers of a model;
            buffers are enlarged for them.
        io_mode: "io" and "io_overlapped" load on the io tiles, "compute" does not.

    Raises:
        ValueError: The mode is another one; there is less than one step or row; io tiles are
            missing; a tensor is not the graph's.
    """
    plain, streams = graph.graph, store_streams or {}
    io_mode = _checked_mode(plain.ir, steps, rows, io_mode)
    loads = {t: RemoteHandle.of(h) for t, h in load_handles.items()}
    stores = {t: RemoteHandle.of(h) for t, h in (store_buffers or {}).items()}
    _check_tensors(plain, loads, {*streams, *stores})
    remote = {t: h for t, h in loads.items() if isinstance(h, RemoteHandle)}
    for handle in (*remote.values(), *stores.values()):
        handle.grow(steps, rows)
    step = _Step(plain, steps, loads, io_mode)
    body = step.build(streams, {t: h for t, h in stores.items() if t not in remote}, seed_input)
    made = popxl.gir().create_empty_graph(f"{plain.name}_steps")
    with made, popxl.in_sequence():
        row = popxl.graph_input((), popxl.int32, _ROW)
        carried: list[popxl.Tensor] = [popxl.constant(0, popxl.int32)]
        if seed_input is not None:
            carried.append(popxl.graph_input((2,), popxl.uint32, _SEED))
        outer = {t: _like(t) for t in step.inputs}
        given = {step.row: row, **{step.inputs[t]: outer[t] for t in step.inputs}}
        ops.repeat(body, steps, *carried, inputs_dict=given)
    names = {t: n for n, t in graph.args.to_dict().items()}
    args = NamedTensors.from_dict({names[t]: outer[t] for t in outer if t in names})
    stored = {t: remote.get(t, handle) for t, handle in stores.items()}
    return BatchSerialResult(GraphWithNamedArgs(made, args), stored, outer)


def batch_serialise_non_overlapped(*args: Any, **kwargs: Any) -> BatchSerialResult:
    """`batch_serialise` with io_mode "io", unless another is given.

    Args:
        *args: The arguments of `batch_serialise`.
        **kwargs: The keyword arguments of `batch_serialise`.
    """
    return batch_serialise(*args, **kwargs)


def batch_serialise_overlapped(*args: Any, **kwargs: Any) -> BatchSerialResult:
    """`batch_serialise` with io_mode "io_overlapped".

    Args:
        *args: The arguments of `batch_serialise`.
        **kwargs: The keyword arguments of `batch_serialise`.
    """
    return batch_serialise(*args, **{**kwargs, "io_mode": "io_overlapped"})


def batch_serialise_fwd_and_grad(
    forward_graph: GraphWithNamedArgs,
    gradient_graph: GraphWithNamedArgs,
    named_inputs_for_grad_graph: NamedTensors,
    steps: int,
    load_handles: Loads,
    store_streams: "Streams | None" = None,
    store_buffers: "HandlesOrGroups | None" = None,
    seed_input: "popxl.Tensor | None" = None,
    rows: int = 1,
    io_mode: str = "io",
) -> tuple[BatchSerialResult, BatchSerialResult]:
    """`batch_serialise` for a graph and its gradient graph.

    Other arguments are those of `batch_serialise`. load_handles, store_streams and store_buffers
    have tensors of both graphs. The gradient graph loads the forward tensors that it needs from
    their buffers in store_buffers or load_handles, or from new buffers.

    Args:
        forward_graph: The graph.
        gradient_graph: Its gradient graph, made by `autodiff`.
        named_inputs_for_grad_graph: Inputs of forward_graph, by name, that become named inputs of
            the gradient's result.
        store_buffers: Handles; a ReplicaGrouping makes a new buffer for shards.
        steps: The number of steps.
        load_handles: Where each step's inputs are loaded from.
        store_streams: The streams that each step's outputs are sent to.
        seed_input: The input that is a seed; each step gets another one.
        rows: The number of rows.
        io_mode: How loads and stores are scheduled: "compute", "io" or "io_overlapped".

    Raises:
        ValueError: A gradient lacks a load handle; see also `batch_serialise`.
    """
    info = gradient_graph.grad_graph_info
    forward, gradient = forward_graph.graph, gradient_graph.graph
    streams = dict(store_streams or {})
    loads = {t: RemoteHandle.of(h) for t, h in load_handles.items()}
    asked = {t: RemoteHandle.of(h) for t, h in (store_buffers or {}).items()}
    groups = {t: h for t, h in asked.items() if isinstance(h, popxl.ReplicaGrouping)}
    stores = {t: h for t, h in asked.items() if t not in groups}
    named = {t: name for name, t in named_inputs_for_grad_graph.to_dict().items()}
    grad_loads = {t: h for t, h in loads.items() if t in gradient.inputs}
    grad_args = gradient_graph.args.to_dict()
    needed = {}
    for inner, connection in zip(gradient.inputs, info.expected_inputs, strict=False):
        t = connection.fwd_tensor
        if inner in grad_loads:
            continue
        if connection.connection_type is not ExpectedConnectionType.Fwd:
            raise ValueError(f"{inner!r}, a gradient, must have a load_handle specified.")
        if t in named:
            grad_args[named[t]] = inner
        else:
            needed[inner] = t
    for t in dict.fromkeys([*needed.values(), *groups]):
        if not isinstance(loads.get(t), RemoteHandle) and t not in stores:
            buffer = batch_serial_buffer(t, steps, rows, groups.get(t))
            stores[t] = RemoteHandle(buffer, 0, groups.get(t))
    for inner, t in needed.items():
        source = loads.get(t)
        grad_loads[inner] = source if isinstance(source, RemoteHandle) else stores[t]

    def of_graph(values: dict, graph: popxl.Graph) -> dict:
        return {t: value for t, value in values.items() if t in graph}

    first = batch_serialise(
        forward_graph,
        steps,
        {t: h for t, h in loads.items() if t in forward.inputs},
        of_graph(streams, forward),
        of_graph(stores, forward),
        seed_input,
        rows,
        io_mode,
    )
    second = batch_serialise(
        GraphWithNamedArgs(gradient, NamedTensors.from_dict(grad_args), info),
        steps,
        grad_loads,
        of_graph(streams, gradient),
        of_graph(stores, gradient),
        None,
        rows,
        io_mode,
    )
    return first, second
