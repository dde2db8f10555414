"""The variables of a session, whose data is on the host and on the device."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from poptorch_core import _core, progress
from popxl._impl.instances import check_all_are_here, compare
from popxl._impl.ports import unmapped
from popxl._impl.records import of
from popxl._impl.session_names import PrivateNames
from popxl.tensor import Constant, Tensor, Variable
from popxl.utils import to_numpy

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


class SessionVariables(PrivateNames):
    """Transfers variables between host and device, and gives programs their data."""

    _was_attached_stack: list[bool]
    _executable: _core.Executable
    _host: dict[Variable, np.ndarray]
    _read_only: list[Variable]
    _written: set[Variable]  # newer on the host
    _stale: bool  # the device may be newer than the host
    _compared: bool  # with the data of other instances

    def _check_attached(self, what: str) -> None:
        if not self.is_attached:
            raise ValueError(f"Session.{what} works only attached: use it inside `with session:`.")

    @property
    def is_attached(self) -> bool:
        """Whether the session is inside its context."""
        return len(self._was_attached_stack) > 0

    def weights_from_host(self) -> None:
        """Sends variables written on the host to the device. Raises ValueError if detached.

        All instances must make the first call, which warns if their data differs.
        """
        self._check_attached("weights_from_host")
        if not self._compared:
            compare(of(self._ir).replicas, self._host)
            self._compared = True
        with self._bar("device", self._written) as told:
            for variable in self._written:
                of(variable).send(self._executable, self._host[variable])
                told(self._host[variable].nbytes)
        self._written.clear()

    def weights_to_host(self) -> None:
        """Fetches all variables from the device. Raises ValueError if detached.

        After a run, all instances must call it: each gets the data of all replicas. Memory-mapped
        arrays are flushed; RuntimeError if one of them is read-only.
        """
        self._check_attached("weights_to_host")
        if self._read_only:
            raise RuntimeError(
                f"The memory-mapped arrays of {self._read_only} are read-only: variables cannot be "
                "fetched. Map them with mode 'r+' or 'c'."
            )
        self.fetch_variables()

    def fetch_variables(self, root: int = 0) -> None:
        """Fetches the variables if a run may have changed them, as get_tensor_data does first.

        Args:
            root: The instance whose replicas give the values of groups that have some there.
        """
        if not self._stale:
            return
        check_all_are_here(of(self._ir).replicas, "Fetching variables")
        with self._bar("host", self._host) as told:
            for variable, data in self._host.items():
                if data.flags.writeable:
                    data[...] = of(variable).fetch(self._executable, root)
                    if isinstance(data, np.memmap):
                        data.flush()
                told(data.nbytes)
        self._stale = False

    def _bar(self, to: str, variables: Iterable[Variable]) -> "AbstractContextManager[Any]":
        each = (self._host[variable].nbytes for variable in variables)
        return progress.of_bytes(f"Variables to the {to}", lambda: sum(each))

    def get_tensor_data(self, tensor: Tensor) -> np.ndarray:
        """Returns the data of `tensor`, a variable or constant, with groups in front.

        It is a view of the host's buffer. If attached, it fetches the device's values first. Raises
        TypeError for another tensor.
        """
        return self.get_tensors_data([tensor])[tensor]

    def get_tensors_data(self, tensors: Iterable[Tensor]) -> dict[Tensor, np.ndarray]:
        """Returns the data of `tensors`, variables and constants, by tensor; see `get_tensor_data`.

        Raises:
            TypeError: One is neither a variable nor a constant.
            ValueError: A variable is of another program.
        """
        tensors = list(tensors)
        for tensor in tensors:
            if not isinstance(tensor, (Variable, Constant)):
                raise TypeError(
                    f"{tensor!r} is not of type Constant or Variable. Store computed tensors to a "
                    "stream with ops.host_store: run returns them."
                )
            if isinstance(tensor, Variable) and tensor not in self._host:
                raise ValueError(self._foreign(tensor))
        if self._stale and self.is_attached:
            self.fetch_variables()
        return {
            t: self._host[t] if isinstance(t, Variable) else of(t).data.copy()  # type: ignore
            for t in tensors
        }

    def write_variable_data(self, tensor: Variable, data: Any) -> None:
        """Sets the `data` of a variable, `tensor`; see `write_variables_data`."""
        self.write_variables_data({tensor: data})

    def write_variables_data(self, data: Mapping[Variable, Any]) -> None:
        """Sets the data of variables; if attached, sends all to the device at once.

        Args:
            data: The data of each variable.

        Raises:
            TypeError: Not a variable, or data of another dtype (Python numbers are converted).
            NotImplementedError: A variable is retrieved from all replicas.
            ValueError: Data does not have the variable's shape_on_host.
        """
        arrays = {v: self._checked_data(v, given) for v, given in data.items()}
        if self._stale and self.is_attached:
            self.fetch_variables()
        for variable, array in arrays.items():
            self._host[variable][...] = array
        self._written.update(arrays)
        if self.is_attached:
            self.weights_from_host()

    def _checked_data(self, variable: Any, given: Any) -> np.ndarray:
        if not isinstance(variable, Variable):
            name = variable.id if isinstance(variable, Tensor) else repr(variable)
            raise TypeError(
                f"Tensor {name} is not of type Variable. Pass what popxl.variable returned, one of "
                f"{list(self._host)}."
            )
        if variable not in self._host:
            raise TypeError(self._foreign(variable))
        if of(variable).all_replicas:
            raise NotImplementedError(f"{variable!r} is retrieved from all replicas: read-only.")
        plain = isinstance(given, (bool, int, float, list, tuple))
        array = to_numpy(
            unmapped(given), variable.dtype if plain else None, downcast=False, copy=False
        )
        if array.dtype != variable.dtype.as_numpy():
            raise TypeError(f"{variable!r} holds {variable.dtype} but the data is {array.dtype}.")
        if array.shape != variable.shape_on_host:
            raise ValueError(
                f"{variable!r} takes data of shape {variable.shape_on_host} but got {array.shape}."
            )
        return array

    def _foreign(self, variable: Variable) -> str:
        if variable.ir is self._ir:
            return f"{variable!r} was made after this session. Make a new session."
        return f"{variable!r} is a variable of {variable.ir!r} but the session runs {self._ir!r}."
