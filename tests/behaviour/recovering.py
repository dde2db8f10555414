"""A program that trains with checkpoints and recovers from faults, as in docs/recovering.md."""

import io

import poptorch
import torch

KINDS = ("IPU_RESET", "LINK_RESET", "PARTITION_RESET", "FULL_RESET", "UNRECOVERABLE")
STEPS, ACCUMULATION, ITERATIONS = 6, 3, 2


class Net(torch.nn.Module):
    """Two blocks with all that a checkpoint must hold: weights, statistics, random numbers."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8))
        self.second = torch.nn.Sequential(torch.nn.Dropout(0.3), torch.nn.Linear(8, 2))

    def forward(self, x, target):
        with poptorch.Block("first", ipu_id=0):
            x = torch.relu(self.first(x))
        with poptorch.Block("second", ipu_id=1):
            return torch.nn.functional.mse_loss(self.second(x), target)


def options_of(strategy):
    options = poptorch.Options().randomSeed(7).showCompilationProgressBar(False)
    options.Training.gradientAccumulation(ACCUMULATION)
    options.deviceIterations(ITERATIONS)
    if strategy == "sharded":
        options.setExecutionStrategy(poptorch.ShardedExecution())
    elif strategy == "phased":
        phases = poptorch.Phase("first").ipus(0), poptorch.Phase("second").ipus(1)
        options.setExecutionStrategy(poptorch.ParallelPhasedExecution(*phases))
    elif strategy == "replicated":
        options.replicationFactor(2).broadcastBuffers(False)
    return options


OPTIMISERS = {
    "momentum": lambda weights: torch.optim.SGD(weights, lr=0.05, momentum=0.9),
    "Adam": lambda weights: torch.optim.Adam(weights, lr=0.01),
    "own Adam": lambda weights: poptorch.optim.Adam(weights, lr=0.01),
    "RMSprop": lambda weights: torch.optim.RMSprop(weights, lr=0.01),
}


class Program:
    """Trains `STEPS` steps; after every second one it saves a checkpoint, and detaches."""

    def __init__(self, strategy, optimiser, rewraps=False):
        torch.manual_seed(3)
        self.options = options_of(strategy)
        rows = 2 * ACCUMULATION * ITERATIONS * self.options.replication_factor
        self.batches = [(torch.randn(rows, 4), torch.randn(rows, 2)) for _ in range(STEPS)]
        self.model = Net()
        self.optimiser = OPTIMISERS[optimiser](self.model.parameters())
        self.wrapper = self._wrapped()
        self.rewraps = rewraps
        self.faults, self.losses, self.step = [], {}, 0

    def _wrapped(self):
        return poptorch.trainingModel(self.model, self.options, self.optimiser)

    def run(self):
        self._random = None
        self._save(random=None)
        has_failed = False
        while True:
            try:
                if has_failed:
                    self.recover()
                self._steps()
                return self
            except (poptorch.RecoverableError, poptorch.UnrecoverableError) as error:
                self.faults.append(error)
                if isinstance(error, poptorch.UnrecoverableError):
                    return self
                has_failed = True

    def _steps(self):
        if self._random is not None:
            if not self.wrapper.isCompiled():
                self.wrapper.compile(*self.batches[0])
            self.wrapper.rng_state, self._random = self._random, None
        while self.step < STEPS:
            self.losses[self.step] = self.wrapper(*self.batches[self.step])
            self.step += 1
            if self.step % 2 == 0:
                self._save(self.wrapper.rng_state)
                self.wrapper.detachFromDevice()
                self.wrapper.attachToDevice()

    def _save(self, random):
        file = io.BytesIO()
        state = self.model.state_dict(), self.optimiser.state_dict(), random, self.step
        torch.save(state, file)
        self._checkpoint = file.getvalue()

    def recover(self):
        """Attaches again, with the state of the last checkpoint."""
        wrapper = self.wrapper
        if self.rewraps:
            wrapper.destroy()
        elif wrapper.isAttachedToDevice():
            wrapper.detachFromDevice()
        weights, state, self._random, self.step = torch.load(io.BytesIO(self._checkpoint))
        self.model.load_state_dict(weights)
        self.optimiser.load_state_dict(state)
        if self.rewraps:
            self.wrapper = self._wrapped()
        elif wrapper.isCompiled():
            wrapper.attachToDevice()
            if self._random is None:  # of the first step
                self._random = [7, 0]

    def outcome(self):
        """Returns everything that training leaves, by name."""
        found = {f"loss {step}": loss for step, loss in self.losses.items()}
        found.update(self.model.state_dict())
        for index, entry in self.optimiser.state_dict()["state"].items():
            found.update({f"{name} of {index}": value for name, value in entry.items()})
        found.update(self.optimiser.state_dict().get("ipu_state") or {})
        found["random"] = torch.tensor(self.wrapper.rng_state)
        return found
