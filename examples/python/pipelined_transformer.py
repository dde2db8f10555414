"""Divides a transformer over four IPUs with plan(), and trains it as a pipeline."""

import poptorch
import torch
from torch import nn

WORDS, LENGTH, WIDTH = 64, 16, 64


class Transformer(nn.Module):
    """A causal language model of eight layers."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 4, 128, dropout=0.0, batch_first=True)
            for _ in range(8)
        )
        self.scores = nn.Linear(WIDTH, WORDS)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, words, following):
        x = self.words(words) + self.places(torch.arange(LENGTH))
        for layer in self.layers:
            x = layer(x, src_mask=self.mask)
        scores = self.scores(x)
        return scores, nn.functional.cross_entropy(scores.flatten(0, 1), following.flatten())


def sequences(count):
    """Returns arithmetic sequences, whose next word follows from the two before it."""
    first, step = torch.randint(WORDS, (count, 1)), torch.randint(1, 5, (count, 1))
    words = (first + step * torch.arange(LENGTH + 1)) % WORDS
    return words[:, :-1].contiguous(), words[:, 1:].contiguous()


def main():
    torch.manual_seed(0)
    model = Transformer()
    poptorch.plan(model, sequences(2), num_ipus=4).apply(model)  # prints the stages

    options = poptorch.Options().deviceIterations(4).showCompilationProgressBar(False)
    options.Training.gradientAccumulation(8)  # 2 * stages or more keep the pipeline full
    optimizer = poptorch.optim.AdamW(model.parameters(), lr=3e-3)
    training = poptorch.trainingModel(model, options, optimizer)
    for call in range(25):
        _, loss = training(*sequences(2 * 4 * 8))
        if call % 5 == 4:
            print(f"step {4 * (call + 1)}: loss {loss.item():.3f}")
    report = training.report()
    busy = 1 - sum(ipu["idle_cycles"] for ipu in report["ipus"]) / (
        len(report["ipus"]) * report["cycles_per_run"]
    )
    print(f"{len(report['ipus'])} IPUs, busy {busy:.0%} of the time, last loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
