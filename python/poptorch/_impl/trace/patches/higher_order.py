"""Torch's operators that take functions, in a trace: their kernels are in Python.

Each is registered for the tracer's dispatch key, which only a tracing thread includes. Torch would
compile the functions before that, unless a flag says that it is compiling already.
"""

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.attention.flex_attention
from poptorch._impl.inspection.source_lines import user_location
from poptorch._impl.ops import control_flow
from poptorch_core import Error, _torch
from torch._higher_order_ops.cond import cond_op
from torch._higher_order_ops.flex_attention import flex_attention
from torch._higher_order_ops.map import map_impl
from torch._higher_order_ops.scan import scan_op
from torch._higher_order_ops.while_loop import while_loop_op
from torch.utils import _pytree as trees

_KEY: Any = torch._C._parse_dispatch_key("DeferredInit")

Tensors = Sequence[torch.Tensor]


@cond_op.py_impl(_KEY)
def _cond(pred: Any, true_fn: Callable, false_fn: Callable, operands: Any = ()) -> Any:
    """torch.cond: a branch on the device, or only one body if the condition is known."""
    known = _torch.known(pred) if isinstance(pred, torch.Tensor) else pred
    if known is not None:
        return (true_fn if known else false_fn)(*operands)
    if _torch.is_training():
        raise Error(
            "[torch.cond] a condition that depends on an input, a weight or a random number is "
            "evaluated on the device, which is only supported in inference. Use torch.where "
            f"({user_location()})."
        )
    leaves, shape = trees.tree_flatten(operands)
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    shapes: list[Any] = []

    def flat(body: Callable) -> Callable:
        def run(*tensors: torch.Tensor) -> list:
            inside = list(leaves)
            for place, tensor in zip(places, tensors, strict=True):
                inside[place] = tensor
            results, result_shape = trees.tree_flatten(body(*trees.tree_unflatten(inside, shape)))
            shapes.append(result_shape)
            return results

        return run

    tensors = [leaves[place] for place in places]
    results = control_flow.cond(pred, flat(true_fn), tensors, flat(false_fn), tensors)
    return trees.tree_unflatten(results, shapes[0])


@while_loop_op.py_impl(_KEY)
def _while_loop(goes_on: Callable, body: Callable, carried: Tensors, others: Tensors) -> Any:
    """while_loop: unrolled if the trace knows the conditions. Returns the last body's results."""
    made: Any = None
    while True:
        answer = goes_on(*carried, *others)
        known = _torch.known(answer) if isinstance(answer, torch.Tensor) else answer
        if known is None:
            raise Error(
                "[while_loop] how often the body runs depends on an input, a weight or a random "
                "number, which is not known while the model is traced. Run it a fixed number of "
                "times with poptorch.for_loop, and select the changes with torch.where "
                f"({user_location()})."
            )
        if not known:
            return _as_given(carried, body) if made is None else made
        made = body(*carried, *others)
        carried = trees.tree_leaves(made)


def _as_given(carried: Tensors, body: Callable) -> Any:
    """Returns copies of a loop's initial values, in the structure before torch flattened it."""
    copies = [x.clone() if isinstance(x, torch.Tensor) else x for x in carried]
    shape = inspect.getclosurevars(body).nonlocals.get("in_spec")
    return tuple(copies) if shape is None else trees.tree_unflatten(copies, shape)[0]


@scan_op.py_impl(_KEY)
def _scan(step: Callable, carried: Tensors, xs: Tensors, others: Tensors) -> Any:
    """scan: unrolled over the first axis.

    Returns, in the structure of a step's result, the last `carried`, then the steps' other results
    stacked.
    """
    given: list[Tensors] = []
    count = len(carried)
    shape: Any = None
    for rows in zip(*(x.unbind(0) for x in xs), strict=True):
        made, shape = trees.tree_flatten(step(*carried, *rows, *others))
        carried = made[:count]
        given.append(made[count:])
    stacked = (torch.stack(list(parts)) for parts in zip(*given, strict=True))
    return trees.tree_unflatten([*carried, *stacked], shape)


@map_impl.py_impl(_KEY)
def _map(function: Callable, xs: Tensors, others: Tensors, mutated_arg_indices: str = "") -> Any:
    """map: unrolled over the first axis. Returns the stacked results in the structure of one.

    torch 2.14 names the arguments that the function writes. Rows are views, so `xs` has the writes.
    """
    rows = zip(*(x.unbind(0) for x in xs), strict=True)
    made = [function(*row, *others) for row in rows]
    return trees.tree_map(lambda *parts: torch.stack(parts), *made)


@flex_attention.py_impl(_KEY)
def _flex_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    score_mod: Callable,
    block_mask: tuple,
    scale: float,
    kernel_options: dict,
    score_mod_buffers: Tensors = (),
    mask_mod_buffers: Tensors = (),
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns (result, logsumexp, maximum) of query [B, H, L, E], key and value [B or 1, G, S, E].

    score_mod and mask functions get all scores and indices at once. The last two results are in
    base 2, like those of torch's kernels.
    """
    groups = query.shape[1] // key.shape[1]
    key, value = (x.repeat_interleave(groups, dim=1) for x in (key, value))
    scores = (query @ key.transpose(-2, -1)).float() * scale
    places = [
        torch.arange(size).reshape([-1 if axis == i else 1 for axis in range(4)])
        for i, size in enumerate(scores.shape)
    ]
    scores = score_mod(scores, *places, *score_mod_buffers)
    chosen = block_mask[-1](*places, *mask_mod_buffers).expand(scores.shape)
    scores = scores.masked_fill(~chosen, float("-inf"))
    result = torch._safe_softmax(scores, -1).to(query.dtype) @ value
    return result, scores.logsumexp(-1) / math.log(2), scores.amax(-1) / math.log(2)


# (holder, name, replacement) that make torch call the operators directly.
REPLACEMENTS: list[tuple[Any, str, Callable]] = [
    (torch, "cond", _cond),  # torch.cond takes operands of any structure
    (torch.compiler, "is_dynamo_compiling", lambda: True),
    (torch.nn.attention.flex_attention, "_validate_device", lambda *_: None),
]
