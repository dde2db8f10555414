"""Ops that transfer data from and to the host and between IPUs, and ops that allocate memory."""

from typing import Any

from popxl import dtypes
from popxl._impl.records import of
from popxl.context import current, get_current_graph
from popxl.dtypes import checked, core_name, dtype as dtype_class
from popxl.ops.build import OpBuild, check_tensors, emit_in, with_gradient
from popxl.streams import DeviceToHostStream, HostToDeviceStream
from popxl.tensor import Constant, Tensor, TensorSpec, Variable, constant
from popxl.tensor_base import static_shape

_FLOAT_FORMATS = ("auto", "fixed", "scientific", "none")


def init(
    shape: "tuple[int, ...]",
    dtype: dtype_class,
    name: "str | None" = None,
    init_type: str = "zero",
    meta_shape: "tuple[int, ...] | None" = None,
) -> Tensor:
    """Makes a tensor for in-place writes.

    Args:
        shape: The shape.
        dtype: The element type.
        name: The name.
        init_type: "zero" for zeros, "undef" for undefined values.
        meta_shape: For a shard, the shape of the whole tensor.

    Raises:
        ValueError: init_type is another one, or a size is negative.
    """
    if init_type not in ("zero", "undef"):
        raise ValueError(f"init_type must be 'zero' or 'undef' but is {init_type!r}.")
    op = OpBuild("Init")
    value = op.scalar(checked(dtype), 0)
    if tuple(shape):
        value = op("broadcast_to", value, shape=list(static_shape(shape)))
    out = op.output(value, name or "t", meta_shape or ())
    op.done()
    return out


def host_load(h2d_stream: HostToDeviceStream, name: "str | None" = None) -> Tensor:
    """Loads the stream's next transfer, named `<name>_hostload`, by two ops, Init and HostLoad.

    Args:
        h2d_stream: The stream.
        name: The name of the result.

    Raises:
        TypeError: The stream does not lead to the device.
    """
    if not isinstance(h2d_stream, HostToDeviceStream):
        raise TypeError(f"host_load takes a stream to the device but got {h2d_stream!r}.")
    name = name or h2d_stream.name
    memory = OpBuild("Init")
    load = OpBuild("HostLoad")
    value = load("host_load", stream=of(h2d_stream).use())
    target = memory.output(value, name)
    memory.done()
    load.record.inputs.append(target)
    load.record.modified.append(target)
    out = load.alias(target, f"{name}_hostload", h2d_stream.spec)
    load.done()
    return out


def host_store(d2h_stream: DeviceToHostStream, t: Tensor) -> None:
    """Sends `t` to the stream. Raises ValueError unless dtype and shape are the stream's.

    Args:
        d2h_stream: The stream.
        t: The tensor to send.
    """
    if not isinstance(d2h_stream, DeviceToHostStream):
        raise TypeError(f"host_store takes a stream to the host but got {d2h_stream!r}.")
    check_tensors("HostStore", [t])
    if t.dtype != d2h_stream.dtype or t.shape != d2h_stream.shape:
        raise ValueError(f"{d2h_stream!r} cannot take {t!r}: dtype and shape must be equal.")
    op = OpBuild("HostStore", t)
    op.emit("host_store", t, stream=of(d2h_stream).use())
    op.done()


def ipu_copy(t: Tensor, destination: int, source: "int | None" = None) -> Tensor:
    """Copies `t` to IPU `destination`.

    Args:
        t: The tensor.
        destination: The IPU of the copy.
        source: The IPU of `t`; required for variables and constants.

    Raises:
        ValueError: The source is unknown.
    """
    if source is None:
        if isinstance(t, (Variable, Constant)) or of(t).ipu is None:
            raise ValueError(f"Could not infer the ipu of {t!r}. Please specify `source`.")
        source = of(t).ipu
    if of(t).ipu not in (None, source):
        raise ValueError(f"{t!r} is on IPU {of(t).ipu}: ops.ipu_copy cannot take it from {source}.")
    op = OpBuild("IpuCopy", t, together=False)
    of(op.graph).placed = True
    of(of(t).here()).ipu = source
    value = of(op.graph).core.emit("ipu_copy", [of(t).read()], {"to": destination}, source)
    op.home = destination
    out = op.output(value.results[0], f"{t.name}_c{destination}")
    op.done()
    return out


