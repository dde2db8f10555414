"""Gradients of modules by `build_grad`: inputs, and checks of the results."""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any

import popxl
from popxl._impl.connections import connect
from popxl._impl.records import of
from popxl.transforms import ExpectedConnectionType
from popxl.transforms.autodiff import grad_graph_info, refuse_called
from popxl_addons.graph import GraphWithNamedArgs

_KINDS = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_WHERE = "within the `build_graph` method"  # programs match it; it means `build_grad`


class Aux(MutableMapping[str, Any]):
    """Tensors and other objects that `build` keeps for `build_grad`, by name.

    `build_grad` gets a tensor as an input of the gradient graph, made at the first read. Reading an
    item elsewhere raises RuntimeError.
    """

    def __init__(self) -> None:
        self._stored: dict[str, Any] = {}
        self._read: dict[str, popxl.Tensor] | None = None

    def __setitem__(self, key: str, value: Any) -> None:
        self._stored[key] = value

    def __getitem__(self, key: str) -> Any:
        if self._read is None:
            raise RuntimeError(f"You can only get items {_WHERE}.")
        value = self._stored[key]
        if not isinstance(value, popxl.Tensor):
            return value
        if key not in self._read:
            meta_shape = value.meta_shape or None
            made = popxl.graph_input(value.shape, value.dtype, key, meta_shape=meta_shape)
            self._read[key] = made
        return self._read[key]

    def __delitem__(self, key: str) -> None:
        del self._stored[key]

    def __contains__(self, key: object) -> bool:
        return key in self._stored

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)

    def take(self) -> dict[str, Any]:
        """Removes and returns the stored items."""
        stored, self._stored = self._stored, {}
        return stored

    @contextmanager
    def reading(self, stored: Mapping[str, Any]) -> Iterator[dict[str, popxl.Tensor]]:
        """Allows reads of items of `stored`; yields the inputs made so far, by name."""
        before = self._stored, self._read
        self._stored, self._read = dict(stored), {}
        try:
            yield self._read
        finally:
            self._stored, self._read = before


class VarGrad(MutableMapping[str, popxl.Tensor]):
    """Gradients of variables, which `build_grad` sets by the variables' names.

    Setting one raises TypeError for a value that is not a tensor, KeyError for an unknown variable,
    ValueError for another shape, and RuntimeError outside `build_grad`.
    """

    def __init__(self) -> None:
        self._variables: Mapping[str, popxl.Tensor] | None = None
        self._grads: dict[str, popxl.Tensor] = {}

    def _check_inside(self) -> None:
        if self._variables is None:
            raise RuntimeError(f"You can only get and set items {_WHERE}.")

    def __setitem__(self, key: str, grad: popxl.Tensor) -> None:
        self._check_inside()
        assert self._variables is not None
        if not isinstance(grad, popxl.Tensor):
            raise TypeError(f"Not a tensor: the gradient of {key!r} is {grad!r}.")
        if key not in self._variables:
            raise KeyError(f"Not a variable: {key!r}. There are {list(self._variables)}.")
        if not _alike(grad, self._variables[key]):
            raise ValueError(
                "Shape or meta-shape of Tensor does not match variable. "
                f"{key!r} is {self._variables[key]!r} but got {grad!r}."
            )
        self._grads[key] = grad

    def __getitem__(self, key: str) -> popxl.Tensor:
        self._check_inside()
        return self._grads[key]

    def __delitem__(self, key: str) -> None:
        self._check_inside()
        del self._grads[key]

    def __contains__(self, key: object) -> bool:
        return key in self._grads

    def __iter__(self) -> Iterator[str]:
        return iter(self._grads)

    def __len__(self) -> int:
        return len(self._grads)

    @contextmanager
    def writing(self, variables: Mapping[str, popxl.Tensor]) -> Iterator[Mapping]:
        """Allows setting gradients of these variables; yields the gradients."""
        before = self._variables, self._grads
        self._variables, self._grads = variables, {}
        try:
            yield self._grads
        finally:
            self._variables, self._grads = before


def _alike(a: popxl.Tensor, b: popxl.Tensor) -> bool:
    return a.shape == b.shape and a.meta_shape == b.meta_shape


