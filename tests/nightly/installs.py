"""Installs the package as users do, each time in a new environment: `python
tests/nightly/installs.py [folder editable archive wheel]`.

The source distribution is installed from its unpacked folder, editable, and as an archive. These
builds do not find the headers of libraries that the system has: third_party has to suffice. The
wheel is timed from `pip install` to the first trained model, without downloads; other programs of
the machine do not change its CPU time.
"""

import os
import resource
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = ("spdlog", "fmt", "nlohmann", "xxhash.h", "gtest")
SECONDS = 60  # of CPU time, from a wheel to a trained model
CHECK = """
import poptorch, popxl, popart, popdist, popxl_addons, torch
from poptorch_core import versions
assert poptorch.__version__ == versions.VERSION
class Loss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
    def forward(self, x):
        y = self.layer(x)
        return y, poptorch.identity_loss(y * y, reduction="mean")
training = poptorch.trainingModel(Loss())
losses = [float(training(torch.ones(4, 2))[1]) for _ in range(5)]
assert losses[-1] < losses[0], losses
print(poptorch.__file__)
"""


def run(*command, **settings):
    """Runs a command without this environment's packages, and returns its output."""
    hidden = ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE")
    changed = {**dict.fromkeys(hidden), **settings.pop("environment", {})}
    kept = {name: value for name, value in os.environ.items() if name not in changed}
    given = {name: value for name, value in changed.items() if value is not None}
    done = subprocess.run(
        [str(part) for part in command],
        env={**kept, **given}, capture_output=True, text=True, **settings,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"installs: {command} failed:\n{done.stdout[-4000:]}\n{done.stderr[-8000:]}")
    return done.stdout


def new_environment(folder):
    """Makes a virtual environment, and returns its interpreter."""
    venv.create(folder, with_pip=True)
    return folder / "bin/python"


def hidden_headers(folder):
    """Returns flags with which including the system's headers of LIBRARIES is an error."""
    for library in LIBRARIES:
        place = Path("/usr/include") / library
        for header in [place, *place.rglob("*.h*")]:
            if header.is_file():
                copy = folder / header.relative_to("/usr/include")
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_text(f'#error "{header} belongs to the system"\n')
    folder.mkdir(exist_ok=True)
    return f"-isystem {folder}"


def source_distribution(folder):
    """Makes the source distribution, and returns the archive and its unpacked folder."""
    command = ["-q", "egg_info", "--egg-base", folder, "sdist", "-d", folder]
    run(sys.executable, "setup.py", *command, cwd=ROOT)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    return archive, folder / archive.name.removesuffix(".tar.gz")


def install(kind, folder):
    """Installs the source distribution in a new environment, and trains a model there."""
    archive, unpacked = source_distribution(folder)
    python = new_environment(folder / "environment")
    given = {"folder": [unpacked], "editable": ["-e", unpacked], "archive": [archive]}[kind]
    flags = {"CXXFLAGS": hidden_headers(folder / "hidden")}
    run(python, "-m", "pip", "install", *given, cwd=folder, environment=flags)
    imported = run(python, "-c", CHECK, cwd=folder).splitlines()[-1]
    expected = unpacked / "python" if kind == "editable" else folder / "environment"
    if not Path(imported).is_relative_to(expected):
        sys.exit(f"installs: {kind}: {imported} was imported, not from {expected}")
    print(f"installs: {kind}: a model trains", flush=True)


def cpu_seconds():
    """Returns the CPU time of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def seconds_from_wheel(folder):
    """Returns the time from a wheel to a trained model, and the CPU time of each part of it."""
    wheels = folder / "wheels"
    wheel = max((ROOT / "dist").glob("*manylinux*.whl"), key=lambda file: file.stat().st_mtime)
    run(sys.executable, "-m", "pip", "download", "-d", wheels, wheel, cwd=folder)
    python = folder / "environment/bin/python"
    found = ["--no-index", "--find-links", wheels]  # the rest is the command of docs/install.md
    parts = {
        "environment": [sys.executable, "-m", "venv", folder / "environment"],
        "install": [python, "-m", "pip", "install", "--no-compile", *found, wheels / wheel.name],
        "program": [python, ROOT / "examples/python/mnist.py"],
    }
    used, start = {}, time.monotonic()
    for name, command in parts.items():
        before = cpu_seconds()
        run(*command, cwd=folder)
        used[name] = cpu_seconds() - before
    return time.monotonic() - start, used


def main():
    kinds = sys.argv[1:] or ["folder", "editable", "archive", "wheel"]
    for kind in kinds:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name).resolve()
            if kind != "wheel":
                install(kind, folder)
                continue
            seconds, used = seconds_from_wheel(folder)
            parts = ", ".join(f"{name} {part:.0f}" for name, part in used.items())
            print(
                f"installs: {sum(used.values()):.0f} s of CPU time from a wheel to the first "
                f"trained model, at most {SECONDS} ({parts}); {seconds:.0f} s have passed"
            )
            if sum(used.values()) > SECONDS:
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
