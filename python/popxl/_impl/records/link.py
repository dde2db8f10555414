"""The link from a user object to its record."""

from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar, overload

if TYPE_CHECKING:
    from popxl._impl.records.graph import GraphRecord
    from popxl._impl.records.program import BufferRecord, ProgramRecord, StreamRecord
    from popxl._impl.records.tensor import TensorRecord
    from popxl._impl.records.variable import ConstantRecord, VariableRecord
    from popxl.graph import Graph
    from popxl.ir import Ir
    from popxl.remote_buffer import RemoteBuffer
    from popxl.streams import Stream
    from popxl.tensor import Constant, Tensor, Variable

    @overload
    def of(user: Variable) -> VariableRecord: ...
    @overload
    def of(user: Constant) -> ConstantRecord: ...
    @overload
    def of(user: Tensor) -> TensorRecord: ...
    @overload
    def of(user: Graph) -> GraphRecord: ...
    @overload
    def of(user: Ir) -> ProgramRecord: ...
    @overload
    def of(user: Stream) -> StreamRecord: ...
    @overload
    def of(user: RemoteBuffer) -> BufferRecord: ...
    def of(user: Any) -> Any:
        """Returns the record of a user object."""
else:
    of = attrgetter("_record")

_Kind = TypeVar("_Kind")


def made(kind: type[_Kind], record: Any) -> _Kind:
    """Makes a user object with this record, without its class's constructor."""
    user = object.__new__(kind)
    vars(user)["_record"] = record
    return user
