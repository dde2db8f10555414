"""Cases of sums and means of table rows over bags, whose sizes are known or not."""

import torch
import torch.nn.functional as F
from op_case import Input, case, ints


def offsets(*values):
    """Returns an input whose contents are not known while the model is traced."""
    return Input(lambda _: torch.tensor(values, dtype=torch.int32), False)


def bag(**options):
    return lambda i, w: F.embedding_bag(i, w, **options)


def bag_from(**options):
    return lambda i, o, w: F.embedding_bag(i, w, o, **options)


def weighted(i, o, w, s):
    return F.embedding_bag(i, w, o, mode="sum", per_sample_weights=s)


FLAT, TABLE = ints(0, 7, 9), (7, 5)
CASES = [
    case("sum", bag(mode="sum"), ints(0, 7, 3, 4), TABLE),
    case("mean", bag(mode="mean"), ints(0, 7, 3, 4), TABLE),
    case("max", bag(mode="max"), ints(0, 7, 3, 4), TABLE),
    case("padding", bag(mode="mean", padding_idx=2), ints(1, 4, 3, 4), TABLE),
    case("padding_from_the_end", bag(mode="sum", padding_idx=-4), ints(1, 5, 3, 4), TABLE),
    case("by_frequency", bag(mode="sum", scale_grad_by_freq=True), ints(1, 4, 3, 4), TABLE),
    case("known_sizes", lambda i, w: F.embedding_bag(i, w, torch.tensor([0, 2, 2, 6])), FLAT,
         TABLE),
    case("sum_from", bag_from(mode="sum"), FLAT, offsets(0, 3, 3, 7), TABLE),
    case("mean_from", bag_from(mode="mean"), FLAT, offsets(0, 0, 5, 9, 9), TABLE),
    case("with_last_offset", bag_from(mode="mean", include_last_offset=True), FLAT,
         offsets(0, 4, 9), TABLE),
    case("padding_from", bag_from(mode="mean", padding_idx=3), ints(2, 5, 9), offsets(0, 1, 6),
         TABLE),
    case("padding_weighted", lambda i, w, s: F.embedding_bag(
             i, w, mode="sum", padding_idx=1, per_sample_weights=s),
         ints(0, 3, 3, 4), TABLE, (3, 4)),
    case("weighted", weighted, FLAT, offsets(0, 4, 4), TABLE, (9,)),
    case("weighted_rows", lambda i, w, s: F.embedding_bag(i, w, mode="sum", per_sample_weights=s),
         ints(0, 7, 3, 4), TABLE, (3, 4)),
]  # fmt: skip
