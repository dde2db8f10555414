"""Construction of this package's ops: one record for the schedule, core ops for the compiler."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from popxl import dtypes
from popxl._impl.records import of
from popxl.context import current, get_op_graph, scoped
from popxl.dtypes import core_name, dtype as dtype_class
from popxl.errors import Error, popart_exception
from popxl.tensor import Tensor, TensorSpec
from popxl.tensor_base import make_tensor


def check_tensors(op_type: str, tensors: "Sequence[Tensor | None]", together: bool = True) -> Any:
    """Returns the current graph, after a check that it has all tensors.

    Args:
        op_type: The op, for errors.
        tensors: The tensors; None is ignored.
        together: Whether they must also be on one IPU and tile set.

    Raises:
        TypeError: Something is not a tensor.
        ValueError: A tensor is of another graph, IPU or tile set.
    """
    graph = get_op_graph()
    for tensor in tensors:
        if tensor is None:
            continue
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"{op_type} takes tensors but got a {type(tensor).__name__}: {tensor!r}. Make it a "
                "tensor with popxl.constant or popxl.variable."
            )
        if tensor.ir is not graph.ir:
            raise ValueError(
                f"{op_type}: {tensor!r} belongs to {tensor.ir!r} but the current program is "
                f"{graph.ir!r}. Programs do not share tensors: make one in this program."
            )
        if of(tensor).graph not in (graph, *of(graph).sources):
            raise ValueError(
                f"{op_type}: {tensor!r} belongs to graph {of(of(tensor).graph).label} but the "
                f"current graph is {of(graph).label}. Pass it as an input of the graph."
            )
    if together:
        _check_places(op_type, [t for t in tensors if t is not None and of(t).ipu is not None])
    return graph


def _check_places(op_type: str, tensors: "list[Tensor]") -> None:
    """Raises ValueError unless placed tensors agree with each other and with `popxl.ipu`."""
    places = {(of(t).ipu, of(t).io_tiles): t for t in tensors}
    if len(places) > 1:
        (a, b) = list(places.values())[:2]
        raise ValueError(
            f"{op_type}: {a!r} is on IPU {a.ipu} ({a.tile_set} tiles) but {b!r} on IPU {b.ipu} "
            f"({b.tile_set} tiles). Copy one with ops.ipu_copy or ops.io_tile_copy."
        )
    here = current.ipu
    if here is not None and tensors and of(tensors[0]).ipu != here:
        home = of(tensors[0]).ipu
        raise ValueError(
            f"{op_type} is written inside popxl.ipu({here}) but takes "
            f"{', '.join(map(repr, tensors))} of IPU {home}. Copy its inputs with "
            f"ops.ipu_copy(t, {here}, source={home}), or write it inside popxl.ipu({home})."
        )


def check_same_dtype(op_type: str, *tensors: Tensor) -> None:
    """Raises ValueError unless all dtypes are equal: ops do not promote dtypes."""
    kinds = {t.dtype for t in tensors}
    if len(kinds) > 1:
        found = " and ".join(f"{t.name} is {t.dtype}" for t in tensors)
        raise ValueError(f"{op_type} takes tensors of one dtype but {found}. Use ops.cast.")


def normal_axis(axis: int, rank: int, what: str = "axis") -> int:
    """Returns the axis counted from 0. Raises ValueError if it is out of range."""
    if not -rank <= axis < rank:
        raise ValueError(f"{what} {axis} is out of range for {rank} dimensions.")
    return axis % rank if rank else 0


class OpBuild:
    """The builder of one op. Calling it emits a core op and returns its only result."""

    def __init__(self, op_type: str, *inputs: "Tensor | None", together: bool = True) -> None:
        """Adds the op's record. together: whether inputs and outputs are on one IPU."""
        self.graph = check_tensors(op_type, inputs, together)
        self._kept = of(self.graph)
        inputs = tuple(t if t is None else of(t).here() for t in inputs)
        self.record = self._kept.add_op(op_type, inputs)
        self._ipu = current.ipu
        self._kept.placed |= self._ipu is not None
        records = [of(t) for t in inputs if t is not None]
        given = [record.ipu for record in records if record.ipu is not None]
        self.home: int | None = current.ipu
        if self.home is None:
            self.home = given[0] if given else (None if current.no_ipu else 0)
        self.record.settings.vgraphId = self.home
        for record in records if together else ():
            if record.ipu is None:
                record.ipu = self.home

    def emit(self, name: str, *operands: Any, **attrs: Any) -> Any:
        """Adds and returns a core op on values or tensors. Raises popart_exception for misfits."""
        return self._add(lambda core, *rest: core.emit(name, rest[0], attrs, *rest[1:]), operands)

    def emit_custom(
        self, key: "tuple[str, str, int]", attributes: str, operands: Sequence[Tensor]
    ) -> Any:
        """Adds a library's op, given by domain, name and version, and its attributes' text."""
        return self._add(lambda core, *rest: core.emit_custom(key, attributes, *rest), operands)

    def _add(self, emit: Callable[..., Any], operands: Sequence[Any]) -> Any:
        values = [of(o).read() if isinstance(o, Tensor) else o for o in operands]
        ipu = -1 if self._ipu is None else self._ipu
        scope = "/".join(current.names)
        try:
            return emit(self._kept.core, values, ipu, current.io_tiles, scope)
        except Error as error:  # e.g. shapes that do not fit
            inputs = ", ".join(map(repr, self.record.inputs))
            text = f"{self.record.op_type}({inputs}): {error.message}"
            raise popart_exception(text, error.type) from None

    def __call__(self, name: str, *operands: Any, **attrs: Any) -> Any:
        return self.emit(name, *operands, **attrs).results[0]

    def scalar(self, dtype: dtype_class, value: float) -> Any:
        """Returns a constant without dimensions."""
        return self._kept.core.scalar(core_name(dtype), float(value))

    def array(self, array: Any, dtype: dtype_class) -> Any:
        """Returns a constant."""
        data = np.ascontiguousarray(np.asarray(array, dtype.as_numpy()))
        return self._kept.core.constant(data, core_name(dtype))

    def cast(self, x: Any, dtype: dtype_class) -> Any:
        """Returns a value or tensor as `dtype`; unchanged if it has that type."""
        value = of(x).read() if isinstance(x, Tensor) else x
        if value.type[0] == core_name(dtype):
            return value
        return self("cast", value, dtype=core_name(dtype))

    def output(self, value: Any, name: str, meta_shape: "tuple[int, ...]" = ()) -> Tensor:
        """Adds the op's next output."""
        made = make_tensor(
            Tensor,
            self.graph,
            scoped(name),
            value,
            producer=self.record,
            ipu=self.home,
            meta_shape=tuple(meta_shape or ()),
        )
        self.record.outputs.append(made)
        return made

    def write(self, t: Tensor, value: Any, name: "str | None") -> Tensor:
        """Writes `value` into `t`. Returns an output that shares its memory if named, else `t`."""
        t = of(t).here()
        of(t).write(value)
        self.record.modified.append(t)
        return t if name is None else self.alias(t, name, t.spec)

    def accumulate(self, t: Tensor, x: Tensor, scale: float, name: str) -> Tensor:
        """t += scale · x; the output shares the memory of t."""
        t = of(t).here()
        of(t).accumulate(of(x).read(), scale)
        self.record.modified.append(t)
        return self.alias(t, name, t.spec)

    def alias(
        self,
        t: Tensor,
        name: str,
        spec: TensorSpec,
        to_view: "Callable[[Any], Any] | None" = None,
        from_view: "Callable[[Any, Any], Any] | None" = None,
    ) -> Tensor:
        """Adds the op's next output, which shares the memory of `t`."""
        t = of(t).here()
        made = make_tensor(
            Tensor,
            self.graph,
            scoped(name),
            base=t,
            spec=spec,
            to_view=to_view,
            from_view=from_view,
            producer=self.record,
            ipu=self.home,
        )
        self.record.outputs.append(made)
        return made

    def done(self) -> None:
        """Calls the graph's hooks. Every op ends with it."""
        self._kept.created(self.record)