def print_tensor(
    t: Tensor,
    title: "str | None" = None,
    print_self: bool = True,
    print_gradient: bool = False,
    summarise_threshold: int = 1000,
    edge_items: int = 3,
    max_line_width: int = 75,
    digits: int = 8,
    float_format: str = "auto",
    separator: str = " ",
    open_bracket: str = "[",
    close_bracket: str = "]",
) -> Tensor:
    """Prints `t`, its gradient, or both on stderr at run time. Returns a copy of `t`.

    Args:
        t: The tensor.
        title: The title; by default `print_<name>`.
        print_self: Whether to print the tensor.
        print_gradient: Whether to print its gradient.
        summarise_threshold: Larger tensors (in elements) are abbreviated.
        edge_items: The elements at each end of a dimension of an abbreviated tensor.
        max_line_width: The columns of a line.
        digits: The total digits of a number; 0 leaves numbers unaligned.
        float_format: "auto", "fixed", "scientific" or "none".
        separator: One character between elements.
        open_bracket: One character.
        close_bracket: One character.

    Raises:
        ValueError: The format is another one; a separator or bracket is not one character.
    """
    if any(len(c) != 1 for c in (separator, open_bracket, close_bracket)):
        raise ValueError("Separator and brackets must be one character each.")
    if float_format not in _FLOAT_FORMATS:
        raise ValueError(f"float_format must be one of {_FLOAT_FORMATS}: {float_format!r}.")
    attrs: dict[str, Any] = {
        "title": title or f"print_{t.name}",
        "summarise_threshold": summarise_threshold,
        "edge_items": edge_items,
        "max_line_width": max_line_width,
        "digits": digits,
        "float_format": float_format,
        "separator": separator,
        "open_bracket": open_bracket,
        "close_bracket": close_bracket,
    }
    op = OpBuild("PrintTensor", t)
    if print_self:
        value = op("print_tensor", t, print_gradient=print_gradient, **attrs)
    elif print_gradient:
        attrs["title"] += "_gradient"
        (value,) = with_gradient(
            op,
            [t],
            lambda g, x: [emit_in(g, "identity", x[0])],
            lambda g, dy: [emit_in(g, "print_tensor", dy[0], **attrs)],
        )
    else:
        value = op("identity", t)
    out = op.output(value, "print_out")
    op.done()
    return out


def io_tile_copy(t: Tensor) -> Tensor:
    """Copies `t` to the other tile set of its IPU: from compute to io tiles, or back.

    Args:
        t: The tensor.
    """
    op = OpBuild("IoTileCopy", t, together=False)
    to_io = not of(t).io_tiles
    scope, ipu = "/".join(current.names), -1 if of(t).ipu is None else of(t).ipu
    core = of(op.graph).core.emit("identity", [of(t).read()], {}, ipu, to_io, scope)
    if (home := of(t).ipu) is not None:
        op.home = home
    out = op.output(core.results[0], f"{t.name}_iotilecopy", t.meta_shape)
    of(out).io_tiles = to_io
    op.done()
    return out


def remote_code_load(graph: Any, destination: str) -> None:
    """Requests the code of `graph` before its call; the emulator keeps all code on the device.

    Args:
        graph: The graph.
        destination: "executable" or "buffer".

    Raises:
        ValueError: The destination is another one, or the graph is the current one.
    """
    if destination not in ("executable", "buffer"):
        raise ValueError(f"destination must be executable or buffer but is {destination!r}.")
    if graph is get_current_graph():
        raise ValueError(
            f"The remote_code_load op cannot load the code of the graph that has it: {graph!r}."
        )
    op = OpBuild("RemoteCodeLoad")
    op.record.called = (graph,)
    op.done()


