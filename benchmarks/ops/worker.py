"""Measures in a process with a fixed number of threads; answers with a line of JSON for each."""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import os
import sys
from collections.abc import Iterator

import torch

from benchmarks.ops.case import FLOATS, SIZES, Case
from benchmarks.ops.measure import Limits, measure, measure_limits
from benchmarks.ops.program import Program
from benchmarks.ops.tables import CASES
from benchmarks.ops.updates import Update

HALVES = (torch.float16, torch.bfloat16)


@dataclasses.dataclass(frozen=True)
class Mode:
    gradients: bool
    stochastic: bool


def modes(case: Case | Update, dtype: torch.dtype) -> Iterator[Mode]:
    stochastic = (False, True) if dtype in HALVES else (False,)
    if isinstance(case, Update):
        yield from (Mode(False, random) for random in stochastic)
        return
    for gradients in (False, True):
        if not gradients or (case.gradients and dtype in FLOATS):
            yield from (Mode(gradients, random) for random in stochastic)


def measure_case(case: Case | Update, sizes: list[int], names: list[str], limits: Limits) -> None:
    for size in filter(case.sizes.__contains__, sizes):
        for dtype in case.dtypes:
            name = str(dtype).removeprefix("torch.")
            if name not in names:
                continue
            for mode in modes(case, dtype):
                line = {
                    "case": case.name,
                    "size": SIZES[size],
                    "dtype": name,
                    "threads": torch.get_num_threads(),
                    **dataclasses.asdict(mode),
                }
                try:
                    program = Program(case, size, dtype, mode.gradients)
                    result = measure(program, mode.stochastic, not mode.stochastic)
                    line |= dataclasses.asdict(result)
                    line["bound"] = limits.bound(result.flops, result.bytes)
                except Exception as error:  # the table says which case failed
                    line["error"] = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
                print(json.dumps(line), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cases", nargs="*", default=[])
    parser.add_argument("--sizes", nargs="*", default=list(SIZES))
    parser.add_argument("--dtypes", nargs="*", default=[])
    arguments = parser.parse_args()
    answers = os.dup(1)
    os.dup2(2, 1)  # nothing but answers goes to the parent
    sys.stdout = os.fdopen(answers, "w", buffering=1)
    logging.getLogger("poptorch").setLevel(logging.ERROR)
    torch.set_num_threads(arguments.threads)
    limits = measure_limits()
    dtypes = arguments.dtypes or ["float32", "float16", "bfloat16", "int32"]
    for case in CASES:
        if not arguments.cases or case.name in arguments.cases:
            measure_case(case, [SIZES.index(size) for size in arguments.sizes], dtypes, limits)


if __name__ == "__main__":
    main()