def simple(op_type: str, core: str, inputs: Sequence[Tensor], name: str, **attrs: Any) -> Tensor:
    """Adds an op that is one core op with one result."""
    op = OpBuild(op_type, *inputs)
    out = op.output(op(core, *inputs, **attrs), name)
    op.done()
    return out


def composed(
    op_type: str,
    inputs: "Sequence[Tensor | None]",
    name: str,
    body: Callable[[OpBuild], Any],
    **attrs: Any,
) -> Tensor:
    """Adds an op whose one result `body` makes from core ops; `attrs` are the record's."""
    op = OpBuild(op_type, *inputs)
    op.record.attrs.update(attrs)
    out = op.output(body(op), name)
    op.done()
    return out


def in_place(
    op_type: str,
    inputs: "Sequence[Tensor | None]",
    name: str,
    body: Callable[[OpBuild], Any],
    **attrs: Any,
) -> Tensor:
    """Adds an op that writes `body`'s result into its first input; `attrs` are the record's."""
    op = OpBuild(op_type, *inputs)
    op.record.attrs.update(attrs)
    target = inputs[0]
    assert target is not None
    out = op.write(target, body(op), name)
    op.done()
    return out


def emit_in(graph: Any, name: str, *values: Any, ipu: int = -1, **attrs: Any) -> Any:
    """Adds a core op to a compiler's graph and returns its only result."""
    return graph.emit(name, list(values), attrs, ipu).results[0]