def _row(buffer: Any, offset: "int | Tensor") -> Tensor:
    """Returns the offset as a tensor; a number becomes a constant.

    Raises:
        ValueError: The buffer does not have this row.
        TypeError: The offset is not an int.
    """
    of(buffer).check_ir()
    if not isinstance(offset, Tensor):
        of(buffer).check_row(offset)
        return constant(offset, dtypes.int32, "offset")
    if not offset.dtype.is_int:
        raise TypeError(f"A row of a remote buffer is an int but {offset!r} was given.")
    return offset


def remote_load(remote_buffer: Any, offset: "int | Tensor", name: "str | None" = None) -> Tensor:
    """Loads row `offset` of the buffer. Loads and stores run in the order of writing.

    Args:
        remote_buffer: The buffer.
        offset: The row: an int or a scalar int tensor.
        name: The name of the result.

    Raises:
        ValueError: The buffer does not have this row.
        TypeError: The offset is a tensor that is not of ints.
    """
    row = _row(remote_buffer, offset)
    name = name or f"id_{remote_buffer.remote_buffer_id}_offset_{row.name}"
    memory = OpBuild("Init")
    op = OpBuild("RemoteLoad", row)
    value = op("remote_load", op.cast(row, dtypes.int32), buffer=of(remote_buffer).use())
    target = memory.output(value, f"{name}_remote_load", remote_buffer.meta_shape)
    memory.done()
    op.record.inputs.insert(0, target)
    spec = TensorSpec(target.shape, target.dtype)
    out = op.alias(target, f"{name}_remote_loaded", spec)
    of(out).meta_shape = tuple(remote_buffer.meta_shape)
    op.done()
    return out


def remote_load_(remote_buffer: Any, offset: "int | Tensor", t: Tensor) -> Tensor:
    """Loads row `offset` of the buffer into `t`, like `remote_load`.

    Args:
        remote_buffer: The buffer.
        offset: The row: an int or a scalar int tensor.
        t: The tensor that is written.

    Raises:
        ValueError: Shapes or dtypes differ.
    """
    remote_buffer.validate_tensor_matches_buffer(t)
    row = _row(remote_buffer, offset)
    op = OpBuild("RemoteLoadInplace", t, row)
    value = op("remote_load", op.cast(row, dtypes.int32), buffer=of(remote_buffer).use())
    out = op.write(t, value, "remote_load_inplace_out")
    op.done()
    return out


def remote_store(remote_buffer: Any, offset: "int | Tensor", t: Tensor) -> None:
    """Stores `t` into row `offset` of the buffer; order and errors are those of `remote_load`.

    Args:
        remote_buffer: The buffer.
        offset: The row: an int or a scalar int tensor.
        t: The tensor to store.

    Raises:
        ValueError: Shapes or dtypes differ.
    """
    remote_buffer.validate_tensor_matches_buffer(t)
    row = _row(remote_buffer, offset)
    op = OpBuild("RemoteStore", t, row)
    op.emit("remote_store", t, op.cast(row, dtypes.int32), buffer=of(remote_buffer).use())
    op.done()


def scratch(graph: Any, t: Tensor) -> Any:
    """Makes a memory slot with the value of `t`, which a by-reference input can write."""
    name = of(graph.ir).core_name(f"scratch.{t.name}")
    of(graph.ir).module.add_state(name, (core_name(t.dtype), list(t.shape)), "buffer")
    memory = of(graph).core.variable(name)
    of(graph).core.emit("assign", [memory, of(t).read()])
    return memory


__all__ = [
    "host_load",
    "host_store",
    "init",
    "io_tile_copy",
    "ipu_copy",
    "print_tensor",
    "remote_code_load",
    "remote_load",
    "remote_load_",
    "remote_store",
]
