"""Names the workloads of the other kinds, with their data; `benchmarks.workloads` has the rest."""

import torch

from benchmarks.kinds import images as image_models, recurrent, tables, transformers
from benchmarks.workload import SGD, Workload, images, tokens

ADAM = ("AdamW", {"lr": 1e-4})


def per_row(*shape: int, classes: int, targets: int):
    """Returns a function that draws normal features and `targets` classes for each sample."""
    return lambda batch: (torch.randn(batch, *shape), torch.randint(classes, (batch, targets)))


def clicks(batch: int) -> tuple:
    """Draws dense features, one id for each of the 26 tables, and whether the user clicked."""
    ids = torch.randint(10000, (batch, 26))
    return torch.randn(batch, 13), ids, torch.randint(2, (batch,))


def graph(nodes: int) -> tuple:
    """Draws features of the nodes, edges with Cora's number for each node, and classes."""
    edges = torch.randint(nodes, (2, nodes * 10556 // 2708))
    return torch.rand(nodes, 1433), edges, torch.randint(7, (nodes,))


def next_token(batch: int) -> tuple:
    """Draws one token, and its position in the cache."""
    return torch.randint(4096, (batch, 1)), torch.tensor([500]), torch.zeros(batch)


VOCABULARY = transformers.Llama.VOCABULARY

KINDS = {
    "gru": Workload(
        "two GRUs in both directions",
        recurrent.SpeechGru,
        per_row(64, 80, classes=29, targets=64),
        16,
        SGD,
    ),
    "cells": Workload(
        "LSTM cells in a loop",
        recurrent.CellDecoder,
        images(80, classes=80),
        16,
        SGD,
    ),
    "ssm": Workload(
        "selective state space, a loop",
        recurrent.SelectiveScan,
        per_row(64, 128, classes=64, targets=64),
        2,
        SGD,
    ),
    "cumsum": Workload(
        "linear attention by cumsum",
        recurrent.LinearAttention,
        per_row(256, 128, classes=64, targets=256),
        4,
        SGD,
    ),
    "unet": Workload(
        "encoder and decoder",
        image_models.UNet,
        per_row(3, 96, 96, classes=2, targets=96 * 96),
        2,
        SGD,
    ),
    "wavenet": Workload(
        "causal dilated convolutions",
        image_models.WaveNet,
        tokens(2048, 256),
        2,
        SGD,
    ),
    "video": Workload(
        "3-d convolutions",
        image_models.Video,
        images(3, 8, 56, 56, classes=101),
        2,
        SGD,
    ),
    "efficientnet": Workload(
        "depthwise with squeeze and excite",
        image_models.EfficientNet,
        images(3, 112, 112, classes=100),
        4,
        SGD,
    ),
    "resnext": Workload(
        "grouped convolutions", image_models.ResNeXt, images(64, 56, 56, classes=100), 2, SGD
    ),
    "vit": Workload(
        "vision transformer",
        transformers.VisionTransformer,
        images(3, 224, 224, classes=1000),
        4,
        ADAM,
    ),
    "llama": Workload(
        "RMSNorm, rotary, grouped keys", transformers.Llama, tokens(256, VOCABULARY), 2, ADAM
    ),
    "long": Workload(
        "causal attention, 2,048 tokens",
        transformers.LongDecoder,
        per_row(2048, 768, classes=64, targets=2048),
        1,
        ADAM,
    ),
    "experts": Workload(
        "mixture of experts",
        transformers.Experts,
        images(768, classes=64),
        64,
        ADAM,
    ),
    "decode": Workload("token by token", transformers.TokenByToken, next_token, 1, None),
    "dlrm": Workload("embedding tables, pairwise dots", tables.Recommender, clicks, 128, SGD),
    "graph": Workload("gather and scatter-add", tables.GraphNetwork, graph, 2708, SGD),
    "points": Workload(
        "nearest neighbours by top-k", tables.PointNetwork, images(512, 3, classes=40), 4, SGD
    ),
    "sorted": Workload("sorted features", tables.SortedSet, images(256, 3, classes=10), 16, SGD),
    "norms": Workload("norms written out", tables.WrittenNorms, images(1024, classes=16), 512, SGD),
    "tiny": Workload("ensemble of tiny networks", tables.Ensemble, images(8, classes=4), 4, SGD),
}
