"""However a program ends, all of it does: nothing hangs, nothing is left."""

import os
import re
import signal
import time

import pytest
from launching import PYTHON, is_running, lines, poprun, started, until

WAITS = "echo $$; exec sleep 60"


@pytest.mark.parametrize("status", [1, 3, 255])
def test_the_status_is_that_of_the_first_that_failed(status):
    program = f"if [ $RANK = 1 ]; then exit {status}; fi; sleep 0.3; exit 9"
    _, err = poprun("--num-instances=3", "sh", "-c", program, status=status)
    assert f"instance 1 on localhost failed first: it ended with status {status}" in err


def test_an_instance_that_is_killed_is_named():
    program = "if [ $RANK = 1 ]; then kill -KILL $$; fi; exec sleep 60"
    begin = time.monotonic()
    _, err = poprun("--num-instances=2", "sh", "-c", program, status=128 + signal.SIGKILL)
    assert time.monotonic() - begin < 15  # 5, on a machine of its own
    assert "instance 1 on localhost failed first: it ended by signal 9" in err


def test_who_is_killed_is_named_and_not_who_fails_for_it(tmp_path):
    """poprun finds both ends at once."""
    program = f"echo $$; until [ -e {tmp_path}/$RANK ]; do sleep 0.01; done; exit 1"
    process = started("--num-instances=2", "sh", "-c", program)
    said = sorted(process.stdout.readline() for _ in range(2))
    first, killed = (int(line.partition(":")[2]) for line in said)
    process.send_signal(signal.SIGSTOP)
    os.kill(killed, signal.SIGKILL)
    (tmp_path / "0").touch()
    until(lambda: not is_running(first) and not is_running(killed))
    process.send_signal(signal.SIGCONT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGKILL
    assert "instance 1 on localhost failed first: it ended by signal 9" in err


def test_who_had_ended_before_is_named():
    """Others may have failed as they waited for one that left early."""
    program = "if [ $RANK -lt 6 ]; then exit 0; fi; sleep 0.5; exit 1"
    _, err = poprun("--num-instances=7", "sh", "-c", program, status=1)
    early = ", ".join(f"instance {i} on localhost" for i in range(4))
    assert err.endswith(
        "instance 6 on localhost failed first: it ended with status 1; "
        f"{early} and 2 more had ended with status 0. The others were ended.\n"
    )


def test_an_exception_is_the_last_thing_told():
    program = (
        "import os, time\nif os.environ['RANK'] == '0': raise ValueError('why')\ntime.sleep(0.5)"
    )
    _, err = poprun("--num-instances=2", PYTHON, "-c", program, status=1)
    assert err.splitlines()[-2] == "[1,0]<stderr>:ValueError: why"


def test_instances_that_ignore_sigterm_or_are_stopped_end_too():
    program = """case $RANK in
    0) sleep 0.3; exit 7;;
    1) trap '' TERM; echo $$; while :; do sleep 1; done;;
    2) echo $$; kill -STOP $$;; esac"""
    out, _ = poprun("--num-instances=3", "sh", "-c", program, status=7)
    for instance in (1, 2):
        assert not is_running(int(lines(out, instance)[0]))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_all(number):
    program = "trap 'echo asked' INT TERM HUP; echo $$; while :; do sleep 0.1; done"
    process = started("--num-instances=2", "sh", "-c", program)
    found = [process.stdout.readline() for _ in range(2)]
    process.send_signal(number)
    begin = time.monotonic()
    process.communicate(timeout=20)
    assert time.monotonic() - begin < 5  # a second, on a machine of its own
    assert process.returncode == 128 + number
    assert not any(is_running(int(line.partition(":")[2])) for line in found)


def test_instances_end_with_a_launcher_that_is_killed():
    process = started("--num-instances=2", "sh", "-c", "sleep 60 & echo $! $$; wait")
    pids = [int(p) for _ in range(2) for p in process.stdout.readline().split(":")[1].split()]
    process.kill()
    process.wait()
    until(lambda: not any(map(is_running, pids)))


def test_what_an_instance_leaves_behind_ends():
    out, _ = poprun("sh", "-c", "sleep 60 & echo $!")
    assert not is_running(int(lines(out, 0)[0]))


def test_nobody_reads_any_more():
    process = started("yes")
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=20) == 128 + signal.SIGPIPE
    process.stderr.close()


def test_restarts(tmp_path):
    program = f"""touch {tmp_path}/$POPDIST_RESTART_COUNT.$RANK
    if [ $RANK = 1 ] && [ $POPDIST_RESTART_COUNT -lt 2 ]; then exit 5; fi"""
    _, err = poprun("--num-instances=2", "--max-restarts=2", "sh", "-c", program)
    assert sorted(os.listdir(tmp_path)) == [f"{n}.{i}" for n in range(3) for i in range(2)]
    assert "starting again: 2 of at most 2 restarts" in err
    _, err = poprun("--num-instances=2", "--max-restarts", 1, "sh", "-c", program, status=5)
    assert len(re.findall("starting again", err)) == 1


def test_a_signal_is_no_reason_to_start_again():
    process = started("--max-restarts=5", "sh", "-c", "echo up; exec sleep 60")
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130 and "starting again" not in err


@pytest.mark.parametrize("name, status", [("/no/such/program", 127), ("/etc/passwd", 126)])
def test_programs_that_cannot_be_started(name, status):
    _, err = poprun("--num-instances=2", name, status=status)
    assert f"cannot start '{name}'" in err


def test_nothing_is_left_in_the_folder_of_temporary_files(tmp_path):
    poprun("--num-instances=2", "true", env={"TMPDIR": str(tmp_path)})
    assert os.listdir(tmp_path) == []
    process = started("sh", "-c", "echo up; exec sleep 60", env={"TMPDIR": str(tmp_path)})
    process.stdout.readline()
    process.kill()
    process.communicate()
    until(lambda: os.listdir(tmp_path) == [])


def test_an_instance_on_another_host(tmp_path):
    """ssh is a script that runs its command here."""
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\nshift 3\necho "$1" >> $SSH_LOG\nshift\nexec sh -c "$*"\n')
    ssh.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SSH_LOG": str(tmp_path / "log")}
    words = ["--host", "far1,far2", "--num-instances=4"]
    program = ("sh", "-c", 'echo "$RANK $LOCAL_RANK $MASTER_ADDR $V"; test $RANK != 3')
    words += ["--mpi-local-args", "-x V='a b'"]
    out, err = poprun(*words, *program, env=env, status=1)
    assert [lines(out, i) for i in range(4)] == [
        [f"{i} {i % 2} far1 a b"] for i in range(4)
    ]  # fmt: skip
    assert sorted((tmp_path / "log").read_text().split()) == ["far1", "far1", "far2", "far2"]
    assert "instance 3 on far2 failed first" in err


def test_an_instance_on_another_host_ends_with_the_launcher(tmp_path):
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\nshift 4\nexec setsid -w sh -c "$*"\n')
    ssh.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    process = started("--host", "far", "sh", "-c", WAITS, env=env)
    pid = int(process.stdout.readline().rpartition(":")[2])
    process.kill()
    process.communicate()
    until(lambda: not is_running(pid))
