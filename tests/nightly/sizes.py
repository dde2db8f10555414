"""Compares every case of the table of ops with eager torch, at its three sizes.

`python tests/nightly/sizes.py [--jobs 2] [--texts FOLDER] [CASE ...]`: each case runs in its own
process, so that a crash is the result of one case. Elements may differ from eager's by a share of
the largest one. `--texts` also writes the traced modules, which the sanitized unit test
`Texts.OfAFolderRun` runs.
"""

import argparse
import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import poptorch
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.ops.case import SIZES, Case  # noqa: E402
from benchmarks.ops.program import Program  # noqa: E402
from benchmarks.ops.tables import CASES  # noqa: E402
from benchmarks.ops.worker import modes  # noqa: E402

SHARES = {torch.float32: 2e-4, torch.float16: 2e-2, torch.bfloat16: 8e-2}
RANDOM = ("dropout", "random_uniform", "random_normal", "bernoulli", "random_poisson")


class Whole(torch.nn.Module):
    """A model whose results are all results of `inner`, without a choice of elements."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, _step: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.inner.results()


def difference(ours: torch.Tensor, eager: torch.Tensor) -> float:
    """Returns the largest difference of two elements, as a share of the largest element."""
    if ours.shape != eager.shape:
        return float("inf")
    a, b = ours.double(), eager.double()
    if a.numel() == 0 or not torch.equal(torch.isnan(a), torch.isnan(b)):
        return 0.0 if a.numel() == 0 else float("inf")
    same = torch.isnan(b) | (a == b)
    worst = torch.where(same, 0.0, (a - b).abs()).max()
    return (worst / b[b.isfinite()].abs().max().clamp(min=1e-3)).item()


def check(case, size: int, dtype: torch.dtype, mode, folder: Path | None) -> str | None:
    """Runs one measurement's program once. Returns what is wrong with its results."""
    program = Program(case, size, dtype, mode.gradients)
    name = f"{case.name}-{SIZES[size]}-{str(dtype).removeprefix('torch.')}"
    name += "-gradients" * mode.gradients + "-stochastic" * mode.stochastic
    print("runs", name, flush=True)
    ours = program.ours(1, mode.stochastic)
    if folder is not None:
        (folder / f"{name}.ir").write_text(ours.wrapped.graph("traced"))
    if not isinstance(case, Case) or mode.stochastic or case.name in RANDOM:
        return None
    inner = ours.wrapped.model
    results = poptorch.inferenceModel(Whole(inner).eval())(torch.zeros(1, 1))
    with torch.set_grad_enabled(mode.gradients):
        expected = inner.results()
    share = max(map(difference, results, expected), default=0.0)
    return None if share <= SHARES.get(dtype, 0.0) else f"{name}: differs by {share:.1e}"


def check_case(name: str, folder: Path | None) -> int:
    """Checks all sizes, dtypes and modes of a case in this process."""
    logging.getLogger("poptorch").setLevel(logging.ERROR)
    case = next(case for case in CASES if case.name == name)
    wrong = [
        text
        for size in range(len(SIZES))
        for dtype in case.dtypes
        for mode in modes(case, dtype)
        if (text := check(case, size, dtype, mode, folder))
    ]
    for text in wrong:
        print("wrong", text)
    return int(bool(wrong))


def run_case(name: str, folder: Path | None) -> list[str]:
    """Checks a case in a process. Returns what is wrong."""
    command = [sys.executable, __file__, "--inside", name]
    command += ["--texts", str(folder)] if folder else []
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = done.stdout.splitlines()
    wrong = [line.removeprefix("wrong ") for line in lines if line.startswith("wrong ")]
    if done.returncode and not wrong:
        last = [line for line in lines if line.startswith("runs ")][-1:]
        wrong = [f"{name}: status {done.returncode} after {last}: {' '.join(lines[-1:])}"]
    for text in wrong:
        print(text, flush=True)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("cases", nargs="*", default=[case.name for case in CASES])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--inside", action="store_true", help="check one case in this process")
    arguments = parser.parse_args()
    if arguments.texts:
        arguments.texts.mkdir(parents=True, exist_ok=True)
    if arguments.inside:
        return check_case(arguments.cases[0], arguments.texts)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        found = list(pool.map(lambda name: run_case(name, arguments.texts), arguments.cases))
    wrong = sum(map(len, found))
    print(f"sizes: {len(arguments.cases)} cases of ops at three sizes, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
