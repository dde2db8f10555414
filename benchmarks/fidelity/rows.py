"""Published training throughputs with the configurations that reached them.

Sources: Graphcore's performance results, its examples of the same SDK release, and the logs of
MLPerf training. Marked rows are predictions: no constant of the cost model is fitted on them.
Rows without a published memory proportion take that of the published run of the same model with the
nearest length and as many IPUs.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from . import bert, other, vision

LAMB = "LAMB"
ADAM = "AdamW"
SGD = "SGD"


@dataclass(frozen=True)
class Row:
    """A published throughput, with the model and the options that reached it."""

    number: int
    title: str
    published: float  # samples a second; of packed sequences, the packs
    build: Callable[[], torch.nn.Module]
    inputs: Callable[[int], tuple]
    micro_batch: int
    accumulation: int
    replicas: int
    marked: bool = True
    device: int = 21  # ipuHardwareVersion
    optimiser: str = LAMB
    off_chip: bool = False
    sharded: bool = False  # replicated tensor sharding of the optimiser's state
    recomputes: bool = False  # on one IPU, from the model's checkpoints
    dtype: torch.dtype = torch.float16
    moments: torch.dtype = torch.float32
    proportions: tuple[float, ...] = ()  # of memory for products, by IPU; one: of every IPU


def _bert_rows():
    short = (0.15, 0.25, 0.25, 0.25)  # of row 3
    long = (0.10, 0.15, 0.15, 0.15)  # of row 9
    eight = (0.08, 0.25, 0.32, 0.32, 0.36, 0.38, 0.4, 0.32)  # of row 12
    base = bert.bert(768, 12, 128, 20, (0, 4, 4, 4))
    large = bert.bert(1024, 24, 128, 20, (3, 7, 7, 7))
    off_chip = {"off_chip": True, "sharded": True}
    first = {**off_chip, "proportions": short}
    second = {**off_chip, "proportions": long}
    questions = {"optimiser": ADAM, "sharded": True, "proportions": eight}
    phase1, phase2 = bert.bert_inputs(128, 20), bert.bert_inputs(384, 56)
    packed1, packed2 = bert.bert_inputs(128, 23), bert.bert_inputs(512, 76)
    large_packed1 = bert.bert(1024, 24, 128, 23, (3, 7, 7, 7))
    large2 = bert.bert(1024, 24, 384, 56, (3, 7, 7, 7))
    large_packed2 = bert.bert(1024, 24, 512, 76, (3, 7, 7, 7))
    squad = bert.bert(1024, 24, 384, 0, (2, 3, 3, 3, 3, 3, 3, 4))
    wide = bert.bert_in_halves(512, 76, ((3, 3), (3, 3), (3, 3), (4, 3), (3, 4), (4, 3), (3, 4)))
    four = bert.bert_in_halves(512, 76, ((7, 6), (6, 7), (7, 6)))
    return [
        Row(1, "BERT-large phase 1, SL128, Pod16", 5179, large, phase1, 8, 2048, 4, **first),
        Row(2, "BERT-large phase 1, SL128, TF2, Pod16", 4527, large, phase1, 8, 2040, 4,
            **first),
        Row(3, "BERT-large phase 1 packed, Pod16", 4786, large_packed1, packed1, 8, 1752, 4,
            **first),
        Row(4, "BERT-large phase 1 packed, Pod64", 18442 / 1.17, large_packed1, packed1, 8, 438, 16,
            proportions=(0.14, 0.19, 0.19, 0.19), **off_chip),
        Row(5, "BERT-large phase 1 packed, PopART, Pod16", 6044 / 1.17, large_packed1, packed1, 8,
            1712, 4, marked=False, **first),
        Row(6, "BERT-large phase 1, Pod64", 19353, large, phase1, 8, 512, 16, marked=False,
            **first),
        Row(7, "BERT-large phase 2, SL384, Pod16", 1470, large2, phase2, 2, 2048, 4, **second),
        Row(8, "BERT-large phase 2, SL384, Pod64", 5444, large2, phase2, 2, 512, 16, marked=False,
            **second),
        Row(9, "BERT-large phase 2 packed, SL512, Pod16", 987, large_packed2, packed2, 2, 1024, 4,
            **second),
        Row(10, "BERT-large phase 2 packed, SL512, Pod64", 6543 / 2, large_packed2, packed2, 2, 256,
            16, marked=False, **second),
        Row(11, "BERT-large phase 2 packed, PopART, Pod16", 2126 / 2, large_packed2, packed2, 2,
            1200, 4, marked=False, **second),
        Row(12, "BERT-large SQuAD, SL384, Pod16", 1009, squad, bert.bert_inputs(384, 0), 4, 32, 2,
            **questions),
        Row(13, "BERT-large SQuAD, SL384, PopART, Pod16", 1183, squad, bert.bert_inputs(384, 0), 4,
            32, 2, marked=False, **questions),
        Row(14, "BERT-base phase 1, SL128, Pod16", 15911, base, phase1, 32, 512, 4,
            proportions=(0.25,), **off_chip),
        Row(15, "BERT-base phase 1, SL128, PopART, Pod16", 16391, base, phase1, 32, 512, 4,
            marked=False, proportions=(0.25,), **off_chip),
        Row(16, "BERT-large MLPerf, SL512 packed, POD16 (GC200)", 763.6, four, packed2, 2, 192, 4,
            device=2, **second),
        Row(17, "BERT-large MLPerf, SL512 packed, Bow Pod16", 1153, wide, packed2, 3, 256, 2,
            sharded=True, proportions=eight),
        Row(18, "BERT-large MLPerf, SL512 packed, Bow Pod64", 3600, wide, packed2, 3, 96, 8,
            sharded=True, proportions=eight),
    ]  # fmt: skip


def _vision_rows():
    resnet, pictures = vision.ResNet50, vision.image_inputs(224, torch.uint8)
    alone = {"optimiser": SGD, "recomputes": True, "proportions": (0.16,)}  # of row 24
    vit, generated = vision.vit((3, 3, 3, 3)), vision.image_inputs(224, torch.float16)
    return [
        Row(19, "ResNet-50, POD16 (GC200)", 29650, resnet, pictures, 20, 10, 16, device=2, **alone),
        Row(20, "ResNet-50, momentum, POD16 (GC200)", 27600, resnet, pictures, 20, 6, 16,
            marked=False, device=2, **alone),
        Row(21, "ResNet-50, Bow Pod16", 44059, resnet, pictures, 22, 10, 16, **alone),
        Row(22, "ResNet-50, Bow Pod64", 153205, resnet, pictures, 20, 4, 64, **alone),
        Row(24, "ResNet-50, PyTorch, Bow Pod16", 37061, resnet, pictures, 18, 57, 16, **alone),
        Row(28, "ViT-B/16, Bow Pod16", 7615, vit, generated, 8, 2048, 4, sharded=True,
            proportions=(0.3,)),
        Row(29, "ViT-B/16, Bow Pod64", 27868, vit, generated, 8, 512, 16, marked=False,
            proportions=(0.3,)),
    ]  # fmt: skip


def _other_rows():
    efficient, swin = other.EfficientNetB4, other.SwinTiny
    large, images = vision.image_inputs(380, torch.uint8), vision.image_inputs(224, torch.float32)
    conformer = {"build": other.Conformer, "inputs": other.sound_inputs, "optimiser": ADAM,
                 "proportions": (0.3,)}  # fmt: skip
    return [
        Row(25, "EfficientNet-B4 G16, Bow Pod16", 9000, efficient, large, 3, 256, 8, optimiser=SGD,
            proportions=(0.4,)),
        Row(26, "EfficientNet-B4 G16, Bow Pod64", 34140, efficient, large, 3, 64, 32, marked=False,
            optimiser=SGD, proportions=(0.4,)),
        Row(30, "Swin-Tiny, float32, Bow Pod16", 3779, swin, images, 4, 64, 4, optimiser=ADAM,
            dtype=torch.float32),
        Row(33, "U-Net, Bow-2000", 151, other.UNet, other.cell_inputs, 1, 24, 1, optimiser=SGD),
        Row(34, "Conformer, POD16 (GC200)", 3163, micro_batch=4, accumulation=1008, replicas=4,
            device=2, **conformer),
        Row(35, "Conformer, POD64 (GC200)", 11689, micro_batch=4, accumulation=252, replicas=16,
            marked=False, device=2, **conformer),
        Row(36, "Conformer, Bow Pod16", 4302, micro_batch=4, accumulation=1008, replicas=4,
            marked=False, **conformer),
    ]  # fmt: skip


def rows() -> list[Row]:
    """Returns all rows, in the order of their numbers."""
    return sorted(_bert_rows() + _vision_rows() + _other_rows(), key=lambda row: row.number)
