"""Kills a training run again and again, and resumes it from its last checkpoint each time.

`python killed_training.py KIND KILLS FOLDER SEED [times]`: the losses, weights, optimiser state and
random numbers must equal those of an undisturbed run. Each run is a fork of this process, which has
loaded the libraries and not used them. It dies by SIGKILL at an event that is drawn at random; with
`times`, at a random time in every other run.
"""

import os
import random
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy
import poptorch
import poptorch.testing
import torch

STEPS = 40
KEPT = "checkpoint.pt"


class Augmented(torch.utils.data.Dataset):
    """Rows to which all three generators add noise."""

    def __init__(self):
        draw = torch.Generator().manual_seed(1)
        self.x, self.y = (torch.randn(44, size, generator=draw) for size in (6, 2))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        noise = torch.rand(6) + random.random() + numpy.random.rand()
        return self.x[index] + 0.01 * noise.float(), self.y[index]


class Stream(torch.utils.data.IterableDataset):
    """The same rows as a stream, shuffled."""

    def __iter__(self):
        rows = Augmented()
        return (rows[index] for index in torch.randperm(len(rows)).tolist())


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(6, 8),
            torch.nn.BatchNorm1d(8),
            torch.nn.ReLU(),
            torch.nn.Dropout(0.2),
            torch.nn.Linear(8, 2),
        )

    def forward(self, x, target):
        return torch.nn.functional.mse_loss(self.layers(x), target)


@dataclass
class Kind:
    """The settings of a run."""

    optimizer: object
    mode: str = "Sync"
    workers: int = 0
    dataset: object = Augmented
    strategy: str = "Fork"
    shuffle: bool | None = True


KINDS = {
    "sync": Kind(lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9)),
    "workers": Kind(lambda p: torch.optim.Adam(p, lr=0.01), workers=2),
    "async": Kind(lambda p: poptorch.optim.AdamW(p, lr=0.01), "Async"),
    "async-workers": Kind(
        lambda p: poptorch.optim.SGD(p, lr=0.05, momentum=0.9), "Async", workers=2
    ),
    "rebatched": Kind(lambda p: torch.optim.RMSprop(p, lr=0.01), "AsyncRebatched", workers=2),
    "stream": Kind(lambda p: poptorch.optim.LAMB(p, lr=0.01), dataset=Stream, shuffle=None),
    "served": Kind(lambda p: torch.optim.AdamW(p, lr=0.01), "Async", strategy="ForkServer"),
}


def train(kind, folder):
    """Trains from the last checkpoint on; returns everything that must be equal in the end."""
    torch.manual_seed(3)
    random.seed(4)
    numpy.random.seed(5)
    model = Model()
    optimizer = kind.optimizer(model.parameters())
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 0.05, total_steps=STEPS + 1, cycle_momentum=False
    )
    options = poptorch.Options().showCompilationProgressBar(False).deviceIterations(2)
    strategy = {"sharing_strategy": poptorch.SharingStrategy[kind.strategy]}
    loader = poptorch.DataLoader(
        options,
        kind.dataset(),
        4,
        shuffle=kind.shuffle,
        num_workers=kind.workers,
        mode=poptorch.DataLoaderMode[kind.mode],
        async_options=None if kind.mode == "Sync" else strategy,
        rebatched_worker_size=3 if kind.mode == "AsyncRebatched" else None,
    )
    training = poptorch.trainingModel(model, options, optimizer)
    step, losses = 0, []
    if (folder / KEPT).exists():
        kept = poptorch.load_checkpoint(
            folder / KEPT, training, optimizer, scheduler=scheduler, loader=loader
        )
        step, losses = kept.step, kept.extra["losses"]
    while step < STEPS:
        for x, target in loader:
            losses.append(training(x + 0.01 * torch.rand(()), target).tolist())
            scheduler.step()
            training.setOptimizer(optimizer)
            step += 1
            poptorch.save_checkpoint(
                folder / KEPT, training, optimizer, step=step, scheduler=scheduler,
                loader=loader, extra={"losses": losses},
            )  # fmt: skip
            if step == STEPS:
                break
    result = {
        "losses": losses,
        "weights": dict(model.state_dict()),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "device": training.rng_state,
        "program": [torch.rand(()).item(), random.random(), numpy.random.rand()],
    }
    loader.terminate()
    return result


