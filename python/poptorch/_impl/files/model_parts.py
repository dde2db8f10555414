"""The Python parts of a saved wrapper: pickles and restores model, options and optimiser."""

import collections
from typing import Any

import torch
from poptorch._impl.files import safe_pickle
from poptorch._impl.files.tensors import TensorWriter
from poptorch._impl.optimisers.device_state import Record
from poptorch._impl.options.group_class import groups_of, store, value_of
from poptorch._impl.options.rows import COMPILE
from poptorch._impl.options.stored_values import state_of
from poptorch._impl.trace import session
from poptorch._impl.wrapper import model_classes
from poptorch._impl.wrapper.compiled_model import Compiled
from poptorch._impl.wrapper.spec import Wrapped
from poptorch._logging import logger_of
from poptorch.enums import ConnectionType
from poptorch.options import Options
from poptorch_core import Error

logger = logger_of(__name__)

named_tensors = session.named_tensors


def as_device(wrapped: Wrapped, compiled: Compiled) -> dict[str, torch.Tensor]:
    """Returns the model's tensors that equal a state of the device in every byte, by its name."""
    slots = {
        name: (dtype, shape)
        for name, kind, dtype, shape in compiled.executable.states()
        if kind in ("parameter", "buffer")
    }
    found = {}
    for name, tensor, _, _ in named_tensors(wrapped.module, {}):
        plain = tensor.detach()
        whole = plain.untyped_storage().nbytes() == plain.numel() * plain.element_size()
        like = (_torch_name(plain.dtype), list(plain.shape)) == slots.get(name)
        if like and whole and plain.is_contiguous():
            found[name] = plain
    return found


_NAMES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "float64": "f64",
          "int32": "i32", "int64": "i64", "int16": "i16", "int8": "i8", "uint8": "u8",
          "bool": "bool"}  # fmt: skip


def _torch_name(dtype: torch.dtype) -> str:
    return _NAMES.get(str(dtype).removeprefix("torch."), "")


def pickled(wrapped: Wrapped, optimizer: Any, writer: TensorWriter) -> bytes:
    """Pickles model, options and optimiser. The optimiser's state is saved with the device's."""
    model = wrapped.model
    if isinstance(model, torch.nn.Module):  # restores the model's original class
        model = model_classes.shallow_copy(model)
    said = {"model": model, "options": wrapped.asked}
    if optimizer is not None:
        state = {**optimizer.__getstate__(), "state": collections.defaultdict(dict)}
        state.pop("_ipu_record", None)
        said["optimizer"] = (type(optimizer), state)
    try:
        return safe_pickle.dumps(said, writer)
    except Exception as error:  # the user's objects may raise anything
        raise Error(
            f"[save] {wrapped.name} cannot be pickled: {error}. Define its class in a module, or "
            "use export_model=False."
        ) from error


def parts_of(made: Any, training: bool) -> tuple[Any, Options, Any]:
    """Returns model, options and optimiser from an unpickled result of pickled()."""
    options, optimizer = made["options"], None
    if not isinstance(options, Options) or not callable(made["model"]):
        raise Error("the file has no model and options. Export it again.")
    if training:
        kind, state = made["optimizer"]
        if not issubclass(kind, torch.optim.Optimizer):
            raise Error("the file has no optimiser. Export it again.")
        optimizer = object.__new__(kind)
        optimizer.__setstate__(state)
        Record.of(optimizer)
    return made["model"], _online(options), optimizer


def edited(saved: Options, edit_opts_fn: Any) -> Options:
    """Returns the options after edit_opts_fn; only changes that take effect at run time count."""
    options = saved.clone()
    if edit_opts_fn is not None:
        edit_opts_fn(options)
        _undo_at_compilation(options, saved)
    return options


def _undo_at_compilation(options: Options, saved: Options) -> None:
    """Restores the options that take effect at compilation, with a warning for each change."""
    for path, group in groups_of(options).items():
        before = groups_of(saved)[path]
        for row in group.ROWS:
            for name in row.values():
                was = value_of(before, name)
                if row.effect == COMPILE and value_of(group, name) != was:
                    logger.warning(f"Option {path}{row.name} is compiled in: the change is ignored")
                    store(group, {name: was})


def _online(options: Options) -> Options:
    """Returns a copy of the options for a device; the compilation may have been offline."""
    options = options.clone()
    values = state_of(options).values
    values.pop("ipu_version", None)
    if values["connection_type"] == int(ConnectionType.Never):
        values["connection_type"] = int(ConnectionType.Always)
    return options
