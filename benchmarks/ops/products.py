"""Cases of matrix products, attention, convolutions, pools and recurrent layers."""

import torch
import torch.nn.functional as F

from benchmarks.ops.case import FLOATS, case, normal

IMAGES = ((2, 8, 8, 8), (8, 64, 28, 28), (16, 64, 56, 56))
VIEWED = [[normal(*shape)] for shape in IMAGES]


def attention(length: int, batch: int = 2, heads: int = 4, width: int = 64):
    return [normal(batch, heads, length, width) for _ in range(3)]


def causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def recurrent(gates: int, run):
    """A layer of one direction over [time, batch, width]."""

    def sizes(t: int, b: int, i: int, h: int):
        return [normal(t, b, i), normal(gates * h, i), normal(gates * h, h), normal(gates * h),
                normal(gates * h)]  # fmt: skip

    return [run, sizes(4, 2, 16, 16), sizes(32, 16, 128, 128), sizes(64, 16, 128, 256)]


def lstm(x, *weights):
    h = torch.zeros(1, x.shape[1], weights[0].shape[0] // 4, dtype=x.dtype)
    return torch.lstm(x, (h, h), [0.1 * w for w in weights], True, 1, 0.0, False, False, False)[0]


def gru(x, *weights):
    h = torch.zeros(1, x.shape[1], weights[0].shape[0] // 3, dtype=x.dtype)
    return torch.gru(x, h, [0.1 * w for w in weights], True, 1, 0.0, False, False, False)[0]


CONV_GRADS = "conv_grad_input conv_grad_weight"

CASES = [
    case("matmul", torch.matmul, [normal(32, 32), normal(32, 32)],
         [normal(128, 512), normal(512, 512)], [normal(1024, 1024), normal(1024, 1024)],
         dtypes=FLOATS),
    case("matmul_of_a_row", torch.matmul, [normal(1, 32), normal(32, 32)],
         [normal(1, 512), normal(512, 512)], [normal(1, 2048), normal(2048, 2048)], rows="matmul"),
    case("matmul_batched", torch.matmul, [normal(4, 16, 16), normal(4, 16, 16)],
         [normal(32, 128, 64), normal(32, 64, 128)], [normal(64, 256, 128), normal(64, 128, 256)],
         rows="matmul"),
    case("matmul_transposed", lambda a, b: a.t() @ b.t(), [normal(32, 32), normal(32, 32)],
         [normal(512, 128), normal(512, 512)], [normal(1024, 1024), normal(1024, 1024)],
         rows="matmul"),
    case("linear", F.linear, [normal(8, 32), normal(32, 32), normal(32)],
         [normal(128, 512), normal(512, 512), normal(512)],
         [normal(1024, 1024), normal(1024, 1024), normal(1024)]),
    case("attention", F.scaled_dot_product_attention, attention(16), attention(128),
         attention(1024), grad="attention_grad"),
    case("attention_causal", causal, attention(16), attention(128), attention(1024),
         rows="attention", grad="attention_grad"),
    case("conv", lambda x, w, b: F.conv2d(x, w, b, padding=1),
         [normal(2, 8, 8, 8), normal(8, 8, 3, 3), normal(8)],
         [normal(8, 64, 28, 28), normal(64, 64, 3, 3), normal(64)],
         [normal(8, 128, 56, 56), normal(128, 128, 3, 3), normal(128)], grad=CONV_GRADS),
    case("conv_strided", lambda x, w: F.conv2d(x, w, stride=2, padding=3),
         [normal(1, 3, 16, 16), normal(8, 3, 7, 7)], [normal(4, 3, 112, 112), normal(32, 3, 7, 7)],
         [normal(8, 3, 224, 224), normal(64, 3, 7, 7)], rows="conv", grad=CONV_GRADS),
    case("conv_of_points", F.conv2d, [normal(2, 8, 8, 8), normal(8, 8, 1, 1)],
         [normal(8, 64, 28, 28), normal(128, 64, 1, 1)],
         [normal(8, 256, 56, 56), normal(128, 256, 1, 1)], rows="conv", grad=CONV_GRADS),
    case("conv_depthwise", lambda x, w: F.conv2d(x, w, padding=1, groups=x.shape[1]),
         [normal(2, 8, 8, 8), normal(8, 1, 3, 3)], [normal(8, 64, 28, 28), normal(64, 1, 3, 3)],
         [normal(16, 128, 56, 56), normal(128, 1, 3, 3)], rows="conv", grad=CONV_GRADS),
    case("conv_grouped", lambda x, w: F.conv2d(x, w, padding=1, groups=8),
         [normal(2, 16, 8, 8), normal(16, 2, 3, 3)], [normal(8, 64, 28, 28), normal(64, 8, 3, 3)],
         [normal(8, 128, 56, 56), normal(128, 16, 3, 3)], rows="conv", grad=CONV_GRADS),
    case("conv_dilated", lambda x, w: F.conv1d(x, w, padding=8, dilation=8),
         [normal(2, 8, 64), normal(8, 8, 3)], [normal(8, 64, 512), normal(64, 64, 3)],
         [normal(8, 128, 2048), normal(128, 128, 3)], rows="conv", grad=CONV_GRADS),
    case("conv_3d", lambda x, w: F.conv3d(x, w, padding=1),
         [normal(1, 4, 4, 8, 8), normal(4, 4, 3, 3, 3)],
         [normal(2, 16, 8, 28, 28), normal(16, 16, 3, 3, 3)],
         [normal(2, 32, 16, 56, 56), normal(32, 32, 3, 3, 3)], rows="conv", grad=CONV_GRADS),
    case("conv_transpose", lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1),
         [normal(2, 8, 8, 8), normal(8, 8, 4, 4)], [normal(4, 64, 14, 14), normal(64, 32, 4, 4)],
         [normal(8, 128, 28, 28), normal(128, 64, 4, 4)]),
    case("avg_pool", lambda x: F.avg_pool2d(x, 2), *VIEWED, grad="avg_pool_grad"),
    case("avg_pool_overlapping", lambda x: F.avg_pool2d(x, 3, 1, 1), *VIEWED, rows="avg_pool",
         grad="avg_pool_grad"),
    case("avg_pool_global", lambda x: F.adaptive_avg_pool2d(x, 1), *VIEWED, rows="mean"),
    case("max_pool", lambda x: F.max_pool2d(x, 2), *VIEWED, grad="max_pool_grad"),
    case("max_pool_overlapping", lambda x: F.max_pool2d(x, 3, 2, 1), *VIEWED, rows="max_pool",
         grad="max_pool_grad"),
    case("lstm", *recurrent(4, lstm), grad="lstm_grad"),
    case("gru", *recurrent(3, gru), grad="gru_grad"),
]  # fmt: skip
