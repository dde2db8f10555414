"""The parts of a model at whose borders it can be cut, with their costs from a compilation."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from poptorch._impl.optimisers import description
from poptorch._impl.placement.part_costs import Part, parts_of
from poptorch._impl.trace import session
from poptorch._impl.wrapper import device_binding, results
from poptorch._impl.wrapper.call_arguments import of_micro_batch
from poptorch._impl.wrapper.execution_text import optimiser_lines
from poptorch.options import Options


def profile(
    model: torch.nn.Module,
    inputs,
    options: Options,
    optimizer: torch.optim.Optimizer | None,
    *,
    training: bool,
) -> tuple[list[Part], int]:
    """Returns the parts of a model compiled for one IPU, and the memory of an IPU."""
    arguments = of_micro_batch("plan", model, inputs)
    spec = description.describe(optimizer, model) if training and optimizer else None
    recorder = results.Outputs()
    called: set[str] = set()

    def call(tensors):
        positional, keyword = arguments.as_called(iter(tensors))
        with _noting_calls(model, called):
            return recorder.record(model(*positional, **keyword))

    said = {"training": training, "device": device_binding.profile_of(options)}
    lines = [("execution", "", said), *optimiser_lines(spec)]
    found = session.profile(call, model, arguments.tensors, lines)
    parameters = model.named_parameters(remove_duplicate=False)
    weights = {name: value.numel() * value.element_size() for name, value in parameters}
    return parts_of(found, weights, called), found["capacity_bytes"]


@contextmanager
def _noting_calls(model: torch.nn.Module, called: set[str]) -> Iterator[None]:
    """Adds the paths of the modules that run in the body."""
    paths: dict[int, list[str]] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        paths.setdefault(id(module), []).append(path)

    def note(module: torch.nn.Module, _inputs) -> None:
        called.update(paths.get(id(module), ()))

    handle = torch.nn.modules.module.register_module_forward_pre_hook(note)
    try:
        yield
    finally:
        handle.remove()
