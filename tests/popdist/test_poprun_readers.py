"""poprun ends on request even if the reader of its output is slow, stopped or gone."""

import contextlib
import os
import pty
import re
import signal
import subprocess
import termios

import pytest
from launching import (
    POPRUN,
    PYTHON,
    clean_environment,
    ended,
    fill,
    is_full,
    is_running,
    lines,
    poprun,
    started,
    until,
)


@pytest.fixture
def pipe():
    """The two ends of a pipe."""
    files = list(os.pipe())
    yield files
    for file in files:
        with contextlib.suppress(OSError):
            os.close(file)


@pytest.mark.shared
@pytest.mark.signals
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_while_nobody_reads(pipe, number):
    _, writer = pipe
    fill(writer)
    process = started("--num-instances=2", "sh", "-c", "echo up >&2; exec yes", stdout=writer)
    for _ in range(2):
        process.stderr.readline()
    process.send_signal(number)
    ended(process, 128 + number)


@pytest.mark.signals
def test_ctrl_c_while_nobody_reads_the_last_words():
    program = "head -c 300000 /dev/zero >&2; exit 3"
    heard = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's "&" ignores it
    process = started("--num-instances=2", "--only-output-from-instance=1", "sh", "-c",
                      f"if [ $RANK = 0 ]; then {program}; fi")  # fmt: skip
    signal.signal(signal.SIGINT, heard)
    process.stderr.readline()  # "failed first": its last output fills the pipe
    process.send_signal(signal.SIGINT)
    process.wait()  # nothing reads
    assert "Traceback" not in ended(process, 130)[1]


@pytest.mark.shared
def test_a_slow_reader_gets_everything(pipe):
    """Writes much more than poprun and a pipe can hold."""
    reader, writer = pipe
    process = started("--num-instances=2", "seq", "200000", stdout=writer)
    until(lambda: is_full(writer))
    os.close(writer)
    with os.fdopen(os.dup(reader)) as file:
        found = file.read()
    ended(process)
    for instance in range(2):
        assert lines(found, instance) == [str(n) for n in range(1, 200001)]


@pytest.mark.shared
def test_lines_stay_whole_where_both_streams_are_one_file(pipe):
    """Runs as with 2>&1, with a reader that repeatedly lets the pipe fill and empties it."""
    reader, writer = pipe
    words = ["--num-instances=2", "sh", "-c", "seq 40000 & seq 40000 >&2; wait"]
    process = started(*words, stdout=writer, stderr=writer)
    found, times_full = b"", 0
    while process.poll() is None:
        until(lambda: is_full(writer) or process.poll() is not None)
        if is_full(writer):
            found += os.read(reader, 1 << 20)
            times_full += 1
    os.close(writer)
    while data := os.read(reader, 1 << 20):
        found += data
    assert process.returncode == 0 and times_full > 10
    written = found.decode().splitlines()
    assert len(written) == 160000
    wrong = [line for line in written if not re.fullmatch(r"\[1,[01]\]<std(out|err)>:\d+", line)]
    assert wrong == []


def test_a_terminal_gets_everything_too(tmp_path):
    """Instances write and end while the terminal's user has stopped its output (Ctrl-S)."""
    reader, terminal = pty.openpty()
    termios.tcflow(terminal, termios.TCOOFF)
    words = ["--num-instances=2", "sh", "-c", f"seq 20000; touch {tmp_path}/$RANK"]
    process = started(*words, stdin=terminal, stdout=terminal)
    assert os.get_blocking(terminal)  # other processes have it, too
    until(lambda: len(os.listdir(tmp_path)) == 2)
    termios.tcflow(terminal, termios.TCOON)
    os.close(terminal)
    found = b""
    with contextlib.suppress(OSError):  # all have closed it
        while data := os.read(reader, 1 << 16):
            found += data
    os.close(reader)
    ended(process)
    for instance in range(2):
        assert lines(found.decode(), instance) == [str(n) for n in range(1, 20001)]


