"""poptorch.op: functions of Python as ops of a model, run on the host in the middle of a program.

Each use of a function, by the number and kinds of its tensors, is a custom op of domain "python":
what stands here is between its arrays and the user's tensors.
"""

import functools
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from poptorch import _native
from poptorch._impl.ops.custom_ops import DTYPES, Use, apply
from poptorch_core import Error, _core
from poptorch_core.custom_attributes import Value, checked

DOMAIN = "python"
_NUMPY_TYPES = {
    name: np.dtype(str(dtype)[6:] if name != "bf16" else "uint16")
    for dtype, name in DTYPES.items()
    if dtype.itemsize < 8
}
TORCH_TYPES = {name: dtype for dtype, name in DTYPES.items() if dtype.itemsize < 8}
INPUT, OUTPUT, GRADIENT = range(3)  # where an input of a gradient op comes from
_numbers = itertools.count(1)
_lock = threading.RLock()

Type = tuple[str, list[int]]  # ("f32", [2, 3])
# With its element type: NumPy has none for bfloat16, whose bits come.
Array = tuple[str, np.ndarray]


class _Variant(NamedTuple):
    """A use of a function: the op that stands for it, and whether it gives one tensor alone."""

    name: str
    version: int
    is_single: bool


class PythonOp:
    """A function of tensors as an op: call it in a model or outside of one. Made by poptorch.op."""

    def __init__(
        self,
        function: Callable,
        numpy: bool = False,
        shape: Callable | None = None,
        gradient: Callable | None = None,
        name: str = "",
    ) -> None:
        functools.update_wrapper(self, function)
        self._function, self._numpy, self._shape, self._gradient = function, numpy, shape, gradient
        of = getattr(function, "__qualname__", type(function).__name__)
        self._name = name or f"{getattr(function, '__module__', None) or '?'}.{of}"
        self._variants: dict[Any, _Variant] = {}
        self._inferred: dict[Any, tuple[list[Type], bool]] = {}

    def __repr__(self) -> str:
        return f"poptorch.op({self._name})"

    def gradient(self, function: Callable) -> Callable:
        """Takes a decorated function for the gradient; see poptorch.op."""
        if self._variants:
            raise Error(f"[op] {self._name} is in use. Give its gradient before its first call.")
        self._gradient = function
        return function

    def __call__(self, *tensors: torch.Tensor, **attributes: Value) -> Any:
        for tensor in tensors:
            if not isinstance(tensor, torch.Tensor):
                raise ValueError(
                    f"[op] {self._name} takes tensors, and other values by keyword, but got "
                    f"{tensor!r}. Pass it by keyword, or as a tensor."
                )
        kept = checked(attributes)
        types = [_type_of(tensor) for tensor in tensors]
        _core.custom_attributes(kept)  # refuses floats beyond float32, before they are rounded
        kept = {name: _rounded(value) for name, value in kept.items()}
        text = _core.custom_attributes(kept)
        variant = self._variant(types, kept, text)
        made = apply(Use(variant.name, DOMAIN, variant.version, text), list(tensors))
        return made[0] if variant.is_single else tuple(made)

    def _variant(self, types: list[Type], attributes: dict[str, Any], text: str) -> _Variant:
        """The op for tensors of these types, which is registered where there is none yet."""
        try:
            outputs, is_single = self._infer(types, attributes, text)
        except Error:
            raise
        except Exception as error:
            raise Error(
                f"[op] {self._name} cannot tell the types of its results for "
                f"{', '.join(map(_text, types))}: {type(error).__name__}: {error}"
            ) from error
        differentiable = [dtype in _FLOATS for dtype, _ in types]
        of_outputs = [dtype in _FLOATS for dtype, _ in outputs]
        key = (tuple(differentiable), tuple(of_outputs), is_single)
        with _lock:
            if key not in self._variants:
                self._variants[key] = self._register(differentiable, of_outputs, is_single)
            return self._variants[key]

    def _register(self, inputs: list[bool], outputs: list[bool], is_single: bool) -> _Variant:
        version = next(_numbers)
        wanted = [i for i, is_float in enumerate(inputs) if is_float]
        gradient = None
        if self._gradient is not None and wanted:
            operands = [
                *((INPUT, i) for i in range(len(inputs))),
                *((OUTPUT, i) for i in range(len(outputs))),
                *((GRADIENT, i) for i, is_float in enumerate(outputs) if is_float),
            ]
            gradient = (f"{self._name}.gradient", operands, wanted)
            _core.register_python_op(
                (DOMAIN, gradient[0], version),
                len(operands),
                len(wanted),
                lambda types, _attributes: [types[i] for i in wanted],
                functools.partial(self._compute_gradient, len(inputs), wanted),
                None,
            )
        _core.register_python_op(
            (DOMAIN, self._name, version),
            len(inputs),
            len(outputs),
            self._infer_outputs,
            self._compute,
            gradient,
        )
        return _Variant(self._name, version, is_single)

    def _infer_outputs(self, types: list[Type], attributes: dict[str, Any]) -> list[Type]:
        return self._infer(types, attributes, _core.custom_attributes(attributes))[0]

    def _infer(
        self, types: list[Type], attributes: dict[str, Any], text: str
    ) -> tuple[list[Type], bool]:
        """The outputs' types, and whether the function gives one tensor alone."""
        key = (tuple((dtype, tuple(shape)) for dtype, shape in types), text)
        if key not in self._inferred:
            if self._shape is not None:
                given = self._shape(
                    *((tuple(shape), TORCH_TYPES[dtype]) for dtype, shape in types), **attributes
                )
                outputs, is_single = self._stated(given)
            else:
                zeros = [np.zeros(shape, _NUMPY_TYPES[dtype]) for dtype, shape in types]
                arrays = [(dtype, z) for (dtype, _), z in zip(types, zeros, strict=True)]
                _, results, is_single = self._call(self._function, arrays, attributes)
                outputs = [_type_of(result) for result in results]
            self._inferred[key] = outputs, is_single
        return self._inferred[key]

    def _stated(self, given: Any) -> tuple[list[Type], bool]:
        """What `shape` returned: (shape, dtype), or a list of these."""
        is_single = isinstance(given, tuple)
        stated = [given] if is_single else list(given)
        for one in stated:
            if len(one) != 2 or one[1] not in DTYPES:
                raise Error(
                    f"[op] the shape function of {self._name} must return (shape, dtype), or a "
                    f"list of these, but gave {given!r}."
                )
        return [
            (DTYPES[dtype], [int(size) for size in shape]) for shape, dtype in stated
        ], is_single

    def _call(
        self, function: Callable, arrays: Sequence[Array], attributes: dict[str, Any]
    ) -> tuple[list[torch.Tensor], list[torch.Tensor | None], bool]:
        """The arrays and what a function of the user's makes of them, as tensors; whether it gives
        one alone. Untraced and without gradients."""

        def work():
            with torch.no_grad():
                tensors = [_tensor(*array) for array in arrays]
                given = function(*map(_to_numpy, tensors) if self._numpy else tensors, **attributes)
                is_single = not isinstance(given, (list, tuple))
                results = [given] if is_single else list(given)
                made = [None if r is None else torch.as_tensor(r).detach() for r in results]
                return tensors, made, is_single

        return _native.call_untraced(work)

    def _compute(
        self, arrays: "list[Array]", attributes: dict[str, Any], _replica: int, _replicas: int
    ) -> list[np.ndarray]:
        tensors, results, _ = self._call(self._function, arrays, attributes)
        types = [_type_of(tensor) for tensor in tensors]
        expected, _ = self._infer(types, attributes, _core.custom_attributes(attributes))
        if (found := [_type_of(result) for result in results]) != expected:
            raise Error(
                f"[op] {self._name} gave {', '.join(map(_text, found))}, but for these inputs it "
                f"should give {', '.join(map(_text, expected))}."
            )
        return [_array(result) for result in results]

    def _compute_gradient(
        self,
        inputs: int,
        wanted: list[int],
        arrays: "list[Array]",
        attributes: dict[str, Any],
        _replica: int,
        _replicas: int,
    ) -> list[np.ndarray]:
        assert self._gradient is not None
        tensors, results, _ = self._call(self._gradient, arrays, attributes)
        if len(results) not in (len(wanted), inputs):
            raise Error(
                f"[op] the gradient of {self._name} gives {len(results)} tensors for {inputs} "
                f"inputs, of which {len(wanted)} are floating. Return one for each."
            )
        found = dict(zip(wanted, results, strict=False))
        if len(results) != len(wanted):
            found = dict(enumerate(results))
        made = []
        for i in wanted:
            gradient, like = found.get(i), tensors[i]
            if gradient is None:
                gradient = torch.zeros_like(like)
            if gradient.shape != like.shape:
                raise Error(
                    f"[op] the gradient of {self._name} gives {list(gradient.shape)} for input "
                    f"{i}, which is {list(like.shape)}."
                )
            made.append(_array(gradient.to(like.dtype)))
        return made


