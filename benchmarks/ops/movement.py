"""Cases of ops that move data: shapes, indices, tables; and of random numbers."""

import torch
import torch.nn.functional as F

from benchmarks.ops.case import FLOATS, case, indices, normal, within

SHAPES = ((32, 32), (64, 1024), (1024, 4096))
IMAGES = ((2, 8, 8, 8), (8, 64, 28, 28), (16, 64, 56, 56))
TABLES = ((64, 16, 32), (4096, 128, 1024), (50000, 256, 16384))  # rows, width, indices
NUMBERS = (*FLOATS, torch.int32)
MATRICES = [[normal(*shape)] for shape in SHAPES]
VIEWED = [[normal(*shape)] for shape in IMAGES]
LOOKED_UP = [[normal(rows, width), indices(rows, count)] for rows, width, count in TABLES]
ADDED = [
    [normal(rows, width), indices(rows, count), normal(count, width)]
    for rows, width, count in TABLES
]
SCATTERED = [
    [normal(rows, width), indices(rows, count, width), normal(count, width)]
    for rows, width, count in TABLES
]


def with_left_half(x, y):
    """Writes in place, into a copy, as programs do."""
    x = x.clone()
    x[:, : y.shape[1]] = y
    return x


def spread(at, like):
    return at[:, None].expand_as(like)


CASES = [
    case("transpose", lambda x: x.t().contiguous(), *MATRICES, dtypes=NUMBERS),
    case("transpose_of_heads", lambda x: x.transpose(1, 2).contiguous(), *VIEWED,
         rows="transpose", dtypes=NUMBERS),
    case("channels_last", lambda x: x.permute(0, 2, 3, 1).contiguous(), *VIEWED, rows="transpose"),
    case("broadcast_to", lambda x: x[:, :1].expand_as(x).contiguous(), *MATRICES),
    case("concat", lambda a, b: torch.cat([a, b], 1),
         *([normal(*s), normal(*s)] for s in SHAPES), dtypes=NUMBERS),
    case("slice", lambda x: x[:, ::2].contiguous(), *MATRICES, dtypes=NUMBERS),
    case("insert_slice", with_left_half,
         *([normal(a, b), normal(a, b // 2)] for a, b in SHAPES), dtypes=NUMBERS),
    case("pad", lambda x: F.pad(x, (1, 1, 1, 1)), *VIEWED),
    case("pad_by_reflection", lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"), *VIEWED,
         rows="pad", grad="pad_grad"),
    case("reverse", lambda x: x.flip(1), *MATRICES, dtypes=NUMBERS),
    case("roll", lambda x: x.roll(3, 1), *MATRICES, rows="concat"),
    case("lower_triangle", lambda x: x.tril(), *MATRICES, rows="select"),
    case("embedding", lambda table, at: F.embedding(at, table), *LOOKED_UP, grad="embedding_grad"),
    case("index_select", lambda table, at: table.index_select(0, at), *LOOKED_UP, dtypes=NUMBERS),
    case("index", lambda table, at: table[at], *LOOKED_UP, dtypes=NUMBERS),
    case("gather", lambda table, at: table.gather(0, at),
         *([normal(rows, width), indices(rows, count, width)] for rows, width, count in TABLES),
         dtypes=NUMBERS),
    case("gather_of_columns", lambda x, at: x.gather(1, at),
         *([normal(a, b), indices(b, a, 16)] for a, b in SHAPES), rows="gather"),
    case("index_add", lambda table, at, src: table.index_add(0, at, src), *ADDED),
    case("scatter", lambda table, at, src: table.scatter(0, at, src), *SCATTERED,
         dtypes=NUMBERS, gradients=False),
    case("scatter_add", lambda table, at, src: table.scatter_add(0, at, src), *SCATTERED,
         rows="scatter"),
    case("scatter_of_rows", lambda table, at, src: table.scatter(0, spread(at, src), src), *ADDED,
         rows="index_put", dtypes=NUMBERS, gradients=False),
    case("scatter_add_of_rows",
         lambda table, at, src: table.scatter_add(0, spread(at, src), src), *ADDED,
         rows="index_add"),
    case("index_put", lambda table, at, src: table.index_put((at,), src), *ADDED, gradients=False),
    case("index_put_added", lambda table, at, src: table.index_put((at,), src, accumulate=True),
         *ADDED, rows="index_put"),
    case("one_hot", lambda at: F.one_hot(at, 128), [indices(128, 32)], [indices(128, 1024)],
         [indices(128, 16384)], dtypes=(torch.int32,)),
    case("repeat_interleave", lambda x: x.repeat_interleave(2, 0), *MATRICES, rows="broadcast_to"),
    case("upsample_nearest", lambda x: F.interpolate(x, scale_factor=2), *VIEWED,
         rows="broadcast_to"),
    case("upsample_bilinear", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
         *VIEWED, rows="add"),
    case("dropout", lambda x: F.dropout(x, 0.5, True), *MATRICES),
    case("random_uniform", torch.rand_like, *MATRICES, gradients=False),
    case("random_normal", torch.randn_like, *MATRICES, gradients=False),
    case("bernoulli", torch.bernoulli, *([within(0, 1, *s)] for s in SHAPES), gradients=False,
         rows="random_uniform"),
    case("random_poisson", torch.poisson, *([within(0, 5, *s)] for s in SHAPES), gradients=False,
         dtypes=(torch.float32,)),
]  # fmt: skip