def test_output_that_cannot_be_written(tmp_path):
    with open("/dev/full", "w") as full:
        words = ["--max-restarts=3", "sh", "-c", "echo a; exec sleep infinity"]
        _, err = poprun(*words, stdout=full, status=1)
    assert re.fullmatch(r".*\[E\] stdout cannot be written: No space left on device. The instances "
                        "were ended.\n", err)  # fmt: skip
    (tmp_path / "file").touch()
    words = ["--mpi-global-args", f"--output-filename {tmp_path}/file"]
    _, err = poprun(*words, "echo", "hi", status=1)
    assert f"{tmp_path}/file/1/rank.0/stdout of --output-filename cannot be written: Not a" in err
    folder = tmp_path / "out/1/rank.0"
    folder.mkdir(parents=True)
    (folder / "stdout").symlink_to("/dev/full")
    words = ["--mpi-global-args", f"--output-filename {tmp_path}/out"]
    _, err = poprun(*words, "sh", "-c", "echo a; exec sleep infinity", status=1)
    assert f"{folder}/stdout of --output-filename cannot be written: No space left" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_started_without_a_standard_file(closed):
    shell = f'exec "$@" {closed}>&-'
    words = ["sh", "-c", shell, "sh", *POPRUN, "sh", "-c", "cat; echo a; echo b >&2"]
    done = subprocess.run(words, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, env=clean_environment())  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == ("" if closed == 1 else "[1,0]<stdout>:a\n")
    assert done.stderr == ("" if closed == 2 else "[1,0]<stderr>:b\n")


@pytest.mark.signals
def test_a_program_outlives_its_terminal_under_nohup(tmp_path):
    def ignoring():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    program = f"echo up; until [ -e {tmp_path}/go ]; do sleep 0.01; done; echo done"
    process = started("sh", "-c", program, preexec_fn=ignoring)
    process.stdout.readline()
    process.send_signal(signal.SIGHUP)
    (tmp_path / "go").touch()
    assert ended(process) == ("[1,0]<stdout>:done\n", "")


@pytest.mark.signals
def test_what_a_child_of_its_own_session_holds_open_is_not_waited_for(tmp_path):
    child = f"setsid sh -c 'echo $$; touch {tmp_path}/up; exec sleep infinity'"
    out, _ = poprun("sh", "-c", f"{child} & until [ -e {tmp_path}/up ]; do sleep 0.01; done")
    (pid,) = map(int, lines(out, 0))
    assert is_running(pid)
    os.kill(pid, signal.SIGKILL)


def test_a_line_of_many_bytes_comes_in_pieces():
    program = "import sys; sys.stdout.buffer.write(b'\\0x' * 1500000 + b'\\nend\\n')"
    out, _ = poprun(PYTHON, "-c", program)
    *pieces, last = lines(out.replace("\0", "0"), 0)
    assert "".join(pieces) == "0x" * 1500000 and last == "end"


@pytest.mark.parametrize("limit, words", [("-n 30", 20), ("-n 30", 60)])
def test_more_instances_than_a_process_may_have(limit, words):
    shell = f'ulimit {limit}; exec "$@"'
    done = subprocess.run(["sh", "-c", shell, "sh", *POPRUN, "--num-instances", str(words), "true"],
                          capture_output=True, text=True,
                          env=clean_environment())  # fmt: skip
    assert done.returncode == 126
    assert re.search(r"instance \d+: cannot start 'true': Too many open files. Start fewer",
                     done.stderr)  # fmt: skip


def test_ssh_that_is_not_installed(tmp_path):
    _, err = poprun("--host=far", "true", env={"PATH": str(tmp_path)}, status=127)
    assert "cannot start 'ssh': No such file or directory. It reaches host far: install it" in err


@pytest.mark.parametrize("words", ["--help", "--version", "--print-topology=yes"])
def test_what_poprun_says_itself_cannot_be_written(words):
    with open("/dev/full", "w") as full:
        done = subprocess.run([*POPRUN, words], stdout=full, stderr=subprocess.PIPE, text=True,
                              env=clean_environment())  # fmt: skip
    assert done.returncode == 1
    assert re.fullmatch(r".*\[E\] stdout cannot be written: No space left on device.\n",
                        done.stderr)  # fmt: skip
