"""Runs the nodes of a graph such that errors, logs and reports name the user's lines."""

import re
from collections.abc import Mapping
from functools import cache
from types import CodeType
from typing import Any

import torch
from poptorch._impl.torch_compile.substitutes import substitutes
from torch import fx

_FRAME = re.compile(r'File "(.+)", line (\d+)')


class Interpreter(fx.Interpreter):
    """Runs a graph node by node, each at the line of the code that it came from.

    lifted: tensors to use instead of attributes of the graph, by their names.
    """

    def __init__(self, graph: fx.GraphModule, lifted: Mapping[str, torch.Tensor]) -> None:
        super().__init__(graph)
        self.extra_traceback = False
        self._lifted = lifted

    def run_node(self, n: fx.Node) -> Any:
        """Runs a node. See torch.fx.Interpreter."""
        frames = _FRAME.findall(n.stack_trace or "")
        if not frames:
            return super().run_node(n)
        file, line = frames[-1]
        return eval(_code_at(file, int(line)), {"run": super().run_node, "node": n})

    def call_function(self, target, args, kwargs) -> Any:
        """Calls a function, or what replaces it on the device. See torch.fx.Interpreter."""
        if kwargs.get("device") is not None:  # torch has filled in its default, the host
            kwargs = {**kwargs, "device": "ipu"}
        return substitutes().get(target, target)(*args, **kwargs)

    def get_attr(self, target, args, kwargs) -> Any:
        """Returns an attribute of the graph. See torch.fx.Interpreter."""
        lifted = self._lifted.get(target)
        return super().get_attr(target, args, kwargs) if lifted is None else lifted


@cache
def _code_at(file: str, line: int) -> CodeType:
    """Returns code that runs a node, and whose frame is at this line."""
    return compile("\n" * (line - 1) + "run(node)", file, "eval")
