"""Programs for IPUs, written op by op.

An `Ir` is a program: graphs of ops on tensors, with streams from and to the host. A `Session`
compiles and runs it on the emulator. docs/popxl.md describes both.
"""

from poptorch_core import versions as _versions
from popxl import (
    dtypes as dtypes,
    fp8_utils as fp8_utils,
    ops as ops,
    random_seed as random_seed,
    streams as streams,
    transforms as transforms,
    typing_ as typing_,
)
from popxl._impl import operators
from popxl.context import (
    ExecutionContext as ExecutionContext,
    gcg as gcg,
    get_current_graph as get_current_graph,
    get_ir as get_ir,
    get_main_graph as get_main_graph,
    gir as gir,
    gmg as gmg,
    in_sequence as in_sequence,
    io_tiles as io_tiles,
    ipu as ipu,
    name_scope as name_scope,
)
from popxl.dtypes import (
    bool as bool,
    complex64 as complex64,
    complex128 as complex128,
    double as double,
    dtype as dtype,
    float as float,
    float8_143 as float8_143,
    float8_152 as float8_152,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    half as half,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
)
from popxl.graph import Graph as Graph
from popxl.ir import Ir as Ir
from popxl.locations import (
    ReplicatedTensorSharding as ReplicatedTensorSharding,
    TensorLocation as TensorLocation,
    TensorStorage as TensorStorage,
    TileSet as TileSet,
)
from popxl.module import Module as Module
from popxl.random_seed import create_seeds as create_seeds
from popxl.remote_buffer import RemoteBuffer as RemoteBuffer, remote_buffer as remote_buffer
from popxl.remote_variable import (
    remote_replica_sharded_variable as remote_replica_sharded_variable,
    remote_variable as remote_variable,
    replica_sharded_buffer as replica_sharded_buffer,
    replica_sharded_variable as replica_sharded_variable,
)
from popxl.replica_grouping import ReplicaGrouping as ReplicaGrouping
from popxl.session import Session as Session
from popxl.streams import (
    DeviceToHostStream as DeviceToHostStream,
    HostToDeviceStream as HostToDeviceStream,
    d2h_stream as d2h_stream,
    h2d_stream as h2d_stream,
)
from popxl.tensor import (
    Tensor as Tensor,
    TensorByRef as TensorByRef,
    TensorSpec as TensorSpec,
    constant as constant,
    graph_input as graph_input,
    graph_output as graph_output,
    variable as variable,
)

operators.provide(ops, constant)

import popart._internal.ir as _popart_views  # noqa: F401  (it fills _impl/popart_views.py)

__version__ = _versions.VERSION
