"""Pickles of models: written by the standard pickler, read by one that makes data and nothing else.

What a file may name: tensors, containers, enums and dtypes; classes of torch.nn, modules and
optimisers of classes that the running program has imported, poptorch's options. Instances are made
without a call and get their attributes; nothing is imported, and nothing of the file's choice is
called but what puts tensors together. Everything else is refused by name: see SECURITY.md.
"""

import collections
import enum
import io
import pickle
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional
from poptorch import optim
from poptorch._impl import moved
from poptorch._impl.files import rebuilt_tensors
from poptorch._impl.options import group_class, stored_values
from poptorch._impl.placement import blocks, phased_strategies, strategies
from poptorch_core import Error


def function_named(module: str, name: str) -> Any:
    """A function of tensors of torch's, by the name that dumps() gave it."""
    for known in _FUNCTIONS_OF:
        found = vars(known).get(name) if known.__name__ == module else None
        if _is_function(found):
            return found
    raise _refused(f"the function {module}.{name}")


# What a pickle may call, by the name that it has there.
_MAKERS: dict[tuple[str, str], Any] = {
    ("torch._utils", "_rebuild_tensor_v2"): rebuilt_tensors.tensor,
    ("torch._utils", "_rebuild_parameter"): rebuilt_tensors.parameter,
    ("torch._utils", "_rebuild_parameter_with_state"): rebuilt_tensors.parameter_with_state,
    ("torch", "Size"): torch.Size,
    ("torch", "device"): torch.device,
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("builtins", "complex"): complex,
    ("builtins", "slice"): slice,
    (__name__, "function_named"): function_named,
}
_OF_NUMBERS_AND_TEXTS = (torch.device, complex, slice, function_named)
_DEFAULT_FACTORIES = (dict, list, set, int, float)
_FUNCTIONS_OF = (torch, torch.nn.functional)
_PLAIN = (str, bytes, int, float, bool, type(None), torch.dtype)
_KEYS = (*_PLAIN, torch.Tensor, enum.Enum)
# Of torch's classes those with instances that are data: a GraphModule, say, runs what it holds.
_CLASSES_OF = ("torch.nn.", "torch.optim.", "torch.ao.nn.")
_allowed: list[Any] = []


def add_safe_globals(allowed: Iterable[Any]) -> None:
    """Classes and functions that poptorch.load() may use beside those that it knows.

    Of a class, instances are made and given their attributes; both may be called as the file says:
    add only what is harmless with any arguments.
    """
    _allowed.extend(allowed)


def dumps(value: Any, persistent_id: Callable[[Any], Any]) -> bytes:
    """A pickle of `value`. What persistent_id gives an id for is stored as that."""
    stream = io.BytesIO()
    pickler = _Pickler(stream, protocol=4)
    pickler.persistent_id = persistent_id  # type: ignore[method-assign]
    pickler.dump(value)
    return stream.getvalue()


class _Pickler(pickle.Pickler):
    """The standard library's, but that functions of torch go by name: theirs is that of a class
    which torch does not show."""

    def reducer_override(self, value: Any) -> Any:
        """See pickle.Pickler."""
        if isinstance(value, (types.BuiltinFunctionType, types.FunctionType)):
            name = value.__name__
            for module in _FUNCTIONS_OF:
                if vars(module).get(name) is value and _is_function(value):
                    return function_named, (module.__name__, name)
        return NotImplemented


def loads(data: bytes, persistent_load: Callable[[Any], Any], *, trust: bool = False) -> Any:
    """What dumps() was given. trust: by Python's own unpickler, which does whatever the file says.

    Raises poptorch.Error for what is refused, and for what is no pickle.
    """
    kind: Any = pickle.Unpickler if trust else _Unpickler
    unpickler = kind(io.BytesIO(data))
    unpickler.persistent_load = persistent_load
    try:
        return unpickler.load()
    except Error:
        raise
    except Exception as error:  # of a pickle that is none, whatever comes
        raise Error(f"its model cannot be read: {error}. Export it anew.") from None


def _refused(what: str) -> Error:
    return Error(
        f"names {what}, which is not loaded because a file says so. Import the module that defines "
        "it first, if it is an nn.Module; poptorch.add_safe_globals([...]) allows more, and "
        "poptorch.load(..., trust=True) all that a pickle can do: only for files of your own."
    )


def _existing(module: str, name: str) -> Any:
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = vars(found).get(part) if hasattr(found, "__dict__") else None
    return found


def _is_data(kind: Any) -> bool:
    """Whether instances of the class may be made and given attributes."""
    if not isinstance(kind, type):
        return False
    if issubclass(kind, (torch.nn.Module, torch.optim.Optimizer)):
        module = f"{kind.__module__}."
        return not module.startswith("torch.") or module.startswith(_CLASSES_OF)
    own = (group_class.OptionGroup, stored_values.State, strategies.Stage,
           strategies.ExecutionStrategy, optim.VariableAttributes, blocks.BlockHook,
           phased_strategies.Phase)  # fmt: skip
    return issubclass(kind, own)


def _is_one_of(found: Any, known: Iterable[Any]) -> bool:
    return any(found is one for one in known)


def _is_allowed(found: Any) -> bool:
    return _is_one_of(found, _allowed)


def _is_function(found: Any) -> bool:
    """Whether it is one of torch's functions of tensors, which reads and writes nothing else."""
    name = getattr(found, "__name__", "")
    if not callable(found) or isinstance(found, type) or name.startswith("_"):
        return False
    module = getattr(found, "__module__", None)
    if vars(torch).get(name) is found:
        is_of_tensors = name != "from_file" and hasattr(torch._C._VariableFunctions, name)
        return is_of_tensors or module == "torch.functional"
    if vars(torch.nn.functional).get(name) is found:
        return module in ("torch", "torch._C._nn", "torch.nn.functional", "torch.functional")
    return False


