"""Compares the estimated memory with configurations that ran, and with those that did not fit.

Training configurations are those of `rows.py`: all ran. Those of one IPU are Graphcore's PopRT
benchmarks and the largest products of its PopSparse benchmarks and of Jia et al.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import poptorch
import torch
from torch import nn

from . import vision
from .inference import Encoder
from .predict import CHOICES, Kept, model_of, optimiser_of, options_of
from .rows import Row, rows


@dataclass(frozen=True)
class Fit:
    """A configuration, whether it ran, and the memory of its fullest IPU."""

    name: str
    ran: bool
    fits: bool
    needed: int
    capacity: int
    reason: str

    @property
    def agrees(self) -> bool:
        """Whether the estimate fits just if the configuration ran."""
        return self.ran == self.fits


class Product(nn.Module):
    """A product of two matrices, which are inputs."""

    def forward(self, a, b):
        return a @ b


def fits() -> Iterator[Fit]:
    """Yields all configurations."""
    for row in rows():
        yield of_training(row)
    yield from _of_one_ipu()


def of_training(row: Row) -> Fit:
    """Returns the fit of a training configuration, by the first of its choices that fits."""
    name = f"row {row.number}: {row.title}"
    first = estimate = _estimate(row, CHOICES[0])
    for kept in CHOICES[1:]:
        if estimate.fits:
            break
        estimate = _estimate(row, kept)
    if estimate is first or not estimate.fits:
        return _fit(name, True, first)
    most = max(ipu.needed_bytes for ipu in first.ipus)
    where = "" if kept.last_stage else ", in the last stage too"
    return _fit(
        name, True, estimate, f"; {most / 1e6:,.0f} MB unless layers keep their results{where}"
    )


def _estimate(row: Row, kept: Kept) -> poptorch.Estimate:
    model = model_of(row, kept)
    return poptorch.estimate(
        model, row.inputs(row.micro_batch), options_of(row, kept), training=True,
        optimizer=optimiser_of(row, model),
    )  # fmt: skip


def _fit(name: str, ran: bool, estimate: poptorch.Estimate, more: str = "") -> Fit:
    worst = max(estimate.ipus, key=lambda ipu: ipu.needed_bytes)
    parts = {
        "state": worst.state_bytes,
        "activations": worst.arena_bytes,
        "stash": worst.stash_bytes,
        "code": worst.code_bytes,
    }
    texts = [f"{part} {size / 1e6:,.0f}" for part, size in parts.items() if size >= 500_000]
    reason = f"IPU {worst.ipu}: {', '.join(texts)}{more}"
    return Fit(name, ran, estimate.fits, worst.needed_bytes, worst.capacity_bytes, reason)


def _of_one_ipu() -> Iterator[Fit]:
    half, single = torch.float16, torch.float32
    for dtype, batches in (
        (half, {64: True, 90: True, 96: False}),
        (single, {16: True, 32: False}),
    ):
        for batch, ran in batches.items():
            images = torch.empty(batch, 3, 224, 224, dtype=torch.uint8, device="meta")
            yield _inference("ResNet-50", vision.ResNet50, (images,), dtype, ran)
    for dtype, batches in (
        (single, {1: True, 2: True, 4: False}),
        (half, {8: True, 16: True, 32: False}),
    ):
        for batch, ran in batches.items():
            yield _inference("BERT-base SL256", lambda: Encoder(768, 12, 256),
                             _tokens(batch, 256), dtype, ran)  # fmt: skip
    yield _inference("BERT-base SL128", lambda: Encoder(768, 12, 128), _tokens(128, 128), half)
    yield _inference("BERT-large SL128", lambda: Encoder(1024, 24, 128), _tokens(18, 128), half)
    images = torch.empty(32, 3, 224, 224, device="meta")
    yield _inference("ViT-B/16", vision.ViT, (images.half(),), half)
    for size, columns in ((1024, 65536), (2048, 16384), (4096, 8192), (8192, 4096)):
        yield _product(size, columns, half, 2)
    for size, columns in ((1024, 32768), (2048, 8192), (4096, 4096), (8192, 1024)):
        yield _product(size, columns, single, 2)
    for size, dtype in ((2688, half), (2944, single)):
        yield _product(size, size, dtype, 1)
        yield _product(size + 128, size + 128, dtype, 1, ran=False)


def _tokens(batch: int, length: int) -> tuple[torch.Tensor, ...]:
    return (torch.empty(batch, length, dtype=torch.int32, device="meta"),) * 3


def _inference(
    name: str, build: Callable[[], nn.Module], inputs: tuple, dtype: torch.dtype, ran: bool = True
) -> Fit:
    with torch.device("meta"):
        model = build().eval().to(dtype)
    options = poptorch.Options().useOfflineIpuTarget(21)
    options.Precision.setPartialsType(torch.half)  # as in inference.py
    title = f"{name}, {str(dtype).removeprefix('torch.')}, batch {inputs[0].shape[0]}"
    return _fit(title, ran, poptorch.estimate(model, inputs, options, training=False))


def _product(size: int, columns: int, dtype: torch.dtype, version: int, ran: bool = True) -> Fit:
    device = {1: "GC2", 2: "GC200"}[version]
    name = f"product {size}² by {columns} columns, {str(dtype).removeprefix('torch.')}, {device}"
    inputs = tuple(
        torch.empty(size, width, dtype=dtype, device="meta") for width in (size, columns)
    )
    options = poptorch.Options().useOfflineIpuTarget(version)
    return _fit(name, ran, poptorch.estimate(Product(), inputs, options, training=False))


def print_memory() -> float:
    """Prints all configurations; returns the share on which the estimate agrees."""
    print(f"{'':58}{'published':14}{'ours':14}{'needs':>7}{'of':>6} MB")
    found = []
    for each in fits():
        found.append(each)
        said = ["does not fit", "fits"]
        print(f"{each.name:58}{said[each.ran]:14}{said[each.fits]:14}{each.needed / 1e6:7,.0f}"
              f"{each.capacity / 1e6:6,.0f} {'' if each.agrees else 'DIFFERS '}{each.reason}",
              flush=True)  # fmt: skip
    for ran in (True, False):
        some = [each for each in found if each.ran == ran]
        kind = "that ran" if ran else "that did not fit"
        print(f"{sum(each.agrees for each in some)} of {len(some)} configurations {kind} agree.")
    return sum(each.agrees for each in found) / len(found)
