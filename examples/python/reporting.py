"""Compares reports of a pipeline over four IPUs that is cut unevenly, and then evenly.

    python reporting.py [folder]

Open the report.html whose path the program prints.
"""

import sys
import tempfile
from pathlib import Path

import poptorch
import torch
from poptorch_core.reports import files
from torch import nn

WORDS, WIDTH, LENGTH = 2048, 192, 128
BATCH, MICRO_BATCHES = 2, 12
# The number of layers on each IPU.
UNEVEN, EVEN = (1, 4, 2, 1), (2, 2, 2, 2)


class Transformer(nn.Module):
    """Predicts each next word, and returns the loss."""

    def __init__(self, cut):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, 0.0, "gelu", batch_first=True)
            for _ in range(sum(cut))
        )
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))
        self.head = nn.Linear(WIDTH, WORDS)
        self.ipus = [ipu for ipu, layers in enumerate(cut) for _ in range(layers)]

    def forward(self, words, following):
        with poptorch.Block("embedding", ipu_id=0):
            x = self.embedding(words)
        for number, (layer, ipu) in enumerate(zip(self.layers, self.ipus, strict=True)):
            with poptorch.Block(f"layer{number}", ipu_id=ipu):
                x = layer(x, src_mask=self.mask)
        with poptorch.Block("head", ipu_id=self.ipus[-1]):
            logits = self.head(x).flatten(0, 1)
            return nn.functional.cross_entropy(logits, following.flatten())


def trained(cut, steps=3):
    """Returns a training model after some steps."""
    options = poptorch.Options().modelName("transformer")
    options.Training.gradientAccumulation(MICRO_BATCHES)
    model = Transformer(cut)
    training = poptorch.trainingModel(model, options, torch.optim.AdamW(model.parameters()))
    words = torch.randint(WORDS, (BATCH * MICRO_BATCHES, LENGTH + 1), dtype=torch.int32)
    for _ in range(steps):
        training(words[:, :-1].contiguous(), words[:, 1:].contiguous())
    return training


def main(folder):
    for name, cut in ("uneven", UNEVEN), ("even", EVEN):
        trained(cut).write_report(folder / name)
    uneven, even = (files.read(folder / name) for name in ("uneven", "even"))
    files.write(folder / "compared", uneven, even)
    for one in uneven["advice"]:
        print(f"{one['text']} {one['cure']}")
    print(f"uneven: {uneven['summary']['samples_per_second']:.0f} samples a second")
    print(f"even: {even['summary']['samples_per_second']:.0f} samples a second")
    print(f"written: {folder / 'compared' / 'report.html'}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="report-")))
