"""The program that signals.py interrupts: it loads data, compiles, trains, infers and copies
weights.
"""

import signal

import poptorch
import torch


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((16,), float(index)), index % 4


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(16, 64), torch.nn.GELU(), torch.nn.Linear(64, 4)
        )

    def forward(self, x, target):
        y = self.layers(x)
        return y, torch.nn.functional.cross_entropy(y, target)


def options(iterations):
    return poptorch.Options().showCompilationProgressBar(False).deviceIterations(iterations)


def work(rounds):
    for _ in range(rounds):
        model = Net()
        training = poptorch.trainingModel(
            model, options(20000), torch.optim.Adam(model.parameters())
        )
        inference = poptorch.inferenceModel(model, options(1))
        x, target = torch.randn(20000, 16), torch.randint(0, 4, (20000,))
        held[:] = [training, inference, x, target]
        loader = poptorch.DataLoader(
            options(1), Rows(), batch_size=8, num_workers=1, mode=poptorch.DataLoaderMode.Async
        )
        for batch in loader:
            inference(*batch)
        training(x, target)
        training.copyWeightsToHost()
        loader.terminate()
        training.destroy()
        inference.destroy()


held = []
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
    work(1)
    print("ready", flush=True)
    try:
        work(10**6)
    except KeyboardInterrupt:
        print("stopped", flush=True)
    training, inference, x, target = held
    if training.isCompiled():
        result, _ = training(x, target)
        assert torch.isfinite(result).all()
    inference(x[:1], target[:1])
    print("goes on", flush=True)
