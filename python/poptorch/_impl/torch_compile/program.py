"""A graph of torch.compile as a function that the device computes."""

import itertools
import re
from collections.abc import Sequence
from typing import Any

import torch
from poptorch._impl.torch_compile import devices
from poptorch._impl.torch_compile.aliases import changed_inputs, example_of, results_of
from poptorch._impl.torch_compile.lines import Interpreter
from poptorch._impl.wrapper.executor import PoplarExecutor
from poptorch._logging import logger_of
from poptorch.options import Options
from torch import fx

logger = logger_of(__name__)
_TENSOR = object()  # stands for a tensor among the numbers of a call
_CONSTANT = re.compile(r"_tensor_constant\d+")
_numbers = [itertools.count(1)]


def restart_numbers() -> None:
    """Numbers the next graph 1. The random numbers of a graph depend on its number."""
    _numbers[0] = itertools.count(1)


class Program:
    """Runs a graph on the device, and compiles it for every new set of shapes.

    Parameters and buffers are inputs, so that a call sees their current values.
    """

    def __init__(
        self, graph: fx.GraphModule, examples: Sequence[Any], part: str, options: Options
    ) -> None:
        self._graph = graph
        self._number = next(_numbers[0])
        self._part = part
        self._options = options
        members = itertools.chain(graph.named_parameters(), graph.named_buffers())
        self._lifted = {name: t for name, t in members if not _CONSTANT.fullmatch(name)}
        self._is_changed = changed_inputs(graph) + [part == "graph"] * len(self._lifted)
        self._dtypes = [_dtype(result) for result in results_of(graph)]
        self._has_fixed_shapes = not any(map(_varies, examples))
        self._wrappers: dict[tuple, PoplarExecutor] = {}

    def __call__(self, *inputs: Any) -> list[Any]:
        """Returns the graph's results for these inputs: tensors, or numbers of varying shapes."""
        key = () if self._has_fixed_shapes else tuple(map(_key, inputs))
        wrapper = self._wrappers.get(key)
        values = [*inputs, *self._lifted.values()] if self._lifted else inputs
        if wrapper is None:
            wrapper = self._wrappers[key] = self._wrapped(values)
        tensors = [
            value.detach() if changed or value.is_contiguous() else value.detach().contiguous()
            for value, changed in zip(values, self._is_changed, strict=True)
            if isinstance(value, torch.Tensor)
        ]
        results = devices.run(wrapper, tensors)
        for value, changed in zip(values, self._is_changed, strict=True):
            if changed and isinstance(value, torch.Tensor) and not value.is_inference():
                torch.autograd.graph.increment_version(value)
        return [
            result if dtype is None or result.dtype == dtype else result.to(dtype)
            for result, dtype in zip(results, self._dtypes, strict=True)
        ]

    def _wrapped(self, values: Sequence[Any]) -> PoplarExecutor:
        if self._wrappers:
            logger.info(f"{self!r} is compiled again, for other shapes")
        function = _Flat(self._graph, values, [*self._lifted], repr(self))
        wrapper = PoplarExecutor(function, self._options, False)
        wrapper.rng_state = [(torch.initial_seed() + self._number) % 2**63, 0]
        return wrapper

    def __repr__(self) -> str:
        return f"{self._part} {self._number} of torch.compile"


class _Flat:
    """A graph as a function of its tensors, for one set of shapes."""

    def __init__(
        self, graph: fx.GraphModule, values: Sequence[Any], lifted: list[str], name: str
    ) -> None:
        self._graph, self._lifted, self._name = graph, lifted, name
        self._numbers = [_TENSOR if isinstance(value, torch.Tensor) else value for value in values]

    def __call__(self, *tensors: torch.Tensor) -> list[Any]:
        """Runs the graph."""
        rest = iter(tensors)
        values: list[Any] = [next(rest) if n is _TENSOR else n for n in self._numbers]
        split = len(values) - len(self._lifted)
        lifted = dict(zip(self._lifted, values[split:], strict=True))
        with torch.device("ipu"):
            return list(Interpreter(self._graph, lifted).run(*values[:split]))

    def __repr__(self) -> str:
        return self._name


def _varies(example: Any) -> bool:
    if isinstance(example, torch.Tensor):
        return any(isinstance(size, torch.SymInt) for size in example.shape)
    return True


def _key(value: Any) -> Any:
    return (value.shape, value.dtype) if isinstance(value, torch.Tensor) else value


def _dtype(result: Any) -> torch.dtype | None:
    example = example_of(result) if isinstance(result, fx.Node) else None
    return example.dtype if isinstance(example, torch.Tensor) else None
