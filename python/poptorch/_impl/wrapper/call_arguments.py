"""A call's arguments: bound to the model's signature, checked, split into tensors and constants."""

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from poptorch._impl.pytree import objects
from poptorch._impl.pytree.structures import (
    CURE,
    Node,
    Visits,
    check_keys,
    check_same,
    flatten,
    hiding_values,
    unflatten,
    walk,
)
from poptorch._impl.weights import members
from poptorch._logging import logger_of, warn_once
from poptorch.options import Options
from poptorch_core import Error, _torch
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]

logger = logger_of(__name__)

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
VAR_POSITIONAL = inspect.Parameter.VAR_POSITIONAL
VAR_KEYWORD = inspect.Parameter.VAR_KEYWORD


_NARROWED = {torch.int64: torch.int32, torch.float64: torch.float32}
_warned_of_types: set[torch.dtype] = set()  # once a process


@dataclass
class Arguments:
    """Bound arguments: `positional` and `keyword` nodes, and the tensors of both in order.

    by_position: the number of arguments that the call passed by position.
    left_out: the names of arguments that the call left out.
    """

    positional: tuple[Node, ...]
    keyword: dict[str, Node]
    tensors: list[torch.Tensor]
    by_position: int = 0
    left_out: frozenset[str] = frozenset()

    def nodes(self) -> list[Node]:
        return [*self.positional, *self.keyword.values()]

    def rebuild(self, tensors: Iterator[torch.Tensor]) -> tuple[list, dict]:
        """Returns (args, kwargs) for the model, with `tensors` in place of the call's tensors."""
        made: dict[int, Any] = {}
        positional = [unflatten(node, tensors, made) for node in self.positional]
        return positional, {k: unflatten(node, tensors, made) for k, node in self.keyword.items()}

    def as_called(self, tensors: Iterator[torch.Tensor]) -> tuple[list, dict]:
        """Returns (args, kwargs) as the call passed them, for hooks and decorators of forward."""
        positional, keyword = self.rebuild(tensors)
        behind = zip(self.positional, positional, strict=True)
        by_name = {node.name: value for node, value in [*behind][self.by_position :]}
        given = {k: value for k, value in {**by_name, **keyword}.items() if k not in self.left_out}
        return positional[: self.by_position], given

    def all_nodes(self) -> Iterator[Node]:
        """Yields every node of every level, tensors in the order of `tensors`."""
        return walk(self.nodes())

    def tensor_nodes(self) -> list[Node]:
        """Returns the node of every tensor, in the order of `tensors`."""
        return [node for node in self.all_nodes() if node.kind == "tensor"]

    def plain(self, positional: bool) -> list[tuple[torch.Size, torch.dtype]] | None:
        """Returns shape and dtype of each tensor if all arguments are plain tensors.

        Returns None unless all were passed by position and only defaults follow the tensors.
        """
        if not positional:
            return None
        nodes = self.nodes()
        leading = nodes[: len(self.tensors)]
        if any(node.kind != "tensor" for node in leading):
            return None
        return [(n.shape, n.dtype) for n in leading if n.shape is not None and n.dtype is not None]

    def fitted(self, other: "Arguments") -> list[torch.Tensor]:
        """Returns the tensors of `other` in the order that these arguments were compiled for.

        Raises poptorch.Error unless `other` matches these arguments.
        """
        if len(self.positional) != len(other.positional):
            raise Error(
                "Number of positional arguments mismatch: expected "
                f"{len(self.positional)} arguments but got {len(other.positional)}. {CURE}"
            )
        check_keys("the keyword arguments", tuple(self.keyword), tuple(other.keyword))
        got = [*other.positional, *(other.keyword[name] for name in self.keyword)]
        return [other.tensors[place] for place in check_same(self.nodes(), got)]


def tensors_of(value: Any) -> list[torch.Tensor]:
    leaves: list[torch.Tensor] = []
    flatten(value, leaves)
    return leaves


def _check_kind(node: Node) -> None:
    """Raises poptorch.Error for values with contents that would become constants, unnoticed."""
    if node.kind == "constant" and hasattr(node.type, "__array_interface__"):
        raise Error(
            f"[call] {node.name} is a {node.type.__module__}.{node.type.__name__}, not a tensor. "
            "Pass torch.as_tensor(...) of it."
        )
    if any(objects.holds_tensor(value)[0] for value in hiding_values(node)):
        why = "has __del__" if hasattr(node.type, "__del__") else "is none of the known containers"
        raise Error(
            f"[call] {node.name} is a {node.type.__name__} that holds a tensor, but the type "
            f"{why}. Pass tensors in tuples, lists, dicts or attributes of objects, or give the "
            "type a parser: registerCustomArgParser."
        )


