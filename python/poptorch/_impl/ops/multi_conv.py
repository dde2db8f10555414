"""poptorch.MultiConv: convolutions that are one op of the device."""

from collections.abc import Sequence
from typing import Any

import torch
from poptorch import _native
from poptorch.enums import MultiConvPlanType

_PARTIALS = {torch.float: "float", torch.half: "half"}


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


class MultiConv:
    """A context manager: the convolutions inside are one op, which changes no values.

    They may not need each other's results; other ops may stand between them. With the plan
    Parallel, which is the default, they run in one launch; with Serial one after the other. The
    remaining settings are advice for hardware: one value for all convolutions, or a list with one
    for each. An object may be used again. On the CPU it does nothing. poptorch.Error at
    compilation: inside another MultiConv, without a convolution, or with other numbers of values.
    """

    def __init__(self) -> None:
        self._values: dict[str, list[str]] = {}
        self._plan: MultiConvPlanType | None = None
        self._traced = False

    def availableMemoryProportions(self, value: "float | Sequence[float] | None") -> "MultiConv":
        """The shares of tile memory, from 0 to 1."""
        values = [] if value is None else _listed(value)
        given = value is None or (values and all(isinstance(v, float) for v in values))
        if not given:
            raise AssertionError("Invalid available memory proportion!")
        return self._set("availableMemoryProportions", values)

    def partialsTypes(self, value: "torch.dtype | Sequence[torch.dtype]") -> "MultiConv":
        """The types of intermediate sums. ValueError unless torch.float or torch.half."""
        values = _listed(value)
        if not values or not all(isinstance(v, torch.dtype) and v in _PARTIALS for v in values):
            raise ValueError("Invalid partials types. Expecting torch.float or torch.half")
        return self._set("partialsTypes", [_PARTIALS[v] for v in values])

    def planType(self, value: "MultiConvPlanType | None") -> "MultiConv":
        """Whether they run together."""
        if value is not None and not isinstance(value, MultiConvPlanType):
            raise AssertionError("Invalid plan type!")
        self._plan = value
        return self._set("planType", [] if value is None else [value.name.lower()])

    def perConvReservedTiles(self, value: int) -> "MultiConv":
        """How many tiles each convolution keeps for itself."""
        if not isinstance(value, int):
            raise AssertionError(f"The number of reserved tiles must be an integer, not {value!r}.")
        return self._set("perConvReservedTiles", [value])

    def cycleBackOff(self, value: float) -> "MultiConv":
        """How far from the fastest plan the search for a parallel one begins."""
        if not isinstance(value, float):
            raise AssertionError(f"The back-off of cycles must be a float, not {value!r}.")
        return self._set("cycleBackOff", [value])

    def enableConvDithering(self, value: "bool | Sequence[bool]") -> "MultiConv":
        """Whether convolutions begin on different tiles. ValueError for others than bools."""
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
