"""Published inference throughputs of one IPU, a C600 or Bow: Graphcore's PopRT benchmarks.

No constant is fitted on these. Transfers with the host overlap there, so
they are left out of our figures.
"""

from collections.abc import Callable
from dataclasses import dataclass

import poptorch
import torch
from torch import nn

from . import bert, other, vision


class Encoder(nn.Module):
    """BERT with a head of two classes on each token."""

    def __init__(self, width, layers, length):
        super().__init__()
        self.embedding = bert.Embedding(width, 30400, length)
        self.layers = nn.ModuleList(bert.Layer(width, width // 64) for _ in range(layers))
        self.head = nn.Linear(width, 2)

    def forward(self, tokens, segments, mask):
        x = self.embedding(tokens, segments)
        penalty = ((1.0 - mask.to(x.dtype)) * -10000.0)[:, None, None, :]
        for layer in self.layers:
            x = layer(x, penalty)
        return self.head(x)


@dataclass(frozen=True)
class Inference:
    """A published throughput of a model."""

    name: str
    build: Callable[[], nn.Module]
    inputs: tuple
    published: float
    dtype: torch.dtype = torch.float16

    def predicted(self) -> float:
        """Returns the samples a second of the cost model, without transfers to the host."""
        with torch.device("meta"):
            model = self.build().eval().to(self.dtype)
        options = poptorch.Options().useOfflineIpuTarget(21)
        options.Precision.setPartialsType(torch.half)
        wrapped = poptorch.inferenceModel(model, options)
        wrapped.compile(*self.inputs)
        report = wrapped.report()
        clock = report["cycles_per_run"] / report["seconds_per_run"]
        work = report["ipus"][0]["compute_cycles"]
        return self.inputs[0].shape[0] / work * clock


def inference_points() -> list[Inference]:
    """Returns the published points."""

    def tokens(batch, length=128):
        return (torch.zeros(batch, length, dtype=torch.int32),) * 3

    def base(length=128):
        return Encoder(768, 12, length)

    def images(batch, dtype):
        return (torch.zeros(batch, 3, 224, 224, dtype=dtype),)

    def swin():
        return other.SwinTiny(divided=False)

    points = [
        Inference("BERT-base SL128, batch 16", base, tokens(16), 4817),
        Inference("BERT-base SL128, batch 128", base, tokens(128), 5672),
        Inference("BERT-large SL128, batch 18", lambda: Encoder(1024, 24, 128), tokens(18), 1473),
        Inference("ViT-B/16, batch 8", vision.ViT, images(8, torch.float16), 2600),
        Inference("ViT-B/16, batch 32", vision.ViT, images(32, torch.float16), 3109),
        Inference("Swin-Tiny, batch 24", swin, images(24, torch.float16), 6802),
    ]
    published = ((1, 3529), (2, 5284), (4, 7030), (8, 9307), (16, 11393), (32, 13593), (64, 15249))
    for batch, rate in published:
        name = f"ResNet-50, batch {batch}"
        points.append(Inference(name, vision.ResNet50, images(batch, torch.uint8), rate))
    for batch, rate in ((1, 1759), (2, 2316), (4, 2864), (8, 3321), (16, 3756)):
        name, inputs = f"ResNet-50, float32, batch {batch}", images(batch, torch.uint8)
        points.append(Inference(name, vision.ResNet50, inputs, rate, torch.float32))
    for dtype, title, rates in (
        (torch.float16, "", (664, 844, 1068, 1208)),
        (torch.float32, ", float32", (432, 525)),
    ):
        for power, rate in enumerate(rates):
            name, inputs = f"BERT-base SL256{title}, batch {2**power}", tokens(2**power, 256)
            points.append(Inference(name, lambda: base(256), inputs, rate, dtype))
    return points


def print_inference() -> None:
    """Prints ours beside the published throughputs."""
    print(f"{'':32}{'published':>10}{'ours':>10}{'ratio':>8}")
    for point in inference_points():
        ours = point.predicted()
        print(f"{point.name:32}{point.published:10,.0f}{ours:10,.0f}{ours / point.published:8.2f}")
