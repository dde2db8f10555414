"""Programs that zygote.py starts behave as new processes do; tests that need new processes are
listed with reasons.
"""

import ast
import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import zygote

TESTS = Path(__file__).resolve().parents[1]

# Files and folders that start Python by `subprocess`.
NEW_PROCESSES = {
    "behaviour/cached_models.py": "finds its processes by their command lines",
    "behaviour/data/test_data_interrupts.py": "interrupts the imports of a fork server",
    "behaviour/interrupted_loading.py": "restores SIGINT (preexec_fn)",
    "behaviour/loading_program.py": "finds the program's processes by their environment",
    "behaviour/ops/test_custom_ops.py": "loads a library before poptorch is imported",
    "behaviour/data/test_data.py": "what starts the program restores SIGINT (preexec_fn)",
    "behaviour/data/test_data_batches.py": "the loader's processes inherit the program's imports",
    "behaviour/data/test_data_ends.py": "finds the program's processes by their environment",
    "behaviour/data/test_forked_server.py": "starts a fork server from the program itself",
    "behaviour/wrapper/test_determinism.py": "PYTHONHASHSEED is read when Python starts",
    "behaviour/wrapper/test_helpers.py": "PVTI_OPTIONS is read at import",
    "behaviour/devices/test_estimate.py": "measures the memory of a whole process",
    "behaviour/devices/test_instances.py": "its program has no torch",
    "behaviour/faults/test_killed_training.py": "the program is a zygote itself",
    "behaviour/files/test_program_files.py": "its program has no torch",
    "behaviour/faults/test_signal_faults.py": "stops a process that POPTORCH_FAULT is for alone",
    "behaviour/faults/test_threads.py": "interrupts the end of Python itself",
    "clients/test_integrations.py": "what integrations import",
    "clients/test_torch_compile.py": "the order of imports",
    "errors/test_wrapper_messages.py": "what is wrong at import: another torch, a missing library",
    "errors/test_unusual_characters.py": "its program has no torch",
    "flaky.py": "runs pytest",
    "meta/test_core.py": "PYTHONHASHSEED is read when Python starts",
    "meta/test_distribution.py": "runs the build of the package",
    "meta/test_flaky.py": "runs pytest",
    "meta/test_package.py": "what poptorch imports",
    "meta/test_serving.py": "a program in C++",
    "meta/test_time_limits.py": "runs pytest",
    "meta/test_types.py": "runs mypy",
    "nightly": "rows that start what users start",
    "popdist": "the launcher's processes",
    "popxl/test_programs.py": "popxl is imported without torch",
    "popxl/test_tutorials.py": "its program has no torch",
    "reports/test_channels.py": "PVTI_OPTIONS is read at import",
    "reports/test_recording.py": "the launcher's processes",
    "reports/test_report_parts.py": "its program has no torch",
}


def starts_of_python(tree):
    """Returns calls of `subprocess` in functions (or at the top) that name sys.executable or
    PYTHON."""
    for scope in (tree, *(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef))):
        body = [n for n in ast.walk(scope)]
        names = {n.id for n in body if isinstance(n, ast.Name)}
        attributes = {ast.unparse(n) for n in body if isinstance(n, ast.Attribute)}
        if scope is not tree and ("sys.executable" in attributes or names & {"PYTHON", "POPRUN"}):
            yield from (a for a in attributes if a in ("subprocess.run", "subprocess.Popen"))


def test_who_starts_a_new_python_has_a_reason():
    found = set()
    for file in sorted(TESTS.rglob("*.py")):
        name = str(file.relative_to(TESTS))
        if file.name.startswith("zygote") or not any(starts_of_python(ast.parse(file.read_text()))):
            continue
        place = name if name in NEW_PROCESSES else name.split("/")[0]
        assert place in NEW_PROCESSES, f"{name}: use zygote.run, or give a reason"
        found.add(place)
    assert found == set(NEW_PROCESSES), "reasons without a file"


PROGRAMS = {
    "an exception": "1 / 0",
    "no syntax": "x = (",
    "a status": "import sys; sys.exit(3)",
    "a last word": "raise SystemExit('bye')",
    "an interrupt": "raise KeyboardInterrupt",
    "a kill": "import os; os.kill(os.getpid(), 9)",
    "an abort": "import os; os.abort()",
    "input": "print(input())",
    "a thread": "import threading, time\n"
    "threading.Thread(target=lambda: (time.sleep(0.1), print('late'))).start()",
    "an exit function": "import atexit; atexit.register(print, 'the end'); print('before')",
    "an object's end": "class A:\n  def __del__(self): print('gone')\na = A()",
    "surroundings": "import os, sys; print(sys.argv, sys.path, os.getcwd(), os.environ['MINE'])\n"
    "print(os.getppid(), sys.stdout, sys.stderr, __name__, sys.stdin.encoding, dir())",
    "its descriptors": "import os; print(sorted(os.listdir('/proc/self/fd'))[:4])",
    "its signals": "import signal; print([signal.getsignal(n) for n in signal.valid_signals()])",
    "a session": "import os; print(os.getsid(0) == os.getpid())",
}
LOGS = """
    import faulthandler, logging, poptorch, sys
    level, hook = poptorch._logging.logger.level, sys.excepthook.__name__
    sys.stdout.write(f"{level} {hook} {faulthandler.is_enabled()}")
"""


