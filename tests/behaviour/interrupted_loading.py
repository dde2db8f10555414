"""A program that loads data until Ctrl-C, which it may send itself, and does not report the
interrupt.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys

# argv: the strategy, the number of workers, and the moment of the interrupt, or "never".
PROGRAM = """
import os, signal, sys, threading
from multiprocessing import util

try:
    import poptorch, torch

    strategy, workers, moment = sys.argv[1:]

    def interrupt():
        "As a terminal does. It has reached this process when this returns, whatever its thread."
        arrived, wakeup = os.pipe()
        os.set_blocking(wakeup, False)
        signal.set_wakeup_fd(wakeup)
        os.killpg(0, signal.SIGINT)
        os.read(arrived, 1)
        signal.set_wakeup_fd(-1)

    def interrupted_spawn(*arguments, spawn=util.spawnv_passfds):
        child = spawn(*arguments)
        if moment == "start" and "spawn_main" in str(arguments):
            interrupt()
        return child

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return 100

        def __getitem__(self, index):
            return torch.ones(10)

    if __name__ == "__main__":
        util.spawnv_passfds = interrupted_spawn
        # Of the threads that numerical libraries have: it hears what the main one has blocked.
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        print("ready", flush=True)
        loader = poptorch.DataLoader(
            poptorch.Options(),
            Rows(),
            num_workers=int(workers),
            mode=poptorch.DataLoaderMode.Async,
            async_options={"sharing_strategy": poptorch.SharingStrategy[strategy]},
        )
        print("started", flush=True)
        while True:
            for number, _ in enumerate(loader):
                if moment == "batch" and number == 50:
                    interrupt()
except KeyboardInterrupt:
    if __name__ != "__main__":
        raise
"""

# Messages of Python's resource tracker when it frees what an interrupted start left, and of its
# import system about an interrupt in one of its callbacks.
OF_PYTHON = re.compile(
    r".*resource_tracker.*leaked.*\n(  warnings\.warn\(.*\n)?"
    r"|Exception ignored in: <function _get_module_lock.*\n(.*\n){2,3}?KeyboardInterrupt: \n"
)


@contextlib.contextmanager
def started(folder, *arguments):
    program = folder / "program.py"
    program.write_text(PROGRAM)
    running = subprocess.Popen(
        [sys.executable, program, *arguments],
        env={**os.environ, "PYTHONPATH": ":".join(p for p in sys.path if p)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A shell may start background processes with interrupts ignored; a terminal's processes
        # receive them.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        yield running
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
