"""Results of a training step that share memory with a parameter show its value after the step."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import astuple, dataclass
from typing import Any

import torch
from poptorch._impl.inspection.source_lines import user_location
from poptorch._impl.weights import members
from poptorch._impl.wrapper.results import Outputs
from poptorch._logging import logger_of

logger = logger_of(__name__)


@dataclass(frozen=True)
class WeightView:
    """Where a result's elements lie in a parameter: strides and offset count elements.

    `result`: the result's number; `layout`: the parameter's strides.
    """

    result: int
    slot: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    layout: tuple[int, ...]

    @classmethod
    def decoded(cls, said: Any) -> "WeightView":
        """Makes one of encoded(); raises TypeError or ValueError for other objects."""
        result, slot, sizes, strides, offset, layout = said
        numbers = [result, offset, *sizes, *strides, *layout]
        if not isinstance(slot, str) or not all(type(n) is int and n >= 0 for n in numbers):
            raise TypeError("a returned weight is not described by numbers")
        return cls(result, slot, tuple(sizes), tuple(strides), offset, tuple(layout))

    def encoded(self) -> list[Any]:
        return list(astuple(self))

    def write(self, value: torch.Tensor, into: torch.Tensor) -> None:
        """Writes the part of a parameter's value into a result, once for each micro-batch of it."""
        whole = torch.empty_strided(value.shape, self.layout, dtype=value.dtype).copy_(value)
        part = whole.as_strided(self.sizes, self.strides, self.offset)
        into.reshape(-1, *self.sizes).copy_(part)


def find(leaves: Iterable[torch.Tensor], model: torch.nn.Module | None) -> list[WeightView]:
    """Returns the results among `leaves`, tensors of the trace, that lie in a parameter."""
    if model is None:
        return []
    leaves = list(leaves)
    memories = {_memory(leaf) for leaf in leaves if _is_plain(leaf)}
    if not memories:
        return []
    parameters: dict[int, tuple[str, torch.Tensor]] = {}
    with torch._C.DisableTorchFunctionSubclass():  # no value is read
        for name, weight in members.named_parameters(model, remove_duplicate=False):
            if not weight.numel() or weight.layout != torch.strided:
                continue
            if _memory(weight) in memories:
                parameters.setdefault(_memory(weight), (name, weight))
    found = []
    for number, leaf in enumerate(leaves):
        if not parameters or not _is_plain(leaf) or _memory(leaf) not in parameters:
            continue
        name, parameter = parameters[_memory(leaf)]
        if leaf.dtype != parameter.dtype:
            continue
        offset = int(leaf.storage_offset() - parameter.storage_offset())
        layout = parameter.stride()
        if offset >= 0:
            sizes = tuple(leaf.shape)
            found.append(WeightView(number, name, sizes, leaf.stride(), offset, layout))
    return found


def without_former(
    found: list[WeightView], grouped: Collection[str], *, summed: bool
) -> list[WeightView]:
    """Leaves out, with a warning, the results that keep the value before the step.

    grouped: the parameters with several values by replica; summed: the results are sums over the
    micro-batches, which the device computes before the step.
    """
    former = [view for view in found if summed or view.slot in grouped]
    for slot in dict.fromkeys(view.slot for view in former):
        cause = "OutputMode.Sum adds" if summed else "several replicas have"
        what = "values of every micro-batch" if summed else "different values of this parameter"
        logger.warning(
            f"[outputs] the model returns its parameter '{slot}'. In eager torch this shows the "
            f"value after the optimiser's step. Here {cause} {what}, and the result has the value "
            f"before the step. Read the parameter after the call ({user_location()}) instead"
        )
    return [view for view in found if view not in former]


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _is_plain(tensor: torch.Tensor) -> bool:
    is_dense = tensor.layout == torch.strided and tensor.numel() > 0
    return is_dense and not tensor.is_conj() and not tensor.is_neg()


def rebuilder(outputs: Outputs, executable: Any) -> Callable[[list[torch.Tensor]], object]:
    """Returns a function that rebuilds the user's structure from a run's results.

    As in eager torch, after the optimiser's step, results that share memory with a parameter have
    its new value. All micro-batches of a run have it.
    """
    rebuild = outputs.rebuilder()
    if not outputs.weights:
        return rebuild

    def rebuild_updated(results: list[torch.Tensor]) -> object:
        values: dict[str, torch.Tensor] = {}
        for view in outputs.weights:
            source = outputs.sources[view.result]
            if isinstance(source, torch.Tensor):
                continue
            if view.slot not in values:
                values[view.slot] = executable.fetch_state(view.slot)
            view.write(values[view.slot], results[source])
        return rebuild(results)

    return rebuild_updated
