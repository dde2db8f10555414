"""poptorch.op: Python functions as ops of a model, which run on the host during the program.

Each combination of number and kinds of a function's tensors is a custom op of domain "python". This
module converts between the op's arrays and the user's tensors.
"""

import functools
import inspect
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
INPUT, OUTPUT, GRADIENT = range(3)  # sources of the inputs of a gradient op
_numbers = itertools.count(1)
_lock = threading.RLock()

Type = tuple[str, list[int]]  # ("f32", [2, 3])
# (element type, array). NumPy has no bfloat16: its bits are in an array of uint16.
Array = tuple[str, np.ndarray]


class _Variant(NamedTuple):
    """The op of a combination of tensors; is_single: the function returns one tensor, no list."""

    name: str
    version: int
    is_single: bool


class PythonOp:
    """A function of tensors as an op, for calls in and outside of models. See poptorch.op."""

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
        """Decorates the function for the gradient: see poptorch.op.

        Raises:
            poptorch.Error: The op was called before.
        """
        if self._variants:
            raise Error(f"[op] {self._name} is in use. Set its gradient before its first call.")
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
        _core.custom_attributes(kept)  # raises for floats beyond float32, before they are rounded
        kept = {name: _rounded(value) for name, value in kept.items()}
        text = _core.custom_attributes(kept)
        variant = self._variant(types, kept, text)
        made = apply(Use(variant.name, DOMAIN, variant.version, text), list(tensors))
        return made[0] if variant.is_single else tuple(made)

    def _variant(self, types: list[Type], attributes: dict[str, Any], text: str) -> _Variant:
        """Returns the op for tensors of these types; registers it at the first use."""
        try:
            outputs, is_single = self._infer(types, attributes, text)
        except Error:
            raise
        except Exception as error:
            raise Error(
                f"[op] {self._name} failed to determine the types of its results for "
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
        """Returns the outputs' types, and whether the function returns one tensor, not a list."""
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
            if self._gradient is not None and any(dtype in _FLOATS for dtype, _ in types):
                self._check_gradient_takes(types, outputs, attributes)
            self._inferred[key] = outputs, is_single
        return self._inferred[key]

    def _stated(self, given: Any) -> tuple[list[Type], bool]:
        """Converts the result of `shape`: (shape, dtype), or a list of these."""
        is_single = isinstance(given, tuple)
        stated = [given] if is_single else list(given)
        for one in stated:
            if len(one) != 2 or one[1] not in DTYPES:
                raise Error(
                    f"[op] the shape function of {self._name} must return (shape, dtype), or a "
                    f"list of these, but returned {given!r}."
                )
        return [
            (DTYPES[dtype], [int(size) for size in shape]) for shape, dtype in stated
        ], is_single

    def _call(
        self, function: Callable, arrays: Sequence[Array], attributes: dict[str, Any]
    ) -> tuple[list[torch.Tensor], list[torch.Tensor | None], bool]:
        """Calls a user function, untraced and without gradients.

        Returns the arrays and the results as tensors, and whether the function returned one tensor.
        """

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
                f"[op] {self._name} returned {', '.join(map(_text, found))}, but for these inputs "
                f"it should return {', '.join(map(_text, expected))}."
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
                f"[op] the gradient of {self._name} returns {len(results)} tensors for {inputs} "
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
                    f"[op] the gradient of {self._name} returns {list(gradient.shape)} for input "
                    f"{i}, which is {list(like.shape)}. Return a gradient of the input's shape."
                )
            made.append(_array(gradient.to(like.dtype)))
        return made

    def _check_gradient_takes(
        self, types: list[Type], outputs: list[Type], attributes: dict[str, Any]
    ) -> None:
        """Raises Error if the gradient function cannot take its tensors and the attributes."""
        assert self._gradient is not None
        try:
            signature = inspect.signature(self._gradient)
        except (TypeError, ValueError):  # a builtin without a signature
            return
        count = len(types) + len(outputs) + sum(dtype in _FLOATS for dtype, _ in outputs)
        try:
            signature.bind(*range(count), **attributes)
        except TypeError as error:
            keywords = f", and {', '.join(attributes)} by keyword" if attributes else ""
            raise Error(
                f"[op] the gradient of {self._name} cannot be called: {error}. It takes {count} "
                f"tensors: {len(types)} inputs, then the outputs, then the gradients of the "
                f"floating outputs{keywords}. Change its parameters from {signature}."
            ) from None


_FLOATS = {"f16", "bf16", "f32"}


def _type_of(tensor: torch.Tensor | None) -> Type:
    if tensor is None or tensor.dtype not in DTYPES:
        kind = "None" if tensor is None else f"of {tensor.dtype}"
        raise Error(f"[op] an argument or result of the function is {kind}. Use real tensors.")
    return DTYPES[tensor.dtype], list(tensor.shape)


def _rounded(value: Any) -> Any:
    """Rounds floats to float32: functions get the same values in and outside of models."""
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
    """Converts a tensor to the array that the device holds."""
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
    """Makes a function of tensors an op, for use inside and outside of models. Use it as decorator.

    The function runs on the host during the program, for each micro-batch. It takes tensors and
    returns one tensor, or a list or tuple. Its keyword arguments are attributes: floats, ints and
    strings, alone or in lists. Its results must depend only on its arguments, and it must not
    change these.

    Args:
        function: The function.
        gradient: A function of the inputs, the outputs and the gradients of floating outputs, in
            this order. It returns the gradients of all inputs, or of the floating inputs only; None
            means zero. `@my_op.gradient` sets it later.
        shape: A function of a (shape, dtype) for each input that returns one (shape, dtype), or a
            list, for the outputs. Without it, compiling the model calls the function on zeros.
        numpy: The function takes NumPy arrays, and may return them.

    Returns:
        The op, or a decorator if `function` is None.

    Raises:
        ValueError: `function` is not callable.

    Example:
        >>> @poptorch.op
        ... def cube(x):
        ...     return x**3
        >>> @cube.gradient
        ... def cube_gradient(x, y, dy):
        ...     return 3 * x**2 * dy
    """
    if function is None:
        return functools.partial(op, gradient=gradient, shape=shape, numpy=numpy)
    if not callable(function):
        raise ValueError(f"[op] expected a function but got {function!r}.")
    return PythonOp(function, numpy, shape, gradient)
