"""Compiles a model for one of 64 instances without a device, and prints the cost as JSON.

`python paper_program.py MODEL`. Each instance has a replica on four IPUs. Weights are on device
"meta", without values.
"""

import json
import re
import sys
import time
from pathlib import Path

import poptorch
import torch
from torch import nn

INSTANCES, IPUS, ACCUMULATION = 64, 4, 16
# Layers, width, vocabulary, tokens of a sequence, whether a token attends to later ones.
MODELS = {
    "bert-large": (24, 1024, 30522, 384, True),
    "gpt": (32, 4096, 50257, 1024, False),
}


class Layer(nn.Module):
    """Attention and a perceptron, each after a norm, with residual connections."""

    def __init__(self, width, sees_all):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.into, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.sees_all = sees_all

    def forward(self, x):
        heads = [
            part.unflatten(-1, (-1, 64)).transpose(1, 2)
            for part in self.into(self.norms[0](x)).chunk(3, -1)
        ]
        seen = nn.functional.scaled_dot_product_attention(*heads, is_causal=not self.sees_all)
        x = x + self.out(seen.transpose(1, 2).flatten(-2))
        return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))


class Transformer(nn.Module):
    """Maps tokens to the logits of tokens; cut evenly over the IPUs."""

    def __init__(self, layers, width, vocabulary, length, sees_all):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Parameter(torch.zeros(length, width))
        self.layers = nn.ModuleList(Layer(width, sees_all) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        for ipu in range(1, IPUS):
            poptorch.BeginBlock(self.layers[ipu * layers // IPUS], ipu_id=ipu)

    def forward(self, tokens, labels):
        x = self.tokens(tokens) + self.places
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.norm(x)).flatten(0, 1)
        return nn.functional.cross_entropy(logits, labels.flatten())


def peak_bytes():
    """Returns the peak of this program: getrusage() includes the parent's memory at the fork."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s*(\d+) kB", status)[1]) * 1024


def main(name):
    began = time.monotonic()
    shape = MODELS[name]
    with torch.device("meta"):
        model = Transformer(*shape)
    options = poptorch.Options().useOfflineIpuTarget(21).showCompilationProgressBar(False)
    options.Distributed.configureProcessId(0, INSTANCES)
    options.Training.gradientAccumulation(ACCUMULATION)
    optimizer = poptorch.optim.AdamW(model.parameters(), lr=1e-3)
    wrapped = poptorch.trainingModel(model, options, optimizer)
    wrapped.compile(*(torch.zeros(ACCUMULATION, shape[3], dtype=torch.int32) for _ in range(2)))
    report = wrapped.report()
    said = {
        "model": name,
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "ipus": report["replicas"] * len(report["ipus"]),
        "weight_bytes": sum(ipu["weight_bytes"] for ipu in report["ipus"]),
        "parts": sorted({(part["part"], part["links"]) for part in report["collectives"]}),
        "seconds_per_run": report["seconds_per_run"],
        "compile_seconds": time.monotonic() - began,
        "peak_bytes": peak_bytes(),
    }
    print(json.dumps(said))


if __name__ == "__main__":
    main(sys.argv[1])
