"""Classes of ops: `op_class("AddOp")` is the class of ops of type "Add"."""

from enum import IntEnum
from typing import TYPE_CHECKING, Any

from popart._internal.ir.tensor import Tensor

if TYPE_CHECKING:
    from popart._internal.ir.graph import Graph
    from popxl._impl.records import OpRecord

# The number of inputs of PopART's op before those that programs pass.
_BEFORE = {"Loop": 2}
# Ops with optimiser state.
_OPTIMISERS = (
    *("Accumulate", "AccumulatorScale", "AdamUpdater", "AdamVarUpdate", "CopyVarUpdate"),
    "PopartSparseAccumulate",
)


class Op:
    """A view of an op."""

    def __init__(self, record: "OpRecord") -> None:
        self._record = record

    @property
    def id(self) -> int:
        """The number of the op in the Ir, from 100."""
        return self._record.id

    def opType(self) -> str:
        """Returns the type, e.g. "Add"."""
        return self._record.op_type

    def name(self) -> str:
        """Returns the name of its first output; empty without one."""
        return self._record.outputs[0].name if self._record.outputs else ""

    def getInputIds(self) -> list[str]:
        """Returns the ids of the input tensors, without unconnected inputs."""
        return [t.id for t in self._record.inputs if t is not None]

    def getOutputIds(self) -> list[str]:
        """Returns the ids of the output tensors."""
        return [t.id for t in self._record.outputs]

    def getInputTensors(self) -> list[Tensor]:
        """Returns the input tensors, without unconnected inputs."""
        return [Tensor(t) for t in self._record.inputs if t is not None]

    def getOutputTensors(self) -> list[Tensor]:
        """Returns the output tensors."""
        return [Tensor(t) for t in self._record.outputs]

    def _input(self, index: int) -> Any:
        place = index - _BEFORE.get(self._record.op_type, 0)
        inputs = self._record.inputs
        return inputs[place] if 0 <= place < len(inputs) else None

    def hasInput(self, index: int) -> bool:
        """Returns whether this input is connected; inputs of a Loop count from 2."""
        return self._input(index) is not None

    def hasOutput(self, index: int) -> bool:
        """Returns whether there is an output with this index."""
        return 0 <= index < len(self._record.outputs)

    def inTensor(self, index: int) -> Tensor:
        """Returns the tensor at an input. Raises IndexError if it is not connected."""
        if not self.hasInput(index):
            raise IndexError(f"{self!r} has no input {index}.")
        return Tensor(self._input(index))

    def outTensor(self, index: int) -> Tensor:
        """Returns the tensor at an output. Raises IndexError if there is none."""
        return Tensor(self._record.outputs[index])

    def inId(self, index: int) -> str:
        """Returns the id of the tensor at an input. Raises IndexError if it is not connected."""
        return self.inTensor(index).id

    def outId(self, index: int) -> str:
        """Returns the id of the tensor at an output. Raises IndexError if there is none."""
        return self.outTensor(index).id

    def getSettings(self) -> Any:
        """Returns where and when it runs: `tileSet`, `executionContext`, `vgraphId`, `scope`."""
        return self._record.settings

    def hasVirtualGraphId(self) -> bool:
        """Returns whether its IPU is known."""
        return self._record.settings.vgraphId is not None

    def getVirtualGraphId(self) -> int:
        """Returns its IPU. Raises RuntimeError without one."""
        ipu = self._record.settings.vgraphId
        if ipu is None:
            raise RuntimeError(f"{self!r} has no virtual graph id.")
        return ipu

    def getGraph(self) -> "Graph":
        """Returns the graph to which it belongs."""
        return self._record.graph._pb_graph

    def getCalledGraphs(self) -> "list[Graph]":
        """Returns the graphs that it runs."""
        return [graph._pb_graph for graph in self._record.called]

    def getCalledGraph(self) -> "Graph":
        """Returns the graph that it runs. Raises IndexError without one."""
        return self.getCalledGraphs()[0]

    def modifiesIndex(self, index: int) -> bool:
        """Returns whether it writes this input in place; inputs of a Loop count from 2."""
        given = self._input(index)
        return given is not None and any(given is t for t in self._record.modified)

    def modifies(self) -> bool:
        """Returns whether it writes an input in place."""
        return bool(self._record.modified)

    def isOptimizerOp(self) -> bool:
        """Returns whether it is part of an optimiser's step."""
        return self._record.op_type in _OPTIMISERS

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Op) and (self.id, self.getGraph()) == (other.id, other.getGraph())

    def __hash__(self) -> int:
        return hash(self._record.id)

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{self._record.op_type}.{self._record.id}]"


