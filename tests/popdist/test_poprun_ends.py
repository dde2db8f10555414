"""However a program under poprun ends, all of its instances end, nothing hangs, and nothing is
left.
"""

import os
import re
import signal
from pathlib import Path

import pytest
from launching import PYTHON, ended, hears_hangups, is_running, lines, poprun, started, until

WAITS = "echo $$; exec sleep infinity"


def when(*files):
    """Returns a shell command that waits for files."""
    return "".join(f"until [ -e {file} ]; do sleep 0.01; done; " for file in files)


@pytest.mark.shared
@pytest.mark.signals
def test_the_status_is_that_of_the_first_that_failed():
    """The other instances end with status 9 when they get SIGTERM."""
    program = "if [ $RANK = 1 ]; then exit 3; fi; trap 'exit 9' TERM; while :; do sleep 1; done"
    _, err = poprun("--num-instances=3", "sh", "-c", program, status=3)
    assert "instance 1 on localhost failed first: it ended with status 3" in err


@pytest.mark.shared
@pytest.mark.signals
def test_an_instance_that_is_killed_is_named():
    program = "if [ $RANK = 1 ]; then kill -KILL $$; fi; exec sleep infinity"
    _, err = poprun("--num-instances=2", "sh", "-c", program, status=128 + signal.SIGKILL)
    assert "instance 1 on localhost failed first: it ended by signal 9" in err


@pytest.mark.signals
def test_who_had_ended_before_is_named(tmp_path):
    """The others may have failed because they waited for an instance that ended early."""
    program = f"if [ $RANK -lt 6 ]; then exit 0; fi; {when(tmp_path / 'go')} exit 1"
    process = started("-vv", "--num-instances=7", "sh", "-c", program)
    left = 6
    while left:
        left -= "ended with 0" in process.stderr.readline()
    (tmp_path / "go").touch()
    _, err = ended(process, 1)
    early = ", ".join(f"instance {i} on localhost" for i in range(4))
    assert err.endswith(
        "instance 6 on localhost failed first: it ended with status 1; "
        f"{early} and 2 more had ended with status 0. The others were ended.\n"
    )


def test_an_exception_is_the_last_thing_told():
    program = "import os\nif os.environ['RANK'] == '0': raise ValueError('why')"
    _, err = poprun("--num-instances=2", PYTHON, "-c", program, status=1)
    assert err.splitlines()[-2] == "[1,0]<stderr>:ValueError: why"


@pytest.mark.shared
@pytest.mark.signals
def test_instances_that_ignore_sigterm_or_are_stopped_end_too(tmp_path):
    program = f"""case $RANK in
    0) {when(tmp_path / "go")} exit 7;;
    1) trap '' TERM; echo $$; while :; do sleep 1; done;;
    2) echo $$; kill -STOP $$;; esac"""
    process = started("--num-instances=3", "sh", "-c", program)
    said = sorted(process.stdout.readline() for _ in range(2))
    ignores, stops = (int(line.partition(":")[2]) for line in said)
    until(lambda: Path(f"/proc/{stops}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    (tmp_path / "go").touch()
    ended(process, 7)
    assert not is_running(ignores) and not is_running(stops)


@pytest.mark.shared
@pytest.mark.signals
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.usefixtures(hears_hangups.__name__)
def test_a_signal_ends_all(number):
    program = "trap 'echo asked' INT TERM HUP; echo $$; while :; do sleep 1; done"
    process = started("--num-instances=2", "sh", "-c", program)
    found = [process.stdout.readline() for _ in range(2)]
    process.send_signal(number)
    ended(process, 128 + number)
    assert not any(is_running(int(line.partition(":")[2])) for line in found)


@pytest.mark.signals
def test_instances_end_with_a_launcher_that_is_killed():
    process = started("--num-instances=2", "sh", "-c", "sleep infinity & echo $! $$; wait")
    pids = [int(p) for _ in range(2) for p in process.stdout.readline().split(":")[1].split()]
    process.kill()
    process.wait()
    until(lambda: not any(map(is_running, pids)))


@pytest.mark.signals
def test_what_an_instance_leaves_behind_ends():
    out, _ = poprun("sh", "-c", "sleep infinity & echo $!")
    assert not is_running(int(lines(out, 0)[0]))


@pytest.mark.signals
def test_nobody_reads_any_more():
    process = started("yes")
    process.stdout.readline()
    process.stdout.close()
    assert process.wait() == 128 + signal.SIGPIPE
    process.stderr.close()


@pytest.mark.signals
def test_restarts(tmp_path):
    program = f"""touch {tmp_path}/$POPDIST_RESTART_COUNT.$RANK
    if [ $RANK = 1 ] && [ $POPDIST_RESTART_COUNT -lt 2 ]; then
    {when(f"{tmp_path}/$POPDIST_RESTART_COUNT.0")} exit 5; fi"""
    _, err = poprun("--num-instances=2", "--max-restarts=2", "sh", "-c", program)
    assert sorted(os.listdir(tmp_path)) == [f"{n}.{i}" for n in range(3) for i in range(2)]
    assert "starting again: 2 of at most 2 restarts" in err
    _, err = poprun("--num-instances=2", "--max-restarts", 1, "sh", "-c", program, status=5)
    assert len(re.findall("starting again", err)) == 1


@pytest.mark.signals
def test_a_signal_is_no_reason_to_start_again():
    process = started("--max-restarts=5", "sh", "-c", "echo up; exec sleep infinity")
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert "starting again" not in ended(process, 130)[1]


@pytest.mark.parametrize("name, status", [("/no/such/program", 127), ("/etc/passwd", 126)])
def test_programs_that_cannot_be_started(name, status):
    _, err = poprun("--num-instances=2", name, status=status)
    assert f"cannot start '{name}'" in err


@pytest.mark.signals
def test_nothing_is_left_in_the_folder_of_temporary_files(tmp_path):
    poprun("--num-instances=2", "true", env={"TMPDIR": str(tmp_path)})
    assert os.listdir(tmp_path) == []
    process = started("sh", "-c", "echo up; exec sleep infinity", env={"TMPDIR": str(tmp_path)})
    process.stdout.readline()
    process.kill()
    process.communicate()
    until(lambda: os.listdir(tmp_path) == [])


@pytest.mark.signals
def test_an_instance_on_another_host(tmp_path):
    """ssh is a script that runs its command on this host."""
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\nshift 3\necho "$1" >> $SSH_LOG\nshift\nexec sh -c "$*"\n')
    ssh.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SSH_LOG": str(tmp_path / "log")}
    words = ["--host", "far1,far2", "--num-instances=4"]
    others = when(*(tmp_path / f"up.{i}" for i in range(3)))
    fails = f"touch {tmp_path}/up.$RANK; if [ $RANK = 3 ]; then {others} exit 1; fi"
    program = ("sh", "-c", f'echo "$RANK $LOCAL_RANK $MASTER_ADDR $V"; {fails}')
    words += ["--mpi-local-args", "-x V='a b'"]
    out, err = poprun(*words, *program, env=env, status=1)
    assert [lines(out, i) for i in range(4)] == [
        [f"{i} {i % 2} far1 a b"] for i in range(4)
    ]  # fmt: skip
    assert sorted((tmp_path / "log").read_text().split()) == ["far1", "far1", "far2", "far2"]
    assert "instance 3 on far2 failed first" in err


@pytest.mark.signals
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
