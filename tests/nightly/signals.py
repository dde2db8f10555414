"""Sends SIGINT at random times to a program that trains: `python tests/nightly/signals.py --points
300`.

The program trains with data of loading processes, compiles again, infers and copies weights, over
and over. After a signal it must be in the handler within a second, must be able to continue with
the same wrappers, and must end without an error. Prints the longest time.
"""

import argparse
import os
import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

SECONDS_TO_WAIT = 30
PROGRAM = Path(__file__).with_name("interrupted.py")


def interrupt(after: float) -> tuple[float, str]:
    """Returns the seconds to the handler, and what is wrong, if anything."""
    process = subprocess.Popen(
        [sys.executable, PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "POPTORCH_LOG_LEVEL": "ERR"},
    )
    try:
        if process.stdout.readline() != "ready\n":
            return 0.0, process.stderr.read()
        time.sleep(after)
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        heard, _, _ = select.select([process.stdout], [], [], SECONDS_TO_WAIT)
        seconds = time.monotonic() - sent
        if not heard:
            return seconds, "no answer"
        line = process.stdout.readline()
        _, errors = process.communicate(timeout=SECONDS_TO_WAIT)
        if line != "stopped\n" or process.returncode != 0:
            return seconds, errors
        return seconds, "" if seconds < 1 else f"{seconds:.2f} s to the handler"
    except subprocess.TimeoutExpired:
        return seconds, "it does not end"
    finally:
        process.kill()
        process.communicate()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    numbers = random.Random(args.seed)
    longest, wrong = 0.0, 0
    for point in range(args.points):
        after = numbers.uniform(0, 1.5)
        seconds, error = interrupt(after)
        longest = max(longest, seconds)
        if error:
            wrong += 1
            print(f"point {point}, after {after:.3f} s: {error}", flush=True)
    slowest = f"at most {longest * 1e3:.0f} ms to the handler"
    print(f"signals: {args.points} points, {wrong} wrong, {slowest}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