UNINITIALISED = (
    "has no shape yet: run the model once on the host, or initialise it, before it is wrapped"
)


def check_host(name: str, tensor: torch.Tensor, where: str = "call") -> None:
    """Raises poptorch.Error unless the tensor's values can be sent to the device."""
    if isinstance(tensor, UninitializedTensorMixin):
        raise Error(f"[{where}] {name} {UNINITIALISED}.")
    problem, cure = _torch.why_not_plain(tensor)
    if problem:
        cure = f"{cure} of it" if cure.startswith(".") else cure
        raise Error(
            f"[{where}] {name} {problem}, but a wrapped model takes plain tensors of the host. "
            f"Pass {cure}."
        )


# A sparse buffer is not state of the device: its values are constants of the program.
_OF_CONSTANTS = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)


def check_weights(model: torch.nn.Module, *, with_values: bool) -> None:
    """Raises poptorch.Error unless all parameters and buffers can be on a device.

    with_values: if False, tensors of device "meta" are accepted, too.
    """
    parameters, buffers = members.named_parameters(model), members.named_buffers(model)
    with torch._C.DisableTorchFunctionSubclass():  # no value is read
        tensors = [tensor for named in (parameters, buffers) for _, tensor in named]
        kinds = set(map(type, tensors))
        has_values = not any(issubclass(kind, UninitializedTensorMixin) for kind in kinds)
        if has_values and _torch.are_plain(tensors):
            return
        for kind, named in (("parameter", parameters), ("buffer", buffers)):
            for name, tensor in named:
                if tensor.is_meta and not with_values:
                    continue
                if kind == "parameter" or tensor.layout not in _OF_CONSTANTS:
                    check_host(f"{kind} {name}", tensor, "model")


def check_initialised(model: torch.nn.Module) -> None:
    """Raises poptorch.Error for parameters and buffers of lazy modules that have no shape."""
    for named in (members.named_parameters(model), members.named_buffers(model)):
        for name, tensor in named:
            if isinstance(tensor, UninitializedTensorMixin):
                raise Error(f"[model] {name} {UNINITIALISED}.")