class MatMulPartialsType(IntEnum):
    """The type of partial sums on hardware."""

    HALF = 0
    FLOAT = 1


class MatMulOp(Op):
    """Ops of type MatMul. Settings are kept, and have no effect on the emulator."""

    def getPartialsType(self) -> MatMulPartialsType:
        """Returns the type of partial sums."""
        half = self._record.attrs.get("partials") == "float16"
        return MatMulPartialsType.HALF if half else MatMulPartialsType.FLOAT

    def useFullyConnectedPass(self) -> bool:
        """Returns whether the pass for fully connected layers would plan it."""
        return self._record.attrs.get("fully_connected_pass", True)

    def setUseFullyConnectedPass(self, on: bool) -> None:
        """Sets whether the pass for fully connected layers would plan it."""
        self._record.attrs["fully_connected_pass"] = bool(on)

    def getAvailableMemoryProportion(self) -> "float | None":
        """Returns the share of memory that it may use temporarily."""
        return self._record.attrs.get("available_memory_proportion")

    def setAvailableMemoryProportion(self, proportion: "float | None") -> None:
        """Sets the share of memory that it may use temporarily."""
        self._record.attrs["available_memory_proportion"] = proportion


class ConvOptions:
    """Hints of a convolution: lists with a number for each of its parts."""

    def __init__(self, attrs: dict[str, Any]) -> None:
        self.availableMemoryProportions = list(attrs.get("available_memory_proportions") or [])
        self.partialsTypes = list(attrs.get("partials_types") or [])
        self.enableConvDithering = list(attrs.get("enable_conv_dithering") or [])


class ConvOp(Op):
    """Ops of types Conv and ConvTranspose. Hints have no effect on the emulator."""

    def getConvOptions(self) -> ConvOptions:
        """Returns a copy of the hints."""
        return ConvOptions(self._record.attrs)

    def setConvOptions(self, options: ConvOptions) -> None:
        """Sets the hints."""
        self._record.attrs["available_memory_proportions"] = options.availableMemoryProportions
        self._record.attrs["partials_types"] = options.partialsTypes
        self._record.attrs["enable_conv_dithering"] = options.enableConvDithering


class ConvTransposeOp(ConvOp):
    """Ops of type ConvTranspose."""


class OptimizerValue:
    """A number of an optimiser; 0.0 if a tensor holds it."""

    def __init__(self, value: float = 0.0, isConst: bool = True) -> None:
        self._value, self._const = value, isConst

    def val(self) -> float:
        """Returns the number."""
        return self._value

    def isConst(self) -> bool:
        """Returns whether the op, instead of a tensor, holds the number."""
        return self._const


class AccumulatorScaleOp(Op):
    """Ops of type AccumulatorScale."""

    def getFactor(self) -> OptimizerValue:
        """Returns the factor."""
        factor = self._record.attrs["factor"]
        return OptimizerValue(0.0, False) if factor is None else OptimizerValue(factor)


class SparseAccumulateOp(Op):
    """Ops of type PopartSparseAccumulate."""

    def getAxis(self) -> int:
        """Returns the axis of the indices."""
        return self._record.attrs["axis"]


_CLASS_NAMES = {
    "Sub": "SubtractOp",
    "Neg": "NegateOp",
    "OneHot": "OnehotOp",
    "BatchNormalization": "BatchNormOp",
    "GroupNormalization": "GroupNormOp",
    "GroupNormalizationGrad": "GroupNormGradOp",
    "IsInf": "IsInf",
    "IsNaN": "IsNaN",
    "PopartTiedGather": "TiedGatherOp",
    "PopartSparseAccumulate": "SparseAccumulateOp",
}
_classes: dict[str, type[Op]] = {
    kind.__name__: kind
    for kind in (MatMulOp, ConvOp, ConvTransposeOp, AccumulatorScaleOp, SparseAccumulateOp)
}


def op_class(name: str) -> type[Op]:
    """Returns the class of this name; the same one each time."""
    if name not in _classes:
        _classes[name] = type(name, (Op,), {"__doc__": f"Ops of class {name}."})
    return _classes[name]


def is_class_name(name: str) -> bool:
    """Returns whether a class of ops may have this name."""
    return name in _CLASS_NAMES.values() or (name.endswith("Op") and name[0].isupper())


def view(record: "OpRecord") -> Op:
    """Returns a view of an op, of the class for its type."""
    return op_class(_CLASS_NAMES.get(record.op_type, f"{record.op_type}Op"))(record)
