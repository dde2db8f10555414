"""Records: what the library keeps of the user's tensors, graphs, programs, streams and buffers.

A user's object has its public names and one link to a record; `of` follows it. A record's fields
and methods are for the library, which reaches them in no other way.
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
