"""Cases of views, joins, slices, indexing and creation."""

import torch
import torch.nn.functional as F
from op_case import bools, case, distinct, ints, normal


def _assign_slice(x, y):
    z = x * 1
    z[:, 1:3] = y
    return z


def _mask_row(x, mask, row):
    z = x * 1
    z[mask] = row
    return z


def _add_to_slice(x):
    z = x * 1
    z[1:, ::2] += 2
    return z


def _mul_on_view(x):
    z = x * 1
    z.t().mul_(3)
    return z


CASES = [
    case("reshape", lambda x: x.reshape(4, -1), (2, 6)),
    case("view_of_permuted", lambda x: x.permute(2, 0, 1).reshape(5, 12), (3, 4, 5)),
    case("flatten", lambda x: torch.flatten(x, 1), (3, 4, 5)),
    case("transpose", lambda x: x.transpose(0, 2), (3, 4, 5)),
    case("permute", lambda x: x.permute(1, 2, 0), (3, 4, 5)),
    case("t", torch.t, (3, 4)),
    case("squeeze", lambda x: x.squeeze(1), (3, 1, 5)),
    case("unsqueeze", lambda x: x.unsqueeze(-1), (3, 5)),
    case("expand", lambda x: x.expand(4, 3, 5), (3, 1)),
    case("repeat", lambda x: x.repeat(2, 3), (3, 4)),
    case("repeat_interleave", lambda x: x.repeat_interleave(2, 1), (3, 4)),
    case("tile", lambda x: torch.tile(x, (2, 1)), (3, 4)),
    case("cat", lambda a, b: torch.cat([a, b], 1), (3, 2), (3, 4)),
    case("stack", lambda a, b: torch.stack([a, b], 1), (3, 4), (3, 4)),
    case("split", lambda x: torch.split(x, 2, 1), (3, 5)),
    case("chunk", lambda x: torch.chunk(x, 3), (7, 2)),
    case("unsafe_split", lambda x: torch.unsafe_split(x, 2, 1), (3, 5)),
    case("unsafe_split_of_sizes", lambda x: torch.unsafe_split_with_sizes(x, [1, 4], -1), (3, 5)),
    case("unsafe_chunk", lambda x: torch.unsafe_chunk(x, 3), (7, 2)),
    case("unbind", lambda x: torch.unbind(x, 1), (3, 2, 4)),
    case("narrow", lambda x: x.narrow(1, 1, 3), (3, 5)),
    case("select", lambda x: x[:, 2], (3, 5)),
    case("slice", lambda x: x[1:, :3], (3, 5)),
    case("slice_step", lambda x: x[:, ::2], (3, 5)),
    case("slice_negative", lambda x: x[-2:, :-1], (3, 5)),
    case("index_none_ellipsis", lambda x: x[None, ..., 1], (3, 4, 5)),
    case("assign_slice", _assign_slice, (3, 5), (3, 2)),
    case("add_to_slice", _add_to_slice, (3, 5)),
    case("mul_on_view", _mul_on_view, (3, 5)),
    case("flip", lambda x: torch.flip(x, [0, 1]), (3, 5)),
    case("roll", lambda x: torch.roll(x, 2, 1), (3, 5)),
    case("rot90", lambda x: torch.rot90(x), (3, 5)),
    case("rot90_by_all_quarters",
         lambda x: [torch.rot90(x, k, (0, 2)) for k in (-1, 0, 2, 3, 5)], (3, 5, 4)),
    case("channel_shuffle", lambda x: F.channel_shuffle(x, 3), (2, 6, 4, 5)),
    case("tril", torch.tril, (4, 4)),
    case("triu", lambda x: torch.triu(x, 1), (4, 5)),
    case("diag", torch.diag, (4, 4)),
    case("pad", lambda x: F.pad(x, (1, 2, 0, 1), value=0.5), (3, 5)),
    case("pad_negative", lambda x: F.pad(x, (-1, 1)), (3, 5)),
    case("pad_reflect", lambda x: F.pad(x, (1, 2), mode="reflect"), (2, 3, 5)),
    case("pad_replicate", lambda x: F.pad(x, (2, 1), mode="replicate"), (2, 3, 5)),
    case("pad_circular", lambda x: F.pad(x, (2, 4, 3, 1), mode="circular"), (2, 3, 5)),
    case("pad_circular_cut", lambda x: F.pad(x, (-1, 2), mode="circular"), (2, 3, 5)),
    case("embedding", lambda i, w: F.embedding(i, w), ints(0, 7, 3, 4), (7, 5)),
    case("embedding_bag", lambda i, w: F.embedding_bag(i, w), ints(0, 7, 3, 4), (7, 5)),
    case("embedding_padding", lambda i, w: F.embedding(i, w, padding_idx=2), ints(0, 5, 3, 4),
         (5, 4)),
    case("gather", lambda x, i: torch.gather(x, 1, i.long()), (3, 5), ints(0, 5, 3, 4)),
    case("scatter", lambda x, s: x.scatter(1, torch.tensor([[0, 2], [1, 3], [4, 0]]), s), (3, 5),
         (3, 2)),
    case("scatter_add", lambda x, i, s: x.scatter_add(1, i.long(), s), (3, 5), ints(0, 5, 3, 4),
         (3, 4)),
    case("index_select", lambda x, i: torch.index_select(x, 1, i), (3, 5), ints(0, 5, 4)),
    case("index_add", lambda x, i, s: x.index_add(0, i, s), (5, 3), ints(0, 5, 4), (4, 3)),
    case("index_tensor", lambda x, i: x[i.long()], (5, 3), ints(0, 5, 4)),
    case("index_two_tensors", lambda x, i, j: x[i.long(), j.long()], (5, 3), ints(0, 5, 4),
         ints(0, 3, 4)),
    case("index_put", lambda x, v: x.index_put((torch.tensor([0, 3]),), v), (5, 3), (2, 3)),
    case("mask_row", _mask_row, (5, 3), bools(5), (3,)),
    case("squeeze_in_place", lambda x: (x * 2).unsqueeze_(0).transpose_(0, 1).squeeze_(1), (3, 5)),
    case("index_list", lambda x: x[[0, 2]] + torch.tensor([1.0, 2, 3], device=x.device), (5, 3)),
    case("scatter_amax", lambda x, i, s: x.scatter_reduce(1, i.long(), s, "amax"), (3, 5),
         ints(0, 5, 3, 4), distinct(3, 4)),
    case("scatter_scalar", lambda x, s: x.scatter_add(0, torch.tensor(0), s), (), ()),
    case("index_copy_scalar", lambda x, s: x.index_copy(0, torch.tensor(0), s), (), ()),
    case("masked_assign", lambda x, m: torch.where(m, x * 2, x), (5, 3), bools(5, 3)),
    case("take_along_dim", lambda x, i: torch.take_along_dim(x, i.long(), 1), (3, 5),
         ints(0, 5, 3, 2)),
    case("one_hot", lambda i: F.one_hot(i.long(), 6), ints(0, 6, 3, 4)),
    case("meshgrid", lambda a, b: torch.meshgrid(a, b, indexing="ij"), (3,), (4,)),
    case("cartesian_prod", lambda a, b: torch.cartesian_prod(a, b), (3,), (4,)),
    case("arange", lambda x: x + torch.arange(5), (3, 5)),
    case("linspace", lambda x: x * torch.linspace(0, 1, 5), (3, 5)),
    case("full_like", lambda x: x + torch.full_like(x, 2.5), (3, 5)),
    case("new_ones", lambda x: x * x.new_ones(5), (3, 5)),
    case("zeros_ones_eye", lambda x: x + torch.zeros(3, 5) + torch.eye(3, 5), (3, 5)),
    case("upsample_nearest", lambda x: F.interpolate(x, scale_factor=2), (1, 2, 3, 4)),
    case("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), (1, 8, 3, 4)),
    case("unfold", lambda x: F.unfold(x, 2), (1, 2, 4, 5)),
    case("bucketize", lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])), distinct(3, 4),
         gradients=False),
    case("identity_returned", lambda x, y: (x * y, x + 0), normal(3, 4), (3, 4)),
    case("detach", lambda x, y: x.detach() * y, (3, 4), (3, 4)),
]  # fmt: skip
