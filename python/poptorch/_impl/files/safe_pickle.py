"""Pickles of models: written by the standard pickler, read by one that only creates data.

A file may refer to tensors, containers, enums and dtypes; to classes of torch.nn, and to modules
and optimisers of classes that the program has imported; and to poptorch's options. The reader
creates instances without a call and sets their attributes. It imports nothing, and the functions
that a file may call are those that rebuild tensors. It refuses all other names: see SECURITY.md.
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
    """Returns torch's function on tensors of the name that dumps() wrote."""
    for known in _FUNCTIONS_OF:
        found = vars(known).get(name) if known.__name__ == module else None
        if _is_function(found):
            return found
    raise _refused(f"the function {module}.{name}")


# Functions that a pickle may call, by their names in the pickle.
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
# Instances of torch's classes in these modules are data. A GraphModule, for example, runs code.
_CLASSES_OF = ("torch.nn.", "torch.optim.", "torch.ao.nn.")
_allowed: list[Any] = []


def add_safe_globals(allowed: Iterable[Any]) -> None:
    """Allows more classes and functions in the files that poptorch.load() reads.

    A file may create instances of the classes, set their attributes, and call both classes and
    functions with any arguments. Add only those that are harmless with all arguments.

    Args:
        allowed: The classes and functions.
    """
    _allowed.extend(allowed)


def dumps(value: Any, persistent_id: Callable[[Any], Any]) -> bytes:
    """Pickles `value`; objects that persistent_id returns an id for are stored as the id."""
    stream = io.BytesIO()
    pickler = _Pickler(stream, protocol=4)
    pickler.persistent_id = persistent_id  # type: ignore[method-assign]
    pickler.dump(value)
    return stream.getvalue()


class _Pickler(pickle.Pickler):
    """Pickles torch's functions by name; their `__qualname__` refers to a hidden class."""

    def reducer_override(self, value: Any) -> Any:
        """Overrides pickle.Pickler.reducer_override."""
        if isinstance(value, (types.BuiltinFunctionType, types.FunctionType)):
            name = value.__name__
            for module in _FUNCTIONS_OF:
                if vars(module).get(name) is value and _is_function(value):
                    return function_named, (module.__name__, name)
        return NotImplemented


def loads(data: bytes, persistent_load: Callable[[Any], Any], *, trust: bool = False) -> Any:
    """Unpickles the result of dumps().

    trust: uses Python's unpickler, which runs any code in the file.
    Raises poptorch.Error for names that are not allowed, and for data that are not a pickle.
    """
    kind: Any = pickle.Unpickler if trust else _Unpickler
    unpickler = kind(io.BytesIO(data))
    unpickler.persistent_load = persistent_load
    try:
        return unpickler.load()
    except Error:
        raise
    except Exception as error:  # invalid data may cause any exception
        raise Error(f"its model cannot be read: {error}. Export it again.") from None


def _refused(what: str) -> Error:
    return Error(
        f"names {what}, which is not loaded by default. If it is an nn.Module, first import the "
        "module that defines it. poptorch.add_safe_globals([...]) allows more names; "
        "poptorch.load(..., trust=True) allows everything: use it only for files that you trust."
    )


def _existing(module: str, name: str) -> Any:
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = vars(found).get(part) if hasattr(found, "__dict__") else None
    return found


def _is_data(kind: Any) -> bool:
    """Returns whether a file may create instances of the class and set their attributes."""
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
    """Returns whether it is a function of torch that reads and writes only tensors."""
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


_Standard: Any = pickle.__dict__["_Unpickler"]  # the one in Python, whose opcodes can be replaced


class _Unpickler(_Standard):
    """The standard library's unpickler with fewer opcodes and more checks."""

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
            raise _refused("a call with invalid arguments")
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
            raise _refused("an attribute whose name is not a string")
        restore = getattr(kind, "__setstate__", None)
        if restore is None:
            made.__dict__.update(state)
        # torch.compile replaces the method of modules, so its module is compared, too.
        elif (
            restore is torch.nn.Module.__setstate__
            or restore.__module__.startswith(_CLASSES_OF)
            or _is_allowed(kind)
        ):
            restore(made, state)
        else:
            raise _refused(f"a {type(made).__name__} whose class defines __setstate__")

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
        raise _refused("an opcode that saved models do not use")

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
    """Returns whether it is a number, a text, or a tuple of these, which hash quickly."""
    parts = value if type(value) is tuple else (value,)
    return all(isinstance(part, _PLAIN) for part in parts)


def _check_key(key: Any) -> None:
    """Raises poptorch.Error for keys whose hash may take long."""
    parts = key if type(key) is tuple else (key,)
    for part in parts:
        if not isinstance(part, (*_KEYS, type)):
            raise _refused(f"a key of type {type(part).__name__}")