def outcome(run, words, folder):
    done = run(
        [sys.executable, *words], input="given\n", capture_output=True, text=True, cwd=folder,
        env={**os.environ, "MINE": "yes"}, start_new_session="sid" in words[1],
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr.split("Current thread")[0]


CASES = [(name, "-c") for name in PROGRAMS]
CASES += [(name, kind) for name in ("an exception", "surroundings") for kind in ("file", "-m")]


@pytest.mark.shared
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_programs_end_as_in_a_new_process(name, kind, tmp_path):
    words = ["-c", PROGRAMS[name], "a", "b c"]
    if kind != "-c":
        (tmp_path / "program.py").write_text(PROGRAMS[name])
        words = (["-m", "program"] if kind == "-m" else ["program.py"]) + ["a", "b c"]
    expected = outcome(subprocess.run, words, tmp_path)
    assert outcome(zygote.run, words, tmp_path) == expected


@pytest.mark.shared
def test_the_level_of_the_log_is_read_by_the_import():
    program = [sys.executable, "-c", textwrap.dedent(LOGS)]
    for level, number in (("ERR", 40), ("debug", 10), ("3", 30), ("OFF", 51)):
        for flag, hook in (("0", "excepthook False"), ("1", "log_uncaught True")):
            env = {**os.environ, "POPTORCH_LOG_LEVEL": level, "POPTORCH_LOG_UNCAUGHT": flag}
            done = zygote.run(program, capture_output=True, text=True, check=True, env=env)
            assert done.stdout == f"{number} {hook}"
    wrong = {**os.environ, "POPTORCH_LOG_LEVEL": "wibble"}
    done = zygote.run(program, capture_output=True, text=True, env=wrong)
    assert done.returncode == 1 and "POPTORCH_LOG_LEVEL is 'wibble'" in done.stderr


@pytest.mark.signals
def test_a_program_is_a_child_that_can_be_stopped_and_killed():
    program = "import signal, sys; print('up', flush=True); sys.stdin.read()"
    with zygote.Popen([sys.executable, "-c", program], stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout.readline() == "up\n"
        assert process.poll() is None
        process.send_signal(signal.SIGSTOP)
        assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
        process.send_signal(signal.SIGCONT)
        process.terminate()
        assert process.wait() == -signal.SIGTERM


def answer(answers, given):
    answers.put((Path("/proc/self/cmdline").read_text(), given))
    sys.exit(3)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_of_multiprocessing_are_forks(method):
    context = multiprocessing.get_context(method)
    answers = context.SimpleQueue()
    process = context.Process(target=answer, args=(answers, "a word"))
    process.start()
    command, given = answers.get()
    process.join()
    assert zygote.SERVER.name in command and given == "a word" and process.exitcode == 3


def test_what_cannot_be_forked_is_a_new_process():
    words = [sys.executable, "-c", "import sys; sys.exit('torch' in sys.modules)"]
    assert zygote.run(words).returncode == 1
    assert zygote.run([words[0], "-E", *words[1:]]).returncode == 0
    for name in ("OMP_NUM_THREADS", "PYTHONHASHSEED", "PVTI_OPTIONS", "POPTORCH_LOG_DEST"):
        assert zygote.run(words, env={**os.environ, name: "1"}).returncode == 0
    assert zygote.run(["true"]).returncode == 0


MASK = """
import signal
print(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])))
raise KeyboardInterrupt
"""


@contextlib.contextmanager
def blocked(number):
    former = signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


def test_a_program_blocks_the_signals_that_its_caller_blocks(tmp_path, monkeypatch):
    """Loaders block SIGINT while they start workers, the first of which may start the zygote."""
    with blocked(signal.SIGINT):
        server = zygote.Zygote()
    monkeypatch.setattr(zygote, "_zygotes", [server])
    with server.connection:
        for number in (signal.SIGUSR1, signal.SIGINT):
            with blocked(number):
                expected = outcome(subprocess.run, ["-c", MASK], tmp_path)
                assert outcome(zygote.run, ["-c", MASK], tmp_path) == expected
    server.process.wait()


@pytest.mark.shared
def test_random_numbers_differ():
    words = [
        sys.executable,
        "-c",
        "import random, numpy; print(random.random(), numpy.random.rand())",
    ]
    first, second = (zygote.run(words, capture_output=True, text=True).stdout for _ in "12")
    assert set(first.split()).isdisjoint(second.split()) and len(first.split()) == 2
