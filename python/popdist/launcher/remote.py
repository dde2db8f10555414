"""An instance on another host: `ssh <host> python -m popdist.launcher.remote`.

Its description comes as a line of JSON on stdin. stdin then stays open as long as the launcher
lives; the instance ends when it closes.
"""

import json
import os
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence


def command(host: str, python: str) -> tuple[str, ...]:
    """Returns the command that starts an instance on another host."""
    far = shlex.join([python, "-m", "popdist.launcher.remote"])
    path = os.environ.get("PYTHONPATH")
    if path:  # so that this package is found
        far = f"env {shlex.quote(f'PYTHONPATH={path}')} {far}"
    return ("ssh", "-o", "BatchMode=yes", "-T", host, far)


def description(words: Sequence[str], environment: dict[str, str]) -> bytes:
    """Returns the description that is sent there."""
    said = {"words": list(words), "environment": environment, "folder": os.getcwd()}
    return json.dumps(said).encode() + b"\n"


def main() -> int:
    """Runs an instance. Returns its exit status, or 128 plus a signal's number."""
    said = json.loads(_line(0))
    environment = {**os.environ, **said["environment"]}
    try:
        process = subprocess.Popen(
            said["words"],
            cwd=said["folder"],
            env=environment,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        print(f"cannot start {said['words'][0]!r}: {error}", file=sys.stderr)
        return 127
    ended = os.pidfd_open(process.pid)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda got, _: os.killpg(process.pid, got))
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(0, select.POLLIN)
    while True:
        ready = dict(poll.poll())
        if ended in ready:
            break
        if 0 in ready and not os.read(0, 4096):
            os.killpg(process.pid, signal.SIGKILL)
            poll.unregister(0)
    code = process.wait()
    return code if code >= 0 else 128 - code


def _line(file: int) -> bytes:
    """Reads the first line, and no byte after it."""
    found = b""
    while not found.endswith(b"\n"):
        byte = os.read(file, 1)
        if not byte:
            raise SystemExit("popdist.launcher.remote: started without a description")
        found += byte
    return found


if __name__ == "__main__":
    sys.exit(main())
