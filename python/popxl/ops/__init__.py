"""The ops: functions on tensors of the current graph.

Every op raises TypeError for what is no tensor, and ValueError for tensors of other graphs, of
different IPUs, or of shapes and dtypes that do not fit.
"""

from popxl.ops import collectives, var_updates
from popxl.ops.binary import (
    add,
    add_,
    div,
    equal,
    fmod,
    greater,
    logical_and,
    logical_or,
    maximum,
    mul,
    pow,
    scaled_add,
    scaled_add_,
    sub,
    where,
)
from popxl.ops.call import (
    CallSiteInfo,
    call,
    call_with_info,
    conditional,
    conditional_with_info,
    repeat,
    repeat_with_info,
)
from popxl.ops.conv import PadType, conv, conv_transpose
from popxl.ops.data import (
    host_load,
    host_store,
    init,
    io_tile_copy,
    ipu_copy,
    print_tensor,
    remote_code_load,
    remote_load,
    remote_load_,
    remote_store,
)
from popxl.ops.elementwise import (
    abs,
    cast,
    ceil,
    clamp,
    clip,
    cos,
    detach,
    detach_,
    exp,
    exp_,
    floor,
    gelu,
    gelu_,
    geluerf,
    geluerf_,
    identity,
    increment_mod,
    increment_mod_,
    isfinite,
    isinf,
    isnan,
    log,
    log2,
    logical_not,
    negate,
    relu,
    relu_,
    rename,
    sign,
    sin,
    softmax,
    sqrt,
    swish,
    swish_,
    tanh,
)
from popxl.ops.float8 import (
    conv_pow2scaled,
    conv_transpose_pow2scaled,
    matmul_pow2scaled,
    pow2scale_cast_from_fp8,
    pow2scale_cast_to_fp8,
)
from popxl.ops.indexing import (
    dynamic_slice,
    dynamic_update,
    dynamic_update_,
    gather,
    grouped_scatter_reduce,
    groupedgather,
    onehot,
    scatter,
    scatter_reduce,
    tied_gather,
)
from popxl.ops.linear import matmul
from popxl.ops.losses import nll_loss, nll_loss_with_softmax_grad
from popxl.ops.norm import batch_norm_inference, group_norm, layer_norm
from popxl.ops.pool import average_pool, max_pool
from popxl.ops.random import (
    create_random_seed,
    dropout,
    random_normal,
    random_uniform,
    shaped_dropout,
    split_random_seed,
)
from popxl.ops.reduce import (
    argmax,
    argmin,
    cumsum,
    histogram,
    l1,
    l2,
    lamb_square,
    logsum,
    logsumexp,
    max,
    mean,
    median,
    min,
    prod,
    sum,
    sumsquare,
    topk,
)
from popxl.ops.resize import interpolate, roi_align
from popxl.ops.shape import (
    concat,
    concat_,
    flatten,
    flatten_,
    reshape,
    reshape_,
    slice,
    slice_,
    split,
    squeeze,
    subsample,
    transpose,
    transpose_,
)
