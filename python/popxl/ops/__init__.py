"""The ops: functions on tensors of the current graph.

Every op raises TypeError for an operand that is not a tensor. It raises ValueError for tensors of
other graphs, of different IPUs, or of shapes and dtypes that do not fit.
"""

from popxl.ops import collectives as collectives, utils as utils, var_updates as var_updates
from popxl.ops.binary import (
    add as add,
    add_ as add_,
    div as div,
    equal as equal,
    fmod as fmod,
    greater as greater,
    logical_and as logical_and,
    logical_or as logical_or,
    maximum as maximum,
    mul as mul,
    pow as pow,
    scaled_add as scaled_add,
    scaled_add_ as scaled_add_,
    sub as sub,
    where as where,
)
from popxl.ops.call import (
    CallSiteInfo as CallSiteInfo,
    call as call,
    call_with_info as call_with_info,
    repeat as repeat,
    repeat_with_info as repeat_with_info,
)
from popxl.ops.conditional import (
    ConditionalSiteInfo as ConditionalSiteInfo,
    conditional as conditional,
    conditional_with_info as conditional_with_info,
)
from popxl.ops.conv import PadType as PadType, conv as conv, conv_transpose as conv_transpose
from popxl.ops.custom import custom_op as custom_op
from popxl.ops.data import (
    host_load as host_load,
    host_store as host_store,
    init as init,
    io_tile_copy as io_tile_copy,
    ipu_copy as ipu_copy,
    print_tensor as print_tensor,
    remote_code_load as remote_code_load,
    remote_load as remote_load,
    remote_load_ as remote_load_,
    remote_store as remote_store,
)
from popxl.ops.dynamic_slices import (
    dynamic_slice as dynamic_slice,
    dynamic_update as dynamic_update,
    dynamic_update_ as dynamic_update_,
)
from popxl.ops.elementwise import (
    abs as abs,
    cast as cast,
    ceil as ceil,
    clamp as clamp,
    clip as clip,
    cos as cos,
    detach as detach,
    detach_ as detach_,
    exp as exp,
    exp_ as exp_,
    floor as floor,
    gelu as gelu,
    gelu_ as gelu_,
    geluerf as geluerf,
    geluerf_ as geluerf_,
    identity as identity,
    increment_mod as increment_mod,
    increment_mod_ as increment_mod_,
    isfinite as isfinite,
    isinf as isinf,
    isnan as isnan,
    log as log,
    log2 as log2,
    logical_not as logical_not,
    negate as negate,
    relu as relu,
    relu_ as relu_,
    rename as rename,
    sign as sign,
    sin as sin,
    softmax as softmax,
    sqrt as sqrt,
    swish as swish,
    swish_ as swish_,
    tanh as tanh,
)
from popxl.ops.float8 import (
    conv_pow2scaled as conv_pow2scaled,
    conv_transpose_pow2scaled as conv_transpose_pow2scaled,
    matmul_pow2scaled as matmul_pow2scaled,
    pow2scale_cast_from_fp8 as pow2scale_cast_from_fp8,
    pow2scale_cast_to_fp8 as pow2scale_cast_to_fp8,
)
from popxl.ops.indexing import (
    gather as gather,
    grouped_scatter_reduce as grouped_scatter_reduce,
    groupedgather as groupedgather,
    onehot as onehot,
    scatter as scatter,
    scatter_reduce as scatter_reduce,
    tied_gather as tied_gather,
)
from popxl.ops.linear import matmul as matmul
from popxl.ops.losses import (
    nll_loss as nll_loss,
    nll_loss_with_softmax_grad as nll_loss_with_softmax_grad,
)
from popxl.ops.norm import (
    batch_norm_inference as batch_norm_inference,
    group_norm as group_norm,
    layer_norm as layer_norm,
)
from popxl.ops.pool import average_pool as average_pool, max_pool as max_pool
from popxl.ops.random import (
    create_random_seed as create_random_seed,
    dropout as dropout,
    random_normal as random_normal,
    random_uniform as random_uniform,
    shaped_dropout as shaped_dropout,
    split_random_seed as split_random_seed,
)
from popxl.ops.reduce import (
    argmax as argmax,
    argmin as argmin,
    cumsum as cumsum,
    histogram as histogram,
    l1 as l1,
    l2 as l2,
    lamb_square as lamb_square,
    logsum as logsum,
    logsumexp as logsumexp,
    max as max,
    mean as mean,
    median as median,
    min as min,
    prod as prod,
    sum as sum,
    sumsquare as sumsquare,
    topk as topk,
)
from popxl.ops.resize import interpolate as interpolate, roi_align as roi_align
from popxl.ops.shape import (
    concat as concat,
    concat_ as concat_,
    flatten as flatten,
    flatten_ as flatten_,
    reshape as reshape,
    reshape_ as reshape_,
    slice as slice,
    slice_ as slice_,
    split as split,
    squeeze as squeeze,
    subsample as subsample,
    transpose as transpose,
    transpose_ as transpose_,
)