# Points of a run of 40 steps: the weight of the draw, and the bounds of arguments of inject_fault.
# Some are beyond the run's end.
EVENTS = {
    "compile": (1, {"index": (1, 20)}, {"place": "differentiate"}),
    "copy": (2, {"nth": (1, 60)}, {}),
    "run": (3, {"nth": (1, 40), "micro_batch": (0, 2)}, {}),
    "load": (3, {"nth": (1, 45)}, {"place": "program"}),
    "save": (6, {"nth": (1, 250)}, {}),
}


def drawn_event(draw):
    """Draws arguments of inject_fault."""
    (point,) = draw.choices(list(EVENTS), weights=[weight for weight, _, _ in EVENTS.values()])
    _, bounds, words = EVENTS[point]
    return {"point": point, **{name: draw.randint(*of) for name, of in bounds.items()}, **words}


def begun(kind, folder, event=None):
    """Forks a process that trains, and writes its result to a file; it is killed at the event."""
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        if event is not None:
            poptorch.testing.inject_fault(kind="SIGKILL", **event)
        folder.mkdir(exist_ok=True)
        torch.save(train(kind, folder), folder / "unfinished")
        os.rename(folder / "unfinished", folder / "result")
        status = 0
    finally:
        os._exit(status)


def has_saved(process, place):
    """Waits for a checkpoint of this process; returns False if it ends first."""
    file, start = place / KEPT, time.time_ns()
    while not (file.exists() and file.stat().st_mtime_ns > start):
        if os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return False
        time.sleep(0.0005)
    return True


def ended(process):
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def same(ours, theirs):
    if isinstance(ours, torch.Tensor):
        return torch.equal(ours, theirs)
    if isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(same(ours[k], theirs[k]) for k in ours)
    if isinstance(ours, (list, tuple)):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return ours == theirs


def main(name, kills, folder, seed, with_times):
    draw, kind = random.Random(f"{name} {kills} {seed}"), KINDS[name]
    torch.optim.SGD([torch.zeros(1)])  # loads the libraries that every run would load
    start = time.monotonic()
    process = begun(kind, folder / "undisturbed")
    has_saved(process, folder / "undisturbed")
    preparing = time.monotonic() - start
    assert ended(process) == 0
    training = time.monotonic() - start - preparing
    expected = torch.load(folder / "undisturbed/result")
    killed, rounds, middle = 0, 0, 0
    while killed < kills:
        rounds += 1
        place = folder / str(rounds)
        while not (place / "result").exists():
            at_time = with_times and draw.random() < 0.5
            event = drawn_event(draw) if killed < kills and not at_time else None
            process = begun(kind, place, event)
            if killed < kills and at_time:
                if draw.random() < 0.1:
                    time.sleep(draw.uniform(0, preparing))
                elif has_saved(process, place):
                    time.sleep(draw.uniform(0, training / 4))
                os.kill(process, signal.SIGKILL)
            status = ended(process)
            assert status in (0, -signal.SIGKILL), status
            killed += status != 0
            middle += status != 0 and (place / KEPT).exists()
        got = torch.load(place / "result")
        for what in expected:
            assert same(got[what], expected[what]), (rounds, what, f"seed {seed}")
        left = {KEPT, "result"}
        assert {file.name for file in place.iterdir()} <= left, list(place.iterdir())
    print(
        f"{name}: {killed} kills, {middle} with a checkpoint, {rounds} runs, seed {seed}, all equal"
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4], sys.argv[5:] == ["times"])
