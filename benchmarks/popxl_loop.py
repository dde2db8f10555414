"""Times the PopXL tutorials' training loop, with its DataLoader and progress bar, in iterations per
second.

`python -m benchmarks.popxl_loop [--stat cpu]` compares with the speed that the tutorials print for
hardware. `benchmarks.run W1 W2 --peers ...,popxl` times the step alone, with data in memory.
"""

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

import torch
from tqdm import tqdm

EXAMPLES = Path(__file__).resolve().parents[1] / "examples/python"
PRINTED = {"sgd": 306.92, "adam": 284.61}  # iterations a second, on hardware
WANTED = 2.0


def rates(optimiser: str, rounds: int, clock) -> list[float]:
    """Returns iterations per second of each pass over the training digits, after a warm-up pass."""
    from digits import DIGITS
    from train_digits import loader, train_program

    torch.manual_seed(42)
    session, streams, _, loss_stream = train_program(8, optimiser)
    data = loader(DIGITS, "train", 8)
    found = []
    with session:
        for _ in range(rounds + 1):
            start = clock()
            bar = tqdm(data, total=len(data))
            for images, labels in bar:
                inputs = dict(zip(streams, [images.squeeze().float(), labels.int()], strict=True))
                loss = session.run(inputs)[loss_stream]
                bar.set_description(f"Loss:{loss:0.4f}")
            found.append(len(data) / (clock() - start))
    return found[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--stat", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="of torch and of the emulator")
    arguments = parser.parse_args()
    sys.path[:0] = [str(EXAMPLES), str(EXAMPLES / "popxl")]
    torch.set_num_threads(arguments.threads)
    os.environ["POPTORCH_NUM_THREADS"] = str(arguments.threads)  # read when a session is made
    clock = time.perf_counter if arguments.stat == "wall" else time.process_time
    lines = [
        f"| loop | it/s ({arguments.stat}) | printed | ratio | wanted |",
        "|---|---|---|---|---|",
    ]
    for optimiser, printed in PRINTED.items():
        rate = statistics.median(rates(optimiser, arguments.rounds, clock))
        lines.append(
            f"| {optimiser} | {rate:.0f} | {printed} | {rate / printed:.2f} | {WANTED:.1f} |"
        )
    print("\n".join(lines))


if __name__ == "__main__":
    main()
