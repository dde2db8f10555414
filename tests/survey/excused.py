"""Differences from eager torch that are meant, or torch's own. None of them may pass everywhere."""

# (pattern of the case's key, step): reason.
EXCUSED = {
    (r"bincount .*", "forward"): "the number of bins is minlength, as in PopTorch",
    (r"(as_strided|as_strided\.partial_views|squeeze|squeeze\.multiple|unsqueeze|transpose|t|swapaxes"
        r"|swapdims) .* input_in_place", "forward"):
        "the caller's tensor takes the new values, not the new shape or strides, of an input",
    (r"nn\.functional\.linear_cross_entropy.* (float16|bfloat16) .*", "forward"):
        "torch keeps the logits of its chunks in float32; ours rounds them, as linear does",
    (r"nn\.functional\.linear_cross_entropy.* (float16|bfloat16) .*", "training"):
        "torch keeps the logits of its chunks in float32; ours rounds them, as linear does",
    (r"nn\.functional\.linear_cross_entropy\.chunked.* extremes", "training"):
        "torch multiplies zeros by infinite logits of other chunks",
    (r"(long|to|type_as) .*extremes.*", "forward"):
        "infinity as an integer: the device's have 32 bits",
    (r"cumprod .*extremes.*", "forward"): "which partial product leaves the range is the order's",
    (r"cumprod .*extremes.*", "training"):
        "torch divides by the products, ours multiplies the others",
    (r"nn\.functional\.conv\dd .* extremes", "training"):
        "infinite weights times the zeros of the padding",
    (r"nn\.functional\.conv_transpose\dd .* extremes", "forward"):
        "infinite inputs times weights that fall outside the result",
    (r"nn\.functional\.conv_transpose\dd .* extremes", "training"):
        "infinite gradients times weights that fall outside the result",
    (r"nn\.functional\.(soft|hard)shrink float32 \d extremes", "training"):
        "torch's vectors pass the gradient of NaN, its last elements do not",
    (r"nn\.functional\.cosine_similarity float16 .* equal", "training"):
        "a gradient that is zero but for rounding, below a ten-thousandth",
}  # fmt: skip
