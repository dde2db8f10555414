"""Tensors in PopART's interface."""

from typing import TYPE_CHECKING, Any

from popart.enums import DataType, TensorType
from popxl import dtypes
from popxl._impl.records import ConstantRecord, VariableRecord, of

if TYPE_CHECKING:
    from popart._internal.ir.graph import Graph
    from popxl.tensor_base import Tensor as User

_NAMES = {"float16": "FLOAT16", "float32": "FLOAT", "float64": "DOUBLE"}
_TYPES = {t: DataType[_NAMES.get(t.name, t.name.upper())] for t in dtypes.ALL}


def data_type(dtype: dtypes.dtype) -> DataType:
    """Returns PopART's data type of popxl's dtype."""
    return _TYPES[dtype]


class TensorInfo:
    """The shape and element type of a tensor."""

    def __init__(self, dtype: Any, shape: Any) -> None:
        self._dtype, self._shape = dtype, list(shape)

    def shape(self) -> list[int]:
        """Returns the sizes."""
        return list(self._shape)

    def metaShape(self) -> list[int]:
        """Returns an empty list: popxl's tensor has the meta shape."""
        return []

    def dataType(self) -> DataType:
        """Returns the element type."""
        return self._dtype

    def rank(self) -> int:
        """Returns the number of dimensions."""
        return len(self._shape)

    def nelms(self) -> int:
        """Returns the number of elements."""
        out = 1
        for n in self._shape:
            out *= n
        return out

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorInfo) and (self.dataType(), self.shape()) == (
            other.dataType(),
            other.shape(),
        )

    def __hash__(self) -> int:
        return hash((self._dtype, tuple(self._shape)))


class Tensor:
    """A view of a tensor."""

    def __init__(self, tensor: "User") -> None:
        self._tensor = tensor

    def user(self) -> "User":
        """Returns popxl's tensor."""
        return self._tensor

    @property
    def id(self) -> str:
        """The tensor's id."""
        return self._tensor.id

    @property
    def info(self) -> TensorInfo:
        """Shape and element type."""
        return TensorInfo(data_type(self._tensor.dtype), self._tensor.shape)

    def tensorType(self) -> TensorType:
        """Returns whether it is a variable, a constant, a stream or a value."""
        record = of(self._tensor)
        if isinstance(record, VariableRecord):
            return TensorType.Variable
        if isinstance(record, ConstantRecord):
            return TensorType.Const
        return TensorType.Stream if record.stream else TensorType.ActGrad

    def hasTensorData(self) -> bool:
        """Returns whether the program holds data for it: true for variables and constants."""
        return isinstance(of(self._tensor), (VariableRecord, ConstantRecord))

    def isAliased(self) -> bool:
        """Returns whether another tensor shares its memory."""
        record, root = of(self._tensor), of(self._tensor).root()
        others = of(record.graph).tensors.values()
        return any(t is not self._tensor and of(t).root() is root for t in others)

    def isModified(self) -> bool:
        """Returns whether an op of its graph writes its memory."""
        record, root = of(self._tensor), of(self._tensor).root()
        ops = of(record.graph).ops
        return any(of(t).root() is root for op in ops for t in op.modified)

    def hasProducer(self) -> bool:
        """Returns whether an op makes it."""
        return of(self._tensor).producer is not None

    def hasVirtualGraphId(self) -> bool:
        """Returns whether its IPU is known."""
        return of(self._tensor).ipu is not None

    def getVirtualGraphId(self) -> int:
        """Returns its IPU. Raises UndefinedValue without one."""
        return self._tensor.ipu

    def getGraph(self) -> "Graph":
        """Returns the graph to which it belongs."""
        return of(self._tensor).graph._pb_graph

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tensor) and self._tensor is other.user()

    def __hash__(self) -> int:
        return hash(self._tensor)

    def __repr__(self) -> str:
        return f"Tensor[{self.id}]"
