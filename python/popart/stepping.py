"""PopART's interface to run a popxl program: data by tensor ids, and a session from an Ir."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any

import numpy as np
from popart.devices import DeviceInfo
from popart.enums import AnchorReturnTypeId, DeviceType
from popxl._impl import popart_views
from popxl._impl.records import of
from popxl.session import Session

_DEVICES = {DeviceType.Cpu: "cpu", DeviceType.IpuModel: "ipu_model"}


class AnchorReturnType:
    """The values of a run that are returned: "All", "Final", "Sum" or "EveryN" with its period.

    Args:
        name: The kind: "All", "Final", "Sum" or "EveryN".
        returnPeriod: The period of "EveryN".

    Raises:
        ValueError: The name is another one, or the period is below 1.
    """

    def __init__(self, name: str = "All", returnPeriod: int = 1) -> None:
        known = {f"{kind.name}".upper(): kind for kind in AnchorReturnTypeId}
        if name.upper() not in known:
            raise ValueError(f"AnchorReturnType takes {list(known)} but got {name!r}.")
        if returnPeriod < 1:
            raise ValueError(f"The return period must be at least 1 but is {returnPeriod}.")
        self._id, self._period = known[name.upper()], returnPeriod

    def id(self) -> AnchorReturnTypeId:
        """Returns the kind."""
        return self._id

    def rp(self) -> int:
        """Returns the period of "EveryN"."""
        return self._period


class DataFlow:
    """The number of batches of a run, and the tensors that it returns.

    Args:
        batchesPerStep: The number of batches.
        anchorTensors: Ids, or {id: AnchorReturnType}.
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
        """Returns the number of batches of a run."""
        return self._batches

    def anchors(self) -> list[str]:
        """Returns the ids of the returned tensors."""
        return list(self._anchors)

    def art(self, id: str) -> AnchorReturnType:
        """Returns how a tensor is returned. Raises KeyError for an id that is not.

        Args:
            id: The id of the tensor.
        """
        return self._anchors[id]


class PyStepIO:
    """The input arrays of one run, and the output arrays that it fills, by the ids of streams.

    Args:
        inputs: The arrays of the streams to the device, by id.
        outputs: The arrays to fill, by the id of the stream to the host.
    """

    def __init__(self, inputs: Mapping[str, Any], outputs: Mapping[str, np.ndarray]) -> None:
        self.inputs, self.outputs = dict(inputs), dict(outputs)

    def enableRuntimeAsserts(self, on: bool) -> None:
        """Accepted without effect: shapes are always checked.

        Args:
            on: Accepted for compatibility with PopART, without effect.
        """


class PyWeightsIO:
    """Arrays for variables, by their ids.

    Args:
        weights: The arrays, by the id of the variable.
    """

    def __init__(self, weights: Mapping[str, np.ndarray]) -> None:
        self.weights = dict(weights)


class InferenceSession:
    """Runs a popxl program. Made by `fromIr`; the constructor raises UnsupportedError."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        from popxl.errors import unsupported

        raise unsupported(f"popart.{type(self).__name__} of an ONNX model")

    _ir: Any
    _device: DeviceInfo
    _session: "Session | None"

    @classmethod
    def fromIr(cls, ir: Any, deviceInfo: DeviceInfo, name: str = "fromIr") -> "InferenceSession":
        """Makes a session for `popxl.Ir()._pb_ir` on a device of a DeviceManager.

        Args:
            ir: The program: `popxl.Ir()._pb_ir`.
            deviceInfo: The device.
            name: The name of the session.
        """
        made = object.__new__(cls)
        vars(made).update(_ir=ir, _device=deviceInfo, _session=None)
        return made

    def prepareDevice(self, loadEngine: bool = True) -> None:
        """Compiles the program and attaches the device. Raises the errors of popxl.Session.

        Args:
            loadEngine: Accepted for compatibility with PopART, without effect.
        """
        if self._session is not None:
            return
        device = _DEVICES.get(self._device.type, "ipu_hw")
        self._session = Session(self._ir.user(), device, weights_to_host_on_exit=False)
        self._session.__enter__()

    def _prepared(self) -> Session:
        if self._session is None:
            raise RuntimeError("The session is not prepared: call prepareDevice() first.")
        return self._session

    def initAnchorArrays(self) -> dict[str, np.ndarray]:
        """Returns arrays for the tensors that the program stores, by the streams' ids."""
        outputs = self._prepared().create_host_outputs()
        return {stream.tensor_id: array for stream, array in outputs.items()}

    def run(self, stepio: PyStepIO, debugName: str = "") -> None:
        """Runs the program once: takes and fills the arrays of `stepio`.

        Args:
            stepio: The inputs and outputs of the run.
            debugName: Accepted for compatibility with PopART, without effect.
        """
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
        """Copies the variables of one instance to all. All instances must call it.

        Variables retrieved from all replicas are unchanged, and so are groups without a replica in
        that instance.

        Args:
            root: The instance whose values are copied.

        Raises:
            ValueError: The instance does not exist.
        """
        from popdist import collectives

        session = self._prepared()
        session.fetch_variables(root)
        variables = [v for v in self._ir.user().main_graph.variables if not of(v).all_replicas]
        session.write_variables_data(
            {v: collectives.broadcast(session.get_tensor_data(v), root) for v in variables}
        )

    def readWeights(self, weights: PyWeightsIO) -> None:
        """Fills arrays with variables.

        Args:
            weights: The arrays to fill, by name.
        """
        session = self._prepared()
        for variable in self._ir.user().main_graph.variables:
            if variable.id in weights.weights:
                weights.weights[variable.id][...] = session.get_tensor_data(variable)

    def writeWeights(self, weights: PyWeightsIO) -> None:
        """Sets variables to arrays.

        Args:
            weights: The arrays to copy, by name.
        """
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
    """Like InferenceSession: the popxl program contains the training."""


def _view(session: Session, device: DeviceInfo) -> InferenceSession:
    """Returns PopART's view of a popxl session, which is prepared already."""
    made = InferenceSession.fromIr(session.ir._pb_ir, device)
    vars(made).update(_session=session)
    return made


def _device(kind: str, ipus: int) -> DeviceInfo:
    """Returns a device of `ipus` IPUs for `device_desc` of popxl.Session."""
    types = {name: type for type, name in _DEVICES.items()}
    return DeviceInfo(types.get(kind, DeviceType.Ipu), ipus)


popart_views.provide(session=_view, device=_device)
