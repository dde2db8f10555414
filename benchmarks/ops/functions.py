"""Cases of torch's functions that become several ops, in one size each."""

import torch
import torch.nn.functional as F

from benchmarks.ops.case import bools, indices, normal, typical, within

MATRIX = normal(256, 1024)
IMAGES = normal(8, 32, 28, 28)
BLOCKS = normal(64, 128, 64)
POSITIVE = within(0.1, 3.0, 256, 1024)


def window_mean(x):
    return x.unfold(1, 16, 8).mean(-1)


def squared_distances(x):
    return (x[:, None] - x[None]).pow(2).sum(-1)


def image_windows(x):
    """The windows of 7 × 7 pixels that window attention makes."""
    return x.view(4, 4, 7, 4, 7, 96).permute(0, 1, 3, 2, 4, 5).reshape(-1, 49, 96)


ACTIVATIONS = ("celu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "logsigmoid", "mish",
               "relu6", "selu", "softshrink", "softsign", "tanhshrink")  # fmt: skip
SLICES = [
    typical("sum_of_middle", lambda x: x.sum(1), BLOCKS),
    typical("max_of_middle", lambda x: x.amax(1), BLOCKS),
    typical("softmax_of_middle", lambda x: x.softmax(1), BLOCKS),
    typical("cumsum_of_middle", lambda x: x.cumsum(1), BLOCKS),
    typical("slice_with_steps", lambda x: x[:, ::2, 1::2] * 2, BLOCKS),
    typical("mean_of_pixels", lambda x: x.mean((2, 3)), IMAGES),
    typical("flip_of_images", lambda x: x.flip(2, 3), IMAGES),
    typical("roll_of_images", lambda x: x.roll((3, 3), (2, 3)), IMAGES),
    typical("image_windows", image_windows, normal(4, 28, 28, 96)),
    typical("unfold_of_tensor", window_mean, MATRIX),
    typical("rot90", lambda x: x.rot90(), MATRIX),
    typical("stack_last", lambda a, b: torch.stack((a, b), -1), MATRIX, MATRIX),
    typical("repeat", lambda x: x.repeat(2, 3), MATRIX),
    typical("diagonal", lambda x: x.diagonal().clone(), normal(1024, 1024)),
    typical("difference", lambda x: x.diff(dim=1), MATRIX),
    typical("index_fill", lambda x, at: x.index_fill(0, at, 1.0), MATRIX, indices(256, 32)),
    typical("kron", torch.kron, normal(32, 32), normal(32, 32)),
    typical("outer", torch.outer, normal(512), normal(512)),
]
ELEMENTS = [
    *(typical(name, getattr(F, name), MATRIX) for name in ACTIVATIONS),
    typical("prelu", F.prelu, IMAGES, normal(32)),
    typical("glu", F.glu, MATRIX),
    typical("lerp", lambda a, b: torch.lerp(a, b, 0.3), MATRIX, MATRIX),
    typical("addcmul", lambda a, b, c: torch.addcmul(a, b, c, value=0.5), MATRIX, MATRIX, MATRIX),
    typical("addcdiv", torch.addcdiv, MATRIX, MATRIX, POSITIVE),
    typical("hypot", torch.hypot, MATRIX, MATRIX),
    typical("logaddexp", torch.logaddexp, MATRIX, MATRIX),
    typical("xlogy", torch.xlogy, MATRIX, POSITIVE),
    typical("nan_to_num", torch.nan_to_num, MATRIX),
    typical("masked_fill", lambda x, m: x.masked_fill(m, -1e4), MATRIX, bools(256, 1024)),
    typical("select_of_row", torch.where, bools(256, 1), MATRIX, normal(1024)),
    typical("cross", lambda a, b: torch.cross(a, b, -1), normal(16384, 3), normal(16384, 3)),
]
SUMS = [
    typical("cummax", lambda x: torch.cummax(x, 1)[0], MATRIX),
    typical("variance_of_columns", lambda x: x.var(0), MATRIX),
    typical("norm_of_1", lambda x: x.norm(1, 1), MATRIX),
    typical("normalize", F.normalize, MATRIX),
    typical("renorm", lambda x: torch.renorm(x, 2, 0, 1.0), MATRIX, gradients=False),
    typical("cosine_similarity", F.cosine_similarity, MATRIX, MATRIX),
    typical("squared_distances", squared_distances, normal(128, 32)),
    typical("cdist", torch.cdist, normal(2, 128, 64), normal(2, 128, 64)),
    typical("embedding_bag", lambda w, at: F.embedding_bag(at, w), normal(4096, 64),
            indices(4096, 512, 20)),
    typical("mean_of_neighbours", lambda x, at: x[at].mean(1), normal(4096, 64),
            indices(4096, 512, 16)),
    typical("scatter_max", lambda x, at, y: x.scatter_reduce(0, at, y, "amax"), normal(256, 256),
            indices(256, 128, 256), normal(128, 256), gradients=False),
    typical("huber_loss", F.huber_loss, MATRIX, MATRIX),
    typical("smooth_l1_loss", F.smooth_l1_loss, MATRIX, MATRIX),
    typical("binary_cross_entropy", F.binary_cross_entropy_with_logits, MATRIX,
            within(0, 1, 256, 1024)),
    typical("cross_entropy_of_images", F.cross_entropy, normal(4, 21, 32, 32),
            indices(21, 4, 32, 32)),
    typical("label_smoothing", lambda x, at: F.cross_entropy(x, at, label_smoothing=0.1), MATRIX,
            indices(1024, 256)),
]  # fmt: skip
PIXELS = [
    typical("max_pool_of_gray", lambda x: F.max_pool2d(x, 2), normal(32, 1, 28, 28)),
    typical("avg_pool_of_gray", lambda x: F.avg_pool2d(x, 5, 1, 2), normal(8, 1, 56, 56)),
    typical("max_pool_of_colours", lambda x: F.max_pool2d(x, 3, 1, 1), normal(8, 3, 56, 56)),
    typical("avg_pool_of_colours", lambda x: F.avg_pool2d(x, 2), normal(8, 3, 56, 56)),
    typical("max_pool_of_signals", lambda x: F.max_pool1d(x, 3, 2), normal(8, 64, 512)),
    typical(
        "local_response_norm",
        lambda x: F.local_response_norm(x, 5),
        IMAGES,
        dtypes=(torch.float32,),
    ),
    typical("adaptive_avg_pool", lambda x: F.adaptive_avg_pool2d(x, 5), IMAGES),
    typical("adaptive_max_pool", lambda x: F.adaptive_max_pool2d(x, 5), IMAGES),
    typical("instance_norm", F.instance_norm, IMAGES),
    typical("upsample_nearest_by_ratio", lambda x: F.interpolate(x, size=(37, 37)), IMAGES),
    typical(
        "upsample_bilinear_by_ratio",
        lambda x: F.interpolate(x, size=(37, 37), mode="bilinear", align_corners=True),
        IMAGES,
    ),
    typical("upsample_area", lambda x: F.interpolate(x, size=(10, 10), mode="area"), IMAGES),
    typical("upsample_bicubic", lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), IMAGES),
    typical("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), IMAGES),
    typical("channel_shuffle", lambda x: F.channel_shuffle(x, 4), IMAGES),
    typical("pad_by_wrapping", lambda x: F.pad(x, (2, 2, 2, 2), mode="circular"), IMAGES),
    typical("pad_by_repeating", lambda x: F.pad(x, (2, 2, 2, 2), mode="replicate"), IMAGES),
    typical("unfold_of_images", lambda x: F.unfold(x, 3, padding=1), normal(4, 16, 28, 28)),
    typical("fold_of_images", lambda x: F.fold(x, (28, 28), 3, padding=1), normal(4, 144, 784)),
]
PRODUCTS = [
    typical("outer_of_batch", lambda a, b: torch.einsum("bi,bj->bij", a, b), normal(64, 128),
            normal(64, 128)),
    typical("mv", torch.mv, normal(512, 512), normal(512)),
    typical("dot", torch.dot, normal(1 << 18), normal(1 << 18)),
    typical("products_of_small", torch.bmm, normal(1024, 4, 4), normal(1024, 4, 4)),
    typical("bilinear", F.bilinear, normal(64, 32), normal(64, 32), normal(16, 32, 32)),
    typical("conv_of_gray", lambda x, w: F.conv2d(x, w, padding=1), normal(8, 1, 56, 56),
            normal(32, 1, 3, 3)),
    typical("conv_of_patches", lambda x, w: F.conv2d(x, w, stride=16), normal(2, 3, 224, 224),
            normal(64, 3, 16, 16)),
    typical("conv_to_one_channel", F.conv2d, IMAGES, normal(1, 32, 1, 1)),
    typical("conv_depthwise_7", lambda x, w: F.conv2d(x, w, padding=3, groups=32), IMAGES,
            normal(32, 1, 7, 7)),
]  # fmt: skip
CASES = (*SLICES, *ELEMENTS, *SUMS, *PIXELS, *PRODUCTS)
