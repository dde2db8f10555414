"""A residual CNN for inference whose batch norms torch.fx folds into convolutions.

It has half precision on request, blocks over several IPUs, and images as bytes that the device
normalises.
"""

import operator

import poptorch
import torch
from torch import fx, nn


class Residual(nn.Module):
    def __init__(self, channels, out, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, groups=2)
        self.bn2 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride), nn.BatchNorm2d(out))

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + self.shortcut(x))


class Network(nn.Module):
    """Images [n, 3, h, w] → scores [n, classes]."""

    def __init__(self, classes=10):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
        self.layer1 = Residual(8, 8)
        self.layer2 = Residual(8, 16, 2)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(16, classes)

    def forward(self, x):
        x = self.layer2(self.layer1(self.stem(x)))
        return self.fc(self.pool(x).flatten(1))


def fold_batch_norms(model):
    """Returns the traced model with batch norms folded into the convolutions before them."""
    traced = fx.symbolic_trace(model.eval())
    modules = dict(traced.named_modules())
    for node in traced.graph.nodes:
        norm = modules.get(node.target) if node.op == "call_module" else None
        if not isinstance(norm, nn.BatchNorm2d):
            continue
        before = node.args[0]
        conv = modules.get(before.target) if before.op == "call_module" else None
        if isinstance(conv, nn.Conv2d) and len(before.users) == 1:
            folded = nn.utils.fusion.fuse_conv_bn_eval(conv, norm)
            parent, _, name = before.target.rpartition(".")
            setattr(traced.get_submodule(parent), name, folded)
            node.replace_all_uses_with(before)
            traced.graph.erase_node(node)
    traced.delete_all_unused_submodules()
    traced.recompile()
    return traced


def replace_relu(traced):
    """Transforms the graph by hand: an addition followed by a ReLU becomes one function."""
    for node in list(traced.graph.nodes):
        if node.op == "call_function" and node.target is operator.add:
            (user,) = node.users
            with traced.graph.inserting_after(user):
                new = traced.graph.call_function(add_relu, node.args)
            user.replace_all_uses_with(new)
            traced.graph.erase_node(user)
            traced.graph.erase_node(node)
    traced.recompile()
    return traced


def add_relu(x, y):
    return torch.relu(x + y)


class Normalised(nn.Module):
    """Takes bytes, a quarter of the data that floats would need."""

    def __init__(self, model, dtype):
        super().__init__()
        self.model = model.to(dtype)
        self.register_buffer(
            "mean", torch.tensor([118.0, 120.0, 130.0], dtype=dtype)[:, None, None]
        )
        self.register_buffer(
            "deviation", torch.tensor([60.0, 59.0, 58.0], dtype=dtype)[:, None, None]
        )

    def forward(self, images):
        x = images.to(self.mean.dtype)
        return self.model((x - self.mean) / self.deviation)


def on_two_ipus(traced):
    """Begins blocks at modules, which torch.fx leaves in place."""
    poptorch.BeginBlock(traced.get_submodule("layer2.conv1"), "second", ipu_id=1)
    return traced


def inference_options(batches):
    options = poptorch.Options().deviceIterations(batches)
    options.setExecutionStrategy(poptorch.PipelinedExecution())
    return options
