"""Sends a signal at each named point of the last of two instances: `python
tests/popdist/named_faults.py [PART...]`.

PART is a part of fault_points.py; --signals=SIGKILL,SIGINT,SIGTERM,SIGSTOP selects signals. As in
random_faults.py, all instances must end, the others name the instances that they waited for, and
nothing is left.
"""

import argparse
import os
import signal
import sys

from fault_points import POINTS_BY_PART
from random_faults import strike

STATUSES = {  # SIGINT: as an exception, or as Python's default ending
    signal.SIGKILL: (137,), signal.SIGINT: (1, 130), signal.SIGTERM: (143,), signal.SIGSTOP: (0, 1)
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=list(POINTS_BY_PART))
    parser.add_argument("--signals", default="SIGKILL,SIGINT")
    parser.add_argument("--sync-seconds", type=int, default=300)  # until a stopped one is named
    args = parser.parse_args()
    args.instances, args.on_a_host = 2, 2
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # threads do not survive a fork
    points = [point for part in args.parts for point in POINTS_BY_PART[part]]
    wrong = 0
    for kind in (signal.Signals[name] for name in args.signals.split(",")):
        for point in points:
            fault = f"{point}:{kind.name}"
            ended = strike(args, apart=False, cold=False, kind=kind, fault=fault)
            error = ended.error
            if not error and ended.status not in STATUSES[kind]:
                error = f"status {ended.status}\n{ended.said}"
            if not error and ended.told and "instance 1" not in ended.told:
                error = f"instance 0 says: {ended.told}"
            if error:
                wrong += 1
                print(f"{fault}: {error}", flush=True)
    print(f"named faults: {len(points)} points, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