class Signature:
    """The parameters of a model's forward.

    Fills in defaults: a call that passes a default equals one that leaves it out.
    """

    def __init__(self, forward) -> None:
        try:
            parameters = list(inspect.signature(forward).parameters.values())
        except (TypeError, ValueError):  # built-in functions have none: accept all arguments
            parameters = [
                inspect.Parameter("args", VAR_POSITIONAL),
                inspect.Parameter("kwargs", VAR_KEYWORD),
            ]
        self.positional = [p for p in parameters if p.kind in POSITIONAL]
        self.positional_only = {p.name for p in parameters if p.kind == p.POSITIONAL_ONLY}
        self.keyword_only = [p for p in parameters if p.kind == inspect.Parameter.KEYWORD_ONLY]
        self.extra_positional = next((p for p in parameters if p.kind == VAR_POSITIONAL), None)
        self.extra_keyword = next((p for p in parameters if p.kind == VAR_KEYWORD), None)
        self.warned: set = set()

    @classmethod
    def of_names(cls, names: Sequence[str], defaults: Sequence[Any]) -> "Signature":
        """Returns a signature of parameters with these names.

        defaults: the default values of the first parameters; inspect.Parameter.empty is none.
        """
        made = cls(lambda: None)
        kind, empty = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
        known = [*defaults[: len(names)], *[empty] * (len(names) - len(defaults))]
        made.positional = [
            inspect.Parameter(name, kind, default=default)
            for name, default in zip(names, known, strict=True)
        ]
        return made

    @property
    def parameters(self) -> list[inspect.Parameter]:
        """The parameters, except `*args` and `**kwargs`."""
        return [*self.positional, *self.keyword_only]

    def bind(self, args: tuple, kwargs: dict) -> Arguments:
        """Binds the arguments of a call.

        Raises AssertionError for too many or unknown arguments, poptorch.Error for missing ones.
        """
        names = [p.name for p in self.positional]
        if len(args) > len(names) and self.extra_positional is None:
            raise AssertionError(
                f"Too many arguments provided: expected {names} ({len(names)}) but got "
                f"{len(args)}. Pass no more than the model's forward takes."
            )
        for name in names[: len(args)]:
            taken = self.extra_keyword is not None and name in self.positional_only
            if name in kwargs and not taken:
                raise AssertionError(f"Parameter {name} was passed more than once")
        remaining = dict(kwargs)
        left_out: dict[str, Any] = {}
        leaves: list[torch.Tensor] = []
        visits = Visits()
        values = list(args[: len(names)])
        by_keyword: dict = {}
        # After the first one that is left out, parameters can only be passed by keyword.
        for parameter in self.positional[len(values) :]:
            if parameter.name in remaining and parameter.kind != parameter.POSITIONAL_ONLY:
                value = remaining.pop(parameter.name)
            else:
                value = left_out[parameter.name] = self._default(parameter)
            values.append(value)
        for parameter in self.keyword_only:
            if parameter.name in remaining:
                value = remaining.pop(parameter.name)
            else:
                value = left_out[parameter.name] = self._default(parameter)
            by_keyword[parameter.name] = value
        for name in remaining:
            if self.extra_keyword is None:
                raise AssertionError(
                    f"{name} is not a valid parameter. The model's forward has {names}."
                )
        by_keyword.update(remaining)
        extra_name = self.extra_positional.name if self.extra_positional else ""
        labels = names + [f"{extra_name}[{i}]" for i in range(len(args) - len(names))]
        positional = tuple(
            flatten(value, leaves, label, visits)
            for value, label in zip([*values, *args[len(names) :]], labels, strict=True)
        )
        keyword = {name: flatten(value, leaves, name, visits) for name, value in by_keyword.items()}
        # A default that contains tensors must be passed, because these become inputs.
        absent = frozenset(name for name, value in left_out.items() if not tensors_of(value))
        bound = Arguments(positional, keyword, leaves, len(args), absent)
        for node in bound.all_nodes():
            _check_kind(node)
        for node, tensor in zip(bound.tensor_nodes(), leaves, strict=True):
            if tensor.device.type != "meta":  # enough for a compilation without a run
                check_host(node.name, tensor)
        bound.tensors = self._on_device(leaves)
        return bound

    def _default(self, parameter: inspect.Parameter):
        if parameter.default is parameter.empty:
            raise Error(
                f"Mandatory parameter {parameter.name} missing. The model's forward needs it: "
                "pass it by position or by keyword."
            )
        return parameter.default

    def _on_device(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """Converts to plain contiguous tensors; logs each kind of change once."""
        return [self._prepare(tensor) for tensor in tensors]

    def _prepare(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype in _NARROWED:
            narrow = _NARROWED[tensor.dtype]
            text = f"The device has no {tensor.dtype}: such inputs become {narrow}"
            warn_once(logger, _warned_of_types, tensor.dtype, text)
        if tensor.requires_grad:
            warn_once(
                logger,
                self.warned,
                "requires_grad",
                "Input tensor has requires_grad=True set. This tensor will be detached because "
                "backward pass via inputs is not supported.",
            )
            tensor = tensor.detach()
        if not tensor.is_contiguous():
            warn_once(
                logger,
                self.warned,
                "contiguous",
                "At least one input tensor is not contiguous: non-contiguous tensors will be "
                "converted.",
            )
        return tensor


def warn_about_dicts(arguments: Arguments) -> None:
    """Warns that the keys of dict arguments are compiled in."""
    if any(node.kind == "dict" for node in arguments.nodes()):
        logger.warning(
            "Dicts as inputs only have partial support, as their keys and the order of these are "
            "compiled in."
        )


def of_micro_batch(function: str, model: Any, inputs: Any) -> Arguments:
    """Binds the inputs of one micro-batch to a model's parameters.

    function: the public function that a message names. inputs: a tuple, a list or one tensor.
    """
    if inspect.isclass(model) or not callable(model):
        raise Error(
            f"[{function}] expected a module or a function of tensors but got {model!r}. Pass the "
            "model itself, an object of its class."
        )
    if isinstance(inputs, Options):
        raise Error(
            f"[{function}] expected the arguments of one micro-batch but got options. Pass a "
            "tensor, or a tuple or list of arguments, before the options."
        )
    forward = model.forward if isinstance(model, torch.nn.Module) else model
    given = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    return Signature(forward).bind(given, {})
