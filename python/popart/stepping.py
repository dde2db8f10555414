"""PopART's way to run a program that popxl wrote: data by tensor ids, a session made from an Ir."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any

import numpy as np
from popart.devices import DeviceInfo
from popart.enums import AnchorReturnTypeId, DeviceType
from popxl._impl.records import of
from popxl.session import Session

_DEVICES = {DeviceType.Cpu: "cpu", DeviceType.IpuModel: "ipu_model"}


class AnchorReturnType:
    """Which values of a run come back: "All", "Final", "Sum" or "EveryN" with its period.

    ValueError for another name, and for a period below one.
    """

    def __init__(self, name: str = "All", returnPeriod: int = 1) -> None:
        known = {f"{kind.name}".upper(): kind for kind in AnchorReturnTypeId}
        if name.upper() not in known:
            raise ValueError(f"AnchorReturnType takes {list(known)} but got {name!r}.")
        if returnPeriod < 1:
            raise ValueError(f"The return period must be at least 1 but is {returnPeriod}.")
        self._id, self._period = known[name.upper()], returnPeriod

    def id(self) -> AnchorReturnTypeId:
        """The kind."""
        return self._id

    def rp(self) -> int:
        """The period of "EveryN"."""
        return self._period


class DataFlow:
    """How many batches a run takes, and which tensors (by id) come back.

    anchorTensors: ids, or {id: AnchorReturnType}.
    """

    def __init__(self, batchesPerStep: int = 1, anchorTensors: Any = ()) -> None:
        if batchesPerStep < 1:
            raise ValueError(f"batchesPerStep must be at least 1 but is {batchesPerStep}.")
        self._batches = batchesPerStep
        if isinstance(anchorTensors, Mapping):
            self._anchors = dict(anchorTensors)
        else:
            self._anchors = {id: AnchorReturnType("All") for id in anchorTensors}

    def batchesPerStep(self) -> int:
        """How many batches a run takes."""
        return self._batches

    def anchors(self) -> list[str]:
        """The ids of the tensors that come back."""
        return list(self._anchors)

    def art(self, id: str) -> AnchorReturnType:
        """How the tensor with this id comes back. KeyError for one that does not."""
        return self._anchors[id]


class PyStepIO:
    """The arrays of one run, by the ids of streams: those that go in, and those that are filled."""

    def __init__(self, inputs: Mapping[str, Any], outputs: Mapping[str, np.ndarray]) -> None:
        self.inputs, self.outputs = dict(inputs), dict(outputs)

    def enableRuntimeAsserts(self, on: bool) -> None:
        """Accepted: shapes are always checked."""


class PyWeightsIO:
    """Arrays for variables, by their ids."""

    def __init__(self, weights: Mapping[str, np.ndarray]) -> None:
        self.weights = dict(weights)


class InferenceSession:
    """Runs a popxl program. Made by `fromIr`; UnsupportedError for one from an ONNX model."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        from popxl.errors import unsupported

        raise unsupported(f"popart.{type(self).__name__} of an ONNX model")

    _ir: Any
    _device: DeviceInfo
    _session: "Session | None"

    @classmethod
    def fromIr(cls, ir: Any, deviceInfo: DeviceInfo, name: str = "fromIr") -> "InferenceSession":
        """A session for `popxl.Ir()._pb_ir` on a device of a DeviceManager."""
        made = object.__new__(cls)
        vars(made).update(_ir=ir, _device=deviceInfo, _session=None)
        return made

    def prepareDevice(self, loadEngine: bool = True) -> None:
        """Compiles the program and attaches the device. As for popxl.Session, it is refused."""
        device = _DEVICES.get(self._device.type, "ipu_hw")
        self._session = Session(self._ir.user(), device, weights_to_host_on_exit=False)
        self._session.__enter__()

    def _prepared(self) -> Session:
        if self._session is None:
            raise RuntimeError("The session is not prepared: call prepareDevice() first.")
        return self._session

    def initAnchorArrays(self) -> dict[str, np.ndarray]:
        """Arrays for what the program stores, by the streams' ids."""
        outputs = self._prepared().create_host_outputs()
        return {stream.tensor_id: array for stream, array in outputs.items()}

    def run(self, stepio: PyStepIO, debugName: str = "") -> None:
        """Runs the program once: takes and fills the arrays of `stepio`."""
        session = self._prepared()
        inputs = {s: stepio.inputs.get(s.tensor_id) for s in session.expected_inputs()}
        inputs = {s: array for s, array in inputs.items() if array is not None}
        for stream, result in session.run(inputs).items():
            target = stepio.outputs.get(stream.tensor_id)
            if target is not None:
                target[...] = result.reshape(target.shape)

    def weightsFromHost(self) -> None:
        """Sends the variables to the device."""
        self._prepared().weights_from_host()

    def weightsToHost(self) -> None:
        """Fetches the variables from the device."""
        self._prepared().weights_to_host()

    def broadcastWeights(self, root: int = 0) -> None:
        """Gives all instances the variables of one of them. They call it together.

        Those of every replica, and groups without one there, stay as they are. ValueError: there
        is no such instance.
        """
        from popdist import collectives

        session = self._prepared()
        session.fetch_variables(root)
        variables = [v for v in self._ir.user().main_graph.variables if not of(v).all_replicas]
        session.write_variables_data(
            {v: collectives.broadcast(session.get_tensor_data(v), root) for v in variables}
        )

    def readWeights(self, weights: PyWeightsIO) -> None:
        """Fills arrays with variables."""
        session = self._prepared()
        for variable in self._ir.user().main_graph.variables:
            if variable.id in weights.weights:
                weights.weights[variable.id][...] = session.get_tensor_data(variable)

    def writeWeights(self, weights: PyWeightsIO) -> None:
        """Sets variables to arrays."""
        variables = {v.id: v for v in self._ir.user().main_graph.variables}
        given = {variables[id]: array for id, array in weights.weights.items()}
        self._prepared().write_variables_data(given)

    def __enter__(self) -> "InferenceSession":
        return self

    def __exit__(
        self,
        kind: "type[BaseException] | None",
        error: "BaseException | None",
        trace: "TracebackType | None",
    ) -> None:
        if self._session is not None:
            self._session.__exit__(kind, error, trace)
            self._session = None


class TrainingSession(InferenceSession):
    """As InferenceSession: a popxl program says itself how it trains."""
