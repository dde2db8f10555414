"""poptorch.MultiConv: joins convolutions into one op of the device."""

from collections.abc import Sequence
from typing import Any

import torch
from poptorch import _native
from poptorch.enums import MultiConvPlanType

_PARTIALS = {torch.float: "float", torch.half: "half"}


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


class MultiConv:
    """A context manager that joins the convolutions inside into one op, without changing values.

    The convolutions must not need each other's results; other ops may be between them. With
    planType() Parallel, the default, they run at the same time and share the tiles; with Serial one
    after the other. Settings change the modelled cycles and memory, and half partials the values.
    They are one value for all convolutions, or a list with one for each. Each setter returns the
    object, which may be used several times. On the CPU it does nothing.

    Raises:
        poptorch.Error: At compilation, if it is inside another MultiConv, contains no convolution,
            a list has another length than the number of convolutions, or a number is out of range.
    """

    def __init__(self) -> None:
        self._values: dict[str, list[str]] = {}
        self._plan: MultiConvPlanType | None = None
        self._traced = False

    def availableMemoryProportions(self, value: "float | Sequence[float] | None") -> "MultiConv":
        """Sets the shares of tile memory, from 0 to 1; None removes the setting.

        Args:
            value: The share of each convolution, one for all, or None.

        Raises:
            AssertionError: `value` is not a float, a sequence of floats, or None.
        """
        values = [] if value is None else _listed(value)
        given = value is None or (values and all(isinstance(v, float) for v in values))
        if not given:
            raise AssertionError("Invalid available memory proportion!")
        return self._set("availableMemoryProportions", values)

    def partialsTypes(self, value: "torch.dtype | Sequence[torch.dtype]") -> "MultiConv":
        """Sets the dtypes of partial sums of convolutions in float16, instead of setPartialsType.

        Args:
            value: The dtype of each convolution, or one for all.

        Raises:
            ValueError: A dtype is not torch.float or torch.half.
        """
        values = _listed(value)
        if not values or not all(isinstance(v, torch.dtype) and v in _PARTIALS for v in values):
            raise ValueError("Invalid partials types. Expecting torch.float or torch.half")
        return self._set("partialsTypes", [_PARTIALS[v] for v in values])

    def planType(self, value: "MultiConvPlanType | None") -> "MultiConv":
        """Sets whether the convolutions run in parallel or one after the other; None: in parallel.

        Args:
            value: The MultiConvPlanType, or None.

        Raises:
            AssertionError: `value` is not a MultiConvPlanType or None.
        """
        if value is not None and not isinstance(value, MultiConvPlanType):
            raise AssertionError("Invalid plan type!")
        self._plan = value
        return self._set("planType", [] if value is None else [value.name.lower()])

    def perConvReservedTiles(self, value: int) -> "MultiConv":
        """Sets the least number of tiles of each convolution in a parallel plan, 50 by default.

        Args:
            value: The number of tiles.

        Raises:
            AssertionError: `value` is not an integer.
        """
        if not isinstance(value, int):
            raise AssertionError(f"The number of reserved tiles must be an integer, not {value!r}.")
        return self._set("perConvReservedTiles", [value])

    def cycleBackOff(self, value: float) -> "MultiConv":
        """Sets how far from the fastest plan the search for a parallel plan begins, by default 0.1.

        Args:
            value: The share of the cycles of the slowest convolution that is added, from 0 to 1.

        Raises:
            AssertionError: `value` is not a float.
        """
        if not isinstance(value, float):
            raise AssertionError(f"The back-off of cycles must be a float, not {value!r}.")
        return self._set("cycleBackOff", [value])

    def enableConvDithering(self, value: "bool | Sequence[bool]") -> "MultiConv":
        """Sets whether convolutions begin on different tiles.

        Args:
            value: One bool for each convolution, or one for all.

        Raises:
            ValueError: `value` is not a bool or a sequence of bools.
        """
        values = _listed(value)
        if not values or not all(isinstance(v, bool) for v in values):
            raise ValueError("value must be bool or list of bools")
        return self._set("enableConvDithering", [int(v) for v in values])

    def __enter__(self) -> "MultiConv":
        self._traced = _native.is_tracing()
        if self._traced:
            _native.begin_multi_conv()
        return self

    def __exit__(self, exception: object, *_rest: object) -> None:
        if not self._traced:
            return
        if exception is not None:
            _native.abandon_multi_conv()
        else:
            serial = self._plan == MultiConvPlanType.Serial
            _native.end_multi_conv(serial, list(self._values.items()))

    def _set(self, name: str, values: list[Any]) -> "MultiConv":
        self._values.pop(name, None)
        if values:
            self._values[name] = [str(v) for v in values]
        return self
