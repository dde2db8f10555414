"""torch.autograd.grad and the transforms of torch.func in a trace.

A gradient consists of ops of the graph (Tracer::gradients). Transforms differentiate by separate
leaves. Under vmap, a leaf has the axes of all levels, so that each element has its own gradient.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from poptorch._impl.inspection.source_lines import user_location
from poptorch_core import Error, _torch
from torch._functorch import eager_transforms, pyfunctorch
from torch.utils import _pytree as trees

_FUNCTORCH: Any = torch._C._functorch

# A tensor whose first axes belong to vmap's levels, and these levels from the outermost on.
Physical = tuple[torch.Tensor, list[int]]


def gradients_of(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[torch.Tensor | None, ...]:
    """Replaces torch.autograd.grad. The graph is always retained."""
    del retain_graph
    outputs, inputs = _as_list(outputs), _as_list(inputs)
    given: list[Any] = [None] * len(outputs) if grad_outputs is None else _as_list(grad_outputs)
    if len(given) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(given)} gradients")
    if _torch.is_training():
        for i, output in enumerate(outputs):
            if not output.requires_grad:
                raise RuntimeError(
                    f"element {i} of tensors does not require grad and does not have a grad_fn"
                )
    else:
        _refuse_hooked(inputs)
    if is_grads_batched:
        rounds = [
            gradients_of(outputs, inputs, rows, None, create_graph, allow_unused, False, True)
            for rows in zip(*(seed.unbind(0) for seed in given), strict=True)
        ]
        return tuple(torch.stack(list(parts)) for parts in zip(*rounds, strict=True))
    seeds = [_seed(*pair) for pair in zip(outputs, given, strict=True)]
    found = _gradients(outputs, seeds, inputs, create_graph)
    if materialize_grads:
        return tuple(_zeros_for_none(found, inputs))
    if not allow_unused and any(gradient is None for gradient in found):
        raise RuntimeError(
            "One of the differentiated Tensors appears to not have been used in the graph. Set "
            "allow_unused=True if this is the desired behavior."
        )
    return tuple(found)


def _refuse_hooked(inputs: Sequence[torch.Tensor]) -> None:
    """Raises Error for a tensor that has hooks from before the trace, which inference ignores."""
    with torch._C.DisableTorchFunctionSubclass():
        hooked = any(tensor._backward_hooks for tensor in inputs)
    if hooked:
        raise Error(
            f"[hook] a gradient in inference ({user_location()}) by a parameter that has a hook "
            "is not supported. Remove the hook and call its function on the gradient, or use "
            "poptorch.trainingModel."
        )


def _as_list(tensors: Any) -> list:
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def _seed(output: torch.Tensor, given: torch.Tensor | None) -> torch.Tensor:
    if given is None:
        if output.numel() != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        return torch.ones_like(output)
    if given.shape != output.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output has a shape of {given.shape} and output has a shape "
            f"of {output.shape}."
        )
    return given.to(output.dtype)


def _zeros_for_none(found: Sequence, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    pairs = zip(found, inputs, strict=True)
    return [torch.zeros_like(x) if gradient is None else gradient for gradient, x in pairs]


def _gradients(outputs: Sequence, seeds: Sequence, inputs: Sequence, create: bool) -> list:
    """Returns the gradients of inputs; None if no output depends on the input."""
    physical = [[_physical(tensor) for tensor in part] for part in (outputs, seeds, inputs)]
    with pyfunctorch.temporarily_clear_interpreter_stack(), torch.set_grad_enabled(create):
        found = _physical_gradients(*physical)
    return [gradient and _wrapped(*gradient) for gradient in found]


def _physical_gradients(
    outputs: list[Physical], seeds: list[Physical], inputs: list[Physical]
) -> list[Physical | None]:
    levels = _levels([*outputs, *inputs])
    beyond = [level for level in _levels(seeds) if level not in levels]
    if beyond:
        return _round_by_round(outputs, seeds, inputs, beyond[-1])
    for (_, own), (_, of_input) in ((y, x) for y in outputs for x in inputs):
        if not set(own) <= set(of_input):
            raise Error(
                f"[vmap] a gradient inside of vmap by a tensor from outside ({user_location()}) is "
                "not supported. Pass the tensor to the mapped function, or use torch.func.grad."
            )
    pairs = []
    for y, seed in zip(outputs, seeds, strict=True):
        both = _levels([y, seed])
        sizes = _sizes([*outputs, *seeds, *inputs])
        with torch.enable_grad():
            wide = _with_levels(y, both, sizes)
        pairs.append((wide, _with_levels(seed, both, sizes)))
    found = _torch.gradients([y for y, _ in pairs], [s for _, s in pairs], [x for x, _ in inputs])
    return [
        None if gradient is None else (gradient, own)
        for gradient, (_, own) in zip(found, inputs, strict=True)
    ]


def _round_by_round(
    outputs: list[Physical], seeds: list[Physical], inputs: list[Physical], level: int
) -> list[Physical | None]:
    """Runs one backward pass for each element of a level that only seeds have."""
    rounds = []
    for i in range(_sizes(seeds)[level]):
        chosen = [
            (x.select(own.index(level), i), [each for each in own if each != level])
            if level in own
            else (x, own)
            for x, own in seeds
        ]
        rounds.append(_physical_gradients(outputs, chosen, inputs))
    results: list[Physical | None] = []
    for parts in zip(*rounds, strict=True):
        own = sorted([*parts[0][1], level]) if parts[0] else []
        stacked = parts[0] and torch.stack([part[0] for part in parts], own.index(level))
        results.append((stacked, own) if parts[0] else None)
    return results


def _levels(tensors: Sequence[Physical]) -> list[int]:
    return sorted({level for _, levels in tensors for level in levels})


def _sizes(tensors: Sequence[Physical]) -> dict[int, int]:
    return {level: x.shape[i] for x, levels in tensors for i, level in enumerate(levels)}


def _with_levels(tensor: Physical, wanted: list[int], sizes: dict[int, int]) -> torch.Tensor:
    """Adds an axis for each missing level of `wanted`, which includes the tensor's levels."""
    x, own = tensor
    for place, level in enumerate(wanted):
        if level not in own:
            x = x.unsqueeze(place)
    rest = x.shape[len(wanted) :]
    return x.expand(*(sizes[level] for level in wanted), *rest) if wanted else x