_Standard: Any = pickle.__dict__["_Unpickler"]  # in Python: its table of opcodes can be narrowed


class _Unpickler(_Standard):
    """The standard library's, with less in its table."""

    dispatch = dict(_Standard.dispatch)

    def find_class(self, module: str, name: str) -> Any:
        module = moved.current_name(module)
        if (module, name) in _MAKERS:
            return _MAKERS[module, name]
        found = _existing(module, name)
        if _is_one_of(found, (collections.defaultdict, *_DEFAULT_FACTORIES)):
            return found
        is_value = isinstance(found, (torch.dtype, torch.layout, torch.memory_format))
        is_enum = isinstance(found, type) and issubclass(found, enum.Enum)
        if is_value or is_enum or _is_data(found) or _is_function(found) or _is_allowed(found):
            return found
        raise _refused(f"{module}.{name}")

    def _check_call(self, function: Any, arguments: Any) -> None:
        if type(arguments) is not tuple:
            raise _refused("a call that is none")
        if _is_one_of(function, _OF_NUMBERS_AND_TEXTS):
            if all(isinstance(argument, _PLAIN) for argument in arguments):
                return
        elif function is collections.OrderedDict:
            if not arguments:
                return
        elif _is_one_of(function, _MAKERS.values()) or _is_allowed(function):
            return
        elif isinstance(function, type) and issubclass(function, enum.Enum):
            if len(arguments) == 1 and _is_plain(arguments[0]):
                return
        elif function is collections.defaultdict:
            if len(arguments) == 1 and _is_one_of(arguments[0], _DEFAULT_FACTORIES):
                return
        raise _refused(f"a call of {getattr(function, '__name__', function)!s}")

    def load_reduce(self) -> None:
        arguments, function = self.stack.pop(), self.stack[-1]
        self._check_call(function, arguments)
        self.stack[-1] = function(*arguments)

    def load_newobj(self) -> None:
        arguments, kind = self.stack.pop(), self.stack[-1]
        if arguments or not (_is_data(kind) or _is_allowed(kind)):
            raise _refused(f"an instance of {getattr(kind, '__name__', kind)!s}")
        self.stack[-1] = object.__new__(kind)

    def load_build(self) -> None:
        state, made = self.stack.pop(), self.stack[-1]
        kind = type(made)
        is_ours = _is_data(kind) or _is_allowed(kind) or kind is collections.OrderedDict
        if not is_ours or type(state) is not dict:
            raise _refused(f"the state of a {kind.__name__}")
        if not all(type(name) is str for name in state):
            raise _refused("an attribute whose name is no text")
        restore = getattr(kind, "__setstate__", None)
        if restore is None:
            made.__dict__.update(state)
        # That of modules is another once torch has compiled one.
        elif (
            restore is torch.nn.Module.__setstate__
            or restore.__module__.startswith(_CLASSES_OF)
            or _is_allowed(kind)
        ):
            restore(made, state)
        else:
            raise _refused(f"a {type(made).__name__} with a __setstate__ of its own")

    def load_setitems(self) -> None:
        items = self.pop_mark()
        made = self.stack[-1]
        self._set_items(made, zip(items[::2], items[1::2], strict=True))

    def load_setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._set_items(self.stack[-1], [(key, value)])

    def _set_items(self, made: Any, items: Iterable[tuple[Any, Any]]) -> None:
        if not isinstance(made, dict):
            raise _refused(f"items of a {type(made).__name__}")
        for key, value in items:
            _check_key(key)
            made[key] = value

    def load_appends(self) -> None:
        items = self.pop_mark()
        self._append(items)

    def load_append(self) -> None:
        self._append([self.stack.pop()])

    def _append(self, items: list[Any]) -> None:
        if type(self.stack[-1]) is not list:
            raise _refused(f"items of a {type(self.stack[-1]).__name__}")
        self.stack[-1].extend(items)

    def load_additems(self) -> None:
        items = self.pop_mark()
        if type(self.stack[-1]) is not set:
            raise _refused(f"items of a {type(self.stack[-1]).__name__}")
        for item in items:
            _check_key(item)
        self.stack[-1].update(items)

    def load_frozenset(self) -> None:
        items = self.pop_mark()
        for item in items:
            _check_key(item)
        self.append(frozenset(items))

    def _refuse_opcode(self) -> None:
        raise _refused("what no model is saved with")

    for _opcode, _load in {
        pickle.REDUCE: load_reduce, pickle.NEWOBJ: load_newobj, pickle.BUILD: load_build,
        pickle.SETITEMS: load_setitems, pickle.SETITEM: load_setitem,
        pickle.APPENDS: load_appends, pickle.APPEND: load_append, pickle.ADDITEMS: load_additems,
        pickle.FROZENSET: load_frozenset,
        **dict.fromkeys(
            (pickle.INST, pickle.OBJ, pickle.NEWOBJ_EX, pickle.EXT1, pickle.EXT2, pickle.EXT4,
             pickle.DICT, pickle.BYTEARRAY8, pickle.NEXT_BUFFER),
            _refuse_opcode),
    }.items():  # fmt: skip
        dispatch[_opcode[0]] = _load


def _is_plain(value: Any) -> bool:
    """A number or a text, or a few of them: equal and hashed in no time."""
    parts = value if type(value) is tuple else (value,)
    return all(isinstance(part, _PLAIN) for part in parts)


def _check_key(key: Any) -> None:
    """Keys whose hash takes no longer than reading them."""
    parts = key if type(key) is tuple else (key,)
    for part in parts:
        if not isinstance(part, (*_KEYS, type)):
            raise _refused(f"a key of type {type(part).__name__}")