_FLOATS = {"f16", "bf16", "f32"}


def _type_of(tensor: torch.Tensor | None) -> Type:
    if tensor is None or tensor.dtype not in DTYPES:
        kind = "None" if tensor is None else f"of {tensor.dtype}"
        raise Error(f"[op] what the function takes or gives is {kind}: ops have real tensors.")
    return DTYPES[tensor.dtype], list(tensor.shape)


def _rounded(value: Any) -> Any:
    """Floats as float32: what the function is given wherever it runs."""
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(np.float32(value)) if isinstance(value, float) else value


def _text(type_: Type) -> str:
    return f"{type_[0]}{list(type_[1])}".replace(" ", "")


def _tensor(dtype: str, array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(array).view(TORCH_TYPES[dtype])


def _to_numpy(tensor: torch.Tensor) -> np.ndarray:
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def _array(tensor: torch.Tensor | None) -> np.ndarray:
    """What the device would hold."""
    assert tensor is not None
    dense = tensor.to(TORCH_TYPES[DTYPES[tensor.dtype]]).contiguous()
    return (dense.view(torch.uint16) if dense.dtype == torch.bfloat16 else dense).numpy()


def op(
    function: Callable | None = None,
    *,
    gradient: Callable | None = None,
    shape: Callable | None = None,
    numpy: bool = False,
) -> Any:
    """A decorator: a function of tensors becomes an op, for use inside and outside of models.

    The function runs on the host in the middle of the program, for each micro-batch, and takes and
    returns torch tensors (one, or a list or tuple); numpy: takes NumPy arrays and may return some.
    Keyword arguments are attributes: floats, ints and strings, alone or in lists. It must depend on
    its arguments alone, and leave them as they are.
    gradient: a function of the inputs, the outputs and the gradients of floating outputs, in this
    order, which returns those of the inputs; of floating ones alone if they are fewer. None stands
    for zero. `@my_op.gradient` gives it later.
    shape: a function of a (shape, dtype) for each input, which returns one such, or a list of them.
    Without it, the function is called on zeros when the model is compiled.
    """
    if function is None:
        return functools.partial(op, gradient=gradient, shape=shape, numpy=numpy)
    if not callable(function):
        raise ValueError(f"[op] expected a function but got {function!r}.")
    return PythonOp(function, numpy, shape, gradient)