def _chosen(
    tensors: "Iterable[popxl.Tensor] | None", known: tuple[popxl.Tensor, ...], name: str, what: str
) -> list[popxl.Tensor]:
    chosen = list(known if tensors is None else tensors)
    for t in chosen:
        if not isinstance(t, popxl.Tensor) or not any(t is other for other in known):
            raise ValueError(
                f"A Tensor specified in `{name}` is not a {what} of `fwd_graph`: {t!r}."
            )
    if len(set(chosen)) < len(chosen):
        raise ValueError(f"`{name}` has a tensor twice: {chosen}.")
    return chosen


def _check_signature(build_grad: Callable[..., Any]) -> None:
    parameters = inspect.signature(build_grad).parameters.values()
    if any(p.kind not in _KINDS for p in parameters):
        raise TypeError(
            f"The {build_grad.__qualname__} method signature must only have a fixed number of "
            "positional parameters as inputs."
        )


def _outputs(
    results: Any, grads: Mapping, required: list[popxl.Tensor], names: Mapping[popxl.Tensor, str]
) -> list[popxl.Tensor]:
    """Returns the gradient graph's outputs: the returned ones, then required variables'."""
    variables = [names[t] for t in required if t in names]
    plain = [t for t in required if t not in names]
    lost = [name for name in variables if name not in grads]
    if lost:
        raise RuntimeError(f"Not all variable gradients have been specified: {lost} are missing.")
    returned = [] if results is None else results
    returned = [returned] if isinstance(returned, popxl.Tensor) else list(returned)
    told = f"{len(returned)} gradients are returned for {len(plain)} inputs: {plain}."
    if len(returned) > len(plain):
        raise RuntimeError(f"Too many outputs in the grad graph. {told}")
    if len(returned) < len(plain):
        raise RuntimeError(f"Not all forward graph inputs have been specified. {told}")
    for i, (grad, t) in enumerate(zip(returned, plain, strict=True)):
        if not _alike(grad, t):
            raise ValueError(
                f"Shape or meta-shape of output Tensor at position {i} does not match the input: "
                f"{grad!r} for {t!r}."
            )
    return [*returned, *(grads[name] for name in variables)]


def grad_graph(
    build_grad: Callable[..., Any],
    aux: Aux,
    var_grad: VarGrad,
    fwd_graph: GraphWithNamedArgs,
    grads_provided: "Iterable[popxl.Tensor] | None",
    grads_required: "Iterable[popxl.Tensor] | None",
) -> GraphWithNamedArgs:
    """See `Module.create_grad_graph`."""
    _check_signature(build_grad)
    forward = fwd_graph.graph
    own = of(forward).own_outputs() if grads_provided is None else grads_provided
    provided = _chosen(own, forward.outputs, "grads_provided", "output")
    required = _chosen(grads_required, forward.inputs, "grads_required", "input")
    names = {t: name for name, t in fwd_graph.args.to_dict().items()}

    @functools.wraps(build_grad)
    def build(*grads: popxl.Tensor) -> list[popxl.Tensor]:
        results = build_grad(*grads)
        return _outputs(results, var_grad, required, names)

    stored = fwd_graph.aux
    with aux.reading(stored) as read, var_grad.writing(fwd_graph.args.to_dict()):
        made = popxl.gir().create_graph(build, *(t.spec for t in provided))
    kept = [t for t in stored.values() if isinstance(t, popxl.Tensor) and t in forward]
    new = [t for t in dict.fromkeys(kept) if t not in forward.outputs]
    if new:
        refuse_called(forward, new)
        of(forward).set_outputs([*forward.outputs, *new])
        of(forward).for_gradient.extend(new)
    kinds = ExpectedConnectionType
    expected = [connect(t, kinds.FwdGrad) for t in provided]
    expected += [connect(stored[key], kinds.Fwd) for key in read]
    ordered = sorted(required, key=lambda t: t in names)  # variables last, like the outputs
    found = [connect(t, kinds.FwdGrad) for t in ordered]
    return GraphWithNamedArgs.from_grad_graph(grad_graph_info(made, forward, expected, found))
