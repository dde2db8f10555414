"""Classes of ops: `op_class("AddOp")` is the class of ops of type "Add"."""

from enum import IntEnum
from typing import TYPE_CHECKING, Any

from popart._internal.ir.tensor import Tensor

if TYPE_CHECKING:
    from popart._internal.ir.graph import Graph
    from popxl._impl.records import OpRecord

# Inputs of PopART's op that stand before those that programs give.
_BEFORE = {"Loop": 2}
# Ops that keep state of optimisers.
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
        """Counts the ops of the Ir from 100."""
        return self._record.id

    def opType(self) -> str:
        """The type, e.g. "Add"."""
        return self._record.op_type

    def name(self) -> str:
        """The name of its first output; empty without one."""
        return self._record.outputs[0].name if self._record.outputs else ""

    def getInputIds(self) -> list[str]:
        """Ids of the tensors that go in, without those that are not connected."""
        return [t.id for t in self._record.inputs if t is not None]

    def getOutputIds(self) -> list[str]:
        """Ids of the tensors that come out."""
        return [t.id for t in self._record.outputs]

    def getInputTensors(self) -> list[Tensor]:
        """The tensors that go in, without those that are not connected."""
        return [Tensor(t) for t in self._record.inputs if t is not None]

    def getOutputTensors(self) -> list[Tensor]:
        """The tensors that come out."""
        return [Tensor(t) for t in self._record.outputs]

    def _input(self, index: int) -> Any:
        place = index - _BEFORE.get(self._record.op_type, 0)
        inputs = self._record.inputs
        return inputs[place] if 0 <= place < len(inputs) else None

    def hasInput(self, index: int) -> bool:
        """Whether a tensor goes in at this index; inputs of a Loop count from 2."""
        return self._input(index) is not None

    def hasOutput(self, index: int) -> bool:
        """Whether a tensor comes out at this index."""
        return 0 <= index < len(self._record.outputs)

    def inTensor(self, index: int) -> Tensor:
        """The tensor at an input. IndexError when none goes in there."""
        if not self.hasInput(index):
            raise IndexError(f"{self!r} has no input {index}.")
        return Tensor(self._input(index))

    def outTensor(self, index: int) -> Tensor:
        """The tensor at an output. IndexError when there is none."""
        return Tensor(self._record.outputs[index])

    def inId(self, index: int) -> str:
        """The id of the tensor at an input. IndexError when none goes in there."""
        return self.inTensor(index).id

    def outId(self, index: int) -> str:
        """The id of the tensor at an output. IndexError when there is none."""
        return self.outTensor(index).id

    def getSettings(self) -> Any:
        """Where and when it runs: `tileSet`, `executionContext`, `vgraphId`, `scope`."""
        return self._record.settings

    def hasVirtualGraphId(self) -> bool:
        """Whether it has an IPU."""
        return self._record.settings.vgraphId is not None

    def getVirtualGraphId(self) -> int:
        """Its IPU. RuntimeError without one."""
        ipu = self._record.settings.vgraphId
        if ipu is None:
            raise RuntimeError(f"{self!r} has no virtual graph id.")
        return ipu

    def getGraph(self) -> "Graph":
        """The graph that it stands in."""
        return self._record.graph._pb_graph

    def getCalledGraphs(self) -> "list[Graph]":
        """The graphs that it runs."""
        return [graph._pb_graph for graph in self._record.called]

    def getCalledGraph(self) -> "Graph":
        """The graph that it runs. IndexError without one."""
        return self.getCalledGraphs()[0]

    def modifiesIndex(self, index: int) -> bool:
        """Whether it writes the input at this index in place; inputs of a Loop count from 2."""
        given = self._input(index)
        return given is not None and any(given is t for t in self._record.modified)

    def modifies(self) -> bool:
        """Whether it writes an input in place."""
        return bool(self._record.modified)

    def isOptimizerOp(self) -> bool:
        """Whether it is part of an optimiser's step."""
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
    """Ops of type MatMul. What one sets of them is kept, and without effect on the emulator."""

    def getPartialsType(self) -> MatMulPartialsType:
        """The type of partial sums."""
        half = self._record.attrs.get("partials") == "float16"
        return MatMulPartialsType.HALF if half else MatMulPartialsType.FLOAT

    def useFullyConnectedPass(self) -> bool:
        """Whether the pass for fully connected layers would plan it."""
        return self._record.attrs.get("fully_connected_pass", True)

    def setUseFullyConnectedPass(self, on: bool) -> None:
        """Says whether the pass for fully connected layers would plan it."""
        self._record.attrs["fully_connected_pass"] = bool(on)

    def getAvailableMemoryProportion(self) -> "float | None":
        """The share of memory that it may use for the time being."""
        return self._record.attrs.get("available_memory_proportion")

    def setAvailableMemoryProportion(self, proportion: "float | None") -> None:
        """Says the share of memory that it may use for the time being."""
        self._record.attrs["available_memory_proportion"] = proportion


class ConvOptions:
    """Hints of a convolution: lists with a number for each of its parts."""

    def __init__(self, attrs: dict[str, Any]) -> None:
        self.availableMemoryProportions = list(attrs.get("available_memory_proportions") or [])
        self.partialsTypes = list(attrs.get("partials_types") or [])
        self.enableConvDithering = list(attrs.get("enable_conv_dithering") or [])


class ConvOp(Op):
    """Ops of types Conv and ConvTranspose. Hints are without effect on the emulator."""

    def getConvOptions(self) -> ConvOptions:
        """A copy of the hints."""
        return ConvOptions(self._record.attrs)

    def setConvOptions(self, options: ConvOptions) -> None:
        """Sets the hints."""
        self._record.attrs["available_memory_proportions"] = options.availableMemoryProportions
        self._record.attrs["partials_types"] = options.partialsTypes
        self._record.attrs["enable_conv_dithering"] = options.enableConvDithering


class ConvTransposeOp(ConvOp):
    """Ops of type ConvTranspose."""


class OptimizerValue:
    """A number of an optimiser's, or 0.0 where a tensor holds it."""

    def __init__(self, value: float = 0.0, isConst: bool = True) -> None:
        self._value, self._const = value, isConst

    def val(self) -> float:
        """The number."""
        return self._value

    def isConst(self) -> bool:
        """Whether the op holds the number, and no tensor."""
        return self._const


class AccumulatorScaleOp(Op):
    """Ops of type AccumulatorScale."""

    def getFactor(self) -> OptimizerValue:
        """What it multiplies by."""
        factor = self._record.attrs["factor"]
        return OptimizerValue(0.0, False) if factor is None else OptimizerValue(factor)


class SparseAccumulateOp(Op):
    """Ops of type PopartSparseAccumulate."""

    def getAxis(self) -> int:
        """The axis along which indices count."""
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
    """The class of this name; the same one each time."""
    if name not in _classes:
        _classes[name] = type(name, (Op,), {"__doc__": f"Ops of class {name}."})
    return _classes[name]


def is_class_name(name: str) -> bool:
    """Whether a class of ops may be called so."""
    return name in _CLASS_NAMES.values() or (name.endswith("Op") and name[0].isupper())


def view(record: "OpRecord") -> Op:
    """An op of the class that its type says."""
    return op_class(_CLASS_NAMES.get(record.op_type, f"{record.op_type}Op"))(record)
