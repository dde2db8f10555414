"""Who reads what poprun writes may be slow, stopped, or gone; poprun ends when it is told to."""

import os
import pty
import re
import signal
import subprocess
import time

import pytest
from launching import POPRUN, PYTHON, clean_environment, lines, poprun, started


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_while_nobody_reads(number):
    process = started("--num-instances=2", "yes")
    process.stdout.readline()
    time.sleep(0.4)  # the pipe is full
    process.send_signal(number)
    begin = time.monotonic()
    assert process.wait(timeout=20) == 128 + number
    assert time.monotonic() - begin < 5  # a second, on a machine of its own
    process.communicate()


def test_ctrl_c_while_nobody_reads_the_last_words():
    program = "head -c 300000 /dev/zero >&2; exit 3"
    heard = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's "&" ignores it
    process = started("--num-instances=2", "--only-output-from-instance=1", "sh", "-c",
                      f"if [ $RANK = 0 ]; then {program}; fi")  # fmt: skip
    signal.signal(signal.SIGINT, heard)
    process.stderr.readline()  # "failed first": what it said last fills the pipe
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) == 130
    assert "Traceback" not in process.communicate()[1]


def test_a_slow_reader_gets_everything():
    """Much more than poprun keeps, and than a pipe does."""
    words = [*POPRUN, "--num-instances=2", "seq", "200000"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, env=clean_environment())
    time.sleep(0.7)
    found = process.communicate(timeout=60)[0].decode()
    assert process.returncode == 0
    for instance in range(2):
        assert lines(found, instance) == [str(n) for n in range(1, 200001)]


def test_lines_stay_whole_where_both_streams_are_one_file():
    """As by 2>&1, with a reader that lets the pipe become full, empties it, and so on."""
    reader, writer = os.pipe()
    words = [*POPRUN, "--num-instances=2", "sh", "-c", "seq 40000 & seq 40000 >&2; wait"]
    process = subprocess.Popen(words, stdout=writer, stderr=writer, env=clean_environment())
    os.close(writer)
    found = b""
    while data := os.read(reader, 1 << 16):
        found += data
        time.sleep(0.001)
    os.close(reader)
    assert process.wait(timeout=20) == 0
    written = found.decode().splitlines()
    assert len(written) == 160000
    wrong = [line for line in written if not re.fullmatch(r"\[1,[01]\]<std(out|err)>:\d+", line)]
    assert wrong == []


def test_a_terminal_gets_everything_too():
    reader, terminal = pty.openpty()
    words = [*POPRUN, "--num-instances=2", "seq", "20000"]
    process = subprocess.Popen(words, stdin=terminal, stdout=terminal, env=clean_environment())
    assert os.get_blocking(terminal)  # which others have, too
    os.close(terminal)
    found = b""
    time.sleep(0.5)
    try:
        while data := os.read(reader, 1 << 16):
            found += data
    except OSError:  # all have closed it
        pass
    os.close(reader)
    assert process.wait(timeout=20) == 0
    for instance in range(2):
        assert lines(found.decode(), instance) == [str(n) for n in range(1, 20001)]


def test_output_that_cannot_be_written(tmp_path):
    with open("/dev/full", "w") as full:
        done = subprocess.run([*POPRUN, "--max-restarts=3", "sh", "-c", "echo a; exec sleep 60"],
                              stdout=full, stderr=subprocess.PIPE, text=True, timeout=20,
                              env=clean_environment())  # fmt: skip
    assert done.returncode == 1
    assert re.fullmatch(r".*\[E\] stdout cannot be written: No space left on device. The instances "
                        "were ended.\n", done.stderr)  # fmt: skip
    (tmp_path / "file").touch()
    words = ["--mpi-global-args", f"--output-filename {tmp_path}/file"]
    _, err = poprun(*words, "echo", "hi", status=1)
    assert f"{tmp_path}/file/1/rank.0/stdout of --output-filename cannot be written: Not a" in err
    folder = tmp_path / "out/1/rank.0"
    folder.mkdir(parents=True)
    (folder / "stdout").symlink_to("/dev/full")
    words = ["--mpi-global-args", f"--output-filename {tmp_path}/out"]
    _, err = poprun(*words, "sh", "-c", "echo a; exec sleep 60", status=1)
    assert f"{folder}/stdout of --output-filename cannot be written: No space left" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_started_without_a_standard_file(closed):
    shell = f'exec "$@" {closed}>&-'
    words = ["sh", "-c", shell, "sh", *POPRUN, "sh", "-c", "cat; echo a; echo b >&2"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=20,
                          stdin=subprocess.DEVNULL, env=clean_environment())  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == ("" if closed == 1 else "[1,0]<stdout>:a\n")
    assert done.stderr == ("" if closed == 2 else "[1,0]<stderr>:b\n")


def test_a_program_outlives_its_terminal_under_nohup():
    def ignoring():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    process = started("sh", "-c", "echo up; sleep 0.4; echo done", preexec_fn=ignoring)
    process.stdout.readline()
    process.send_signal(signal.SIGHUP)
    out, err = process.communicate(timeout=20)
    assert (out, err, process.returncode) == ("[1,0]<stdout>:done\n", "", 0)


def test_what_a_child_of_its_own_session_holds_open_is_not_waited_for():
    begin = time.monotonic()
    out, _ = poprun("sh", "-c", "setsid sleep 20 & echo a")
    assert out == "[1,0]<stdout>:a\n" and time.monotonic() - begin < 10


def test_an_instance_that_closes_its_output_runs_on():
    program = "import os, time; os.close(1); os.close(2); time.sleep(0.2); os._exit(3)"
    out, err = poprun(PYTHON, "-c", program, status=3)
    assert out == "" and "it ended with status 3" in err


def test_a_line_of_many_bytes_comes_in_pieces():
    program = "import sys; sys.stdout.buffer.write(b'\\0x' * 1500000 + b'\\nend\\n')"
    out, _ = poprun(PYTHON, "-c", program)
    *pieces, last = lines(out.replace("\0", "0"), 0)
    assert "".join(pieces) == "0x" * 1500000 and last == "end"


@pytest.mark.parametrize("limit, words", [("-n 30", 20), ("-n 30", 60)])
def test_more_instances_than_a_process_may_have(limit, words):
    shell = f'ulimit {limit}; exec "$@"'
    done = subprocess.run(["sh", "-c", shell, "sh", *POPRUN, "--num-instances", str(words), "true"],
                          capture_output=True, text=True, timeout=60,
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