def _physical(tensor: torch.Tensor) -> Physical:
    if not _FUNCTORCH.is_batchedtensor(tensor):
        return tensor, []
    level, axis = _FUNCTORCH.maybe_get_level(tensor), _FUNCTORCH.maybe_get_bdim(tensor)
    inner, lower = _physical(_FUNCTORCH.get_unwrapped(tensor))
    with pyfunctorch.temporarily_clear_interpreter_stack():
        return inner.movedim(len(lower) + axis, len(lower)), [*lower, level]


def _wrapped(x: torch.Tensor, levels: list[int]) -> torch.Tensor:
    for level in levels:
        x = _FUNCTORCH._add_batch_dim(x, 0, level)
    return x


def leaf(x: Any) -> Any:
    """Returns the leaf that a transform differentiates instead of a tensor."""
    if not isinstance(x, torch.Tensor) or not x.is_floating_point():
        return x
    mapped = {
        each.level(): each.batch_size()
        for each in pyfunctorch.retrieve_all_functorch_interpreters()
        if isinstance(each, pyfunctorch.VmapInterpreter)
    }
    physical = _physical(x)
    with pyfunctorch.temporarily_clear_interpreter_stack():
        leaf = _torch.make_leaf(_with_levels(physical, sorted(mapped), mapped))
    return _wrapped(leaf, sorted(mapped))


@contextlib.contextmanager
def _no_level() -> Iterator[int]:
    """Replaces functorch's count of nested transforms, which leaves do not need."""
    yield 0


def of_transform(
    outputs: Sequence[torch.Tensor],
    inputs: Sequence[torch.Tensor],
    grad_outputs: Sequence[torch.Tensor] | None = None,
    retain_graph: bool = False,
    create_graph: bool = True,
) -> tuple[torch.Tensor, ...]:
    """Replaces functorch's gradient, which is zero for inputs that no output depends on."""
    seeds = [None] * len(outputs) if grad_outputs is None else list(grad_outputs)
    seeds = [_seed(*pair) for pair in zip(outputs, seeds, strict=True)]
    return tuple(_zeros_for_none(_gradients(outputs, seeds, inputs, create_graph), inputs))


def _forward_mode(
    function: Callable,
    primals: Any,
    tangents: Any,
    argnums: Any,
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """Replaces functorch's jvp by the derivative of a pull-back by its seed, along the tangents."""
    del strict
    with torch.enable_grad():
        primals = trees.tree_map(leaf, primals)
        chosen = primals if argnums is None else eager_transforms._slice_argnums(primals, argnums)
        returned = function(*primals)
        returned, aux = returned if has_aux else (returned, None)
        outputs, shape = trees.tree_flatten(returned)
        seeds = [leaf(torch.zeros_like(output)) for output in outputs]
        leaves = trees.tree_leaves(chosen)
        pulled = of_transform(outputs, leaves, seeds)
        pushed = of_transform(pulled, seeds, trees.tree_leaves(tangents))
    results = (returned, trees.tree_unflatten(pushed, shape))
    return (*results, aux) if has_aux else results


# (holder, name, replacement)
REPLACEMENTS: list[tuple[Any, str, Callable]] = [
    (torch.autograd, "grad", gradients_of),
    (eager_transforms, "grad_increment_nesting", _no_level),
    (eager_transforms, "_wrap_all_tensors", lambda tree, level: trees.tree_map(leaf, tree)),
    (eager_transforms, "_create_differentiable", lambda tree, level=None: tree),
    (eager_transforms, "_undo_create_differentiable", lambda tree, level=None: tree),
    (eager_transforms, "_autograd_grad", of_transform),
    (eager_transforms, "_jvp_with_argnums", _forward_mode),
    (eager_transforms, "jacfwd", eager_transforms.jacrev),
    (torch.func, "jacfwd", eager_transforms.jacrev),
]
