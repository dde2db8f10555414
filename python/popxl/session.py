"""Session: compiles an Ir and runs it, and carries variables between host and device."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from poptorch_core import _core
from popxl.check_order import check_order
from popxl.dtypes import as_bits
from popxl.errors import compiling
from popxl.fp8_utils import is_float8
from popxl.ir import Ir
from popxl.records import of
from popxl.streams import DeviceToHostStream, HostToDeviceStream, Stream
from popxl.tensor import Constant, Tensor, Variable
from popxl.utils import to_numpy

_DEVICES = ("cpu", "ipu_model", "ipu_hw")
_WARNING = 3  # a level of the core's log
_PARTIAL = (
    "some variables are on the device as it left them in the middle of the program. Write them "
    "with write_variables_data to go on from values that you know"
)


class Session:
    """A compiled program on an emulated device.

    ir: the program; later changes to it do not reach the session. RuntimeError without ops,
        popart_exception when it does not compile.
    device_desc: 'ipu_hw', 'ipu_model' or 'cpu', all of which are the emulator; ValueError for
        'cpu' with several IPUs.
    weights_to_host_on_exit: whether leaving the context fetches the variables.

    As a context it is attached: entering sends the variables to the device. `run` works only
    inside; data may be read and written outside as well.
    """

    def __init__(
        self, ir: Ir, device_desc: str = "cpu", weights_to_host_on_exit: bool = True
    ) -> None:
        self._ir, self._depth = ir, 0
        if not isinstance(ir, Ir):
            raise TypeError(f"Session takes a popxl.Ir but got a {type(ir).__name__}.")
        if device_desc not in _DEVICES:
            raise ValueError(f"device_desc must be one of {_DEVICES} but is {device_desc!r}.")
        if not any(of(graph).ops for graph in of(ir).graphs):
            raise RuntimeError("The Ir has no ops: there is nothing to run.")
        ipus = 1 + max((of(t).ipu or 0 for g in of(ir).graphs for t in g.tensors), default=0)
        if device_desc == "cpu" and ipus * ir.replication_factor > 1:
            raise ValueError(
                f"The device 'cpu' has one IPU but the program uses {ipus} on each of "
                f"{ir.replication_factor} replicas. Use 'ipu_hw'."
            )
        check_order(ir)
        of(ir).has_session = True
        self._to_host_on_exit = weights_to_host_on_exit
        self._replicas = ir.replication_factor
        self._transfers = ir.num_host_transfers
        self._inputs = [s for s in of(ir).module_streams if isinstance(s, HostToDeviceStream)]
        self._outputs = [s for s in of(ir).module_streams if isinstance(s, DeviceToHostStream)]
        # The program says itself when its IPUs run.
        said = {"replication_factor": self._replicas, "strategy": "sharded"}
        with compiling():
            self._executable = _core.compile(of(ir).module, [("execution", "", said)])
        self._check_transfers()
        types = self._executable.input_types
        self._takes = [
            _Port(s, self._io_shape(s), shape, self._leads())
            for s, (_, shape) in zip(self._inputs, types, strict=True)
        ]
        self._inputs_set = set(self._inputs)
        self._gives = [_Port(s, self._io_shape(s)) for s in self._outputs]
        self._host = {v: of(v).host_copy() for v in of(ir).slots.values()}
        self._written: set[Variable] = set(self._host)  # newer on the host
        for slot, data in of(ir).hidden.items():
            self._executable.write_state(slot, data)
        self._stale = False  # the device may be newer than the host

    def _check_transfers(self) -> None:
        types = [*self._executable.input_types, *self._executable.output_types]
        for stream, (_, shape) in zip([*self._inputs, *self._outputs], types, strict=True):
            size = int(np.prod(shape, dtype=np.int64))
            made = size // max(1, stream_elements(stream) * self._replicas)
            if made != self._transfers:
                raise ValueError(
                    f"{stream!r} makes {made} transfers in a run but ir.num_host_transfers is "
                    f"{self._transfers}. Set ir.num_host_transfers to {made}."
                )

    def _leads(self) -> list[str]:
        counts = {"transfers": self._transfers, "replicas": self._replicas}
        return [f"{n} {what}" for what, n in counts.items() if n > 1]

    def _io_shape(self, stream: Stream) -> tuple[int, ...]:
        lead = [n for n in (self._transfers, self._replicas) if n > 1]
        return (*lead, *stream.shape)

    def expected_inputs(self) -> list[HostToDeviceStream]:
        """The streams that `run` takes data for."""
        return list(self._inputs)

    def create_host_outputs(self) -> dict[DeviceToHostStream, np.ndarray]:
        """Arrays that `run_with_outputs` can fill: (transfers, replicas) + shape, without ones."""
        return {s: np.zeros(self._io_shape(s), s.dtype.as_numpy()) for s in self._outputs}

    def _checked_inputs(self, inputs: Mapping[Any, Any], downcast: bool) -> list[np.ndarray]:
        if not isinstance(inputs, Mapping):
            raise TypeError(
                f"run takes a dict {{stream: array}} for {self._inputs} but got a "
                f"{type(inputs).__name__}."
            )
        if inputs.keys() != self._inputs_set:
            missing = [s for s in self._inputs if s not in inputs]
            extra = [s for s in inputs if s not in self._inputs_set]
            named = any(isinstance(s, str) for s in extra)
            raise ValueError(
                f"The program takes data for {self._inputs}; missing: {missing}, "
                f"not expected: {extra}. Pass a dict with an array for each stream"
                f"{', whose keys are the streams and not their names' if named else ''}."
            )
        return [port.checked(inputs[port.stream], downcast) for port in self._takes]

    def run(
        self, inputs: "Mapping[HostToDeviceStream, Any] | None" = None, downcast_inputs: bool = True
    ) -> dict[DeviceToHostStream, np.ndarray]:
        """Runs the program once.

        inputs: an array of shape (num_host_transfers if > 1, replicas if > 1) + stream.shape for
            each stream to the device; 64-bit arrays become 32 bits if downcast_inputs.
        Returns an array for each stream to the host, shaped likewise. ValueError: not attached,
        missing or unexpected streams, other shapes or dtypes. TypeError: no dict. A signal whose
        handler raises, as Ctrl-C does, ends the run within half a second.
        """
        self._check_attached("run")
        arrays = self._checked_inputs({} if inputs is None else inputs, downcast_inputs)
        self._stale = True  # also when the run is cut short
        try:
            results = self._executable.run(arrays)
        except BaseException:
            if self._executable.forget_partial_state():
                _core.log(_WARNING, f"The run of {self!r} was cut short: {_PARTIAL}.")
            raise
        return _Results(
            (port.stream, port.returned(result))
            for port, result in zip(self._gives, results, strict=True)
        )

    def run_with_outputs(
        self,
        inputs: "Mapping[HostToDeviceStream, Any] | None" = None,
        outputs: "Mapping[DeviceToHostStream, np.ndarray] | None" = None,
        downcast_inputs: bool = True,
    ) -> None:
        """`run` into arrays of the caller, one for each stream. ValueError when they do not fit."""
        outputs = outputs or {}
        if set(outputs) != set(self._outputs):
            raise ValueError(f"The program gives {self._outputs} but arrays are for {outputs}.")
        for stream, array in outputs.items():
            if array.dtype != stream.dtype.as_numpy() or array.shape != self._io_shape(stream):
                raise ValueError(
                    f"{stream!r} gives {self._io_shape(stream)} but the array has {array.shape}, "
                    f"{array.dtype}."
                )
        for stream, result in self.run(inputs, downcast_inputs).items():
            outputs[stream][...] = result

    def _check_attached(self, what: str) -> None:
        if not self.is_attached:
            raise ValueError(f"Session.{what} works only attached: use it inside `with session:`.")

    @property
    def is_attached(self) -> bool:
        """Whether the session is inside its context."""
        return self._depth > 0

    @property
    def ir(self) -> Ir:
        """The Ir that it was made from."""
        return self._ir

    def __enter__(self) -> "Session":
        self._depth += 1
        if self._depth == 1:
            self.weights_from_host()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            if self._depth == 1 and kind is None and self._to_host_on_exit:
                self.weights_to_host()
        finally:
            self._depth -= 1

    def weights_from_host(self) -> None:
        """Sends variables that were written on the host to the device. ValueError if detached."""
        self._check_attached("weights_from_host")
        for variable in self._written:
            of(variable).send(self._executable, self._host[variable])
        self._written.clear()

    def weights_to_host(self) -> None:
        """Fetches all variables from the device. ValueError if detached."""
        self._check_attached("weights_to_host")
        if self._stale:
            for variable, data in self._host.items():
                if data.flags.writeable:
                    data[...] = of(variable).fetch(self._executable)
        self._stale = False

    def get_tensor_data(self, tensor: Tensor) -> np.ndarray:
        """What a variable or constant holds: a view of the host's buffer, groups in front.

        Attached, the device's values are fetched first. TypeError for another tensor.
        """
        return self.get_tensors_data([tensor])[tensor]

    def get_tensors_data(self, tensors: Iterable[Tensor]) -> dict[Tensor, np.ndarray]:
        """What variables and constants hold, by tensor; see `get_tensor_data`."""
        tensors = list(tensors)
        for tensor in tensors:
            if not isinstance(tensor, (Variable, Constant)):
                raise TypeError(
                    f"{tensor!r} is neither a variable nor a constant. What the program computes "
                    "comes from ops.host_store to a stream, in what run returns."
                )
            if isinstance(tensor, Variable) and tensor not in self._host:
                raise ValueError(self._foreign(tensor))
        if self._stale and self.is_attached:
            self.weights_to_host()
        return {
            t: self._host[t] if isinstance(t, Variable) else of(t).data.copy()  # type: ignore
            for t in tensors
        }

    def write_variable_data(self, tensor: Variable, data: Any) -> None:
        """Sets what a variable holds; see `write_variables_data`."""
        self.write_variables_data({tensor: data})

    def write_variables_data(self, data: Mapping[Variable, Any]) -> None:
        """Sets what variables hold; attached, they are sent to the device in one go.

        TypeError: not a variable, or data of another dtype (Python numbers are converted).
        NotImplementedError: a variable that is retrieved from all replicas.
        ValueError: data that has not the variable's shape_on_host.
        """
        arrays = {v: self._checked_data(v, given) for v, given in data.items()}
        if self._stale and self.is_attached:
            self.weights_to_host()
        for variable, array in arrays.items():
            self._host[variable][...] = array
        self._written.update(arrays)
        if self.is_attached:
            self.weights_from_host()

    def _checked_data(self, variable: Any, given: Any) -> np.ndarray:
        if not isinstance(variable, Variable):
            raise TypeError(
                f"{variable!r} is not a variable. Pass what popxl.variable returned, one of "
                f"{list(self._host)}."
            )
        if variable not in self._host:
            raise TypeError(self._foreign(variable))
        if of(variable).all_replicas:
            raise NotImplementedError(f"{variable!r} is retrieved from all replicas: fixed here.")
        plain = isinstance(given, (bool, int, float, list, tuple))
        array = to_numpy(given, variable.dtype if plain else None, downcast=False, copy=False)
        if array.dtype != variable.dtype.as_numpy():
            raise TypeError(f"{variable!r} holds {variable.dtype} but the data is {array.dtype}.")
        if array.shape != variable.shape_on_host:
            raise ValueError(
                f"{variable!r} takes data of shape {variable.shape_on_host} but got {array.shape}."
            )
        return array

    def _foreign(self, variable: Variable) -> str:
        if variable.ir is self._ir:
            return f"{variable!r} was made after this session. Make the session again."
        return f"{variable!r} is a variable of {variable.ir!r} but the session runs {self._ir!r}."

    def __repr__(self) -> str:
        return f"Session[ir={self._ir!r} attached={self.is_attached}]"


class _Results(dict):
    """What a run returns, by stream; a KeyError tells the streams."""

    def __missing__(self, key: Any) -> Any:
        raise KeyError(f"The program gives {list(self)}, which are the keys here, but not {key!r}.")


class _Port:
    """A stream as a run sees it: what its arrays must be, known before the first one comes.

    shape: of the user's array. compiled: of the one that the program takes. leads: what the first
    dimensions of the user's array are for.
    """

    def __init__(
        self,
        stream: Stream,
        shape: tuple,
        compiled: "list[int] | None" = None,
        leads: "list[str] | None" = None,
    ) -> None:
        self.stream, self._shape, self._leads = stream, shape, leads or []
        self._compiled = shape if compiled is None else tuple(compiled)
        self._dtype = stream.dtype.as_numpy()
        self._bits = as_bits(np.empty(0, self._dtype)).dtype

    def checked(self, data: Any, downcast: bool) -> np.ndarray:
        """`data` as the program takes it. ValueError for another shape or dtype."""
        array = to_numpy(data, None, downcast, copy=False)
        if array.dtype != self._bits:
            array = self._converted(array, data)
        if array.shape != self._shape:
            array = self._cut(array)
        return array if array.shape == self._compiled else array.reshape(self._compiled)

    def _converted(self, array: np.ndarray, data: Any) -> np.ndarray:
        number = isinstance(data, (bool, int, float))
        if is_float8(self.stream.dtype) and array.dtype == self._dtype:
            return as_bits(array)
        if number and not is_float8(self.stream.dtype):
            return array.astype(self._dtype)
        given = getattr(data, "dtype", array.dtype)
        raise ValueError(
            f"{self.stream!r} takes {self.stream.dtype} but got {given}. Convert the data, e.g. "
            f"np.asarray(data, {self._dtype.name!r})."
        )

    def _cut(self, array: np.ndarray) -> np.ndarray:
        expected = self._shape
        leads = len(expected) > len(self.stream.shape)  # transfers or replicas come first
        if leads and array.shape[1:] == expected[1:] and array.shape[0] > expected[0]:
            return array[: expected[0]]
        if array.size == 1 and all(n == 1 for n in expected):
            return array
        each = f", {self.stream.shape} for each of {' and '.join(self._leads)}," if leads else ""
        raise ValueError(
            f"{self.stream!r} takes data of shape {expected}{each} but got {array.shape}. Give the "
            "data that shape, or the stream another when it is made."
        )

    def returned(self, result: np.ndarray) -> np.ndarray:
        """What the program gave, in the stream's dtype and shape."""
        if result.dtype != self._dtype:
            result = result.view(self._dtype)
        return result if result.shape == self._shape else result.reshape(self._shape)


def stream_elements(stream: Stream) -> int:
    """Elements of one transfer of one replica."""
    return int(np.prod(stream.shape, dtype=np.int64))
