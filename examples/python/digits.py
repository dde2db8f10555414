"""Reads handwritten digits from MNIST's files, or from the smaller scans beside the examples."""

import gzip
import struct
from pathlib import Path

import torch
from torch import nn

DIGITS = Path(__file__).resolve().parent.parent / "data/digits"


def read_idx(folder, name):
    """Reads a file of MNIST's format: type, rank, big-endian dimensions, then bytes."""
    path = Path(folder) / name
    packed = path.with_name(name + ".gz")
    data = path.read_bytes() if path.exists() else gzip.decompress(packed.read_bytes())
    rank = data[3]
    shape = struct.unpack(f">{rank}I", data[4 : 4 + 4 * rank])
    return torch.frombuffer(bytearray(data[4 + 4 * rank :]), dtype=torch.uint8).reshape(shape)


def load(folder, part, mode="bilinear"):
    """Returns images, float32 [n, 1, 28, 28] in 0..1, and labels. Smaller scans are enlarged."""
    images = read_idx(folder, f"{part}-images-idx3-ubyte").float().unsqueeze(1) / 255
    labels = read_idx(folder, f"{part}-labels-idx1-ubyte").long()
    return nn.functional.interpolate(images, (28, 28), mode=mode).clamp(0, 1), labels
