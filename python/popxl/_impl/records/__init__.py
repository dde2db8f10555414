"""Records: the library's state of tensors, graphs, programs, streams and buffers.

A user object has its public names and one link to a record; `of` follows it. The fields and methods
of records are private to the library, which reaches them only through `of`.
"""

from popxl._impl.records.graph import GraphRecord as GraphRecord, OpRecord as OpRecord
from popxl._impl.records.link import made as made, of as of
from popxl._impl.records.program import (
    BufferRecord as BufferRecord,
    ProgramRecord as ProgramRecord,
    StreamRecord as StreamRecord,
)
from popxl._impl.records.replicas import Replicas as Replicas, positive as positive
from popxl._impl.records.tensor import TensorRecord as TensorRecord
from popxl._impl.records.variable import (
    ConstantRecord as ConstantRecord,
    RemoteRecord as RemoteRecord,
    ShardedRecord as ShardedRecord,
    VariableRecord as VariableRecord,
)
