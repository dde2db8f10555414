"""Writes examples/data/digits: the 1,797 digits of scikit-learn in MNIST's file format.

The split into 1,437 training and 360 test scans is a fixed permutation. The collection is ordered
by writer, and both parts need scans of all writers.
"""

import struct
from pathlib import Path

import numpy
from sklearn.datasets import load_digits

FOLDER = Path(__file__).resolve().parent.parent / "examples/data/digits"
TRAINING = 1437


def write_idx(path, array):
    """Writes IDX: type code 8 (unsigned byte), rank, big-endian dimensions, the bytes."""
    head = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    path.write_bytes(head + array.astype(numpy.uint8).tobytes())


def main():
    digits = load_digits()
    order = numpy.random.RandomState(0).permutation(len(digits.target))
    images = numpy.rint(digits.images[order] * (255 / 16))
    labels = digits.target[order]
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, part in (("train", slice(None, TRAINING)), ("t10k", slice(TRAINING, None))):
        write_idx(FOLDER / f"{name}-images-idx3-ubyte", images[part])
        write_idx(FOLDER / f"{name}-labels-idx1-ubyte", labels[part])


if __name__ == "__main__":
    main()