def with_gradient(
    op: OpBuild,
    tensors: Sequence[Tensor],
    forward: Callable[[Any, list[Any]], list[Any]],
    backward: Callable[[Any, list[Any]], list[Any]],
) -> list[Any]:
    """Returns values made by `forward`, whose gradients `backward` makes instead of autodiff.

    Args:
        op: The op.
        tensors: Its inputs.
        forward: Maps (graph, values) to values. Both functions write into a compiler's graph.
        backward: Maps (graph, gradients of those values) to gradients of `tensors`.
    """
    ir = op.graph.ir
    types = [(core_name(t.dtype), list(t.shape)) for t in tensors]
    ahead = of(ir).module.add_graph(of(ir).core_name(f"{op.record.op_type}_forward"))
    inputs = [ahead.add_input(kind, f"x{i}") for i, kind in enumerate(types)]
    ahead.set_outputs(forward(ahead, inputs))
    results = [value.type for value in ahead.outputs]
    back = of(ir).module.add_graph(of(ir).core_name(f"{op.record.op_type}_backward"))
    of(ir).inlined.add(back.name)
    for i, kind in enumerate([*types, *results]):
        back.add_input(kind, f"x{i}")
    back.set_outputs(backward(back, [back.add_input(kind, "dy") for kind in results]))
    return op.emit("call", *tensors, graph=ahead, gradient=back).results


def or_refused(op: OpBuild, like: Tensor, make: Callable[[], Any]) -> Any:
    """Returns the value of `make`, or of `like` if the compiler refuses it.

    Sessions of the program then raise the compiler's error.
    """
    try:
        return make()
    except popart_exception as error:
        of(op.graph.ir).refused.append(error.message)
        return of(like).read()


def cast_to(t: Tensor, dtype: dtype_class) -> Tensor:
    """Returns the tensor as `dtype`, by an op Cast."""
    name = f"{t.name}_{dtype.name}"
    return composed("Cast", [t], name, lambda op: op.cast(t, dtype))


def as_bool(t: Tensor) -> Tensor:
    """Returns whether elements are not zero; a tensor of bools unchanged."""
    return t if t.dtype is dtypes.bool else cast_to(t, dtypes.bool)


def float_only(op: OpBuild, core: str, t: Tensor, **attrs: Any) -> Any:
    """Applies a float-only core op to `t`; integers are computed in float32 and cast back."""
    if t.dtype.is_floating_point:
        return op(core, t, **attrs)
    return op.cast(op(core, op.cast(t, dtypes.float32), **attrs), t.dtype)
