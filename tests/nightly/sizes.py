"""Compares every case of the table of ops with eager torch in float64, at its three sizes.

`python tests/nightly/sizes.py [--jobs 2] [--texts FOLDER] [CASE ...]`: each case runs in its own
process, so that a crash is the result of one case. Elements may differ by a share of the largest
one. `--texts` also writes the traced modules, which the sanitized unit test
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
from benchmarks.ops.program import Function, Program  # noqa: E402
from benchmarks.ops.tables import CASES  # noqa: E402
from benchmarks.ops.worker import Mode, modes  # noqa: E402

SHARES = {torch.float32: 2e-4, torch.float16: 2e-2, torch.bfloat16: 8e-2}
RANDOM = ("dropout", "random_uniform", "random_normal", "bernoulli", "random_poisson")
ORDERED = ("sort", "topk")  # the order of equal elements, and so their indices, may be any


class Whole(torch.nn.Module):
    """A model whose results are all results of `inner`, without a choice of elements."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, _step: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.inner.results()

    @classmethod
    def of(cls, inner: torch.nn.Module, mode: Mode):
        """Returns a wrapped model."""
        options = poptorch.Options().showCompilationProgressBar(False)
        options.Precision.enableStochasticRounding(mode.stochastic)
        return poptorch.inferenceModel(cls(inner).eval(), options)


def function(program: Program, size: int) -> Function:
    """Returns a case's function; gradients are those of random cotangents."""
    inner = Function(program.case, program.inputs, program.gradients).eval()
    generator = torch.Generator().manual_seed(size)
    for name, buffer in inner.named_buffers():
        if name.startswith("cotangent"):
            buffer.copy_(torch.randn(buffer.shape, generator=generator))
    return inner


def difference(ours: torch.Tensor, exact: torch.Tensor) -> float:
    """Returns the largest difference of two elements, as a share of the largest element."""
    if ours.shape != exact.shape:
        return float("inf")
    a, b = ours.double(), exact.to(ours.dtype).double()
    if a.numel() == 0 or not torch.equal(torch.isnan(a), torch.isnan(b)):
        return 0.0 if a.numel() == 0 else float("inf")
    same = torch.isnan(b) | (a == b)
    worst = torch.where(same, 0.0, (a - b).abs()).max()
    return (worst / b[b.isfinite()].abs().max().clamp(min=1e-3)).item()


def check(case, size: int, dtype: torch.dtype, mode: Mode, folder: Path | None) -> str | None:
    """Runs one measurement's program once. Returns what is wrong with its results."""
    program = Program(case, size, dtype, mode.gradients)
    name = f"{case.name}-{SIZES[size]}-{str(dtype).removeprefix('torch.')}"
    name += "-gradients" * mode.gradients + "-stochastic" * mode.stochastic
    print("runs", name, flush=True)
    compared = isinstance(case, Case) and not mode.stochastic and case.name not in RANDOM
    inner = function(program, size) if isinstance(case, Case) else None
    wrapped = program.ours(1, mode.stochastic).wrapped if inner is None else Whole.of(inner, mode)
    results = wrapped(torch.zeros(1, 1))
    if folder is not None:
        (folder / f"{name}.ir").write_text(wrapped.graph("traced"))
    if not compared or (case.name in ORDERED and mode.gradients):
        return None
    with torch.set_grad_enabled(mode.gradients):
        expected = inner.double().results()
    share = max(
        difference(a, b)
        for a, b in zip(results, expected, strict=True)
        if case.name not in ORDERED or b.is_floating_point()
    )
    return None if share <= SHARES.get(dtype, 0.0) else f"{name}: differs by {share:.1e}"


def check_case(name: str, folder: Path | None) -> int:
    """Checks all sizes, dtypes and modes of a case in this process."""
    logging.getLogger("poptorch").setLevel(logging.ERROR)
    case = next(case for case in CASES if case.name == name)
    wrong = [
        text
        for size in case.sizes
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
