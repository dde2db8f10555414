"""Session: compiles and runs an Ir, and transfers variables between host and device."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from popdist import instance
from poptorch_core import _core
from poptorch_core.reports import data as columns, drawings
from popxl._impl import reporting
from popxl._impl.check_order import check_order
from popxl._impl.dot import checkpoint
from popxl._impl.instances import check_can_attach, share_of
from popxl._impl.ports import ports_of
from popxl._impl.records import of
from popxl._impl.session_variables import SessionVariables
from popxl.errors import compiling, popart_exception, running
from popxl.ir import Ir
from popxl.streams import DeviceToHostStream, HostToDeviceStream
from popxl.tensor import Variable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WARNING = 3  # a level of the core's log
_PARTIAL = (
    "some variables on the device have values from the middle of the program. Write them with "
    "write_variables_data to continue from known values"
)

_LOST = (
    "its data is lost, and the host has the variables as they were last fetched or written. "
    "Write those of a checkpoint with write_variables_data"
)


def _cache_path(ir: Ir) -> str:
    """Returns the folder for compiled programs; empty: they are not cached."""
    options = ir._pb_ir.getSessionOptions()
    return options.cachePath if options.enableEngineCaching else ""


class Session(SessionVariables):
    """A compiled program on an emulated device.

    Entering its context attaches it and sends the variables to the device. `run` works only inside;
    data may be read and written outside as well. With several instances, each makes a session and
    waits for the others. Host data is that of all replicas; `run` has this instance's rows.

    Args:
        ir: The program; later changes to it do not affect the session. RuntimeError without ops,
            popart_exception if it does not compile.
        device_desc: 'ipu_hw', 'ipu_model' or 'cpu': all are the emulator. ValueError for 'cpu' with
            several IPUs.
        weights_to_host_on_exit: Whether leaving the context fetches the variables.
    """

    def __init__(
        self, ir: Ir, device_desc: str = "cpu", weights_to_host_on_exit: bool = True
    ) -> None:
        self._ir = ir
        self._was_attached_stack: list[bool] = []  # by context: was it attached on entry?
        if not isinstance(ir, Ir):
            raise TypeError(f"Session takes a popxl.Ir but got a {type(ir).__name__}.")
        if not any(of(graph).ops for graph in of(ir).graphs):
            raise RuntimeError("The Ir has no ops: there is nothing to run.")
        for message in of(ir).refused:
            raise popart_exception(message)
        of(ir).replicas.check(ir._pb_ir.getSessionOptions().enableReplicatedGraphs)
        if ir.main_graph.inputs:
            raise popart_exception(
                f"The main graph has inputs, {ir.main_graph.inputs}, which get no data. Use "
                "popxl.h2d_stream."
            )
        self._set_device(device_desc)
        if ir._pb_ir.getSessionOptions().enableInplaceAmbiguityChecking:
            check_order(ir)
        checkpoint(ir, "FINAL")
        of(ir).has_session = True
        self._to_host_on_exit = weights_to_host_on_exit
        self._replicas = ir.instance_replication_factor
        self._transfers = ir.num_host_transfers
        self._inputs = [s for s in of(ir).streams if isinstance(s, HostToDeviceStream)]
        self._outputs = [s for s in of(ir).streams if isinstance(s, DeviceToHostStream)]
        # The ops of the program determine the order in which its IPUs run.
        said = {
            "replication_factor": ir.replication_factor,
            "link_domain": instance.link_domain(),
            "strategy": "sharded",
        }
        folder = reporting.folder_of(ir)
        host = {
            "cache_path": _cache_path(ir),
            "round_ipu_count": True,
            "late_memory_check": folder is not None,
            **share_of(of(ir).replicas),
        }
        with compiling():
            self._executable = _core.compile(of(ir).module, [("execution", "", said)], host)
            reporting.begin(self, ir, self._executable, folder)
        counts = self._transfers, self._replicas
        self._takes = ports_of(self._inputs, self._executable.input_types, *counts)
        self._inputs_set = set(self._inputs)
        self._gives = ports_of(self._outputs, self._executable.output_types, *counts)
        self._host = {v: of(v).host_copy() for v in of(ir).slots.values()}
        self._read_only = [v for v, data in self._host.items() if not data.flags.writeable]
        self._written: set[Variable] = set(self._host)  # newer on the host
        self._stale = False  # the device may be newer than the host
        self._compared = False  # with the data of other instances

    def expected_inputs(self) -> list[HostToDeviceStream]:
        """Returns the streams for which `run` takes data."""
        return list(self._inputs)

    def create_host_outputs(self) -> dict[DeviceToHostStream, np.ndarray]:
        """Returns arrays for `run_with_outputs`: (transfers, replicas) + shape, without ones."""
        shapes = {s: self._full_input_shape(s.shape) for s in self._outputs}
        return {s: np.zeros(shape, s.dtype.as_numpy()) for s, shape in shapes.items()}

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
        """Runs the program once. A signal whose handler raises (Ctrl-C) ends it within 0.5 s.

        Args:
            inputs: An array for each stream to the device, of shape (num_host_transfers if > 1,
                replicas of this instance if > 1) + stream.shape.
            downcast_inputs: Whether 64-bit arrays become 32 bits.

        Returns:
            An array of such a shape for each stream to the host.

        Raises:
            ValueError: Not attached; missing or unexpected streams; other shapes or dtypes.
            TypeError: inputs is not a dict.
            RecoverableError, UnrecoverableError: The device failed and its data is lost. Entering
                the context again sends the host's variables.
        """
        self._check_attached("run")
        arrays = self._checked_inputs({} if inputs is None else inputs, downcast_inputs)
        self._stale = True  # also if the run is interrupted
        try:
            with running():
                results = self._executable.run(arrays)
        except BaseException:
            if self._executable.forget_partial_state():
                _core.log(_WARNING, f"The run of {self!r} was interrupted: {_PARTIAL}.")
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
        """Runs into arrays of the caller, one per stream. Raises ValueError if they do not fit.

        Args:
            inputs: The data of each stream to the device.
            outputs: The array that each stream to the host fills.
            downcast_inputs: Whether 64-bit inputs become 32-bit ones.
        """
        outputs = outputs or {}
        self._validate_run_outputs(outputs)
        for stream, result in self.run(inputs, downcast_inputs).items():
            outputs[stream][...] = result

    @property
    def ir(self) -> Ir:
        """The Ir from which it was made."""
        return self._ir

    ir_ = ir

    def __enter__(self) -> "Session":
        was_attached = self.is_attached
        if not was_attached:
            self._attach()
        self._was_attached_stack.append(was_attached)
        try:
            if not was_attached:
                self.weights_from_host()
        except BaseException:
            self._leave()
            raise
        return self

    def _leave(self) -> None:
        self._was_attached_stack.pop()
        if not self.is_attached:
            self._device.detach()

    def _attach(self) -> None:
        check_can_attach()
        failed = self._executable.has_failed()
        self._executable.attach()
        self._device.attach()
        if failed:
            self._written, self._stale = set(self._host), False

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            if self._was_attached_stack[-1]:
                return
            if self._executable.has_failed():
                if self._stale:
                    _core.log(_WARNING, f"The device of {self!r} has failed: {_LOST}.")
            elif kind is None and self._fetches_on_exit():
                self.weights_to_host()
        finally:
            self._leave()

    def _fetches_on_exit(self) -> bool:
        return self._to_host_on_exit and not self._read_only

    def write_report(self, folder: "str | os.PathLike[str]") -> None:
        """Writes report.html and its data into `folder`. Raises poptorch.Error if it cannot."""
        reporting.write(self._ir, self._executable, folder)

    def plot_memory(self) -> "Figure":
        """Returns a matplotlib figure of each IPU's memory over time. Raises Error without it."""
        return drawings.memory(columns.make(self._executable, {}))

    def __repr__(self) -> str:
        return f"Session[ir={self._ir!r} attached={self.is_attached}]"


class _Results(dict):
    """The results of a run, by stream; a KeyError names the streams."""

    def __missing__(self, key: Any) -> Any:
        raise KeyError(f"{key!r} is not a result of the program. The keys are {list(self)}.")
