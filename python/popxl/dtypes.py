"""Element types: one object each, with conversions from and to NumPy and torch.

`float` and `bool` shadow Python's builtins in this module, as they do in the package.
"""

import builtins
from typing import TYPE_CHECKING, Any

import numpy as np

np_dtype_float8_143 = np.dtype([("float8_143", "u1")])
np_dtype_float8_152 = np.dtype([("float8_152", "u1")])


class dtype:
    """An element type. This module defines all of them; the constructor raises TypeError."""

    _name: str
    _np: np.dtype
    _torch: "str | None"
    is_complex: builtins.bool
    is_int: builtins.bool
    is_floating_point: builtins.bool
    is_signed: builtins.bool

    def __init__(self) -> None:
        raise TypeError("Cannot create popxl.dtypes.dtype: use one of the types of popxl.dtypes.")

    @property
    def name(self) -> str:
        """The name, e.g. "float32"."""
        return self._name

    def as_numpy(self) -> np.dtype:
        """Returns the NumPy type; float8 is a structured type of one u1 field."""
        return self._np

    def as_torch(self) -> Any:
        """Returns the torch type. Raises TypeError if torch does not have it."""
        if self._torch is None:
            raise TypeError(f"{self} has no torch counterpart.")
        import torch

        return getattr(torch, self._torch)

    @classmethod
    def as_dtype(cls, x: Any) -> "dtype":
        """Returns the element type that `x` names or has.

        Args:
            x: A popxl, NumPy or torch type, a name, Python's `bool` or `float`, an object with
                `.dtype`, or an argument of `numpy.dtype` (`int` is int64, `"i4"` int32).

        Raises:
            ValueError: x is something else.
        """
        if isinstance(x, dtype):
            return x
        if isinstance(x, str) and x in _NAMES:
            return _NAMES[x]
        if isinstance(x, type) and x in _PY_TO_POPXL:
            return _PY_TO_POPXL[x]
        if not isinstance(x, (type, str, np.dtype)) and hasattr(x, "dtype"):
            return cls.as_dtype(x.dtype)
        text = str(x)
        if text.startswith("torch.") and text[6:] in _TORCH_NAMES:
            return _TORCH_NAMES[text[6:]]
        try:
            found = np.dtype(x) if x is not None else None
        except TypeError:
            found = None
        if found is not None and found in _NP_TO_POPXL:
            return _NP_TO_POPXL[found]
        raise ValueError(f"There is no popxl dtype for {x!r}.")

    @classmethod
    def from_name(cls, name: str) -> "dtype":
        """Returns the type of a name, e.g. "float32" or "half". Raises ValueError for others.

        Args:
            name: The name of the type.
        """
        if name not in _NAMES:
            raise ValueError(f"There is no popxl dtype called {name!r}.")
        return _NAMES[name]

    def __repr__(self) -> str:
        return f"popxl.dtypes.{self._name}"

    def __reduce__(self) -> str:
        return self._name


_CORE_NAMES: dict[dtype, str] = {}
_TORCH_NAMES: dict[str, dtype] = {}


def _make(name: str, core: str, kind: str, numpy: Any = None, torch: "str | None" = None) -> dtype:
    made = object.__new__(dtype)
    vars(made).update(_name=name, _torch=torch, _np=np.dtype(name if numpy is None else numpy))
    _CORE_NAMES[made] = core
    if torch is not None:
        _TORCH_NAMES[torch] = made
    made.is_complex = kind == "c"
    made.is_int = kind in "iu"
    made.is_floating_point = kind == "f"
    made.is_signed = kind in "ifc"
    return made


bool = _make("bool", "bool", "b", torch="bool")
int8 = _make("int8", "i8", "i", torch="int8")
int16 = _make("int16", "i16", "i", torch="int16")
int32 = _make("int32", "i32", "i", torch="int32")
int64 = _make("int64", "i64", "i", torch="int64")
uint8 = _make("uint8", "u8", "u", torch="uint8")
uint16 = _make("uint16", "u16", "u")
uint32 = _make("uint32", "u32", "u")
uint64 = _make("uint64", "u64", "u")
float8_143 = _make("float8_143", "f8_143", "f", np_dtype_float8_143)
float8_152 = _make("float8_152", "f8_152", "f", np_dtype_float8_152)
float16 = half = _make("float16", "f16", "f", torch="float16")
float32 = float = _make("float32", "f32", "f", torch="float32")
float64 = double = _make("float64", "f64", "f", torch="float64")
complex64 = _make("complex64", "c64", "c", torch="complex64")
complex128 = _make("complex128", "c128", "c", torch="complex128")

ALL = tuple(_CORE_NAMES)
_NAMES = {t.name: t for t in ALL} | {"half": float16, "float": float32, "double": float64}
_NP_TO_POPXL = {t.as_numpy(): t for t in ALL}
_PY_TO_POPXL = {builtins.bool: bool, builtins.float: float32}
_OF_CORE_NAME = {core: t for t, core in _CORE_NAMES.items()}


def core_name(t: dtype) -> str:
    """Returns the compiler's name of a type."""
    return _CORE_NAMES[t]


def of_core_name(name: str) -> dtype:
    """Returns the type of a compiler's name."""
    return _OF_CORE_NAME[name]


def computing_dtype(t: dtype) -> dtype:
    """Returns the type in which updates of tensors are computed: float32 for float16."""
    return float32 if t is float16 else t


def checked(x: Any) -> dtype:
    """Returns a popxl dtype. Raises TypeError for other types; it names popxl's counterpart."""
    if isinstance(x, dtype):
        return x
    try:
        meant = f"popxl.{dtype.as_dtype(x).name}"
    except ValueError:
        meant = "e.g. popxl.float32"
    raise TypeError(f"{x!r} is not a dtype of popxl. Write {meant}.")


def as_bits(array: np.ndarray) -> np.ndarray:
    """Returns float8 as bytes, as the compiler takes it; other arrays unchanged."""
    if array.dtype in (np_dtype_float8_143, np_dtype_float8_152):
        return np.ascontiguousarray(array).view(np.uint8).reshape(array.shape)
    return array


if not TYPE_CHECKING:  # type checkers would accept any name

    def __getattr__(name: str) -> Any:
        if name == "_PT_TO_POPXL":  # needs torch: made at its use
            return {t.as_torch(): t for t in _TORCH_NAMES.values()}
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
