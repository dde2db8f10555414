"""Lists differences from eager torch that are intended, or torch's fault."""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Excuse:
    """Excuses the cases whose keys match, in a step.

    `witness`, one of them, must still differ; if not `everywhere`, on some machines: torch chooses
    its kernels by the processor.
    """

    pattern: str
    step: str
    reason: str
    witness: str
    everywhere: bool = True


EXCUSES = (
    Excuse(r"bincount .*", "forward",
        "the number of bins is minlength, as in PopTorch", "bincount int32 2"),
    Excuse(r"addr \w+ [45].*", "forward",
        "a product weighed with 0 has no part in the sum, as of addmm: NaN and infinity neither",
        "addr float32 5"),
    Excuse(r"(as_strided|as_strided\.partial_views|squeeze|squeeze\.multiple|unsqueeze|transpose|t"
        r"|swapaxes|swapdims) .* input_in_place", "forward",
        "the caller's tensor takes the new values, not the new shape or strides, of an input",
        "as_strided float32 1 input_in_place"),
    Excuse(r"nn\.functional\.linear_cross_entropy.* (float16|bfloat16) .*", "forward",
        "torch keeps the logits of its chunks in float32; ours rounds them, as linear does",
        "nn.functional.linear_cross_entropy.chunked_none bfloat16 59"),
    Excuse(r"nn\.functional\.linear_cross_entropy.* (float16|bfloat16) .*", "training",
        "torch keeps the logits of its chunks in float32; ours rounds them, as linear does",
        "nn.functional.linear_cross_entropy float16 2 equal"),
    Excuse(r"nn\.functional\.linear_cross_entropy\.chunked.* extremes", "training",
        "torch multiplies zeros by infinite logits of other chunks",
        "nn.functional.linear_cross_entropy.chunked_none float32 76 extremes"),
    Excuse(r"nn\.functional\.linear_cross_entropy\.chunked.* zeros", "training",
        "torch multiplies the zeros of ignored rows by the mean over weights of zero",
        "nn.functional.linear_cross_entropy.chunked float32 92 zeros"),
    Excuse(r"nn\.functional\.linear_cross_entropy\.chunked.* extremes", "forward",
        "torch multiplies weights of zero by the NaN of ignored rows",
        "nn.functional.linear_cross_entropy.chunked_none float32 71 extremes"),
    Excuse(r"long .* extremes", "forward",
        "infinity as an integer: the device's have 32 bits", "long float32 0 extremes"),
    Excuse(r"logsumexp .* extremes", "training",
        "of one element it is that element, whose gradient is one, of infinity too",
        "logsumexp float32 0 extremes"),
    Excuse(r"prod float16 \d+ extremes", "training",
        "which partial product leaves the range is the order's", "prod float16 0 extremes"),
    Excuse(r"matrix_exp bfloat16 .*", "training",
        "torch's powers leave the range of halves, ours are in float32", "matrix_exp bfloat16 1"),
    Excuse(r"cumprod .*extremes.*", "forward",
        "which partial product leaves the range is the order's", "cumprod bfloat16 9 extremes"),
    Excuse(r"cumprod .*extremes.*", "training",
        "torch divides by the products, ours multiplies the others", "cumprod float32 0 extremes"),
    Excuse(r"cumprod (float16|bfloat16) \d+ in_place", "training",
        "torch divides by rounded products, ours multiplies the others in float32",
        "cumprod float16 9 in_place"),
    Excuse(r"nn\.functional\.conv\dd .* extremes", "training",
        "infinite weights times the zeros of the padding",
        "nn.functional.conv2d float32 12 extremes"),
    Excuse(r"nn\.functional\.conv_transpose\dd .* extremes", "forward",
        "infinite inputs times weights that fall outside the result",
        "nn.functional.conv_transpose1d float32 0 extremes", everywhere=False),
    Excuse(r"nn\.functional\.(soft|hard)shrink float32 \d extremes", "training",
        "torch's vectors pass the gradient of NaN, its last elements do not",
        "nn.functional.softshrink float32 2 extremes"),
    Excuse(r"nn\.functional\.cosine_similarity float16 .* equal", "training",
        "a gradient that is zero but for rounding, below a ten-thousandth",
        "nn.functional.cosine_similarity float16 0 equal"),
    Excuse(r"cov float(32|16) 24", "training",
        "the gradient of a weight that scales nothing: zero but for rounding",
        "cov float32 24"),
)  # fmt: skip


def is_excused(key: str, step: str) -> bool:
    return any(step == one.step and re.fullmatch(one.pattern, key) for one in EXCUSES)
