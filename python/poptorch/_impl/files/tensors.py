"""The tensors of a pickled model, which are stored beside the pickle.

A pickle refers to storages by name. A storage that equals a weight on the device is in the file's
`state`, which is memory-mapped. Others, such as int64 buffers, are in a safetensors section.
"""

from collections.abc import Mapping
from typing import Any

import safetensors.torch
import torch
from poptorch_core import Error


class TensorWriter:
    """The persistent_id function of a pickler.

    state: the host's dense tensors of the device's state, by name.
    """

    def __init__(self, state: Mapping[str, torch.Tensor]) -> None:
        self._slots = {_key(tensor.untyped_storage()): name for name, tensor in state.items()}
        self._others: dict[tuple[int, int], tuple[str, torch.UntypedStorage]] = {}

    def __call__(self, value: Any) -> tuple[str, str, torch.dtype] | None:
        if isinstance(value, torch.storage.TypedStorage):
            storage, dtype = value._untyped_storage, value.dtype
        elif isinstance(value, torch.UntypedStorage):
            storage, dtype = value, torch.uint8
        else:
            return None
        key = _key(storage)
        if storage.nbytes() and key in self._slots:
            return "state", self._slots[key], dtype
        name, _ = self._others.setdefault(key, (str(len(self._others)), storage))
        return "tensors", name, dtype

    def others(self) -> bytes:
        """Returns the storages that are not in `state`, as safetensors."""
        held = {name: _bytes_of(storage) for name, storage in self._others.values()}
        return safetensors.torch.save(held)


class TensorReader:
    """The persistent_load function of an unpickler; equal ids share a storage."""

    def __init__(self, state: Mapping[str, torch.Tensor], others: bytes) -> None:
        self._held = {"state": state, "tensors": safetensors.torch.load(others)}
        self._storages: dict[tuple[str, str], torch.UntypedStorage] = {}

    def __call__(self, said: Any) -> torch.storage.TypedStorage:
        parts: Any = said if type(said) is tuple and len(said) == 3 else ("", "", None)
        section, name, dtype = parts
        are_names = isinstance(section, str) and isinstance(name, str)
        is_there = are_names and name in self._held.get(section, ())
        if not is_there or not isinstance(dtype, torch.dtype):
            raise Error("is damaged: its model names a tensor that is missing. Write it again.")
        storage = self._storages.get((section, name))
        if storage is None:
            storage = self._held[section][name].untyped_storage()
            self._storages[section, name] = storage
        return torch.storage.TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)


def _key(storage: torch.UntypedStorage) -> tuple[int, int]:
    return storage.data_ptr(), storage.nbytes()


def _bytes_of(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8).set_(storage)
