"""Functions of torch with arguments that eager torch refuses are refused when a model is traced."""

import poptorch
import pytest
import torch
import torch.nn.functional as F

X = torch.linspace(-1, 1, 32).reshape(4, 8)


def ones(*shape):
    return torch.ones(shape)


REFUSED = {
    "layer_norm of another size": lambda x: F.layer_norm(x, (7,)),
    "layer_norm of other sizes": lambda x: F.layer_norm(x, (8, 4)),
    "layer_norm of more dimensions": lambda x: F.layer_norm(x, (2, 4, 8)),
    "layer_norm of no dimension": lambda x: F.layer_norm(x, ()),
    "rms_norm of another size": lambda x: F.rms_norm(x, (7,)),
    "group_norm": lambda x: F.group_norm(x, 3),
    "batch_norm": lambda x: F.batch_norm(x, ones(7), ones(7)),
    "roll of more shifts": lambda x: torch.roll(x, (1, 2), (0,)),
    "roll of more dims": lambda x: torch.roll(x, (1,), (0, 1)),
    "nearest upsampling to nothing": lambda x: F.interpolate(x[None, None], size=0),
    "nearest upsampling of nothing": lambda x: F.interpolate(x[None, None, :, :0], size=3),
    "bilinear upsampling": lambda x: F.interpolate(x[None, None], size=(0, 3), mode="bilinear"),
    "bicubic upsampling": lambda x: F.interpolate(x[None, None], size=(3, 0), mode="bicubic"),
    "output_padding": lambda x: F.conv_transpose2d(x[None, None], ones(1, 2, 3, 3), None, 1, 0, 1),
    "conv of other channels": lambda x: F.conv2d(x[None, None], ones(2, 3, 3, 3)),
    "conv of a large kernel": lambda x: F.conv2d(x[None, None], ones(2, 1, 9, 9)),
    "conv of stride 0": lambda x: F.conv2d(x[None, None], ones(2, 1, 3, 3), stride=0),
    "conv of dilation 0": lambda x: F.conv2d(x[None, None], ones(2, 1, 3, 3), dilation=0),
    "conv of negative padding": lambda x: F.conv2d(x[None, None], ones(2, 1, 3, 3), padding=-1),
    "conv of groups": lambda x: F.conv2d(x[None], ones(3, 2, 3, 3), groups=2),
    "max_pool of a large kernel": lambda x: F.max_pool2d(x[None, None], 9),
    "max_pool of much padding": lambda x: F.max_pool2d(x[None, None], 2, padding=2),
    "avg_pool of no size": lambda x: F.avg_pool2d(x[None, None], 0),
    "unfold": lambda x: F.unfold(x[None, None], 9),
    "fold": lambda x: F.fold(x[None], (4, 5), (2, 2)),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x[None, None], 3),
    "pixel_shuffle by 0": lambda x: F.pixel_shuffle(x[None, None], 0),
    "pixel_shuffle of a matrix": lambda x: F.pixel_shuffle(x, 1),
    "pixel_unshuffle by 0": lambda x: F.pixel_unshuffle(x[None, None], 0),
    "channel_shuffle by 0": lambda x: F.channel_shuffle(x[None], 0),
    "channel_shuffle of other groups": lambda x: F.channel_shuffle(x[None], 3),
    "rot90 of one axis": lambda x: torch.rot90(x, 1, (0,)),
    "rot90 of equal axes": lambda x: torch.rot90(x, 1, (1, -1)),
    "tril of a vector": lambda x: x[0].tril(),
    "flip of a number": lambda x: x.sum().flip(1),
    "roll of a number": lambda x: x.sum().roll(1, 0),
    "topk of a number": lambda x: x.sum().topk(2),
    "sum of a number over equal axes": lambda x: x.sum().sum((0, -1)),
    "division of no rounding mode": lambda x: x.div(2, rounding_mode="up"),
    "pad": lambda x: F.pad(x, (-9, 0)),
    "circular pad around twice": lambda x: F.pad(x, (9, 0), mode="circular"),
    "linear": lambda x: F.linear(x, ones(4, 7)),
    "reshape": lambda x: x.reshape(5, 7),
    "topk": lambda x: torch.topk(x, 9),
    "sum of no axis": lambda x: x.sum(3),
    "cumsum of no axis": lambda x: torch.cumsum(x, 5),
    "diagonal of one axis": lambda x: torch.diagonal(x, 0, 1, 1),
    "glu of an odd size": lambda x: F.glu(x[:, :7]),
    "dropout": lambda x: F.dropout(x, 1.5),
    "cross_entropy of fewer targets": lambda x: F.cross_entropy(x, torch.tensor([0, 1, 2])),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_eager_torch_refuses_is_refused(name):
    with pytest.raises((RuntimeError, ValueError, IndexError, AssertionError)):
        REFUSED[name](X)
    with pytest.raises((poptorch.Error, ValueError), match=r"test_wrong_arguments\.py|dropout"):
        poptorch.inferenceModel(REFUSED[name])(X)


def test_adaptive_pooling_to_nothing_is_empty():
    pooled = poptorch.inferenceModel(lambda x: F.adaptive_avg_pool2d(x, (0, 3)))
    assert pooled(X[None, None]).shape == (1, 1, 0, 3)
