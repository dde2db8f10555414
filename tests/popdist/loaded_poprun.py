"""Runs poprun with instances that are forks of a process that has already loaded torch.

Ten such instances start in the time of one. `poprun` starts this file as a program of the zygote;
the launcher forks for each instance.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

sys.path.append(str(Path(__file__).resolve().parents[1]))

import zygote


def poprun(
    words: Sequence[str], environment: dict[str, str], folder: Path, errors: Path
) -> subprocess.Popen:
    """Starts poprun in a folder. Its program is a Python file."""
    with errors.open("wb") as said:
        return zygote.Popen(
            [sys.executable, __file__, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            cwd=folder,
            env=environment,
        )


def main() -> int:
    import popdist.launcher.main
    import popdist.launcher.running
    import popdist.poptorch

    popdist.launcher.running.subprocess = SimpleNamespace(
        Popen=zygote.OwnFork, PIPE=subprocess.PIPE, DEVNULL=subprocess.DEVNULL
    )
    return popdist.launcher.main.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
